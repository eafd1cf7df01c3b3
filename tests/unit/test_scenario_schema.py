"""The JSON Schema accepts what the loader accepts, and refuses what an editor should underline."""

import json
from typing import Any

import pytest

from tests.unit.json_schema import faults
from voicebench.scenario import list_examples, schema

TONE = {"audio": {"synth": "tone"}}


def test_it_is_plain_json_with_a_title() -> None:
    made = json.loads(json.dumps(schema()))
    assert made["title"] == "voicebench scenario"
    assert made["$schema"].endswith("2020-12/schema")


def test_a_turn_needs_only_its_audio() -> None:
    assert faults({"name": "x", "turns": [TONE]}) == []


@pytest.mark.parametrize("name", list_examples())
def test_it_accepts_the_bundled_examples(name: str) -> None:
    import yaml

    assert faults(yaml.safe_load(list_examples()[name])) == []


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"turns": [TONE]}, "$.name is missing"),
        ({"name": "x", "turns": []}, "$.turns is too short"),
        ({"name": "x", "turns": [{}]}, "$.turns[0].audio is missing"),
        ({"name": "x", "turns": [{**TONE, "expects": "stop"}]}, "$.turns[0].expects is unknown"),
        ({"name": "x", "turns": [{**TONE, "start": {"after": "x"}}]}, "$.turns[0].start.after is none of"),
        ({"name": "x", "turns": [{"audio": {"synth": "tone", "file": "a.wav"}}]}, "$.turns[0].audio fits 2 of oneOf"),
        ({"name": "x", "turns": [{"audio": {"seed": 1}}]}, "$.turns[0].audio fits 0 of oneOf"),
        ({"name": "x", "turns": [TONE], "sample_rate": 4000}, "$.sample_rate is out of range"),
        ({"name": "x", "turns": [TONE], "assert": {"max_latency": 1}}, "$.assert.max_latency is unknown"),
        ({"name": "x", "turns": [TONE], "playout": "fancy"}, "$.playout fits 0 of anyOf"),
        ({"name": "x", "turns": [TONE], "vad": {"user": {"threshold": 1}}}, "$.vad.user.threshold is unknown"),
    ],
)
def test_it_refuses_what_the_loader_refuses(data: dict[str, Any], fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(data)), faults(data)


def test_an_editor_can_explain_every_assertion() -> None:
    keys = schema()["properties"]["assert"]["properties"]
    assert keys["p90_ttfa_ms"]["description"] == "the p90 of ttfa_ms must be at most this"
    assert keys["min_barge_in_success_rate"]["description"] == "barge_in_success_rate must be at least this"
    assert keys["max_wer"]["description"] == "mean_wer must be at most this"


def test_every_field_of_an_author_is_described() -> None:
    made = schema()
    blocks = {"": made, **made["$defs"]}
    silent = {
        f"{block}.{key}"
        for block, model in blocks.items()
        for key, field in model["properties"].items()
        if "description" not in field and "$ref" not in field
    }
    assert silent <= {".turns"}
