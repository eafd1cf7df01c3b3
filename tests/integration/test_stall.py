"""The harness stalls on purpose: what that touched is void, the rest is right, nothing is caught up in a burst."""

import math
import time
from dataclasses import dataclass
from typing import Any

import gevent
import numpy as np
import pytest

from tests.integration.scripted_agent import Connection, agent
from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics import measure
from voicebench.metrics.results import TurnResult
from voicebench.metrics.validity import disturbance
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario
from voicebench.wire.rfc6455 import Binary

#: The stall, the calls, and the agent's own log of each by its id.
Stalled = tuple["Stall", list[SessionRecord], dict[str, dict[str, Any]]]

STALL_S = 0.4
FRAME_S = 0.02
CALLS, QUESTIONS = 6, 5

CONVERSATION = parse_scenario(
    {
        "name": "stalled",
        "tail_ms": 500,
        "turns": [{"audio": {"synth": "tone", "duration_ms": 400}, "text": "a tone"} for _ in range(QUESTIONS)],
    }
)
MONOLOGUE = parse_scenario(
    {
        "name": "monologue",
        "tail_ms": 300,
        "turns": [{"audio": {"synth": "tone", "duration_ms": 2500}, "response_timeout_ms": 100}],
    }
)


@dataclass
class Stall:
    """When the loop stood still, CLOCK_MONOTONIC."""

    start_ns: int = 0
    end_ns: int = 0

    def happen(self) -> None:
        """Keep the event loop from everything else."""
        self.start_ns = time.monotonic_ns()
        while (now := time.monotonic_ns()) < self.start_ns + STALL_S * 1e9:
            pass
        self.end_ns = now

    def within(self, record: SessionRecord) -> tuple[float, float]:
        """The same on the clock of a call."""
        return (self.start_ns - record.origin_ns) / 1e9, (self.end_ns - record.origin_ns) / 1e9


def hold(url: str, scenario: Scenario, count: int, stall_after_s: float) -> tuple[Stall, list[SessionRecord]]:
    """Calls that begin 0.3 s apart, and a stall in the midst of them."""

    def one() -> SessionRecord:
        return Call(scenario, create_adapter("websocket", {"url": url, "connect_timeout_s": 20})).run()

    stall = Stall()
    jobs = [gevent.spawn_later(0.3 * number, one) for number in range(count)]
    gevent.spawn_later(stall_after_s, stall.happen)
    gevent.joinall(jobs, timeout=60, raise_error=True)
    return stall, [job.get() for job in jobs]


@pytest.fixture(scope="module")
def stalled() -> Stalled:
    with BackgroundServer(endpoint_silence_ms=100, response_delay_ms=150, jitter_ms=100, response_ms=400) as server:
        stall, records = hold(server.url, CONVERSATION, CALLS, 2.6)
        truths = {record.call_id: server.call(record.call_id) for record in records}
    return stall, records, truths


def turns_of(record: SessionRecord) -> tuple[TurnResult, ...]:
    metrics = measure(record).metrics
    assert metrics is not None
    return metrics.turns


def test_turns_that_the_stall_touched_are_void(
    stalled: Stalled,
) -> None:
    stall, records, truths = stalled
    touched = 0
    for record in records:
        start_s, end_s = stall.within(record)
        for turn, true in zip(turns_of(record), truths[record.call_id]["turns"], strict=False):
            reply_s = (true["reply_start_ns"] - record.origin_ns) / 1e9
            if turn.start_s < end_s - 2 * FRAME_S and reply_s > start_s + 2 * FRAME_S:
                touched += 1
                assert turn.void, (turn, start_s, end_s)
                assert (turn.response_latency_ms, turn.ttfa_ms, turn.wer, turn.passed) == (None, None, None, False)
                assert "the harness was late" in turn.notes[0]
    assert touched >= 1, "the stall fell between all turns"


def test_the_other_turns_are_void_only_for_other_reasons_and_right_to_the_frame(
    stalled: Stalled,
) -> None:
    stall, records, truths = stalled
    right = 0
    for record in records:
        start_s, end_s = stall.within(record)
        error_ms = 20 + truths[record.call_id]["late_ms"]["max"]  # the agent's own lateness is not in its log's times
        for turn, true in zip(turns_of(record), truths[record.call_id]["turns"], strict=False):
            reply_s = (true["reply_start_ns"] - record.origin_ns) / 1e9
            if not turn.void:
                assert turn.response_latency_ms is not None
                assert turn.ttfa_ms is not None
                true_ms = (true["reply_start_ns"] - true["speech_end_ns"]) / 1e6
                assert turn.response_latency_ms == pytest.approx(true_ms, abs=error_ms)
                assert turn.ttfa_ms == pytest.approx(true_ms, abs=error_ms)
                right += 1
            elif turn.start_s > end_s + 2 * FRAME_S or reply_s < start_s - 2 * FRAME_S:
                assert disturbance(record, turn.start_s, reply_s + 0.1), "void, though the harness was on time"
    assert right >= CALLS, f"only {right} turns are not void: the machine was too busy to tell"


def test_the_calls_go_on_as_if_nothing_had_been(
    stalled: Stalled,
) -> None:
    _, records, _ = stalled
    for record in records:
        assert (record.outcome, record.reason) == ("completed", "")
        assert [window.trigger for window in record.windows] == ["anchor"] * QUESTIONS
        assert record.loop is not None
        assert record.loop.lag_max_ms >= 1000 * STALL_S - 1
        assert (measure(record).health.send_lag_ms["max"] or 0) >= 1000 * STALL_S - 20


def test_frames_are_skipped_not_sent_late_in_a_burst_and_the_track_holds_what_was_sent() -> None:
    heard: list[int] = []

    def count(connection: Connection) -> None:
        frames = 0
        while messages := connection.receive():
            frames += sum(isinstance(message, Binary) for message in messages)
        heard.append(frames)

    with agent(count) as url:
        stall, (record,) = hold(url, MONOLOGUE, 1, 1.2)  # in the middle of the prompt
    start_s, end_s = stall.within(record)
    first, last = math.ceil(start_s / FRAME_S) + 1, math.floor(end_s / FRAME_S) - 1
    skipped = np.flatnonzero(np.isnan(record.sent))
    assert set(range(first, last)) <= set(skipped.tolist())
    assert last - first >= STALL_S / FRAME_S - 4
    assert heard == [len(record.sent) - len(skipped)]  # what is skipped is never made up for
    after = record.sent[(record.sent >= end_s) & (record.sent < end_s + 0.1)]
    assert len(after) <= 6  # 5 that fell due, and the one that was due when the stall ended
    frames = record.user_track.reshape(-1, 320)
    assert not frames[skipped].any()
    window = record.windows[0]
    spoken = range(round(window.start / FRAME_S), round(window.end / FRAME_S))
    assert all(frames[number].any() for number in spoken if number not in set(skipped.tolist()))
    (turn,) = turns_of(record)
    assert turn.void
    assert "caller frames skipped" in turn.notes[0]
