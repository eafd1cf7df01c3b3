"""What is stored comes back exactly."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from voicebench.metrics.results import (
    BargeIn,
    Continuity,
    Delivery,
    Health,
    Opening,
    Pacing,
    Playout,
    ProcessHealth,
    RunInfo,
    SessionMetrics,
    SessionResult,
    TurnResult,
    WorkerInfo,
)
from voicebench.metrics.serialise import from_dict, run_from_dict, run_to_dict, to_dict
from voicebench.metrics.session import measure

from .builders import call, heard

DELIVERY = (Opening, Pacing, Continuity, Playout, BargeIn, Delivery)
RESPOND: dict[str, Any] = {"expect": "respond", "text": "hello there"}
RICH = measure(
    call(
        [RESPOND, {"expect": "stop"}, {"expect": "ignore"}],
        [(0.5, 1.5), (3.0, 4.0)],
        [(2.1, 3.3)],
        lag_s={3: 0.00123, 400: math.nan},
        transcripts=[heard("hello, thére", 1.7)],
        clears=[3.25],
        max_duration_reached=True,
    ),
    recording={"stereo": "recordings/call-1.wav"},
)
REFUSED = measure(call([RESPOND], [], duration_s=0.0, connect_ms=None, outcome="failed", reason="refused"))
WAITED = replace(RICH, scheduled_at=RICH.started_at - 0.125)
PROCESS = ProcessHealth({"p50": 0.1, "p99": 2.0, "max": 9.5}, {"0": 3, "12": 1}, 2, 0.25)
RUN = RunInfo(
    id="r1",
    created_at="2024-05-01T10:00:00+00:00",
    duration_s=30.5,
    command="voicebench run demo.yaml",
    arrivals="open",
    schedule="5 calls a second, evenly spaced",
    clock="real",
    adapter={"type": "websocket"},
    scenarios=({"name": "demo", "turns": 1, "turn_ids": ["turn-1"]},),
    workers=(WorkerInfo("w1", "host", 3, 2, 1, PROCESS), WorkerInfo("w2", "host", 0, 0, 0)),
    voicebench_version="1.0",
    python="3.11",
    notes=("worker w2 came late",),
    invalid=("worker w3 vanished",),
    limits={"max_void_turn_share": 0.05},
)


@pytest.mark.parametrize("result", [RICH, WAITED, REFUSED], ids=["measured", "scheduled", "never connected"])
def test_a_call_comes_back_exactly(result: SessionResult) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(result)))) == result


def test_a_run_comes_back_exactly() -> None:
    assert run_from_dict(json.loads(json.dumps(run_to_dict(RUN)))) == RUN


def test_a_line_is_json_without_nan() -> None:
    json.dumps([to_dict(RICH), to_dict(REFUSED)], allow_nan=False)


def test_a_call_that_never_connected_has_no_turns_and_no_figures() -> None:
    data = to_dict(REFUSED)
    assert (data["turns"], data["duration_s"], data["truncated"], data["outcome"]) == ([], None, False, "failed")


def test_keys_of_a_later_version_are_ignored_but_not_a_later_schema() -> None:
    data = {**to_dict(RICH), "colour": "green"}
    data["turns"] = [{**turn, "mood": "good"} for turn in data["turns"]]
    assert from_dict(data) == RICH
    with pytest.raises(ValueError, match="session call-1: schema_version 2 is not 1"):
        from_dict({**data, "schema_version": 2})


def test_a_damaged_line_names_the_call_and_the_key() -> None:
    data = to_dict(RICH)
    del data["outcome"]
    with pytest.raises(ValueError, match="session call-1: 'outcome' is missing"):
        from_dict(data)
    with pytest.raises(ValueError, match="session call-1: "):
        from_dict({**to_dict(RICH), "turns": 3})
    with pytest.raises(ValueError, match="run r1: 'workers' is missing"):
        run_from_dict({name: value for name, value in run_to_dict(RUN).items() if name != "workers"})


def test_every_stored_field_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "records.md").read_text("utf-8")
    stored = {*to_dict(RICH), *run_to_dict(RUN)}
    for kind in (*DELIVERY, TurnResult, Health, ProcessHealth, WorkerInfo, RunInfo):
        stored |= {field.name for field in fields(kind)}
    stored |= {field.name for field in fields(SessionMetrics)}
    assert {name for name in stored if f"`{name}`" not in text} == set()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("started_at", "x"), ("scenario", 5), ("recording", {"user": 5}), ("metadata", 5), ("reason", 5)],
)
def test_a_field_of_a_wrong_type_is_named(field: str, wrong: object) -> None:
    data = to_dict(SessionResult("c1", "s", "w", "lost", "gone", 1.0, None, "real", "", {}, None))
    assert from_dict(data).call_id == "c1"
    with pytest.raises(ValueError, match=rf"session c1: '{field}' (cannot be|holds)"):
        from_dict({**data, field: wrong})
