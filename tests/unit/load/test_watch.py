"""A worker that is late says so, with its name and the figure, once in a while."""

import logging
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from voicebench.load.messages import HEALTH
from voicebench.load.watch import MOST_CALLS, WARN_EVERY_S, Watch
from voicebench.metrics.process import ProcessMeter
from voicebench.runner.health import HealthMonitor

FRAME_NS = 20_000_000


@dataclass(frozen=True)
class Running:
    """A call that goes on."""

    sent_ns: "array[int]"
    frame_s: float = 0.02


def on_time(frames: int) -> "array[int]":
    """Each frame 1 ms after it was due."""
    return array("q", [number * FRAME_NS + 1_000_000 for number in range(frames)])


@pytest.fixture
def monitor() -> Iterator[HealthMonitor]:
    monitor = HealthMonitor()
    yield monitor
    monitor.close()


class Bench:
    """A watch with its surroundings."""

    def __init__(self, monitor: HealthMonitor, *calls: Running) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.now = 0.0
        sender: Any = {"run": "r", "worker": "host-3", "host": "host"}
        apply: Callable[..., Any] = lambda work, arguments=(): work(*arguments)  # noqa: E731
        self.watch = Watch(
            sender,
            20.0,
            lambda: calls,
            ProcessMeter(monitor),
            apply,
            lambda *message: self.sent.append(message),
            lambda: self.now,
        )

    def look(self) -> float | None:
        self.watch.look()
        value: float | None = self.sent[-1][1]["send_lag_p99_ms"]
        return value


def test_a_worker_on_time_reports_and_keeps_quiet(monitor: HealthMonitor, caplog: pytest.LogCaptureFixture) -> None:
    monitor_ticks = 4
    bench = Bench(monitor, Running(on_time(500)))
    for _ in range(monitor_ticks):
        monitor.tick(2_000_000)
    assert bench.look() == pytest.approx(1.0)
    kind, message = bench.sent[0]
    assert (kind, message["worker"], message["process"]["loop_lag_ms"]["max"]) == (HEALTH, "host-3", 2.0)
    assert caplog.messages == []


def test_before_the_first_frame_nothing_is_known(monitor: HealthMonitor) -> None:
    bench = Bench(monitor, Running(array("q")))
    assert (bench.look(), bench.sent[0][1]["process"]) == (None, None)
    assert Bench(monitor).look() is None


def test_only_the_last_ten_seconds_count(monitor: HealthMonitor) -> None:
    sent = on_time(1000)
    sent[499] += 300_000_000
    assert Bench(monitor, Running(sent)).look() == pytest.approx(1.0)


def test_a_stall_counts_with_all_frames_that_it_skipped(
    monitor: HealthMonitor, caplog: pytest.LogCaptureFixture
) -> None:
    sent = on_time(500)
    for number in range(400, 420):
        sent[number] = -1
    bench = Bench(monitor, Running(sent))
    # Frames 400 to 419 waited for 420, which went out 401 ms after 400 was due. Rank 494.01 of 500 values: the sixth.
    p99 = bench.look()
    assert p99 == pytest.approx(301.2, abs=0.1)
    assert caplog.messages == [
        "voicebench: worker host-3 is late: send lag p99 of the last 10 s is 301 ms (limit 20 ms); give it fewer "
        "users, or add workers"
    ]
    assert caplog.records[0].levelno == logging.WARNING
    bench.now = WARN_EVERY_S - 1
    bench.look()
    assert len(caplog.messages) == 1
    bench.now = WARN_EVERY_S
    bench.look()
    assert len(caplog.messages) == 2


def test_of_many_calls_some_from_all_over_tell_for_the_others(monitor: HealthMonitor) -> None:
    looked: list[int] = []

    @dataclass(frozen=True)
    class Seen:
        number: int
        frame_s: float = 0.02

        @property
        def sent_ns(self) -> "array[int]":
            looked.append(self.number)
            return on_time(10)

    calls: list[Any] = [Seen(number) for number in range(10 * MOST_CALLS + 1)]
    Bench(monitor, *calls).look()
    assert 0.8 * MOST_CALLS <= len(looked) <= MOST_CALLS
    assert looked[0] < 20
    assert looked[-1] > 480
