"""Many calls added up: every figure by hand, and the same figures in any order and from any number of workers."""

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicebench.metrics.histogram import Histogram
from voicebench.metrics.results import Health, ProcessHealth, SessionMetrics, SessionResult, TurnResult
from voicebench.metrics.serialise import from_dict, to_dict
from voicebench.metrics.session import measure
from voicebench.metrics.summary import Summary, by_scenario, by_turn, harness, summarise
from voicebench.scenario.assertions import DISTRIBUTIONS, FIGURES

from .builders import call, heard

RESPOND: dict[str, Any] = {"expect": "respond"}
STOP: dict[str, Any] = {"expect": "stop"}
IGNORE: dict[str, Any] = {"expect": "ignore"}


def replied(latency_s: float, **keys: Any) -> SessionResult:
    return measure(call([RESPOND], [(0.5, 1.5)], [(1.5 + latency_s, 4.0)], **keys))


REFUSED = measure(call([RESPOND], [], duration_s=0.0, connect_ms=None, outcome="failed", reason="refused"))


def test_every_metric_that_can_be_asserted_has_a_figure() -> None:
    summary = summarise([])
    assert set(DISTRIBUTIONS) | set(FIGURES) <= set(summary)
    assert all(set(summary[name]) >= {"count", "p50", "missed", "void"} for name in DISTRIBUTIONS)


def test_latencies_of_respond_turns_vb28() -> None:
    missed = measure(call([RESPOND], [(0.5, 1.5)]))
    talk_over = replied(-0.3)
    summary = summarise([replied(0.5), replied(0.7), missed, talk_over])
    assert (summary["sessions"], summary["turns"], summary["turns_passed"]) == (4, 4, 3)
    latency = summary["response_latency_ms"]
    assert (latency["count"], latency["min"], latency["p50"], latency["max"]) == (3, -300.0, 500.0, 700.0)
    assert (latency["mean"], latency["missed"]) == (300.0, 1)
    assert (summary["ttfa_ms"]["count"], summary["ttfa_ms"]["mean"]) == (2, 600.0)
    assert (summary["missed_responses"], summary["talk_overs"]) == (1, 1)
    assert (summary["overlap_ms"], summary["talk_over_ms"]) == (300.0, 300.0)


def test_setup_counts_from_the_scheduled_time() -> None:
    at = replied(0.5)  # connected in 12.5 ms
    waited = replace(at, scheduled_at=at.started_at - 2.0)
    assert (at.start_lag_ms, at.setup_ms) == (None, 12.5)
    assert (waited.start_lag_ms, waited.setup_ms) == (2000.0, 2012.5)
    closed = summarise([at, REFUSED])
    assert (closed["setup_ms"]["count"], closed["setup_ms"]["max"], closed["setup_ms"]["missed"]) == (1, 12.5, 1)
    assert closed["start_lag_ms"]["count"] == 0
    refused = replace(REFUSED, scheduled_at=REFUSED.started_at)
    cut_off = replace(refused, outcome="truncated")
    lost = replace(refused, outcome="lost")
    opened = summarise([waited, replace(at, scheduled_at=at.started_at), refused, cut_off, lost])
    setup, lag = opened["setup_ms"], opened["start_lag_ms"]
    assert (setup["count"], setup["min"], setup["max"], setup["missed"], setup["void"]) == (2, 12.5, 2012.5, 1, 1)
    assert (lag["count"], lag["min"], lag["max"]) == (4, 0.0, 2000.0)


def test_barge_ins_vb28() -> None:
    user = [(1.0, 2.0)]
    fine, late, never, silent = (
        measure(call([STOP], user, agent)) for agent in ([(0.2, 1.4)], [(0.2, 2.4)], [(0.2, 10.0)], [])
    )
    summary = summarise([fine, late, never, silent])
    assert (summary["barge_in_turns"], summary["barge_in_success_rate"]) == (4, 0.25)
    stop = summary["barge_in_stop_ms"]
    assert (stop["count"], stop["min"], stop["max"], stop["missed"]) == (2, 400.0, 1400.0, 1)


def test_noise_vb28() -> None:
    results = [measure(call([IGNORE], [(1.0, 1.3)], agent)) for agent in ([(0.2, 1.4)], [(2.0, 3.0)], [])]
    summary = summarise(results)
    assert (summary["noise_turns"], summary["false_barge_ins"], summary["spurious_responses"]) == (3, 1, 1)
    assert summary["turns_passed"] == 1


def test_word_error_rates_vb14() -> None:
    turns = [{**RESPOND, "text": "one two three"}]
    said = ["one two three", "one", None]
    results = [
        measure(call(turns, [(0.5, 1.5)], [(2.0, 3.0)], transcripts=[heard(text, 1.8)] if text else []))
        for text in said
    ]
    summary = summarise(results)
    assert summary["mean_wer"] == pytest.approx(0.3334, abs=1e-4)
    assert (summary["turn_wer"]["max"], summary["turn_wer"]["count"], summary["turn_wer"]["missed"]) == (0.6667, 2, 1)


def test_outcomes_add_up_to_the_sessions() -> None:
    lost = replace(REFUSED, outcome="lost", reason="worker w1 went away")
    cut = replied(0.5, outcome="truncated", reason="the run was over")
    summary = summarise([replied(0.5), cut, REFUSED, lost])
    counts = [summary[f"{kind}_sessions"] for kind in ("completed", "truncated", "failed", "lost", "unmeasured")]
    assert (summary["sessions"], counts) == (4, [1, 1, 1, 1, 2])
    assert summary["turns"] == 2  # a call that never connected has no turns, and says nothing of the agent's


def test_a_figure_without_anything_to_rest_on_is_none() -> None:
    summary = summarise([])
    names = ("barge_in_success_rate", "mean_wer", "void_turn_share", "send_lag_p99_ms", "receive_lag_p99_ms")
    assert [summary[name] for name in names] == [None] * 5


def test_by_scenario_and_by_turn_hold_the_same_figures() -> None:
    one = replace(replied(0.5), scenario="b")
    two = measure(call([{**RESPOND, "id": "x"}, STOP], [(0.5, 1.5), (3.0, 4.0)], [(2.2, 3.5)]))
    groups = by_scenario([one, two, REFUSED])
    assert list(groups) == ["b", "demo"]
    assert groups["b"]["response_latency_ms"]["p50"] == 500.0
    assert (groups["demo"]["turns"], groups["demo"]["failed_sessions"]) == (2, 1)
    turns = by_turn([one, two, REFUSED])
    assert list(turns) == ["b/turn-1", "demo/x", "demo/turn-2"]
    assert turns["demo/x"]["response_latency_ms"]["p50"] == 700.0
    assert (turns["demo/turn-2"]["barge_in_stop_ms"]["max"], turns["demo/turn-2"]["turns"]) == (500.0, 1)
    assert (turns["demo/x"]["sessions"], turns["demo/x"]["overlap_ms"]) == (1, None)
    assert set(turns["demo/x"]) == set(groups["demo"])


def test_the_harness_block_adds_up_lags_of_all_calls() -> None:
    steady = replied(0.5, lag_s=dict.fromkeys(range(500), 0.001))
    stalled = replied(0.5, lag_s={60: 0.25, 61: math.nan})
    block = harness([steady, stalled, REFUSED])
    assert (block["frames"], block["skipped_frames"], block["cpu_share"]) == (1000, 1, None)
    assert (block["void_turns"], block["void_turn_share"]) == (1, 0.5)
    assert block["send_lag_ms"]["max"] == 250.0
    assert block["send_lag_ms"]["p99"] == pytest.approx(1.0, rel=0.005)
    assert block["timestamps"] == {"kernel": 2}
    assert block["receive_lag_ms"]["max"] == 0.0
    assert summarise([steady, stalled])["send_lag_p99_ms"] == block["send_lag_ms"]["p99"]


def test_what_belongs_to_processes_counts_once_for_each_of_them() -> None:
    def process(lag_ms: float, ticks: int, cpu_share: float) -> ProcessHealth:
        lags = Histogram.of([lag_ms] * ticks)
        return ProcessHealth({"p50": lag_ms, "p99": lag_ms, "max": lag_ms}, lags.to_dict(), 2, cpu_share)

    block = harness([replied(0.5)], [process(1.0, 90, 0.4), process(40.0, 10, 0.6)])
    assert block["loop_lag_ms"]["p50"] == pytest.approx(1.0, rel=0.005)
    assert block["loop_lag_ms"]["p99"] == pytest.approx(40.0, rel=0.005)
    assert (block["loop_lag_ms"]["max"], block["collections"], block["cpu_share"]) == (40.0, 4, 0.6)


def test_where_no_process_reported_its_calls_tell_the_worst() -> None:
    def during(lag_ms: float, cpu_share: float) -> SessionResult:
        result = replied(0.5)
        lags = {"p50": 0.1, "p99": 0.2, "max": lag_ms}
        return replace(result, health=replace(result.health, loop_lag_ms=lags, collections=1, cpu_share=cpu_share))

    block = harness([during(3.0, 0.5), during(7.0, 0.2)])
    assert block["loop_lag_ms"] == {"p50": None, "p99": None, "max": 7.0}
    assert (block["collections"], block["cpu_share"]) == (None, 0.5)


def test_a_summary_can_be_read_while_it_grows() -> None:
    summary = Summary()
    assert summary.close() == summarise([])
    summary.add(replied(0.5))
    assert summary.close() == summary.close() == summarise([replied(0.5)])


_MS = st.none() | st.floats(-500, 5000).map(lambda value: round(value, 1))
_TURN = st.builds(
    TurnResult,
    id=st.sampled_from(["a", "b"]),
    expect=st.sampled_from(["respond", "stop", "ignore"]),
    trigger=st.just("anchor"),
    start_s=st.just(0.5),
    end_s=st.just(1.5),
    responded=st.booleans(),
    response_latency_ms=_MS,
    ttfa_ms=_MS,
    talk_over=st.booleans(),
    stopped=st.booleans(),
    stop_latency_ms=_MS,
    wer=st.none() | st.floats(0, 3),
    passed=st.booleans(),
    status=st.sampled_from([{}, {"response_latency_ms": "void"}, {"response_latency_ms": "missed"}]),
)
_METRICS = st.builds(
    SessionMetrics,
    turns=st.lists(_TURN, max_size=3).map(tuple),
    duration_s=st.just(9.0),
    user_speech_ms=st.just(0.0),
    agent_speech_ms=st.just(0.0),
    overlap_ms=st.floats(0, 1e5).map(lambda value: round(value, 1)),
    talk_over_ms=st.floats(0, 1e5).map(lambda value: round(value, 1)),
    user_segments=st.just(()),
    agent_segments=st.just(()),
    truncated=st.booleans(),
)
_BINS = st.dictionaries(st.integers(-5, 900).map(str), st.integers(1, 50))
_RESULT = st.builds(
    SessionResult,
    call_id=st.uuids().map(str),
    scenario=st.sampled_from(["one", "two"]),
    worker=st.just("w"),
    outcome=st.sampled_from(["completed", "truncated", "failed", "lost"]),
    reason=st.just(""),
    started_at=st.just(0.0),
    connect_ms=st.just(1.0),
    clock=st.just("real"),
    timestamps=st.sampled_from(["kernel", "wakeup"]),
    adapter=st.just({"type": "test"}),
    metrics=st.none() | _METRICS,
    health=st.builds(Health, send_lag_histogram=_BINS, receive_lag_histogram=_BINS),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_RESULT, max_size=12), st.randoms(use_true_random=False))
def test_one_process_and_four_workers_agree_to_the_last_digit(
    results: list[SessionResult], chance: random.Random
) -> None:
    workers: list[list[str]] = [[], [], [], []]
    for result in results:
        chance.choice(workers).append(json.dumps(to_dict(result)))
    arrived = [from_dict(json.loads(line)) for lines in chance.sample(workers, 4) for line in lines]
    for figures in (summarise, by_scenario, by_turn, harness):
        alone = json.dumps(figures(results))
        assert json.dumps(figures(arrived)) == alone
