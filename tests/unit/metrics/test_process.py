"""How a process fared over a run, put together from stretches."""

import pytest

from voicebench.metrics.process import ProcessMeter
from voicebench.runner.health import HealthMonitor


@pytest.fixture
def monitor() -> HealthMonitor:
    monitor = HealthMonitor()
    monitor.close()  # collections of other tests are not this one's
    return monitor


def test_stretches_add_up_and_the_longest_lag_is_exact(monitor: HealthMonitor) -> None:
    monitor.tick(500_000_000)  # before the run
    meter = ProcessMeter(monitor)
    for lag_ns in [1_000_000] * 150 + [12_345_678]:
        monitor.tick(lag_ns)
    meter.take()
    for _ in range(49):
        monitor.tick(2_000_000)
    meter.take()
    total = meter.total()
    assert total is not None
    assert total.loop_lag_ms["max"] == pytest.approx(12.346, abs=0.001)
    assert total.loop_lag_ms["p50"] == pytest.approx(1.0, rel=0.005)
    assert total.loop_lag_ms["p99"] == pytest.approx(2.0, rel=0.005)  # rank 197.01 of 200 values
    assert sum(total.loop_lag_histogram.values()) == 200


def test_a_stretch_without_calls_counts_for_nothing(monitor: HealthMonitor) -> None:
    meter = ProcessMeter(monitor)
    meter.take()
    assert meter.total() is None


def test_the_share_of_a_core_is_that_of_the_stretches_with_calls(
    monitor: HealthMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"cpu": 0.0, "wall": 0.0}
    monkeypatch.setattr("voicebench.runner.health.time.process_time", lambda: clock["cpu"])
    monkeypatch.setattr("voicebench.runner.health.time.monotonic", lambda: clock["wall"])
    meter = ProcessMeter(monitor)
    for cpu_s, wall_s, ticks in ((3.0, 5.0, 10), (3.0, 105.0, 0), (4.0, 110.0, 10)):
        clock.update(cpu=cpu_s, wall=wall_s)
        for _ in range(ticks):
            monitor.tick(0)
        meter.take()
    total = meter.total()
    assert total is not None
    assert total.cpu_share == 0.4  # 3 s of 5, none of 100, 1 s of 5
