"""The dispatcher: each call at its own time, and what a stalled loop does to that."""

import time

import gevent
import pytest
from gevent.event import Event

from voicebench.load.arrivals import Arrival, Constant, Plan
from voicebench.load.dispatcher import Dispatcher

RATE = 50
PLAN = Plan(Constant(RATE), 0, (0,))


class Calls:
    """What the dispatcher began, when, and for when that was scheduled, in s after the start."""

    def __init__(self, wanted: int) -> None:
        self.zero_s = time.monotonic() + 0.02
        self.zero_at = time.time() + 0.02
        self.begun: list[tuple[float, float]] = []
        self.done = Event()
        self._wanted = wanted

    def begin(self, arrival: Arrival, scheduled_at: float) -> None:
        self.begun.append((time.monotonic() - self.zero_s, scheduled_at - self.zero_at))
        if len(self.begun) == self._wanted:
            self.done.set()


def test_calls_begin_on_schedule_and_lateness_does_not_add_up() -> None:
    calls = Calls(25)
    dispatcher = Dispatcher(PLAN.share(0), calls.zero_s, calls.begin)
    assert calls.done.wait(10)
    dispatcher.end()
    for number, (begun_s, scheduled_s) in enumerate(calls.begun):
        assert scheduled_s == pytest.approx(number / RATE, abs=0.005)
        assert begun_s >= number / RATE
    assert calls.begun[24][0] < 24 / RATE + 0.2  # a loaded machine's lateness, once


def test_a_stall_of_the_loop_makes_calls_late_and_they_say_so() -> None:
    calls = Calls(20)
    dispatcher = Dispatcher(PLAN.share(0), calls.zero_s, calls.begin)
    gevent.sleep(max(0.0, calls.zero_s + 0.05 - time.monotonic()))
    stall_from_s = time.monotonic() - calls.zero_s
    while time.monotonic() - calls.zero_s < stall_from_s + 0.2:
        pass  # nobody else runs
    assert calls.done.wait(10)
    dispatcher.end()
    held_up = [(begun, due) for begun, due in calls.begun if stall_from_s + 0.01 < due < stall_from_s + 0.19]
    assert len(held_up) >= 8  # of the 9 or 10 that fell due in it
    for begun_s, due_s in held_up:
        assert begun_s - due_s >= stall_from_s + 0.2 - due_s - 0.005  # late by all that was left of the stall


def test_the_end_gives_back_what_was_due_and_had_not_begun() -> None:
    calls = Calls(3)
    dispatcher = Dispatcher(PLAN.share(0), calls.zero_s, calls.begin)
    assert calls.done.wait(10)
    begun = len(calls.begun)
    while time.monotonic() < calls.zero_s + (begun + 5) / RATE + 0.001:
        pass  # the loop is kept busy while more calls fall due
    overdue = dispatcher.end()
    assert len(overdue) >= 5
    assert [arrival.number for arrival, _ in overdue] == list(range(begun, begun + len(overdue)))
    assert dispatcher.end() == []
    gevent.sleep(2 / RATE)
    assert len(calls.begun) == begun


def test_a_schedule_that_is_through_says_so_once() -> None:
    calls, through = Calls(3), Event()
    share = iter([Arrival(number, number / 1000) for number in range(3)])
    dispatcher = Dispatcher(share, calls.zero_s, calls.begin, through.set)
    assert through.wait(10)
    assert len(calls.begun) == 3
    assert dispatcher.end() == []
