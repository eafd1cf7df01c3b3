"""The table of how audio arrived: TV08's words, and nothing that would say nothing."""

from dataclasses import replace
from typing import Any

from tests.golden.report.handmade import booking, delivered, handmade_run, interrupted, measured
from voicebench.metrics.results import BargeIn, Delivery, Playout, SessionResult
from voicebench.report.build import build_report
from voicebench.report.delivery import delivery_rows
from voicebench.report.format import DASH


def rows(*calls: SessionResult) -> dict[str, tuple[str, ...]]:
    report = build_report(handmade_run(), calls)
    return {row[0]: row[1:] for row in delivery_rows(report)}


def with_delivery(delivery: Delivery) -> SessionResult:
    call = booking("call-01", 600.0)
    assert call.metrics is not None
    return replace(call, metrics=replace(call.metrics, delivery=delivery))


def verdicts(**pacing: Any) -> tuple[str, str]:
    usual = delivered(400.0)
    found = rows(with_delivery(replace(usual, pacing=replace(usual.pacing, **pacing))))
    return found["Worst burst in 20 ms"][-1], found["Audio per real time"][-1]


def test_the_words_follow_the_limits_tv08() -> None:
    assert verdicts(worst_burst_frames=2, realtime_ratio=1.5) == ("paced", "real time")
    assert verdicts(worst_burst_frames=10, realtime_ratio=1.51) == ("mildly bursty", "too fast")
    assert verdicts(worst_burst_frames=11)[0] == "bursting"


def test_holes_and_cuts_have_words_too_tv08() -> None:
    usual = delivered(400.0)
    gappy = with_delivery(replace(usual, continuity=replace(usual.continuity, worst_gap_ms=150.0)))

    assert rows(with_delivery(usual))["Longest hole in a reply"][-1] == "continuous"
    assert rows(gappy)["Longest hole in a reply"][-1] == "holes"
    assert rows(interrupted("a", 320.0, True, False))["Barge-in cut"][-1] == "quick"  # 70 ms less on the wire
    assert rows(interrupted("a", 330.0, True, False))["Barge-in cut"][-1] == "slow"


def test_the_worst_call_has_its_say() -> None:
    found = rows(booking("a", 600.0), booking("b", 700.0), booking("c", 1900.0))

    assert found["Worst burst in 20 ms"] == ("2 frames", "2 to 40 frames", "3", "0", "0", "paced, at worst bursting")


def test_a_cut_that_was_never_measured_is_said_to_be_so() -> None:
    never = replace(delivered(400.0), barge_ins=(BargeIn("cut-in", "missed"),))
    found = rows(with_delivery(never))["Barge-in cut"]

    assert found == (DASH, DASH, "0", "1", "0", "not measured")


def test_a_bounded_player_shows_what_it_lost() -> None:
    lossy = replace(delivered(400.0), playout=Playout(460.0, 300.0, 300.0, 120.0, 140.0))
    found = rows(with_delivery(lossy))

    assert found["Lost by the player"][0] == "300 ms"
    assert found["Player ran dry for"][-1] == "underrun"
    assert found["Growth of the backlog"][0] == "140 ms"
    assert "Lost by the player" not in rows(booking("a", 600.0))


def test_an_agent_that_went_on_after_a_stop_is_told() -> None:
    resumed = BargeIn("cut-in", "ok", 120.0, 50, 1000.0, 20.0, resumed_after_stop=True, resumed_after_ms=200.0)

    assert rows(with_delivery(replace(delivered(400.0), barge_ins=(resumed,))))["Went on after a stop"][0] == "1"


def test_calls_that_were_not_measured_leave_no_table() -> None:
    call = booking("call-01", 600.0)
    assert call.metrics is not None

    assert rows(replace(call, metrics=measured(call.metrics.turns, ()))) == {}
