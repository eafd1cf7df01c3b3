"""What time it is: a monotonic clock for real calls, a virtual one for the in-process agent."""

import time
from typing import Protocol


class Clock(Protocol):
    """Session time."""

    realtime: bool

    def now(self) -> float:
        """Seconds since the session's time 0."""


class RealClock:
    """Monotonic wall-clock time. Times before the origin are negative."""

    realtime = True

    def __init__(self, origin_ns: int | None = None) -> None:
        self.origin_ns = time.monotonic_ns() if origin_ns is None else origin_ns

    def now(self) -> float:
        return (time.monotonic_ns() - self.origin_ns) / 1e9


class VirtualClock:
    """Simulated time, moved by whoever drives the session."""

    realtime = False

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance_to(self, time_s: float) -> None:
        """Move forward to ``time_s``; never back."""
        self._now = max(self._now, time_s)
