"""Synthetic signals (VB21)."""

from collections.abc import Callable

import numpy as np
import pytest

from voicebench.audio import synth
from voicebench.audio.pcm import Int16Array, frame_energy, rms_db
from voicebench.vad import Segment, detect

SIGNALS: dict[str, Callable[[float], Int16Array]] = {
    "speech": lambda level_db: synth.speech(1000, 16000, level_db),
    "tone": lambda level_db: synth.tone(1000, 16000, 440, level_db),
    "noise": lambda level_db: synth.noise(1000, 16000, level_db),
}


def test_a_tone_may_have_sharp_edges() -> None:
    audio = synth.tone(100, 16000, 4000, -20.0, fade_ms=0)
    assert audio[:5].tolist() == [0, 4634, 0, -4634, 0]  # the square root of 2 times a tenth of full scale
    assert rms_db(audio) == pytest.approx(-20.0, abs=0.01)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("level_db", [-70.0, -45.0, -20.0, -6.0, -3.0])
def test_the_rms_is_the_level_asked_for(name: str, level_db: float) -> None:
    assert rms_db(SIGNALS[name](level_db)) == pytest.approx(level_db, abs=0.01)


@pytest.mark.parametrize("name", SIGNALS)
def test_the_usual_level_does_not_clip(name: str) -> None:
    assert abs(SIGNALS[name](-20.0).astype(int)).max() < 32000


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_fade_in_and_out_within_5_ms(name: str) -> None:
    audio = np.abs(SIGNALS[name](-20.0).astype(int))
    for edge in (audio[:8], audio[-8:]):  # half a millisecond: a tenth of the way up
        assert edge.max() < audio.max() * 0.12


def test_the_same_seed_gives_the_same_samples() -> None:
    assert (synth.speech(500, 16000, seed=3) == synth.speech(500, 16000, seed=3)).all()
    assert (synth.speech(500, 16000, seed=3) != synth.speech(500, 16000, seed=4)).any()
    assert (synth.noise(500, 16000, seed=3) == synth.noise(500, 16000, seed=3)).all()
    assert (synth.noise(500, 16000, seed=3) != synth.noise(500, 16000, seed=4)).any()


def test_lengths_are_rounded_to_samples() -> None:
    assert len(synth.silence(1000, 11025)) == 11025
    assert len(synth.tone(0.1, 16000)) == 2
    assert len(synth.speech(0, 16000)) == 0
    assert not synth.silence(10, 16000).any()


def test_a_tone_has_its_frequency() -> None:
    spectrum = np.abs(np.fft.rfft(synth.tone(1000, 16000, 1234)))
    assert int(spectrum.argmax()) == 1234  # one second: a bin is 1 Hz


def test_speech_has_the_pitch_asked_for() -> None:
    def pitch_hz(audio: Int16Array) -> float:
        x = audio[8000:9600].astype(float)  # 100 ms
        similar = np.correlate(x, x, "full")[len(x) :]
        return float(16000 / (similar[40:320].argmax() + 41))

    assert pitch_hz(synth.speech(1000, 16000, pitch_hz=100)) == pytest.approx(100, rel=0.12)
    assert pitch_hz(synth.speech(1000, 16000, pitch_hz=210)) == pytest.approx(210, rel=0.12)


@pytest.mark.parametrize("sample_rate", [8000, 16000, 24000])
def test_speech_never_dips_far_under_its_level(sample_rate: int) -> None:
    for seed in range(10):
        audio = synth.speech(1500, sample_rate, -20.0, seed=seed)
        frames = audio.reshape(-1, sample_rate // 100)
        level_db = 10 * np.log10(frame_energy(frames) / frames.shape[1] / 2**30)
        assert level_db[1:-1].min() > -28


def test_speech_at_the_default_threshold_still_is_one_segment() -> None:
    assert detect(synth.speech(1500, 16000, -38.0), 16000) == [Segment(0.0, 1.5)]


def test_telephone_is_noise_in_the_band_that_rises_and_falls_like_syllables() -> None:
    audio = synth.telephone(4000, 16000, -11.0, seed=7)
    assert rms_db(audio) == pytest.approx(-11.0, abs=0.05)
    assert (audio == synth.telephone(4000, 16000, -11.0, seed=7)).all()
    assert (audio != synth.telephone(4000, 16000, -11.0, seed=8)).any()
    power = np.abs(np.fft.rfft(audio / 32768)) ** 2
    hz = np.fft.rfftfreq(len(audio), 1 / 16000)
    assert power[(hz > 290) & (hz < 3410)].sum() / power.sum() > 0.98
    blocks = audio.reshape(-1, 160) / 32768  # 10 ms each
    loudness = np.sqrt((blocks**2).mean(axis=1))
    spectrum = np.abs(np.fft.rfft(loudness - loudness.mean()))
    assert spectrum.argmax() / 4 == pytest.approx(4.5, abs=0.3)  # 4 s: a bin is 0.25 Hz


def test_telephone_is_one_stretch_of_speech() -> None:
    for seed in range(5):
        audio = np.concatenate([synth.telephone(1500, 8000, -11.0, seed=seed), synth.silence(500, 8000)])
        (segment,) = detect(audio, 8000)
        assert (segment.start_s, segment.end_s) == pytest.approx((0.0, 1.5), abs=0.011)
