"""Prompts: rendered once, shared, cut into frames."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voicebench.audio import files, synth
from voicebench.audio.pcm import from_bytes, rms_db
from voicebench.runner.prompts import Prompts
from voicebench.scenario import Scenario, parse_scenario


class Doubling:
    """An encoder that shows what it was given, and how often."""

    def __init__(self, wire_key: str = "doubling") -> None:
        self.wire_key = wire_key
        self.calls = 0

    def encode_audio(self, pcm: bytes) -> bytes:
        self.calls += 1
        return pcm * 2


def scenario(*audio: dict[str, Any], base: Path | None = None, **keys: Any) -> Scenario:
    return parse_scenario({"name": "test", "turns": [{"audio": spec} for spec in audio], **keys}, base_dir=base)


def test_frames_hold_the_audio_and_the_last_one_is_filled_with_silence() -> None:
    prompts = Prompts.of(scenario({"synth": "tone", "duration_ms": 50}))
    frames = prompts.frames(0)
    assert [len(frame) for frame in frames] == [640, 640, 640]  # 20 ms at 16 kHz, two bytes a sample
    audio = from_bytes(b"".join(frames))
    assert len(prompts.pcm(0)) == 800
    assert (audio[:800] == prompts.pcm(0)).all()
    assert not audio[800:].any()
    assert prompts.silence == bytes(640)


def test_frames_follow_rate_and_frame_length() -> None:
    prompts = Prompts.of(scenario({"synth": "speech"}, sample_rate=8000, frame_ms=10))
    assert len(prompts.frames(0)) == 100
    assert len(prompts.silence) == 160


@pytest.mark.parametrize("kind", ["speech", "tone", "noise"])
def test_synthetic_turns_have_the_level_they_ask_for(kind: str) -> None:
    prompts = Prompts.of(scenario({"synth": kind, "level_db": -33}))
    assert rms_db(prompts.pcm(0)) == pytest.approx(-33, abs=0.01)


def test_each_turn_has_its_own_audio() -> None:
    prompts = Prompts.of(
        scenario(
            {"synth": "silence", "duration_ms": 40}, {"synth": "noise", "seed": 1}, {"synth": "noise", "seed": 2}
        )
    )
    assert len(prompts) == 3
    assert not prompts.pcm(0).any()
    assert (prompts.pcm(1) != prompts.pcm(2)).any()


def test_equal_scenarios_share_one_read_only_object() -> None:
    prompts = Prompts.of(scenario({"synth": "speech"}))
    assert Prompts.of(scenario({"synth": "speech"}, tail_ms=1)) is prompts
    assert Prompts.of(scenario({"synth": "speech"}, frame_ms=10)) is not prompts
    with pytest.raises(ValueError, match="read-only"):
        prompts.pcm(0)[0] = 1


def test_a_file_is_read_again_only_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    files.write_wav(path, synth.speech(100, 16000), 16000)
    one = scenario({"file": "a.wav"}, base=tmp_path)
    first = Prompts.of(one)
    assert Prompts.of(one) is first
    files.write_wav(path, synth.speech(200, 16000), 16000)
    os.utime(path, ns=(1, 1))
    assert len(Prompts.of(one).pcm(0)) == 3200


def test_a_file_that_vanished_after_loading_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    files.write_wav(path, synth.speech(100, 16000), 16000)
    loaded = scenario({"file": "a.wav"}, base=tmp_path)
    path.unlink()
    with pytest.raises(files.AudioFileError, match=r"a\.wav"):
        Prompts.of(loaded)


def test_encoding_happens_once_for_each_wire_key() -> None:
    prompts = Prompts.of(scenario({"synth": "tone", "duration_ms": 60, "freq_hz": 333}))
    one, two, other = Doubling(), Doubling(), Doubling("other")
    encoded = prompts.encoded(one)
    assert encoded.frames == (tuple(frame * 2 for frame in prompts.frames(0)),)
    assert encoded.silence == prompts.silence * 2
    assert prompts.encoded(two) is encoded
    assert prompts.encoded(other) is not encoded
    assert (one.calls, two.calls, other.calls) == (4, 0, 4)


def test_a_file_turn_is_the_file(tmp_path: Path) -> None:
    audio = np.arange(-800, 800, dtype=np.int16)
    files.write_wav(tmp_path / "a.wav", audio, 16000)
    assert (Prompts.of(scenario({"file": "a.wav"}, base=tmp_path)).pcm(0) == audio).all()


def test_at_another_rate_they_are_the_same_sound_made_once() -> None:
    prompts = Prompts.of(scenario({"synth": "tone", "duration_ms": 50}, {"synth": "speech"}))
    narrow = prompts.at(8000)
    assert narrow is prompts.at(8000)
    assert prompts.at(16000) is prompts
    assert (narrow.sample_rate, len(narrow.pcm(0)), len(narrow.silence)) == (8000, 400, 320)
    assert [len(frame) for frame in narrow.frames(0)] == [320, 320, 320]
    assert rms_db(narrow.pcm(0)) == pytest.approx(rms_db(prompts.pcm(0)), abs=0.1)
    # as a whole, without clicks at the seams of frames: every second sample of the original, but for the filter
    difference = narrow.pcm(0)[40:-40].astype(int) - prompts.pcm(0)[80:-80:2]
    assert np.abs(difference).max() <= 20
