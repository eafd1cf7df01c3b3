"""The loader: what may be left out, and what a bad file is told (VB19-VB22)."""

from pathlib import Path
from typing import Any

import pytest

from voicebench.audio import synth
from voicebench.audio.files import write_wav
from voicebench.scenario import JitterBuffer, Scenario, ScenarioError, load_scenario, parse_scenario
from voicebench.vad import VadConfig

TONE = {"audio": {"synth": "tone"}}
TURNS = "turns:\n  - audio: {synth: tone}\n"


def scenario(**keys: Any) -> Scenario:
    return parse_scenario({"name": "test", "turns": [TONE], **keys})


def complaint(tmp_path: Path, text: str) -> str:
    """What is wrong with a file of this text: one line, here without the folder."""
    path = tmp_path / "s.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_defaults_of_a_scenario_are_those_of_vb19() -> None:
    made = scenario()
    assert made.description == ""
    assert made.sample_rate == 16000
    assert made.frame_ms == 20
    assert made.tail_ms == 3000
    assert made.max_duration_ms == 120000
    assert (made.adapter.type, made.adapter.options) == ("mock", {})
    assert (made.vad.user, made.vad.agent) == (VadConfig(), VadConfig())
    assert (made.defaults.response_timeout_ms, made.defaults.max_stop_ms) == (5000, 1000)
    assert made.assertions == {}
    assert (made.playout, made.weight, made.metadata) == ("ideal", 1, {})
    assert made.source is None


def test_defaults_of_a_turn_are_those_of_vb20() -> None:
    turn = scenario().turns[0]
    assert turn.id == "turn-1"
    assert turn.expect == "respond"
    assert turn.text is None
    assert turn.response_timeout_ms == 5000
    assert turn.max_stop_ms == 1000


def test_defaults_of_audio_are_those_of_vb21() -> None:
    audio = scenario().turns[0].audio
    assert audio.file is None
    assert (audio.duration_ms, audio.level_db, audio.freq_hz, audio.seed) == (1000, -20, 440, 0)


def test_the_first_turn_starts_early_and_the_others_wait_for_the_agent() -> None:
    first, second = scenario(turns=[TONE, TONE]).turns
    assert (first.start.after, first.start.delay_ms, first.start.timeout_ms) == ("session_start", 500, 10000)
    assert (second.start.after, second.start.delay_ms, second.start.timeout_ms) == ("agent_speech_end", 0, 10000)


def test_a_start_rule_keeps_the_defaults_of_what_it_leaves_out() -> None:
    first, second = scenario(turns=[{**TONE, "start": {"after": "agent_speech_end"}}, {**TONE, "start": None}]).turns
    assert (first.start.after, first.start.delay_ms) == ("agent_speech_end", 500)
    assert (second.start.after, second.start.delay_ms) == ("agent_speech_end", 0)


def test_the_defaults_block_reaches_turns_that_set_nothing() -> None:
    one, two = scenario(
        defaults={"response_timeout_ms": 1234, "max_stop_ms": 56}, turns=[TONE, {**TONE, "max_stop_ms": 7}]
    ).turns
    assert (one.response_timeout_ms, one.max_stop_ms) == (1234, 56)
    assert (two.response_timeout_ms, two.max_stop_ms) == (1234, 7)


def test_blocks_may_be_left_empty() -> None:
    made = scenario(description=None, vad=None, adapter=None, defaults=None, metadata=None, **{"assert": None})
    assert made == scenario()
    assert scenario(vad={"user": None, "agent": {"threshold_db": -30}}).vad.agent.threshold_db == -30
    assert scenario(adapter={"type": "mock", "options": None}).adapter.options == {}


def test_refine_beside_the_detectors_goes_for_those_that_do_not_set_their_own() -> None:
    def refined(**vad: object) -> tuple[str, str]:
        made = scenario(vad=vad).vad
        return made.user.refine, made.agent.refine

    assert refined() == refined(refine="frame") == ("frame", "frame")
    assert refined(refine="sample") == ("sample", "sample")
    assert refined(refine="sample", user=None, agent={"threshold_db": -30}) == ("sample", "sample")
    assert refined(refine="sample", agent={"refine": "frame"}) == ("sample", "frame")
    assert refined(user={"refine": "sample"}) == ("sample", "frame")
    assert refined(refine="sample", user=VadConfig(threshold_db=-30), agent=VadConfig(refine="frame")) == (
        "sample",
        "frame",
    )


def test_a_scenario_that_was_written_out_is_read_as_the_same() -> None:
    made = scenario(vad={"refine": "sample", "agent": {"refine": "frame", "threshold_db": -30}})
    assert parse_scenario(made.model_dump(by_alias=True, exclude={"adapter"})).vad == made.vad


def test_the_additions_are_read() -> None:
    made = scenario(playout={"max_ms": 150}, weight=2.5, metadata={"team": "blue", "build": 7, "canary": True})
    assert made.playout == JitterBuffer(jitter_buffer_ms=60, max_ms=150)
    assert made.weight == 2.5
    assert made.metadata == {"team": "blue", "build": 7, "canary": True}
    assert scenario(playout="none").playout == "none"


def test_assertions_come_as_objects_in_the_order_of_the_file() -> None:
    made = scenario(**{"assert": {"max_wer": 0.1, "p95_ttfa_ms": 900}})
    assert [str(assertion) for assertion in made.parsed_assertions] == ["max_wer <= 0.1", "p95_ttfa_ms <= 900"]


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert scenario(sample_rate=8000.0).sample_rate == 8000


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    write_wav(tmp_path / "audio" / "a.wav", synth.tone(100, 8000), 8000)
    path = tmp_path / "s.yaml"
    path.write_text("name: x\nturns: [{audio: {file: audio/a.wav}}]\n")
    made = load_scenario(path)
    assert made.turns[0].audio.file == str(tmp_path / "audio" / "a.wav")
    assert made.source == path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # misspelt and unknown keys, at every depth
        ("name: x\nsamplerate: 8000\n" + TURNS, "s.yaml:2: samplerate: unknown key; did you mean 'sample_rate'?"),
        (
            "name: x\nturns:\n  - audio: {synth: tone}\n    expects: stop\n",
            "s.yaml:4: turns[0].expects: unknown key; did you mean 'expect'?",
        ),
        (
            "name: x\nturns: [{audio: {synth: tone, level: 1}}]",
            "s.yaml:2: turns[0].audio.level: unknown key; did you mean 'level_db'?",
        ),
        (
            "name: x\nturns: [{audio: {synth: tone}, start: {delay: 5}}]",
            "s.yaml:2: turns[0].start.delay: unknown key; did you mean 'delay_ms'?",
        ),
        (
            "name: x\nvad:\n  user:\n    threshold: -40\n" + TURNS,
            "s.yaml:4: vad.user.threshold: unknown key; did you mean 'threshold_db'?",
        ),
        ("name: x\nadapter: {typ: mock}\n" + TURNS, "s.yaml:2: adapter.typ: unknown key; did you mean 'type'?"),
        (
            "name: x\ndefaults: {timeout: 5}\n" + TURNS,
            "s.yaml:2: defaults.timeout: unknown key; did you mean 'response_timeout_ms'?",
        ),
        ("name: x\nvad: {q: 1}\n" + TURNS, "s.yaml:2: vad.q: unknown key; use one of agent, refine, user"),
        (
            "name: x\nplayout: {max: 5}\n" + TURNS,
            "s.yaml:2: playout.max: unknown key; did you mean 'max_ms'? (and 1 more: playout)",
        ),
        (
            "name: x\nassert:\n  max_latency_ms: 5\n" + TURNS,
            "s.yaml:3: assert.max_latency_ms: 'max_latency_ms' is not an assertion; "
            "did you mean 'max_response_latency_ms'?",
        ),
        # wrong types
        ("name: 5\n" + TURNS, "s.yaml:1: name: must be text, not 5; put it in quotes"),
        ("name: x\nframe_ms: '20'\n" + TURNS, "s.yaml:2: frame_ms: must be a number, not '20'"),
        ("name: x\nsample_rate: fast\n" + TURNS, "s.yaml:2: sample_rate: must be a whole number, not 'fast'"),
        ("name: x\nsample_rate: true\n" + TURNS, "s.yaml:2: sample_rate: must be a whole number, not true"),
        ("name: x\ntail_ms: .inf\n" + TURNS, "s.yaml:2: tail_ms: must be a finite number, not inf"),
        (
            "name: x\nvad: {refine: samples}\n" + TURNS,
            "s.yaml:2: vad.refine: 'samples' is not allowed; use one of frame, sample",
        ),
        (
            "name: x\nvad: {refine: sample, agent: {refine: 1}}\n" + TURNS,
            "s.yaml:2: vad.agent.refine: 1 is not allowed; use one of frame, sample",
        ),
        (
            "name: x\nvad: {refine: sample, user: 3}\n" + TURNS,
            "s.yaml:2: vad.user: must be a block with frame_ms, hysteresis_db, min_silence_ms, min_speech_ms, "
            "refine, threshold_db, not 3",
        ),
        (
            "name: x\nvad: {user: {frame_ms: long}}\n" + TURNS,
            "s.yaml:2: vad.user.frame_ms: must be a number, not 'long'",
        ),
        (
            "name: x\nadapter: mock\n" + TURNS,
            "s.yaml:2: adapter: must be a block with options, type, not 'mock'",
        ),
        ("name: x\nassert: [max_wer]\n" + TURNS, "s.yaml:2: assert: must be a block, not a list"),
        ("name: x\nassert: {max_wer: low}\n" + TURNS, "s.yaml:2: assert.max_wer: must be a number, not 'low'"),
        (
            "name: x\nmetadata: {a: [1]}\n" + TURNS,
            "s.yaml:2: metadata.a: must be text, a number, true or false, not a list",
        ),
        ("name: x\n5: y\n" + TURNS, "s.yaml:2: [5]: keys are text; put it in quotes"),
        ("name: x\nturns: {a: b}\n", "s.yaml:2: turns: must be a list, not a block"),
        (
            "name: x\nturns: [{audio: {synth: tone}, text: 5}]",
            "s.yaml:2: turns[0].text: must be text, not 5; put it in quotes",
        ),
        ("- a\n", "s.yaml:1: a scenario is a mapping with at least 'name' and 'turns'"),
        ("", "s.yaml: a scenario is a mapping with at least 'name' and 'turns'"),
        # words that are none of the allowed ones
        (
            "name: x\nturns:\n  - audio: {synth: tone}\n    start:\n      after: agent_stops\n",
            "s.yaml:5: turns[0].start.after: 'agent_stops' is not an anchor; "
            "use one of session_start, previous_turn_end, agent_speech_start, agent_speech_end",
        ),
        (
            "name: x\nturns: [{audio: {synth: tone}, expect: answer}]",
            "s.yaml:2: turns[0].expect: 'answer' is not an expectation; use one of respond, stop, ignore, listen",
        ),
        (
            "name: x\nturns: [{audio: {synth: beep}}]",
            "s.yaml:2: turns[0].audio.synth: 'beep' is not a signal; "
            "use one of speech, tone, noise, telephone, silence",
        ),
        (
            "name: x\nplayout: fancy\n" + TURNS,
            "s.yaml:2: playout: use 'ideal', 'none' or a block with jitter_buffer_ms and max_ms",
        ),
        # out of range
        (
            "name: x\nsample_rate: 4000\n" + TURNS,
            "s.yaml:2: sample_rate: must be greater than or equal to 8000, not 4000",
        ),
        ("name: x\nframe_ms: 4\n" + TURNS, "s.yaml:2: frame_ms: must be greater than or equal to 5, not 4"),
        (
            "name: x\nframe_ms: 20.03\n" + TURNS,
            "s.yaml:2: frame_ms: 20.03 ms is no whole number of samples at 16000 Hz; change either",
        ),
        ("name: x\nweight: 0\n" + TURNS, "s.yaml:2: weight: must be greater than 0, not 0"),
        (
            "name: x\nvad: {agent: {hysteresis_db: -1}}\n" + TURNS,
            "s.yaml:2: vad.agent.hysteresis_db: must be greater than or equal to 0, not -1",
        ),
        # turns
        ("name: x\nturns: []\n", "s.yaml:2: turns: a scenario needs at least one turn"),
        ("name: x\n", "s.yaml:1: turns: is missing; it has no default"),
        (TURNS, "s.yaml:1: name: is missing; it has no default"),
        ("name: ' '\n" + TURNS, "s.yaml:1: name: must not be empty"),
        ("name: x\nturns: [{text: hello}]\n", "s.yaml:2: turns[0].audio: is missing; it has no default"),
        (
            "name: x\nturns: [{audio: {synth: tone, file: a.wav}}]\n",
            "s.yaml:2: turns[0].audio: set exactly one of 'file' or 'synth'",
        ),
        ("name: x\nturns: [{audio: {}}]\n", "s.yaml:2: turns[0].audio: set exactly one of 'file' or 'synth'"),
        (
            "name: x\nturns:\n  - {id: a, audio: {synth: tone}}\n  - {id: a, audio: {synth: tone}}\n",
            "s.yaml:4: turns[1].id: 'a' is already the id of turns[0]",
        ),
        (
            "name: x\nturns:\n  - {id: turn-2, audio: {synth: tone}}\n  - {audio: {synth: tone}}\n",
            "s.yaml:4: turns[1].id: 'turn-2' is already the id of turns[0]",
        ),
        # YAML itself
        ("name: x\n\tturns: []\n", "s.yaml:2: not valid YAML: found character '\\t' that cannot start any token"),
        ("name: x\nname: y\n" + TURNS, "s.yaml:1: name: is set again on line 2; keep one of them"),
        (
            "name: x\nassert: {max_wer: 1,\n max_wer: 2}\n" + TURNS,
            "s.yaml:2: assert.max_wer: is set again on line 3; keep one of them",
        ),
        ("name: 2024-13-45\n" + TURNS, "s.yaml: not valid YAML: month must be in 1..12"),
        ("name: !!bool maybe\n" + TURNS, "s.yaml: not valid YAML: 'maybe'"),
        (
            "name: !!timestamp soon\n" + TURNS,
            "s.yaml: not valid YAML: 'NoneType' object has no attribute 'groupdict'",
        ),
        ('name: "a\\nb"\n' + TURNS, "s.yaml:1: name: must be one line without control characters"),
        ('name: "\\ud800"\n' + TURNS, "s.yaml:1: name: must be one line without control characters"),
        ("name: x\ndescription: " + "a" * (1 << 20), "s.yaml: is over 1 MiB; is this a scenario?"),
        (
            "name: x\nturns: [{audio: {file: " + "a" * 300 + "}}]",
            "s.yaml:2: turns[0].audio.file: " + "a" * 300 + " cannot be read: File name too long",
        ),
    ],
)
def test_a_bad_file_is_told_the_place_and_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    assert complaint(tmp_path, text) == told


def test_two_problems_are_both_named_the_misspelt_key_first(tmp_path: Path) -> None:
    told = complaint(tmp_path, "nam: x\n" + TURNS)
    assert told == "s.yaml:1: nam: unknown key; did you mean 'name'? (and 1 more: name)"


def test_missing_and_unreadable_audio(tmp_path: Path) -> None:
    text = "name: x\nturns:\n  - audio:\n      file: a.wav\n"
    assert complaint(tmp_path, text) == "s.yaml:4: turns[0].audio.file: a.wav does not exist"
    (tmp_path / "a.wav").write_bytes(b"RIFF, or so it says")
    told = complaint(tmp_path, text)
    assert told.startswith("s.yaml:4: turns[0].audio.file: a.wav cannot be read as audio: ")
    write_wav(tmp_path / "a.wav", synth.silence(0, 8000), 8000)
    assert complaint(tmp_path, text) == "s.yaml:4: turns[0].audio.file: a.wav holds no audio"
    (tmp_path / "a.wav").unlink()
    (tmp_path / "a.wav").mkdir()
    assert complaint(tmp_path, text) == "s.yaml:4: turns[0].audio.file: a.wav is no file"


def test_files_that_cannot_be_read_at_all(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.yaml: no such file$"):
        load_scenario(tmp_path / "none.yaml")
    with pytest.raises(ScenarioError, match=r"cannot be read: Is a directory$"):
        load_scenario(tmp_path)
    (tmp_path / "s.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ScenarioError, match=r"not UTF-8 text: invalid start byte at byte 6$"):
        load_scenario(tmp_path / "s.yaml")


def test_yaml_that_contains_itself_is_refused(tmp_path: Path) -> None:
    assert "a: unknown key" in complaint(tmp_path, "a: &a [*a]\n")
    assert "nested too deeply" in complaint(tmp_path, "a: " + "[" * 2000)


def test_a_parsed_scenario_is_told_the_place_without_a_file() -> None:
    with pytest.raises(ScenarioError, match=r"^turns\[0\]\.audio: set exactly one of"):
        parse_scenario({"name": "x", "turns": [{"audio": {}}]})
