"""The process's own lateness."""

import gc

from voicebench.runner.health import REMEMBERED_TICKS, HealthMonitor, Mark


def test_a_stretch_knows_its_ticks_and_no_others() -> None:
    monitor = HealthMonitor()
    monitor.tick(900_000_000)
    begin = monitor.mark()
    for _ in range(99):
        monitor.tick(1_000_000)
    monitor.tick(40_000_000)
    health = monitor.between(begin, monitor.mark())
    assert (health.lag_p50_ms, health.lag_max_ms) == (1.0, 40.0)
    assert 1.0 < health.lag_p99_ms < 40.0
    monitor.close()


def test_garbage_collections_are_counted_while_it_lasts() -> None:
    monitor = HealthMonitor()
    begin = monitor.mark()
    gc.collect()
    gc.collect()
    assert monitor.between(begin, monitor.mark()).collections >= 2
    monitor.close()
    end = monitor.mark()
    gc.collect()
    assert monitor.between(end, monitor.mark()).collections == 0


def test_the_share_of_a_core_is_processor_time_over_time() -> None:
    monitor = HealthMonitor()
    assert monitor.between(Mark(0, 0, 10.0, 100.0), Mark(0, 0, 13.0, 104.0)).cpu_share == 0.75
    monitor.close()


def test_a_stretch_longer_than_the_memory_gives_its_end() -> None:
    monitor = HealthMonitor()
    begin = monitor.mark()
    monitor.tick(500_000_000)
    for _ in range(REMEMBERED_TICKS):
        monitor.tick(1_000_000)
    assert monitor.between(begin, monitor.mark()).lag_max_ms == 1.0
    monitor.close()
