"""The figures of one call, and how well the harness kept time in it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from voicebench.metrics.histogram import Histogram
from voicebench.metrics.session import analyse, health, lags_with_skipped_s, measure, overlap_s, validate
from voicebench.runner.health import LoopHealth
from voicebench.vad import Segment

from .builders import call, packets

RESPOND: dict[str, Any] = {"expect": "respond"}
STOP: dict[str, Any] = {"expect": "stop"}


def test_the_figures_of_a_call_vb15() -> None:
    record = call([RESPOND, STOP], [(0.5, 1.5), (3.0, 4.0)], [(1.2, 3.4)], clears=[3.31234567])
    metrics = analyse(record)
    assert metrics.duration_s == 10.0
    assert (metrics.user_speech_ms, metrics.agent_speech_ms) == (2000.0, 2200.0)
    assert metrics.overlap_ms == 700.0  # 0.3 s over the first turn, 0.4 s over the second
    assert metrics.talk_over_ms == 300.0  # a barge-in is the caller's doing
    assert (metrics.user_segments, metrics.agent_segments) == (((0.5, 1.5), (3.0, 4.0)), ((1.2, 3.4),))
    assert (metrics.clears_s, metrics.truncated) == ((3.3123,), False)


def test_overlap_counts_every_pair_of_segments() -> None:
    user = [Segment(0, 2), Segment(3, 5)]
    agent = [Segment(1, 4), Segment(4.5, 4.6), Segment(9, 10)]
    assert overlap_s(user, agent) == pytest.approx(2.1)
    assert overlap_s(user, []) == overlap_s([], agent) == 0.0


@pytest.mark.parametrize(
    ("keys", "truncated"),
    [({"outcome": "truncated"}, True), ({"max_duration_reached": True}, True), ({"outcome": "failed"}, False)],
)
def test_truncated_means_over_before_the_script_was(keys: dict[str, Any], truncated: bool) -> None:
    assert analyse(call([RESPOND], [(0.5, 1.5)], **keys)).truncated is truncated


def test_a_call_that_never_connected_has_no_metrics() -> None:
    record = call([RESPOND], [], duration_s=0.0, connect_ms=None, outcome="failed", reason="connection refused")
    result = measure(record, worker="w1")
    assert (result.metrics, result.outcome, result.reason) == (None, "failed", "connection refused")
    assert (result.worker, result.health.frames, result.health.send_lag_ms["p99"]) == ("w1", 0, None)


def test_a_call_that_ended_at_once_is_measured_without_a_frame() -> None:
    record = call([RESPOND], [], duration_s=0.0, outcome="failed", reason="the agent hung up")
    metrics = analyse(record)
    assert (metrics.duration_s, metrics.turns[0].status["response_latency_ms"]) == (0.0, "missed")


def test_a_result_carries_what_the_record_says_of_the_call() -> None:
    result = measure(call([RESPOND], [(0.5, 1.5)], call_id="abc"), recording={"stereo": "recordings/abc.wav"})
    assert (result.call_id, result.scenario, result.worker) == ("abc", "demo", "local")
    assert (result.connect_ms, result.clock, result.timestamps) == (12.5, "real", "kernel")
    assert result.recording == {"stereo": "recordings/abc.wav"}


def test_a_skipped_frame_counts_in_the_lag_with_the_time_until_the_next_one_went_out() -> None:
    lag: dict[int, float] = dict.fromkeys(range(100), 0.001)
    lag |= {5: 0.030, 6: math.nan, 7: math.nan}
    found = health(call([RESPOND], [(0.5, 1.5)], duration_s=2.0, lag_s=lag))
    assert (found.frames, found.skipped_frames) == (100, 2)
    # Frame 8 went out at 161 ms: 41 ms after frame 6 was due, and 21 ms after frame 7 was.
    assert (found.send_lag_ms["p50"], found.send_lag_ms["max"]) == (1.0, 41.0)
    assert found.send_lag_ms["p99"] == pytest.approx(30 + 11 * 0.01, abs=0.001)  # 100 values: rank 98.01
    assert Histogram.from_dict(found.send_lag_histogram).total == 100


def test_of_skipped_frames_after_which_nothing_was_sent_nothing_is_known() -> None:
    sent = np.array([1.0, math.nan, 1.045, math.nan])
    assert lags_with_skipped_s(sent, 0.02, first=50) == pytest.approx([0.0, 0.025, 0.005])
    assert len(lags_with_skipped_s(sent[3:], 0.02)) == len(lags_with_skipped_s(sent[:0], 0.02)) == 0


def test_health_keeps_how_the_event_loop_fared_meanwhile() -> None:
    record = call([RESPOND], [(0.5, 1.5)])
    loop = LoopHealth(lag_p50_ms=0.1, lag_p99_ms=2.0, lag_max_ms=30.0, collections=3, cpu_share=0.25)
    found = health(replace(record, loop=loop))
    assert found.loop_lag_ms == {"p50": 0.1, "p99": 2.0, "max": 30.0}
    assert (found.collections, found.cpu_share) == (3, 0.25)
    assert (health(record).loop_lag_ms, health(record).collections, health(record).cpu_share) == ({}, None, None)


@pytest.mark.parametrize(("timestamps", "worst"), [("kernel", 5.0), ("wakeup", None)])
def test_receive_lag_is_known_only_from_the_kernel(timestamps: Any, worst: float | None) -> None:
    arrivals = packets([2.0, 2.02], read=[2.001, 2.025])
    found = health(call([RESPOND], [(0.5, 1.5)], arrivals=arrivals, timestamps=timestamps))
    assert found.receive_lag_ms["max"] == worst
    assert bool(found.receive_lag_histogram) is (worst is not None)


def test_a_record_that_contradicts_itself_is_refused_with_the_place() -> None:
    record = call([RESPOND], [(0.5, 1.5)])
    shorter = replace(record, agent_track=record.agent_track[:-1])
    with pytest.raises(ValueError, match=r"call-1: the tracks differ in length: 160000 user and 159999 agent"):
        validate(shorter)
    floats = replace(record, user_track=record.user_track.astype(np.float32))
    with pytest.raises(ValueError, match="user_track must be one-dimensional int16, not 1-d float32"):
        validate(floats)
    torn = replace(record, packets=replace(packets([1.0]), read=np.zeros(2)))
    with pytest.raises(ValueError, match="arrays in packets differ in length"):
        validate(torn)
    twice = replace(record, windows=record.windows * 2)
    with pytest.raises(ValueError, match="2 turns played of 1 in the scenario"):
        validate(twice)
    turns = call([RESPOND, RESPOND], [(0.5, 1.5), (3.0, 4.0)])
    with pytest.raises(ValueError, match="not in the order of time"):
        validate(replace(turns, windows=turns.windows[::-1]))
