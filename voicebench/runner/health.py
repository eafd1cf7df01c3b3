"""How well this process keeps time: the lateness of the pacer's ticks, garbage collections, processor time.

All calls of a process share one event loop, so these belong to the process; each call keeps what they were while it
lasted.
"""

import gc
import time
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: Ticks that are remembered: about nine minutes of them. A longer call knows the lag of its last nine minutes.
REMEMBERED_TICKS = 1 << 20


@dataclass(frozen=True)
class LoopHealth:
    """What one stretch of time was like for the event loop."""

    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    collections: int  #: garbage collections
    cpu_share: float  #: of one core, by this whole process


@dataclass(frozen=True)
class Mark:
    """Where such a stretch begins or ends."""

    ticks: int
    collections: int
    cpu_s: float
    wall_s: float


class HealthMonitor:
    """Remembers how late each tick was. One per pacer."""

    def __init__(self) -> None:
        self._lags_us = array("f", bytes(4 * REMEMBERED_TICKS))
        self._ticks = 0
        self._collections = 0
        gc.callbacks.append(self._collected)

    def close(self) -> None:
        """Forget the collector."""
        gc.callbacks.remove(self._collected)

    def tick(self, lag_ns: int) -> None:
        """A tick was so late."""
        self._lags_us[self._ticks % REMEMBERED_TICKS] = lag_ns / 1000
        self._ticks += 1

    def mark(self) -> Mark:
        """This instant."""
        return Mark(self._ticks, self._collections, time.process_time(), time.monotonic())

    def lags_ms(self, begin: Mark, end: Mark) -> npt.NDArray[np.float64]:
        """How late each tick between two marks was, of those that are remembered."""
        ticks = min(end.ticks - begin.ticks, REMEMBERED_TICKS)
        lags_us = np.frombuffer(self._lags_us, dtype=np.float32)
        recent = lags_us[np.arange(end.ticks - ticks, end.ticks) % REMEMBERED_TICKS]
        return recent.astype(np.float64) / 1000

    def between(self, begin: Mark, end: Mark) -> LoopHealth:
        """The stretch between two marks. Milliseconds of work for a long one: not for the event loop."""
        lags_ms = self.lags_ms(begin, end)
        p50, p99, worst = np.percentile(lags_ms, [50, 99, 100]) if len(lags_ms) else (0.0, 0.0, 0.0)
        wall_s = end.wall_s - begin.wall_s
        return LoopHealth(
            lag_p50_ms=round(float(p50), 3),
            lag_p99_ms=round(float(p99), 3),
            lag_max_ms=round(float(worst), 3),
            collections=end.collections - begin.collections,
            cpu_share=round((end.cpu_s - begin.cpu_s) / wall_s, 3) if wall_s > 0 else 0.0,
        )

    def _collected(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "stop":
            self._collections += 1
