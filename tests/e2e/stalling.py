"""A locustfile whose second worker stalls for 400 ms in the second call of each caller; or a lone process itself."""

import time
from typing import Any

import gevent
from locust import events
from locust.runners import LocalRunner, WorkerRunner

from voicebench.load.user import VoiceUser

AFTER_S, STALL_S = 4.5, 0.4


class Caller(VoiceUser):
    """Holds one call after the other."""


def stall() -> None:
    """Keep the event loop from everything else."""
    end = time.monotonic() + STALL_S
    while time.monotonic() < end:
        pass


@events.test_start.add_listener  # type: ignore[untyped-decorator]
def begin(environment: Any, **_: Any) -> None:
    runner = environment.runner
    if isinstance(runner, LocalRunner) or (isinstance(runner, WorkerRunner) and runner.worker_index == 1):
        gevent.spawn_later(AFTER_S, stall)
