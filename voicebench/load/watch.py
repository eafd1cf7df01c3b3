"""How well a worker keeps time while a run goes on.

Every few seconds the worker looks at the frames that its calls sent lately, tells the master, and warns in its own
log if too many went out late: Locust warns of a busy processor, which is neither needed for lateness nor proof of it.
"""

import logging
import time
from array import array
from collections.abc import Callable, Collection
from dataclasses import asdict
from itertools import islice
from typing import Any, Protocol

import numpy as np

from voicebench.load.messages import HEALTH, Health, Sender
from voicebench.metrics.process import ProcessMeter
from voicebench.metrics.session import lags_with_skipped_s
from voicebench.metrics.stats import percentile

EVERY_S = 5.0
#: The stretch of time that is looked at.
WINDOW_S = 10.0
#: Calls that are looked at: one event loop serves all, so that some tell for the others.
MOST_CALLS = 50
WARN_EVERY_S = 60.0

logger = logging.getLogger(__name__)


class Running(Protocol):
    """What is used of a call."""

    @property
    def frame_s(self) -> float:
        """Length of a frame."""

    @property
    def sent_ns(self) -> "array[int]":
        """Per caller frame so far: when it was sent, negative if it was skipped."""


class Watch:
    """Looks after one worker in one run. ``apply`` runs what takes long in a thread, as gevent's pools do."""

    def __init__(
        self,
        sender: Sender,
        limit_ms: float,
        calls: Callable[[], Collection[Running]],
        meter: ProcessMeter,
        apply: Callable[..., Any],
        send: Callable[[str, Any], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._limit_ms = limit_ms
        self._calls = calls
        self._meter = meter
        self._apply = apply
        self._send = send
        self._now = clock
        self._warned_at = float("-inf")

    def look(self) -> None:
        """Look once: report, and warn."""
        lately = [_lately(call) for call in _spread(self._calls())]
        p99_ms: float | None = self._apply(_p99_ms, (lately,))
        self._apply(self._meter.take)
        total = self._meter.total()
        message: Health = {
            **self._sender,
            "send_lag_p99_ms": p99_ms,
            "process": None if total is None else asdict(total),
        }
        self._send(HEALTH, message)
        if p99_ms is not None and p99_ms > self._limit_ms:
            self._warn(p99_ms)

    def _warn(self, p99_ms: float) -> None:
        if self._now() - self._warned_at < WARN_EVERY_S:
            return
        self._warned_at = self._now()
        logger.warning(
            "voicebench: worker %s is late: send lag p99 of the last %.0f s is %.0f ms (limit %g ms); "
            "give it fewer users, or add workers",
            self._sender["worker"],
            WINDOW_S,
            p99_ms,
            self._limit_ms,
        )


def _spread(calls: Collection[Running]) -> list[Running]:
    """At most ``MOST_CALLS``, from all over."""
    return list(islice(calls, 0, None, -(-len(calls) // MOST_CALLS) or 1))


def _lately(call: Running) -> "tuple[array[int], int, float]":
    """A call's latest send times, the number of the first of these frames, and the length of a frame in s."""
    sent = call.sent_ns
    first = max(0, len(sent) - round(WINDOW_S / call.frame_s))
    return sent[first:], first, call.frame_s


def _p99_ms(lately: "list[tuple[array[int], int, float]]") -> float | None:
    """Send lag p99 of all these frames, skipped ones included; None without any."""
    lags = []
    for sent_ns, first, frame_s in lately:
        sent = np.array(sent_ns, dtype=np.float64)
        lags.append(lags_with_skipped_s(np.where(sent < 0, np.nan, sent / 1e9), frame_s, first))
    values = np.concatenate(lags) if lags else np.zeros(0)
    return percentile((values * 1000).tolist(), 99)
