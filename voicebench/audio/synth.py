"""Synthetic signals (VB21): deterministic by their seed, exact in level, faded in and out over 5 ms unless said
otherwise.

The RMS level of every signal, fades included, is ``level_db``. Only where full scale leaves no other way are
peaks clipped.
"""

import numpy as np

from voicebench.audio.pcm import FULL_SCALE, FloatArray, Int16Array, db_to_amplitude, ms_to_samples, to_int16

FADE_MS = 5.0
#: Resonances of a neutral vowel, (centre in Hz, width in Hz).
FORMANTS = ((500.0, 120.0), (1500.0, 180.0), (2500.0, 250.0))
SYLLABLES_HZ = 4.0
#: Depth of the dip between two syllables: shallow, so that it never reads as a pause.
SYLLABLE_DIP = 0.5
#: How far the pitch wanders to either side, as a share.
PITCH_WANDER = 0.08
HIGHEST_HARMONIC_HZ = 3800.0
TELEPHONE_BAND_HZ = (300.0, 3400.0)
TELEPHONE_SYLLABLES_HZ = 4.5
#: Deeper than in ``speech``: what an agent's detector has to bridge.
TELEPHONE_DIP = 0.8


def silence(duration_ms: float, sample_rate: int) -> Int16Array:
    """Digital silence."""
    return np.zeros(ms_to_samples(duration_ms, sample_rate), dtype=np.int16)


def tone(
    duration_ms: float,
    sample_rate: int,
    freq_hz: float = 440.0,
    level_db: float = -20.0,
    *,
    fade_ms: float = FADE_MS,
) -> Int16Array:
    """A sine."""
    time_s = np.arange(ms_to_samples(duration_ms, sample_rate)) / sample_rate
    return _finish(np.sin(2 * np.pi * freq_hz * time_s), sample_rate, level_db, fade_ms)


def noise(duration_ms: float, sample_rate: int, level_db: float = -30.0, seed: int = 0) -> Int16Array:
    """White Gaussian noise."""
    random = np.random.default_rng(seed)
    return _finish(random.standard_normal(ms_to_samples(duration_ms, sample_rate)), sample_rate, level_db)


def speech(
    duration_ms: float, sample_rate: int, level_db: float = -20.0, *, pitch_hz: float = 140.0, seed: int = 0
) -> Int16Array:
    """A signal that an energy detector takes for one unbroken stretch of speech.

    A buzz with a wandering pitch is shaped by three formants and rises and falls with about four syllables a
    second. Recognisers and neural detectors are not deceived: use recorded speech against a real agent.
    """
    count = ms_to_samples(duration_ms, sample_rate)
    random = np.random.default_rng(seed)
    time_s = np.arange(count) / sample_rate
    slow, fast, syllable = random.uniform(0, 2 * np.pi, 3)
    wander = 0.7 * np.sin(2 * np.pi * 0.6 * time_s + slow) + 0.3 * np.sin(2 * np.pi * 1.7 * time_s + fast)
    cycles = np.cumsum(pitch_hz * (1 + PITCH_WANDER * wander)) / sample_rate
    period = _glottal_period(pitch_hz, sample_rate, random)
    voiced = np.interp(cycles, np.arange(len(period)) / len(period), period, period=1.0)
    envelope = 1 - SYLLABLE_DIP / 2 * (1 + np.cos(2 * np.pi * SYLLABLES_HZ * time_s + syllable))
    return _finish(voiced * envelope, sample_rate, level_db)


def telephone(duration_ms: float, sample_rate: int, level_db: float = -20.0, seed: int = 0) -> Int16Array:
    """Noise in the band of a telephone that rises and falls with the rate of syllables (TV18).

    Detectors of speech take it for speech and nothing in it can be recognised, which is all that a test of timing
    needs. It begins halfway up, and lies highest in the middle of each syllable.
    """
    count = ms_to_samples(duration_ms, sample_rate)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    freq_hz = np.fft.rfftfreq(count, 1 / sample_rate) if count else np.zeros(1)
    low_hz, high_hz = TELEPHONE_BAND_HZ
    band = np.fft.irfft(np.where((freq_hz >= low_hz) & (freq_hz <= high_hz), spectrum, 0), count)
    time_s = np.arange(count) / sample_rate
    envelope = 1 - TELEPHONE_DIP / 2 * (1 - np.sin(2 * np.pi * TELEPHONE_SYLLABLES_HZ * time_s))
    return _finish(band * envelope, sample_rate, level_db)


def _glottal_period(pitch_hz: float, sample_rate: int, random: np.random.Generator) -> FloatArray:
    """One period of the voice. Random phases spread its energy, so that short frames have similar levels."""
    highest = min(HIGHEST_HARMONIC_HZ, 0.45 * sample_rate) / (1 + PITCH_WANDER)
    number = np.arange(1, max(1, int(highest / pitch_hz)) + 1)
    size = 1 << int(16 * number[-1]).bit_length()
    strength = 1 / number
    for centre_hz, width_hz in FORMANTS:
        strength = strength + np.exp(-(((number * pitch_hz - centre_hz) / width_hz) ** 2)) / np.sqrt(number)
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[number] = strength * np.exp(2j * np.pi * random.random(len(number)))
    return np.asarray(np.fft.irfft(spectrum, size) * size, dtype=np.float64)


def _finish(signal: FloatArray, sample_rate: int, level_db: float, fade_ms: float = FADE_MS) -> Int16Array:
    """Fade in and out, then bring the RMS to ``level_db``."""
    fade = min(ms_to_samples(fade_ms, sample_rate), len(signal) // 2)
    if fade:
        ramp = np.arange(1, fade + 1) / (fade + 1)
        signal = signal.copy()
        signal[:fade] *= ramp
        signal[-fade:] *= ramp[::-1]
    peak = np.abs(signal).max(initial=0.0)
    if not peak:
        return np.zeros(len(signal), dtype=np.int16)
    return _at_level(signal / peak, level_db)


def _at_level(signal: FloatArray, level_db: float) -> Int16Array:
    """Scale to an exact RMS: rounding shifts quiet signals and clipping loud ones, so correct the gain for both."""
    wanted = db_to_amplitude(level_db)
    gain = wanted / float(np.sqrt(np.mean(signal**2)))
    pcm = to_int16(signal * gain)
    for _ in range(20):
        reached = float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2))) / FULL_SCALE
        if not reached or abs(wanted / reached - 1) < 1e-4:
            break
        gain *= wanted / reached
        pcm = to_int16(signal * gain)
    return pcm
