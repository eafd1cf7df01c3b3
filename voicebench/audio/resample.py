"""Change of sample rate."""

import numpy as np
import soxr

from voicebench.audio.pcm import FULL_SCALE, FloatArray, Int16Array, to_int16


def resample(pcm: Int16Array, from_hz: int, to_hz: int) -> Int16Array:
    """Resample a whole track (soxr, high quality); ``round(len * to_hz / from_hz)`` samples, aligned in time."""
    if from_hz == to_hz:
        return pcm
    return to_int16(resample_float(pcm / float(FULL_SCALE), from_hz, to_hz))


def resample_float(audio: FloatArray, from_hz: int, to_hz: int) -> FloatArray:
    """The same for float audio, without rounding or clipping."""
    if from_hz == to_hz:
        return audio
    wanted = round(len(audio) * to_hz / from_hz)
    out: FloatArray = np.asarray(soxr.resample(audio, from_hz, to_hz, quality="HQ"), dtype=np.float64)[:wanted]
    return np.pad(out, (0, wanted - len(out)))
