"""The scenarios that come with the project load, teach what they say, and keep to their word."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from tests.unit.json_schema import faults
from voicebench.audio import synth
from voicebench.bench import run_benchmark
from voicebench.runner.prompts import Prompts
from voicebench.scenario import list_examples, load_scenario, parse_scenario
from voicebench.vad import detect

FOLDER = Path(__file__).parents[2] / "scenarios"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))
PROMPTS = sorted((FOLDER / "prompts").glob("*.wav"))


def documented() -> dict[str, tuple[float, str]]:
    """File name to seconds and transcript, from the table of the prompts' README."""
    rows = [line.strip("| \n").split(" | ") for line in (FOLDER / "prompts" / "README.md").open() if "| `" in line]
    return {name.strip("`"): (float(seconds), text) for name, seconds, text in rows}


def test_the_promised_ones_are_there() -> None:
    assert {"booking", "barge-in", "cough", "silence", "smoke", "greeting", "barge-in-telephony"} <= {
        path.stem for path in SCENARIOS
    }


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_each_loads_and_its_text_is_what_its_recordings_say(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.description
    assert scenario.adapter.type == "websocket"
    assert scenario.parsed_assertions
    for turn in scenario.turns:
        if turn.audio.file is not None:
            assert turn.text == documented()[Path(turn.audio.file).name][1]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_each_fits_the_schema(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text("utf-8"))) == []


def test_booking_asks_three_questions() -> None:
    scenario = load_scenario(FOLDER / "booking.yaml")
    assert [turn.expect for turn in scenario.turns] == ["respond"] * 3


def test_smoke_is_over_in_six_seconds() -> None:
    scenario = load_scenario(FOLDER / "smoke.yaml")
    (turn,) = scenario.turns
    speech_ms = len(Prompts.of(scenario).pcm(0)) / 16
    assert turn.start.delay_ms + speech_ms + scenario.tail_ms < 6000


def test_the_cough_is_too_short_to_interrupt_the_reference_agent() -> None:
    turn = load_scenario(FOLDER / "cough.yaml").turns[1]
    assert turn.expect == "ignore"
    assert turn.audio.duration_ms < 100  # its barge_in_min_ms
    # Not told from a reply that ends by itself: 1500 ms long, 200 ms of them over.
    assert 1500 - turn.start.delay_ms > turn.max_stop_ms


def test_the_room_noise_is_seen_by_the_harness_and_not_by_an_agent() -> None:
    scenario = load_scenario(FOLDER / "silence.yaml")
    noise = Prompts.of(scenario).pcm(0)
    (seen,) = detect(noise, 16000, scenario.vad.user)
    assert seen.duration == pytest.approx(4.0, abs=0.02)
    assert detect(noise, 16000) == []


def test_the_readme_lists_every_recording_with_its_length() -> None:
    lengths = {path.name: round(soundfile.info(str(path)).duration, 2) for path in PROMPTS}
    assert lengths == {name: pytest.approx(seconds, abs=0.01) for name, (seconds, _) in documented().items()}


def test_the_recordings_stay_small() -> None:
    assert sum(path.stat().st_size for path in PROMPTS) < 3_000_000


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.stem)
def test_a_recording_is_one_stretch_of_speech_from_its_first_to_its_last_moment(path: Path) -> None:
    audio, rate = soundfile.read(str(path), dtype="int16")
    assert (rate, audio.ndim) == (16000, 1)
    (segment,) = detect(np.concatenate([audio, synth.silence(500, rate)]), rate)
    assert segment.start_s <= 0.03
    assert segment.end_s >= len(audio) / rate - 0.03


def test_the_bundled_examples_need_nothing_but_themselves() -> None:
    examples = list_examples()
    assert {"mock-conversation", "websocket", "custom-adapter"} <= examples.keys()
    for name, text in examples.items():
        scenario = parse_scenario(yaml.safe_load(text))
        assert scenario.name == name
        assert scenario.description
        assert all(turn.audio.synth for turn in scenario.turns)


def test_the_telephony_scenarios_see_what_tv12_does_on_the_virtual_clock_tv09() -> None:
    agent = {
        "greeting_delay_ms": 400,
        "greeting_ms": 6000,
        "barge_in_min_ms": 120,
        "interrupt_reaction_ms": 60,
    }
    greeting = run_benchmark(load_scenario(FOLDER / "greeting.yaml"), "mock", agent)
    assert greeting.passed, greeting.report["assertions"]
    assert len(greeting.results) == 5  # TV17
    cut = run_benchmark(load_scenario(FOLDER / "barge-in-telephony.yaml"), "mock", agent)
    assert cut.passed, cut.report["assertions"]
    burst = run_benchmark(load_scenario(FOLDER / "greeting.yaml"), "mock", {**agent, "burst": True}, repeat=1)
    assert not burst.passed
    silent = run_benchmark(load_scenario(FOLDER / "greeting.yaml"), "mock", repeat=1)
    assert not silent.passed
