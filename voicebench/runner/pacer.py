"""The real-time pacer: one object per process sends and reads for all calls.

Every 0.5 ms it serves the calls whose frame is due, then reads whatever arrived. Calls are spread over the phases
of the frame, so that a thousand of them do not send at once. It never catches up: a call whose frames were missed
goes on with the frame that is due now. One call's failure stays its own, and the work done in one turn of the event
loop is bounded, so that other greenlets (Locust's heartbeat among them) go on.
"""

import gc
import logging
import os
import select
import time
from collections.abc import Callable
from typing import Any, Protocol

import gevent
from gevent.monkey import get_original
from gevent.threadpool import ThreadPool

from voicebench.clock.kernel import shared_kernel_clock
from voicebench.clock.timer import TimerFd
from voicebench.clock.wheel import Wheel
from voicebench.runner.conversation import Conversation
from voicebench.runner.ears import hear_all
from voicebench.runner.health import HealthMonitor

TICK_NS = 500_000
READS_PER_ROUND = 32
SLOTS_PER_TURN = 4
CALIBRATE_EVERY_NS = 1_000_000_000

log = logging.getLogger("voicebench.pacer")


class PacedCall(Protocol):
    """What the pacer needs of a call. Any exception out of it ends that call alone."""

    @property
    def conversation(self) -> Conversation:
        """The call's conversation."""

    def __hash__(self) -> int:
        """Calls are told apart by identity."""

    def listen(self, due_ns: int) -> memoryview | None:
        """What the call's live detector has to hear before the frame due at ``due_ns``."""

    def step(self, due_ns: int) -> None:
        """Send the frame that is due."""

    def read(self) -> bool:
        """Read from the call's socket; False once it has ended."""

    def abort(self, error: Exception) -> None:
        """The call met a fault of the harness; it has to end."""


class Pacer:
    """Owns the schedule of all calls of one process. Lives on the gevent hub of the thread that made it."""

    def __init__(self) -> None:
        self._wheels: dict[int, Wheel[PacedCall]] = {}
        self._by_fd: dict[int, PacedCall] = {}
        # The original one: gevent's stand-in would wait, and knows nothing of sockets that are polled.
        self._epoll: select.epoll = get_original("select", "epoll")()
        self._ticker = Ticker(self._turn)
        self._kernel_clock = shared_kernel_clock()
        self._calibrate_at_ns = 0
        self._running = False
        self._next_tick_ns = 0
        self.health = HealthMonitor()
        #: Works off the event loop. One thread: the loop, which keeps time for all calls, then has to win the
        #: interpreter's lock against it alone, and a hundred calls that end together do not need memory at once.
        self.analyst = ThreadPool(1)
        gc.collect()
        gc.freeze()  # a collection of everything that Locust and numpy loaded takes as long as many frames

    def __len__(self) -> int:
        return sum(len(wheel) for wheel in self._wheels.values())

    def join(self, call: PacedCall, period_ns: int, fd: int | None) -> int:
        """Serve ``call`` every ``period_ns`` from now on, and read from ``fd``.

        Returns the CLOCK_MONOTONIC time at which its first frame is due.
        """
        wheel = self._wheels.get(period_ns)
        if wheel is None:
            wheel = self._wheels[period_ns] = Wheel(period_ns, max(1, period_ns // TICK_NS))
        slot = wheel.add(call, time.monotonic_ns() + TICK_NS)
        if fd is not None:
            self._by_fd[fd] = call
            self._epoll.register(fd, select.EPOLLIN)
        if not self._running:
            self._running = True
            self._next_tick_ns = time.monotonic_ns()
            self._ticker.start()
        return slot.first_due_ns

    def leave(self, call: PacedCall, period_ns: int, fd: int | None) -> None:
        """Forget ``call``. Safe to call twice."""
        wheel = self._wheels.get(period_ns)
        if wheel is not None:
            wheel.remove(call)
        if fd is not None and self._by_fd.get(fd) is call:
            self.stop_reading(fd)
        if self._running and not len(self):
            self._running = False
            self._ticker.stop()

    def stop_reading(self, fd: int) -> None:
        """The socket has ended."""
        if self._by_fd.pop(fd, None) is not None:
            try:
                self._epoll.unregister(fd)
            except OSError:
                log.debug("descriptor %d was closed before it was given back", fd)

    def _turn(self) -> bool:
        """Serve what is due. Returns whether there is more to do at once."""
        now = time.monotonic_ns()
        if now >= self._next_tick_ns:
            self.health.tick(now - self._next_tick_ns)
            self._next_tick_ns = now - (now - self._next_tick_ns) % TICK_NS + TICK_NS
        if now >= self._calibrate_at_ns:
            self._kernel_clock.refresh()
            self._calibrate_at_ns = now + CALIBRATE_EVERY_NS
        slots = 0
        for wheel in self._wheels.values():
            while slots < SLOTS_PER_TURN and (due := wheel.pop_due(now)) is not None:
                slots += 1
                self._serve(*due)
                self._read()
        if not slots:
            self._read()
        return slots == SLOTS_PER_TURN

    def _serve(self, due_ns: int, calls: tuple[PacedCall, ...]) -> None:
        batch = []
        for call in calls:
            try:
                samples = call.listen(due_ns)
                if samples is not None:
                    batch.append((call.conversation, samples))
            except Exception as error:
                call.abort(error)
        if batch:
            hear_all(batch)
        for call in calls:
            try:
                call.step(due_ns)
            except Exception as error:
                call.abort(error)

    def _read(self) -> None:
        for fd, _ in self._epoll.poll(0, READS_PER_ROUND):
            call = self._by_fd.get(fd)
            if call is None:
                continue
            try:
                goes_on = call.read()
            except Exception as error:
                call.abort(error)
                goes_on = False
            if not goes_on:
                self.stop_reading(fd)


class Ticker:
    """Calls ``turn`` from the gevent hub every ``TICK_NS``, and again at once if it says that there is more to do."""

    def __init__(self, turn: Callable[[], bool]) -> None:
        self._turn = turn
        self._loop: Any = gevent.get_hub().loop
        self._watcher: Any = None
        try:
            self._timer: TimerFd | None = TimerFd()
        except OSError:  # not Linux: the loop's own timers are about 0.6 ms late
            self._timer = None

    def start(self) -> None:
        if self._timer is None:
            self._watcher = self._loop.timer(0, TICK_NS / 1e9)
            self._watcher.start(self._turn)
            return
        self._watcher = self._loop.io(self._timer.fileno(), 1)
        self._watcher.priority = self._loop.MAXPRI
        self._watcher.start(self._fire)
        self._timer.arm_every(TICK_NS)

    def _fire(self) -> None:
        assert self._timer is not None
        more = False
        try:
            more = self._turn()
        except Exception:
            log.exception("a turn of the pacer failed")
        if not more:
            self._timer.clear()  # until then the descriptor stays readable, and the hub comes back at once

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher.close()
            self._watcher = None
        if self._timer is not None:
            self._timer.disarm()


_pacers: dict[tuple[int, int], Pacer] = {}
# The original one: under gevent's patches every greenlet passes for a thread, and would get a pacer of its own.
_thread_id: Callable[[], int] = get_original("_thread", "get_ident")


def shared_pacer() -> Pacer:
    """The pacer of this process (of this thread, if a program runs calls in several)."""
    key = (os.getpid(), _thread_id())
    if key not in _pacers:
        _pacers[key] = Pacer()
    return _pacers[key]
