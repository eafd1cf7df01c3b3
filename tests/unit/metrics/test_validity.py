"""What the harness disturbed is void: not measured, not blamed on the agent, not averaged in."""

import math
from typing import Any

import pytest

from voicebench.metrics.results import TurnResult
from voicebench.metrics.session import analyse, measure
from voicebench.metrics.summary import summarise
from voicebench.metrics.validity import as_sent, disturbance
from voicebench.vad import Segment

from .builders import call, paced, packets

RESPOND: dict[str, Any] = {"expect": "respond"}
STOP: dict[str, Any] = {"expect": "stop"}
IGNORE: dict[str, Any] = {"expect": "ignore"}
USER, AGENT = [(0.5, 1.5)], [(2.0, 3.0)]  # frames 25-74 speak; the reply sounds from frame 100 on


def turn(*args: Any, **kwargs: Any) -> TurnResult:
    return analyse(call(*args, **kwargs)).turns[-1]


def test_a_boundary_moves_by_the_lag_of_the_frame_that_holds_it() -> None:
    record = call([RESPOND], USER, lag_s={25: 0.003, 74: 0.005, 75: 0.5})
    (moved,) = as_sent(record, [Segment(0.5, 1.5)])
    assert [moved.start_s, moved.end_s] == pytest.approx([0.503, 1.505])


def test_a_skipped_frame_does_not_move_a_boundary_into_nowhere() -> None:
    record = call([RESPOND], USER, lag_s={25: math.nan})
    assert as_sent(record, [Segment(0.5, 1.5)]) == [Segment(0.5, 1.5)]


@pytest.mark.parametrize("frame", [24, 25, 60, 74, 99])
@pytest.mark.parametrize("lag_s", [0.0211, math.nan])
def test_a_late_or_skipped_frame_inside_the_turn_voids_it(frame: int, lag_s: float) -> None:
    result = turn([{**RESPOND, "text": "hello"}], USER, AGENT, lag_s={frame: lag_s})
    assert result.void
    assert not result.counted
    assert (result.response_latency_ms, result.ttfa_ms, result.responded, result.passed) == (None, None, None, False)
    assert {result.status[name] for name in ("response_latency_ms", "ttfa_ms", "wer")} == {"void"}
    assert result.status["stop_latency_ms"] == "not_applicable"
    assert result.notes[0].startswith("void: the harness was late between 0.50 s and 2.0")


@pytest.mark.parametrize("frame", [10, 22, 103, 130])
def test_what_the_harness_does_before_and_after_the_turn_does_not_matter(frame: int) -> None:
    assert turn([RESPOND], USER, AGENT, lag_s={frame: 0.3}).response_latency_ms == 500.0


def test_a_frame_of_lag_is_allowed() -> None:
    assert turn([RESPOND], USER, AGENT, lag_s={60: 0.02}).response_latency_ms == 500.0


def test_a_talk_over_is_void_if_the_harness_was_late_up_to_the_users_offset() -> None:
    assert turn([RESPOND], USER, [(1.0, 3.0)], lag_s={70: 0.1}).void
    assert not turn([RESPOND], USER, [(1.0, 3.0)], lag_s={80: 0.1}).void


def test_a_missed_reply_is_void_if_the_harness_was_late_until_the_timeout() -> None:
    turns = [{**RESPOND, "response_timeout_ms": 2000}]
    assert turn(turns, USER, lag_s={170: 0.1}).void
    assert turn(turns, USER, lag_s={200: 0.1}).status["response_latency_ms"] == "missed"


def test_a_prompt_that_was_never_sent_is_void_not_inaudible() -> None:
    lag = dict.fromkeys(range(25, 75), math.nan)
    assert turn([RESPOND], [], AGENT, windows=USER, lag_s=lag).void


def test_a_stop_is_void_only_if_disturbed_before_the_stop() -> None:
    spans: tuple[Any, Any] = ([(1.0, 2.0)], [(0.2, 1.4), (2.6, 3.0)])
    assert turn([STOP], *spans, lag_s={60: 0.1}).void
    later = turn([STOP], *spans, lag_s={110: 0.1})
    assert (later.stop_latency_ms, later.passed, later.void) == (400.0, True, False)
    assert (later.response_latency_ms, later.ttfa_ms, later.responded) == (None, None, True)
    assert later.notes[0].startswith("no response latency: the harness was late")


@pytest.mark.parametrize(("frame", "void"), [(60, True), (105, False)])
def test_a_noise_is_judged_until_max_stop_ms(frame: int, void: bool) -> None:
    assert turn([IGNORE], [(1.0, 1.3)], [(0.2, 5.0)], lag_s={frame: 0.1}).void is void


@pytest.mark.parametrize(("timestamps", "void"), [("kernel", True), ("wakeup", False)])
def test_a_packet_that_was_read_late_voids_where_that_can_be_known(timestamps: Any, void: bool) -> None:
    arrived = paced(AGENT)
    read = [arrived[0] + 0.021, *arrived[1:]]
    result = turn([RESPOND], USER, AGENT, arrivals=packets(arrived, read=read), timestamps=timestamps)
    assert result.void is void


def test_a_packet_that_was_read_late_after_the_reply_began_does_not_matter() -> None:
    arrived = paced(AGENT)
    read = [*arrived[:10], arrived[10] + 0.2, *arrived[11:]]
    assert not turn([RESPOND], USER, AGENT, arrivals=packets(arrived, read=read)).void


def test_the_note_counts_what_happened() -> None:
    record = call([RESPOND], USER, lag_s={30: math.nan, 31: math.nan, 32: 0.05})
    assert disturbance(record, 0.5, 1.0) == (
        "the harness was late between 0.50 s and 1.00 s: 2 caller frames skipped, 1 sent more than 20 ms late"
    )
    assert disturbance(record, 2.0, 3.0) == ""


ENDED: dict[str, Any] = {"outcome": "truncated", "reason": "the run was over"}


def test_a_call_that_the_harness_ended_before_the_reply_is_void_and_its_turns_to_come_do_not_count() -> None:
    record = call([RESPOND, STOP], USER, duration_s=3.0, **ENDED)
    first, second = analyse(record).turns
    assert (first.void, first.cut_off) == (True, True)
    assert first.notes == ("void: the harness ended the call before the turn was over: the run was over",)
    assert (second.trigger, second.passed, second.counted) == ("not_played", False, False)
    assert set(second.status.values()) == {"not_applicable"}
    summary = summarise([measure(record)])
    assert (summary["turns"], summary["cut_off_turns"], summary["unplayed_turns"]) == (0, 1, 1)
    assert (summary["void_turns"], summary["void_turn_share"]) == (0, None)  # the harness kept time
    assert summary["response_latency_ms"]["void"] == 1
    assert (summary["missed_responses"], summary["barge_in_turns"]) == (0, 0)


def test_a_call_that_the_harness_ended_after_the_timeout_was_missed_all_the_same() -> None:
    turns = [{**RESPOND, "response_timeout_ms": 1000}]
    assert turn(turns, USER, duration_s=3.0, **ENDED).status["response_latency_ms"] == "missed"


def test_a_reply_that_came_before_the_harness_ended_the_call_stands() -> None:
    assert turn([RESPOND], USER, AGENT, 2.5, **ENDED).response_latency_ms == 500.0


@pytest.mark.parametrize("user", [[(0.5, 1.5)], []])
def test_a_call_that_the_harness_ended_in_mid_prompt_is_void(user: list[tuple[float, float]]) -> None:
    assert turn([RESPOND], user, [(1.2, 1.4)], 1.4, windows=[(0.5, 1.5)], **ENDED).void


@pytest.mark.parametrize(("duration_s", "status"), [(1.5, "void"), (2.5, "missed")])
def test_a_stop_is_void_while_the_agent_still_had_time_to_stop(duration_s: float, status: str) -> None:
    result = turn([STOP], [(1.0, 1.4)], [(0.2, duration_s)], duration_s, **ENDED)
    assert result.status["stop_latency_ms"] == status


@pytest.mark.parametrize(("expect_more", "void"), [(1.5, True), (2.5, False)])
def test_a_noise_is_void_while_the_agent_still_had_time_to_react(expect_more: float, void: bool) -> None:
    assert turn([IGNORE], [(1.0, 1.3)], [(0.2, expect_more)], expect_more, **ENDED).void is void


def test_a_silent_agent_still_had_time_for_a_spurious_response() -> None:
    assert turn([IGNORE], [(1.0, 1.3)], [], 3.0, **ENDED).void


def test_void_turns_enter_no_other_figure() -> None:
    good = measure(call([RESPOND], USER, [(2.0, 3.0)]))
    bad = measure(call([RESPOND], USER, [(1.2, 3.0)], lag_s={60: 0.5}))  # talk-over, 1.2 s, if it counted
    alone, both = summarise([good]), summarise([good, bad])
    assert (both["turns"], both["turns_passed"], both["talk_overs"], both["talk_over_ms"]) == (1, 1, 0, 0.0)
    assert both["response_latency_ms"] == {**alone["response_latency_ms"], "void": 1}
    assert (both["void_turns"], both["void_turn_share"]) == (1, 0.5)
