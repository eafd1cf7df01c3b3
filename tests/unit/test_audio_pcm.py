"""Levels, energies, conversions."""

import numpy as np
import pytest

from voicebench.audio import pcm


def test_levels_of_signals_that_can_be_worked_out() -> None:
    assert pcm.rms_db(np.full(100, 16384, dtype=np.int16)) == pytest.approx(-6.0206, abs=1e-4)
    assert pcm.rms_db(np.full(100, -32768, dtype=np.int16)) == 0.0
    assert pcm.rms_db(np.array([1], dtype=np.int16)) == pytest.approx(-90.309, abs=1e-3)


def test_the_level_of_nothing_is_the_floor() -> None:
    assert pcm.rms_db(np.zeros(100, dtype=np.int16)) == -120.0
    assert pcm.rms_db(np.zeros(0, dtype=np.int16)) == -120.0


def test_energies_are_exact_sums_of_squares() -> None:
    frames = np.array([[1, -2, 3], [-32768, -32768, -32768], [0, 0, 0]], dtype=np.int16)
    assert pcm.frame_energy(frames).tolist() == [14, 3 * 2**30, 0]


def test_the_energy_threshold_is_where_the_level_is_reached() -> None:
    assert pcm.energy_threshold(20 * np.log10(0.5), 10) == pytest.approx(10 * 16384**2)
    assert pcm.energy_threshold(-120.0, 10) == 0.0
    assert pcm.energy_threshold(-119.9, 10) > 0.0


def test_milliseconds_and_samples() -> None:
    assert pcm.ms_to_samples(20, 16000) == 320
    assert pcm.ms_to_samples(0.04, 16000) == 1  # 0.64 samples
    assert pcm.samples_to_ms(320, 16000) == 20.0


def test_decibels_and_amplitudes() -> None:
    assert pcm.db_to_amplitude(-20) == pytest.approx(0.1)
    assert pcm.amplitude_to_db(0.1) == pytest.approx(-20)
    assert pcm.amplitude_to_db(0.0) == -120.0
    assert pcm.amplitude_to_db(1e-9) == -120.0


def test_float_audio_is_rounded_and_clipped() -> None:
    audio = np.array([0.0, 0.5, -1.0, 1.0, 7.0, -7.0, 1.6 / 32768, -1.6 / 32768])
    assert pcm.to_int16(audio).tolist() == [0, 16384, -32768, 32767, 32767, -32768, 2, -2]


def test_bytes_are_little_endian() -> None:
    audio = np.array([1, -2, 256], dtype=np.int16)
    assert pcm.to_bytes(audio) == b"\x01\x00\xfe\xff\x00\x01"
    assert pcm.from_bytes(b"\x01\x00\xfe\xff\x00\x01").tolist() == [1, -2, 256]
    with pytest.raises(ValueError, match="not 3"):
        pcm.from_bytes(b"abc")
