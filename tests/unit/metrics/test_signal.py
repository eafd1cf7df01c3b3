"""How the agent's audio sounds (VT14), from samples made by hand."""

import numpy as np
import pytest

from voicebench.audio import synth
from voicebench.metrics.signal import Sound, sound

RATE = 16000


def test_a_clean_tone_has_its_level_and_nothing_wrong() -> None:
    measured = sound(synth.tone(1000, RATE, level_db=-20), RATE)
    assert measured.level_db == pytest.approx(-20, abs=0.1)
    assert (measured.clipping_rate, measured.clicks_per_s) == (0, 0)
    assert measured.dc_offset == pytest.approx(0, abs=0.001)


def test_silence_does_not_count() -> None:
    tone = synth.tone(1000, RATE, level_db=-20)
    assert sound(np.concatenate([np.zeros(RATE, np.int16), tone]), RATE) == sound(tone, RATE)


def test_nothing_audible_has_no_values() -> None:
    assert sound(np.zeros(RATE, np.int16), RATE) == Sound()
    assert sound(np.zeros(0, np.int16), RATE) == Sound()
    assert sound(np.full(RATE, 3000, np.int16), RATE) == Sound()  # a constant is no sound


def test_samples_at_full_scale_are_counted() -> None:
    audio = synth.tone(1000, RATE, level_db=-20).copy()
    audio[1000:1160] = 32767
    audio[2000:2160] = -32768
    assert sound(audio, RATE).clipping_rate == pytest.approx(320 / RATE, abs=1e-6)


def test_clicks_are_counted_one_each() -> None:
    audio = synth.speech(2000, RATE, -20).copy()
    assert sound(audio, RATE).clicks_per_s == 0
    audio[1000:30000:1000] = 20000  # 29 of them; within a block of 320, none at its ends
    assert sound(audio, RATE).clicks_per_s == pytest.approx(29 / 2, abs=0.5)


def test_an_offset_is_measured_and_does_not_count_as_level() -> None:
    audio = synth.tone(1000, RATE, level_db=-20)
    shifted = sound((audio + 1638).astype(np.int16), RATE)
    assert shifted.dc_offset == pytest.approx(0.05, abs=0.001)
    assert shifted.level_db == pytest.approx(-20, abs=0.1)
