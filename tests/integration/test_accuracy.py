"""Measured against an agent that writes down what it did when: the error of the ruler itself."""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import gevent
import numpy as np
import pytest

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics import measure
from voicebench.metrics.results import SessionResult
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario

QUESTIONS = 5

#: Replies begin at another phase of the detector's 10 ms grid each time, since the agent's delay is jittered.
SCENARIO = parse_scenario(
    {
        "name": "accuracy",
        "tail_ms": 700,
        "turns": [
            *({"id": f"question-{n}", "audio": {"synth": "tone", "duration_ms": 250}} for n in range(QUESTIONS)),
            {
                "id": "cut-in",
                "audio": {"synth": "tone", "duration_ms": 300},
                "start": {"after": "agent_speech_start", "delay_ms": 200},
                "expect": "stop",
            },
        ],
    }
)


@pytest.fixture(scope="module")
def agent() -> Iterator[BackgroundServer]:
    with BackgroundServer(endpoint_silence_ms=100, response_delay_ms=100, jitter_ms=100, response_ms=600) as server:
        yield server


def hold_calls(agent: BackgroundServer, count: int, spread_s: float) -> list[tuple[SessionRecord, SessionResult]]:
    """Calls that begin evenly over ``spread_s``, all on this one event loop."""

    def one() -> SessionRecord:
        return Call(SCENARIO, create_adapter("websocket", {"url": agent.url, "connect_timeout_s": 20})).run()

    jobs = [gevent.spawn_later(spread_s * number / count, one) for number in range(count)]
    gevent.joinall(jobs, timeout=60, raise_error=True)
    return [(job.get(), measure(job.get())) for job in jobs]


def truths(agent: BackgroundServer, calls: set[str]) -> dict[str, dict[str, Any]]:
    """The agent's own log of these calls, by call id; it writes a line when a call has ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        logs = {log["call_id"]: log for log in map(json.loads, agent.log_path.read_text().splitlines())}
        if calls <= logs.keys():
            return logs
        gevent.sleep(0.05)
    raise AssertionError("the agent did not log all calls")


def errors_ms(agent: BackgroundServer, calls: list[tuple[SessionRecord, SessionResult]]) -> dict[str, np.ndarray]:
    """Measured minus true, of all turns that the harness did not declare void."""
    logs = truths(agent, {record.call_id for record, _ in calls})
    errors: dict[str, list[float]] = {"response": [], "ttfa": [], "stop": []}
    for record, result in calls:
        assert result.outcome == "completed", result.reason
        assert result.metrics is not None
        told = logs[record.call_id]["turns"]
        *questions, cut_in = result.metrics.turns
        for turn, true in zip(questions[:-1], told, strict=False):  # the last reply is the one that is cut
            if not turn.void:
                assert turn.response_latency_ms is not None
                assert turn.ttfa_ms is not None
                true_ms = (true["reply_start_ns"] - true["speech_end_ns"]) / 1e6
                errors["response"].append(turn.response_latency_ms - true_ms)
                errors["ttfa"].append(turn.ttfa_ms - true_ms)
        if not cut_in.void:
            assert cut_in.stop_latency_ms is not None
            cut = told[QUESTIONS - 1]
            errors["stop"].append(cut_in.stop_latency_ms - (cut["stop_ns"] - cut["barge_in_start_ns"]) / 1e6)
    return {name: np.array(values) for name, values in errors.items()}


def test_unloaded_the_error_stays_within_a_frame_and_its_mean_within_5_ms(agent: BackgroundServer) -> None:
    calls = hold_calls(agent, 6, 0.5)
    for name, error in errors_ms(agent, calls).items():
        assert len(error) >= 4, f"{name}: the machine was too busy to measure anything"
        assert np.abs(error).max() <= 20, f"{name}: {error}"
        assert abs(error.mean()) <= 5 + 5 * (name == "stop"), f"{name}: {error}"  # a stop is read on a 10 ms grid


def test_a_hundred_callers_on_one_core_read_the_same(agent: BackgroundServer) -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        calls = hold_calls(agent, 100, 2.0)
    finally:
        os.sched_setaffinity(0, cores)
    for name, error in errors_ms(agent, calls).items():
        assert len(error) >= 50, f"{name}: only {len(error)} turns were not void"
        assert np.percentile(np.abs(error), 99) <= 20, f"{name}: {np.sort(error)}"
        assert abs(error.mean()) <= 5 + 5 * (name == "stop"), f"{name}: {error}"
