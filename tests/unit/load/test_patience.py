"""Waiting as long as there is progress."""

import time
from itertools import count

import gevent
import pytest

from voicebench.load.patience import wait_until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only waiting moves."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(gevent, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def test_waiting_ends_when_it_is_done(clock: list[float]) -> None:
    assert wait_until(lambda: clock[0] >= 3, 10)
    assert clock[0] == pytest.approx(3, abs=0.06)


def test_waiting_ends_when_patience_does(clock: list[float]) -> None:
    assert not wait_until(lambda: False, 2, lambda: "always the same")
    assert clock[0] == pytest.approx(2, abs=0.06)


def test_progress_renews_patience(clock: list[float]) -> None:
    assert not wait_until(lambda: False, 2, lambda: min(5, int(clock[0])))
    assert clock[0] == pytest.approx(7, abs=0.11)


def test_the_first_grace_comes_before_patience_and_progress_does_not_shorten_it(clock: list[float]) -> None:
    steps = count()
    assert not wait_until(lambda: False, 1, lambda: next(steps) if clock[0] < 1 else -1, first_s=4)
    assert clock[0] == pytest.approx(5, abs=0.11)
