"""The definitions of a turn's metrics, each on a call whose numbers follow from where its tones are."""

from typing import Any

import numpy as np
import pytest

from voicebench.metrics.results import TURN_METRICS, TurnResult
from voicebench.metrics.session import analyse
from voicebench.metrics.turns import find_reply, measure_turns, playing_at, segments_in, ttfa_ms
from voicebench.vad import Segment

from .builders import call, heard, packets

RESPOND: dict[str, Any] = {"expect": "respond"}
STOP: dict[str, Any] = {"expect": "stop"}
IGNORE: dict[str, Any] = {"expect": "ignore"}
USER = [(0.5, 1.5)]


def turn(*args: Any, **kwargs: Any) -> TurnResult:
    """The last turn of a call."""
    return analyse(call(*args, **kwargs)).turns[-1]


def asked(result: TurnResult) -> dict[str, str]:
    """The statuses of what was asked for."""
    assert set(result.status) == set(TURN_METRICS)
    return {metric: status for metric, status in result.status.items() if status != "not_applicable"}


def test_latency_runs_from_the_users_last_sound_to_the_first_of_the_reply_vb10() -> None:
    result = turn([RESPOND], USER, [(2.26, 3.76)])
    assert (result.user_onset_s, result.user_offset_s) == (0.5, 1.5)
    assert (result.response_latency_ms, result.ttfa_ms) == (760.0, 760.0)
    assert (result.responded, result.talk_over, result.passed, result.notes) == (True, False, True, ())
    assert asked(result) == {"response_latency_ms": "ok", "ttfa_ms": "ok"}


def test_onset_and_offset_count_as_sent_not_as_due() -> None:
    result = turn([RESPOND], USER, [(2.26, 3.76)], lag_s={25: 0.004, 74: 0.015})
    assert (result.user_onset_s, result.user_offset_s) == (0.504, 1.515)
    assert result.response_latency_ms == 745.0


def test_a_reply_before_the_user_has_finished_is_talk_over_with_a_negative_latency_vb10() -> None:
    result = turn([RESPOND], USER, [(1.2, 3.0)])
    assert (result.response_latency_ms, result.talk_over, result.ttfa_ms, result.passed) == (-300.0, True, None, True)
    assert asked(result) == {"response_latency_ms": "ok"}


def test_a_reply_at_the_very_offset_is_no_talk_over() -> None:
    result = turn([RESPOND], USER, [(1.5, 3.0)])
    assert (result.response_latency_ms, result.talk_over) == (0.0, False)


@pytest.mark.parametrize(("starts", "responded"), [(2.5, True), (2.52, False)])
def test_a_reply_counts_up_to_the_timeout(starts: float, responded: bool) -> None:
    result = turn([{**RESPOND, "response_timeout_ms": 1000}], USER, [(starts, 4.0)])
    assert (result.responded, result.passed) == (responded, responded)
    assert asked(result)["response_latency_ms"] == ("ok" if responded else "missed")


def test_a_reply_after_the_next_turn_began_belongs_to_that_one_vb09() -> None:
    first, second = analyse(call([RESPOND, RESPOND], [(0.5, 1.5), (2.5, 3.0)], [(3.6, 4.0)])).turns
    assert (first.responded, first.response_latency_ms) == (False, None)
    assert second.response_latency_ms == 600.0


def test_what_already_played_at_the_onset_is_no_reply() -> None:
    assert turn([RESPOND], USER, [(0.1, 1.8)]).responded is False


def test_ttfa_is_the_arrival_of_the_first_audible_packet_of_the_reply_vb11() -> None:
    arrivals = packets([0.2, 1.6, 1.7, 1.8, 2.2], [-20, -90, -70, -69.9, -20])
    result = turn([RESPOND], USER, [(2.2, 3.0)], arrivals=arrivals)
    assert (result.ttfa_ms, result.response_latency_ms) == (300.0, 700.0)


def test_packets_of_an_earlier_segment_do_not_count_for_ttfa_vb11() -> None:
    result = turn([RESPOND], USER, [(0.1, 1.8), (2.2, 3.0)], arrivals=packets([0.1, 1.55, 1.75, 2.1, 2.3]))
    assert result.ttfa_ms == 600.0


def test_a_reply_whose_packets_all_came_too_early_has_no_ttfa() -> None:
    result = turn([RESPOND], USER, [(2.2, 3.0)], arrivals=packets([0.2, 0.3]))
    assert (result.ttfa_ms, result.status["ttfa_ms"], result.response_latency_ms) == (None, "error", 700.0)
    assert "no TTFA" in result.notes[0]


def test_no_reply_is_missed_and_never_zero() -> None:
    result = turn([RESPOND], USER)
    assert (result.responded, result.response_latency_ms, result.ttfa_ms, result.passed) == (False, None, None, False)
    assert asked(result) == {"response_latency_ms": "missed", "ttfa_ms": "missed"}
    assert result.notes == ("no agent speech within 5000 ms after the user stopped",)


def test_stop_runs_from_the_onset_to_the_end_of_what_was_playing_vb12() -> None:
    result = turn([STOP], [(1.0, 2.0)], [(0.2, 1.38), (2.6, 3.0)])
    assert (result.stopped, result.stop_latency_ms, result.passed) == (True, 380.0, True)
    assert (result.responded, result.response_latency_ms) == (True, 600.0)
    assert asked(result) == {"stop_latency_ms": "ok", "response_latency_ms": "ok", "ttfa_ms": "ok"}


@pytest.mark.parametrize(("refine", "latency_ms", "stop_ms"), [("frame", 260.0, 380.0), ("sample", 275.0, 375.0)])
def test_refined_boundaries_reach_every_latency(refine: str, latency_ms: float, stop_ms: float) -> None:
    vad = {"refine": refine}
    reply = turn([RESPOND], [(0.5, 1.5025)], [(1.7775, 2.5)], vad=vad)
    assert (reply.response_latency_ms, reply.ttfa_ms) == (latency_ms, 267.5 if refine == "frame" else 275.0)
    assert reply.user_offset_s == (1.51 if refine == "frame" else 1.5025)
    stop = turn([STOP], [(1.0025, 2.0)], [(0.2, 1.3775), (2.6, 3.0)], vad=vad)
    assert stop.stop_latency_ms == stop_ms


@pytest.mark.parametrize("refine", ["frame", "sample"])
def test_what_speaks_to_the_end_of_the_call_never_stopped(refine: str) -> None:
    result = turn([STOP], [(1.0025, 2.0)], [(0.2, 5.0)], duration_s=5.0, vad={"refine": refine})
    assert (result.stop_latency_ms, result.status["stop_latency_ms"]) == (None, "missed")


def test_a_stop_after_the_limit_is_measured_but_fails() -> None:
    result = turn([{**STOP, "max_stop_ms": 500}], [(1.0, 2.0)], [(0.2, 1.6)])
    assert (result.stopped, result.stop_latency_ms, result.passed) == (False, 600.0, False)
    assert asked(result) == {"stop_latency_ms": "ok"}


def test_an_agent_that_never_stops_has_no_stop_time_and_missed_it_vb12() -> None:
    result = turn([STOP], [(1.0, 2.0)], [(0.2, 5.0)], duration_s=5.0)
    assert (result.stopped, result.stop_latency_ms, result.passed) == (False, None, False)
    assert asked(result) == {"stop_latency_ms": "missed"}


def test_nothing_to_stop_fails_with_a_note_vb12() -> None:
    result = turn([STOP], [(1.0, 2.0)], [(3.0, 4.0)])
    assert (result.stopped, result.stop_latency_ms, result.passed) == (None, None, False)
    assert result.status["stop_latency_ms"] == "error"
    assert "silent when the barge-in began" in result.notes[0]


@pytest.mark.parametrize(
    ("agent", "false_barge_in", "spurious"),
    [
        ([(0.2, 4.0)], False, False),  # talks on
        ([(0.2, 1.4)], True, False),  # falls silent
        ([(0.2, 1.4), (2.5, 3.0)], True, False),  # and resumes: still one fault, not two
        ([], False, False),  # stays silent
        ([(2.0, 3.0)], False, True),  # begins to talk
    ],
)
def test_a_noise_should_change_nothing_vb13(
    agent: list[tuple[float, float]], false_barge_in: bool, spurious: bool
) -> None:
    result = turn([IGNORE], [(1.0, 1.3)], agent)
    assert (result.false_barge_in, result.spurious_response) == (false_barge_in, spurious)
    assert result.passed is not (false_barge_in or spurious)
    assert (result.response_latency_ms, asked(result)) == (None, {"noise": "ok"})


def test_final_user_transcripts_of_the_window_are_joined_and_scored_vb14() -> None:
    said = [heard("book", 1.0, final=False), heard("Book the", 1.6), heard("table, please!", 1.9), heard("next", 3.1)]
    turns = [{**RESPOND, "text": "Book a table, please"}, {**RESPOND, "text": "next"}]
    first, second = analyse(call(turns, [(0.5, 1.5), (3.0, 3.5)], [(2.0, 2.6), (4.0, 4.5)], transcripts=said)).turns
    assert (first.transcript, first.wer, first.status["wer"]) == ("Book the table, please!", 0.25, "ok")
    assert (second.transcript, second.wer) == ("next", 0.0)


def test_a_transcript_without_a_text_is_kept_but_not_scored() -> None:
    result = turn([RESPOND], USER, [(2.0, 3.0)], transcripts=[heard("hello", 1.7)])
    assert (result.transcript, result.wer, result.status["wer"]) == ("hello", None, "not_applicable")


def test_a_text_without_a_transcript_is_missed_since_the_agent_reported_none() -> None:
    result = turn([{**RESPOND, "text": "hello"}], USER, [(2.0, 3.0)])
    assert (result.wer, result.status["wer"], result.passed) == (None, "missed", True)
    assert "reported no user transcript" in result.notes[0]


def test_a_turn_in_which_nobody_is_heard_is_an_error_not_a_miss() -> None:
    result = turn([{**RESPOND, "text": "hello"}], [(0.5, 1.5, -60.0)], [(2.0, 3.0)], windows=USER)
    assert asked(result) == {"response_latency_ms": "error", "ttfa_ms": "error", "wer": "error"}
    assert (result.responded, result.passed) == (None, False)
    assert "vad.user.threshold_db" in result.notes[0]


def test_a_start_on_timeout_is_noted_vb16() -> None:
    result = turn([RESPOND], USER, [(2.0, 3.0)], triggers={0: "timeout"})
    assert result.trigger == "timeout"
    assert result.notes == ("started after timeout_ms, since session_start did not happen",)


def test_turns_after_max_duration_count_as_not_done_vb16() -> None:
    turns = [RESPOND, RESPOND, STOP, IGNORE]
    record = call(turns, USER, [(2.0, 3.0)], 4.0, max_duration_reached=True, outcome="truncated")
    results = analyse(record).turns
    assert [r.trigger for r in results] == ["anchor", "not_played", "not_played", "not_played"]
    assert [asked(r) for r in results[1:]] == [
        {"response_latency_ms": "missed", "ttfa_ms": "missed"},
        {"stop_latency_ms": "missed"},
        {"noise": "missed"},
    ]
    assert {(r.start_s, r.passed, r.counted, r.notes) for r in results[1:]} == {
        (4.0, False, True, ("never played: the call reached max_duration_ms",))
    }


def test_a_call_that_fails_owes_the_reply_and_all_turns_to_come() -> None:
    record = call([RESPOND, STOP], USER, duration_s=2.0, outcome="failed", reason="the agent hung up")
    first, second = analyse(record).turns
    assert (asked(first)["response_latency_ms"], first.passed) == ("missed", False)
    assert first.notes[-1] == "the call failed before the turn was over: the agent hung up"
    assert (second.trigger, asked(second), second.counted) == ("not_played", {"stop_latency_ms": "missed"}, True)
    assert second.notes == ("never played: the call failed: the agent hung up",)


def test_a_reply_before_the_call_failed_stands() -> None:
    result = turn([RESPOND], USER, [(1.7, 2.0)], 2.0, outcome="failed", reason="the agent hung up")
    assert (result.response_latency_ms, result.passed, result.notes) == (200.0, True, ())


def test_segments_may_be_given_to_the_turns_alone() -> None:
    record = call([RESPOND], USER, arrivals=packets([2.25]))
    (result,) = measure_turns(record, [Segment(0.5, 1.5)], [Segment(2.25, 3.0)])
    assert (result.response_latency_ms, result.ttfa_ms) == (750.0, 750.0)


def test_touching_is_not_overlapping() -> None:
    segments = [Segment(0.0, 1.0), Segment(1.0, 2.0), Segment(2.0, 3.0)]
    assert segments_in(segments, 1.0, 2.0) == [1]
    assert playing_at(segments, 1.0) == segments[1]
    assert find_reply(segments, 1.0, 2.0) == segments[2]
    assert find_reply(segments, 1.0, 1.99) is None


def test_no_audible_packet_means_no_ttfa() -> None:
    assert ttfa_ms(np.array([]), [], Segment(2.0, 3.0), 1.0, 6.0) is None


@pytest.mark.parametrize(("spoke", "heard"), [((0.4, 3.0), True), ((3.2, 3.4), True), ((6.1, 7.0), False)])
def test_a_caller_who_only_listens_should_have_heard_the_agent(spoke: tuple[float, float], heard: bool) -> None:
    turns = [{"expect": "listen"}, RESPOND]
    listened = analyse(call(turns, [(6.0, 6.5)], [spoke], windows=[(3.3, 3.4), (6.0, 6.5)])).turns[0]
    assert (listened.responded, listened.passed) == (heard, heard)
    assert listened.response_latency_ms is None
    assert set(listened.status.values()) == {"ok", "not_applicable"}
