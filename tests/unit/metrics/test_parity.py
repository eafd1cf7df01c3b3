"""The same numbers as the tool whose scenarios and reports we take over, wherever the harness was on time."""

import json
from pathlib import Path
from typing import Any

import pytest

from voicebench.metrics.results import SessionMetrics
from voicebench.metrics.serialise import to_dict
from voicebench.metrics.session import analyse, measure
from voicebench.metrics.summary import summarise
from voicebench.runner.record import SessionRecord

from .builders import call, heard, packets

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "parity.json").read_text())


def record_of(case: dict[str, Any]) -> SessionRecord:
    given = case.get("packets")
    return call(
        case["turns"],
        case["user"],
        case["agent"],
        case["duration_s"],
        windows=case.get("windows"),
        triggers={int(turn): trigger for turn, trigger in case.get("triggers", {}).items()},
        arrivals=packets([p[0] for p in given], [p[1] for p in given]) if given else None,
        transcripts=[heard(text, time, final=final) for text, time, final in case.get("transcripts", [])],
        max_duration_reached=case.get("max_duration_reached", False),
        **case.get("scenario", {}),
    )


def without_notes(metrics: SessionMetrics, expected: dict[str, Any]) -> dict[str, Any]:
    ours = {name: getattr(metrics, name) for name in expected}
    ours["turns"] = [
        {name: getattr(turn, name) for name in theirs}
        for turn, theirs in zip(metrics.turns, expected["turns"], strict=True)
    ]
    return json.loads(json.dumps(ours))  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["name"])
def test_a_call_measures_exactly_as_before(case: dict[str, Any]) -> None:
    assert without_notes(analyse(record_of(case)), case["expected"]) == case["expected"]


def test_the_summary_of_all_these_calls_is_exactly_as_before() -> None:
    ours = summarise(measure(record_of(case)) for case in DATA["cases"])
    expected = DATA["summary"]
    for name, figure in expected.items():
        if isinstance(figure, dict):
            assert {key: ours[name][key] for key in figure} == figure, name
        else:
            assert ours[name] == figure, name


def test_what_a_call_leaves_behind_has_the_known_names() -> None:
    case = DATA["cases"][0]
    assert set(case["expected"]) <= set(to_dict(measure(record_of(case))))
