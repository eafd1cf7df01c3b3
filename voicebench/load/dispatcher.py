"""Begins a worker's share of open arrivals, each call at its own time, whatever has become of the others.

Deadlines are absolute: what one call was late does not make the next one late. After a stall, everything that fell
due meanwhile begins at once, and each call knows how late it is.
"""

import time
from collections.abc import Callable, Iterator

import gevent

from voicebench.load.arrivals import Arrival

Begin = Callable[[Arrival, float], None]


class Dispatcher:
    """One greenlet that sleeps from arrival to arrival of ``share``.

    ``begin`` gets each arrival and the Unix time for which it was scheduled; it must not block. ``through`` is called
    when the share is. ``zero_s`` is the CLOCK_MONOTONIC instant of the start of the run.
    """

    def __init__(
        self, share: Iterator[Arrival], zero_s: float, begin: Begin, through: Callable[[], None] = lambda: None
    ) -> None:
        self._share = share
        self._zero_s = zero_s
        self._begin = begin
        self._through = through
        self._next: Arrival | None = None
        self._ended = False
        self._greenlet: gevent.Greenlet[[], None] = gevent.spawn(self._run)

    def end(self) -> list[tuple[Arrival, float]]:
        """Begin no more calls. Returns those that were due already, for want of time; safe to call twice."""
        self._ended = True  # the greenlet may get to run once more before it dies
        self._greenlet.kill()
        overdue: list[tuple[Arrival, float]] = []
        now = time.monotonic()
        while self._next is not None and self._due_s(self._next) <= now:
            overdue.append((self._next, self._scheduled_at(self._next)))
            self._next = next(self._share, None)
        self._next = None
        return overdue

    def _run(self) -> None:
        self._next = next(self._share, None)
        while self._next is not None:
            gevent.sleep(0)  # even if it is late: a burst must not keep the loop from its other work
            while (left_s := self._due_s(self._next) - time.monotonic()) > 0:  # timers of a busy loop end early
                gevent.sleep(left_s)
            if self._ended:
                return
            arrival, self._next = self._next, next(self._share, None)
            self._begin(arrival, self._scheduled_at(arrival))
        self._through()

    def _due_s(self, arrival: Arrival) -> float:
        return self._zero_s + arrival.at_s

    def _scheduled_at(self, arrival: Arrival) -> float:
        """From the clock of now: a step of the wall clock must not look as if calls had waited."""
        return time.time() - (time.monotonic() - self._due_s(arrival))
