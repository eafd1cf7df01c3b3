"""How one process fared over a whole run: its event loop, its garbage collector, its processor.

Conventions
-----------
- The run is looked at in stretches of some seconds, one after the other. One in which no call went on counts for
  nothing: nothing was due then.
- ``loop_lag_ms`` is how late the ticks were that serve all calls, each tick once, however many calls there were.
  p50 and p99 are within 0.5 %, max is exact.
- ``cpu_share`` is processor time over time, 1.0 for one core.
"""

from voicebench.metrics.histogram import Histogram
from voicebench.metrics.results import ProcessHealth
from voicebench.runner.health import HealthMonitor


class ProcessMeter:
    """Adds the stretches of one run up: ``take`` every few seconds, then ``total``."""

    def __init__(self, monitor: HealthMonitor) -> None:
        self._monitor = monitor
        self._mark = monitor.mark()
        self._lags = Histogram()
        self._worst_ms = 0.0
        self._collections = 0
        self._cpu_s = self._wall_s = 0.0

    def take(self) -> None:
        """End one stretch and begin the next. Milliseconds of work, which may be done in a thread."""
        begin, end = self._mark, self._monitor.mark()
        self._mark = end
        lags_ms = self._monitor.lags_ms(begin, end)
        if not len(lags_ms):
            return
        self._lags.merge(Histogram.of(lags_ms))
        self._worst_ms = max(self._worst_ms, float(lags_ms.max()))
        self._collections += end.collections - begin.collections
        self._cpu_s += end.cpu_s - begin.cpu_s
        self._wall_s += end.wall_s - begin.wall_s

    def total(self) -> ProcessHealth | None:
        """The run so far; None if no call went on in it."""
        if not self._lags.counts:
            return None
        return ProcessHealth(
            loop_lag_ms=loop_lag_figures(self._lags, self._worst_ms),
            loop_lag_histogram=self._lags.to_dict(),
            collections=self._collections,
            cpu_share=round(self._cpu_s / self._wall_s, 3) if self._wall_s > 0 else None,
        )


def loop_lag_figures(lags: Histogram, worst_ms: float) -> dict[str, float | None]:
    """p50, p99 and max; the estimates cannot exceed the maximum, which is exact."""
    estimates = (("p50", lags.quantile(50)), ("p99", lags.quantile(99)))
    figures = {name: None if value is None else round(min(value, worst_ms), 3) for name, value in estimates}
    return {**figures, "max": round(worst_ms, 3)}
