"""How audio arrived: TV03-TV08 on packets made by hand, and the ways in which such figures go wrong."""

import json
from typing import Any

import numpy as np
import pytest

from voicebench.metrics.delivery import FIGURES, medians
from voicebench.metrics.results import BargeIn, Delivery
from voicebench.metrics.serialise import from_dict, to_dict
from voicebench.metrics.session import analyse, measure
from voicebench.metrics.summary import by_turn, summarise
from voicebench.runner.record import SessionRecord

from .builders import agent_call, stream

STOP: list[dict[str, Any]] = [{"expect": "stop"}]
PHONE = {"jitter_buffer_ms": 60, "max_ms": 200}


def of(record: SessionRecord) -> Delivery:
    delivery = analyse(record).delivery
    assert delivery is not None
    return delivery


def delivered(sent: Any, user: Any = (), **keys: Any) -> Delivery:
    return of(agent_call(sent, user, **keys))


def cut(sent: Any, **keys: Any) -> BargeIn:
    """The caller cuts in at 2 s for a second."""
    found = delivered(sent, [(2.0, 3.0)], turns=STOP, **keys).barge_in
    assert found is not None
    return found


# Opening.


def test_the_opening_counts_from_the_open_connection_and_skips_silence_tv04() -> None:
    opening = delivered([*stream(0.3, 0.4, -60.0), *stream(0.4, 1.0)], connected_s=-0.015).opening

    assert (opening.first_frame_ms, opening.first_audible_ms, opening.silent_preroll_frames) == (315.0, 415.0, 5)


def test_a_packet_that_came_before_the_first_caller_frame_opens_the_call() -> None:
    opening = delivered(stream(-0.01, 1.0), connected_s=-0.014).opening

    assert (opening.first_frame_ms, opening.first_audible_ms) == (4.0, 4.0)


def test_silence_inside_speech_is_no_preroll() -> None:
    assert (
        delivered([*stream(1.0, 1.5), *stream(1.5, 1.6, -60.0), *stream(1.6, 2.0)]).opening.silent_preroll_frames == 0
    )


# Pacing.


def test_a_paced_agent_tv05() -> None:
    pacing = delivered(stream(0.42, 6.42)).pacing

    assert (pacing.frames, pacing.worst_burst_frames) == (300, 2)
    assert (pacing.median_gap_ms, pacing.p95_gap_ms, pacing.max_gap_ms) == (20.0, 20.0, 20.0)
    assert (pacing.wall_seconds, pacing.audio_seconds, pacing.realtime_ratio) == (5.98, 6.0, 1.003)


def test_a_bursting_agent_scores_well_on_holes_and_badly_on_bursts_tv05() -> None:
    found = delivered([(0.42 + k * 7.26e-6, 0.02, -20.0) for k in range(300)])

    assert found.pacing.worst_burst_frames == 300
    assert found.pacing.realtime_ratio == pytest.approx(2764, rel=0.001)
    assert found.continuity.worst_gap_ms == 0.0
    assert found.playout.backlog_growth_ms == pytest.approx(5978, abs=1)


def test_one_packet_with_the_whole_reply_is_a_burst_too() -> None:
    pacing = delivered([(0.5, 6.0, -20.0)]).pacing

    assert (pacing.frames, pacing.worst_burst_frames, pacing.realtime_ratio) == (300, 300, 6000.0)


def test_a_sender_at_three_and_a_half_times_real_time_trips_ratio_and_burst() -> None:
    pacing = delivered(stream(0.5, 2.2, every_s=0.02 / 3.5)).pacing

    assert pacing.realtime_ratio == pytest.approx(3.5, rel=0.01)
    assert pacing.worst_burst_frames == 4


def test_the_size_of_packets_does_not_change_the_ratio_and_shows_as_burst() -> None:
    tens = delivered([(1.0 + k * 0.01, 0.01, -20.0) for k in range(400)]).pacing
    sixties = delivered([(1.0 + k * 0.06, 0.06, -20.0) for k in range(67)]).pacing

    assert (tens.frames, tens.worst_burst_frames, tens.realtime_ratio) == (200, 2, 1.005)
    assert (sixties.frames, sixties.worst_burst_frames) == (201, 3)
    assert sixties.realtime_ratio == pytest.approx(1.015, abs=0.001)


def test_pauses_between_replies_are_no_gaps_and_no_wall_time() -> None:
    sent = [*stream(0.0, 2.0), *stream(4.0, 6.0), *stream(8.0, 10.0)]
    turns = [{"expect": "respond"}, {"expect": "respond"}]
    found = delivered(sent, [(2.5, 3.5), (6.5, 7.5)], turns=turns, duration_s=11.0)

    assert (found.pacing.replies, found.pacing.max_gap_ms) == (3, 20.0)
    assert (found.pacing.wall_seconds, found.pacing.realtime_ratio) == (5.98, 1.003)
    assert (found.continuity.worst_gap_ms, found.continuity.speech_span_s) == (20.0, 5.94)


def test_a_500_ms_stall_that_is_caught_up_with_a_burst_shows_as_both() -> None:
    stalled = [(max(t, 2.0) if 1.5 <= t < 2.0 else t, d, level) for t, d, level in stream(1.0, 4.0)]
    found = delivered(stalled)

    assert found.continuity.worst_gap_ms == pytest.approx(520, abs=0.1)
    assert found.pacing.worst_burst_frames == 27  # 25 that waited, the one that was due, and the next 20 ms later
    assert found.pacing.realtime_ratio == pytest.approx(1.0, abs=0.01)


# Continuity.


def test_a_gappy_agent_tv06() -> None:
    continuity = delivered([*stream(0.4, 2.4), *stream(2.9, 4.9)]).continuity

    assert (continuity.worst_gap_ms, continuity.worst_gap_at_s) == (520.0, 2.38)
    assert (continuity.speech_span_s, continuity.interior_silent_frames) == (4.48, 0)


def test_silence_that_is_sent_is_counted_apart_from_holes_tv06() -> None:
    sent = [
        *stream(0.4, 0.5, -60.0),
        *stream(0.5, 1.5),
        *stream(1.5, 1.8, -60.0),
        *stream(1.8, 2.4),
        *stream(2.4, 3, -60),
    ]
    continuity = delivered(sent).continuity

    assert (continuity.worst_gap_ms, continuity.interior_silent_frames) == (20.0, 15)
    assert continuity.interior_silent_ms == 300.0


def test_a_caller_who_says_nothing_parts_no_replies() -> None:
    found = delivered([*stream(0.4, 2.4), *stream(2.9, 4.9)], windows=[(1.0, 4.0)])

    assert (found.pacing.replies, found.continuity.worst_gap_ms) == (1, 520.0)


def test_a_hole_in_the_second_reply_is_found_and_the_pause_before_it_is_not() -> None:
    found = delivered([*stream(0.0, 1.0), *stream(4.0, 5.0), *stream(5.4, 6.0)], [(2.0, 3.0)])

    assert (found.continuity.worst_gap_ms, found.continuity.worst_gap_at_s) == (420.0, 4.98)


# Barge-in.


def test_the_cut_ends_at_the_stop_and_not_with_the_answer_tv07() -> None:
    found = cut([*stream(1.0, 2.1), *stream(4.0, 6.0)])

    assert (found.status, found.cut_ms, found.frames_after_barge_in) == ("ok", 80.0, 5)
    assert (found.audio_wasted_ms, found.resumed_after_stop) == (100.0, False)


def test_a_deaf_agent_is_cut_by_its_own_end() -> None:
    found = cut(stream(1.0, 7.0))

    assert (found.cut_ms, found.frames_after_barge_in, found.audio_wasted_ms) == (4980.0, 250, 5000.0)


def test_an_agent_that_never_stops_has_no_cut() -> None:
    found = cut(stream(1.0, 10.0))

    assert (found.status, found.cut_ms, found.frames_after_barge_in) == ("missed", None, 400)


def test_a_restart_within_200_ms_does_not_hide_the_stop() -> None:
    found = cut([*stream(1.0, 2.2), *stream(2.38, 3.9)])

    assert (found.cut_ms, found.resumed_after_stop, found.resumed_after_ms) == (180.0, True, 200.0)
    assert found.audio_wasted_ms == pytest.approx(200 + 1520)


def test_a_bursting_agent_cannot_score_0() -> None:
    sent = [(1.0, 0.02, -20.0)] * 200
    found = cut(sent, clears=[2.2])

    assert (found.status, found.cut_ms) == ("error", None)
    assert found.unheard_backlog_ms == 3000.0  # 4 s of audio, of which one was heard
    assert "before the caller cut in" in found.note


def test_a_burst_that_was_cleared_before_is_no_backlog() -> None:
    found = cut([(0.5, 4.0, -20.0), *stream(1.5, 2.1)], clears=[1.0])

    assert (found.cut_ms, found.unheard_backlog_ms) == (80.0, 20.0)


def test_an_agent_that_was_silent_gives_nothing_to_cut() -> None:
    found = cut(stream(4.0, 6.0))

    assert (found.status, found.cut_ms, found.frames_after_barge_in) == ("error", None, 0)
    assert "silent" in found.note


def test_an_agent_that_streams_silence_was_silent_too() -> None:
    found = cut([*stream(0.0, 1.0), *stream(1.0, 4.0, -120.0), *stream(4.0, 6.0)])

    assert (found.status, found.cut_ms) == ("error", None)


def test_a_click_of_a_silent_agent_is_nothing_to_cut() -> None:
    found = cut([*stream(0.0, 1.0), *stream(1.0, 3.5, -120.0), *stream(3.5, 3.54), *stream(3.54, 5.0, -120.0)])

    assert (found.status, found.cut_ms) == ("error", None)


def test_a_stop_of_an_agent_that_streams_silence_is_found() -> None:
    found = cut([*stream(0.0, 2.3), *stream(2.3, 4.0, -120.0), *stream(4.0, 6.0)])

    assert (found.cut_ms, found.resumed_after_stop) == (280.0, False)


def test_the_cut_counts_from_the_sending_of_the_frame_and_not_from_its_due_time() -> None:
    assert cut(stream(1.0, 2.1), lag_s={100: 0.005}).cut_ms == 75.0


def test_a_barge_in_that_the_harness_disturbed_is_void() -> None:
    found = cut(stream(1.0, 2.1), lag_s={101: float("nan")})

    assert (found.status, found.cut_ms, found.unheard_backlog_ms) == ("void", None, None)


def test_barge_ins_that_were_never_played_are_told() -> None:
    delivery = delivered(stream(1.0, 2.0), [], turns=STOP, outcome="failed", reason="gone")

    assert [(found.status, found.cut_ms) for found in delivery.barge_ins] == [("missed", None)]


def test_the_worst_barge_in_stands_for_the_call() -> None:
    sent = [*stream(0.0, 1.1), *stream(2.5, 4.3), *stream(6.0, 7.0)]
    delivery = delivered(sent, [(1.0, 2.0), (4.0, 5.0)], turns=[*STOP, *STOP])

    assert [found.cut_ms for found in delivery.barge_ins] == [80.0, 280.0]
    assert delivery.barge_in == delivery.barge_ins[1]


# The caller's player.


def test_a_bounded_player_drops_what_does_not_fit() -> None:
    playout = delivered([(1.0, 0.02, -20.0)] * 50, playout=PHONE).playout

    assert (playout.overflow_ms, playout.dropped_ms) == (840.0, 840.0)  # 8 frames wait for 60 to 200 ms
    assert playout.opening_heard_ms == 1060.0


def test_what_a_clear_takes_back_is_dropped_and_no_overflow() -> None:
    playout = delivered([(1.0, 1.0, -20.0)], clears=[1.3]).playout

    assert (playout.dropped_ms, playout.overflow_ms) == (700.0, 0.0)


def test_a_bounded_player_runs_dry_in_a_hole() -> None:
    sent = [*stream(1.0, 2.0), *stream(2.2, 3.0)]

    assert delivered(sent, playout=PHONE).playout.underrun_ms == 200.0  # 140 ms without audio, 60 ms to fill up again
    assert delivered(sent).playout.underrun_ms is None


def test_the_backlog_of_a_sender_at_19_ms_grows() -> None:
    growing = delivered(stream(1.0, 6.7, every_s=0.019)).playout.backlog_growth_ms
    steady = delivered(stream(1.0, 6.7)).playout.backlog_growth_ms

    assert (growing, steady) == (299.0, 0.0)  # 300 frames, each 1 ms earlier


# Missing data.


def test_a_silent_agent_has_no_figures_and_fails_vt19() -> None:
    for sent in ((), stream(1.0, 5.0, -60.0)):
        found = delivered(sent)

        assert found.opening.first_audible_ms is None
        assert found.continuity.worst_gap_ms is None
        assert (found.status["opening"], found.status["continuity"]) == ("missed", "missed")
    assert (delivered(()).pacing.worst_burst_frames, delivered(()).status["pacing"]) == (None, "missed")


def test_what_the_harness_ended_before_the_agent_spoke_is_void() -> None:
    found = delivered((), outcome="truncated", reason="the run ended")

    assert set(found.status.values()) == {"void"}


def test_a_reply_that_was_read_late_is_void_and_the_other_counts() -> None:
    record = agent_call([*stream(0.0, 2.0), *stream(4.0, 5.0)], [(2.5, 3.5)])
    record.packets.read[10] += 0.1
    found = of(record)

    assert (found.pacing.frames, found.pacing.replies, found.pacing.void_replies) == (50, 1, 1)
    assert found.status == {"opening": "ok", "pacing": "ok", "continuity": "ok", "playout": "ok"}


def test_a_call_that_was_read_late_has_no_pacing() -> None:
    record = agent_call(stream(0.5, 2.0))
    record.packets.read[0] += 0.1
    found = of(record)

    assert set(found.status.values()) == {"void"}
    assert (found.opening.first_audible_ms, found.pacing.worst_burst_frames) == (None, None)


def test_two_frames_are_too_few_for_pacing() -> None:
    found = delivered(stream(1.0, 1.04))

    assert (found.status["pacing"], found.pacing.frames, found.pacing.realtime_ratio) == ("error", 2, None)


def test_levels_that_do_not_belong_to_the_packets_are_refused() -> None:
    record = agent_call(stream(1.0, 2.0))
    object.__setattr__(record.packets, "pieces_db", np.zeros(3))

    with pytest.raises(ValueError, match="3 levels in pieces_db for 50 pieces"):
        analyse(record)


# Many calls.


def test_medians_ranges_and_counts_over_calls_tv15() -> None:
    calls = [delivered(stream(start, 4.0)) for start in (0.4, 0.42, 0.5)] + [delivered(())]
    found = medians(calls)

    assert found["opening.first_audible_ms"] == {"median": 420.0, "min": 400.0, "max": 500.0, "n": 3}
    assert found["barge_in.cut_ms"] == {"median": None, "min": None, "max": None, "n": 0}
    assert tuple(found) == FIGURES


def test_the_summary_counts_missed_and_void_calls() -> None:
    silent = measure(agent_call(()))
    fine = measure(agent_call(stream(0.4, 4.0)))
    cut_in = measure(agent_call([*stream(1.0, 2.2), *stream(2.38, 3.9)], [(2.0, 3.0)], STOP))
    summary = summarise([silent, fine, cut_in])

    assert (summary["first_audible_ms"]["count"], summary["first_audible_ms"]["missed"]) == (2, 1)
    assert summary["worst_burst_frames"]["max"] == 2.0
    assert (summary["cut_ms"]["count"], summary["cut_ms"]["p50"], summary["resumed_barge_ins"]) == (1, 180.0, 1)
    assert by_turn([cut_in])["demo/turn-1"]["cut_ms"] is None


def test_an_agent_that_sends_nothing_but_silence_misses_its_opening_on_both_planes() -> None:
    summary = summarise([measure(agent_call(stream(1.0, 5.0, -60.0)))])

    for name in ("first_audible_ms", "opening_heard_ms", "worst_gap_ms"):
        assert (summary[name]["count"], summary[name]["missed"]) == (0, 1), name
    assert summary["underrun_ms"]["missed"] == 0


def test_a_barge_in_that_could_not_be_measured_is_no_success() -> None:
    burst = measure(agent_call([(1.0, 4.0, -20.0)], [(2.0, 3.0)], STOP))
    summary = summarise([burst])

    assert (summary["cut_ms"]["count"], summary["resumed_barge_ins"]) == (0, None)
    assert summary["unheard_backlog_ms"]["max"] == 3000.0


def test_a_delivery_comes_back_exactly() -> None:
    result = measure(agent_call([*stream(1.0, 2.2), *stream(2.38, 3.9)], [(2.0, 3.0)], STOP, playout=PHONE))

    assert from_dict(json.loads(json.dumps(to_dict(result), allow_nan=False))) == result
    assert to_dict(result)["delivery"]["barge_in"]["cut_ms"] == 180.0
