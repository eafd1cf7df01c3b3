"""Samples: 16-bit PCM, levels in dBFS, energies.

Conventions
-----------
- Audio is mono int16. Full scale (0 dBFS) is 32768, so a square wave between the limits has 0 dBFS.
- A level is the RMS in dBFS, never below ``FLOOR_DB`` (VB05).
- An energy is the sum of the squared int16 samples of one frame: a whole number, so that comparing it with a
  threshold gives the same answer however the audio was cut into pieces.
"""

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Int16Array = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]

FULL_SCALE = 32768
FLOOR_DB = -120.0


def ms_to_samples(duration_ms: float, sample_rate: int) -> int:
    """The nearest whole number of samples."""
    return round(duration_ms * sample_rate / 1000)


def samples_to_ms(samples: int, sample_rate: int) -> float:
    """How long that many samples last."""
    return samples * 1000 / sample_rate


def db_to_amplitude(level_db: float) -> float:
    """The linear amplitude, full scale being 1."""
    return float(10 ** (level_db / 20))


def amplitude_to_db(amplitude: float) -> float:
    """The level of a linear amplitude, full scale being 1; at least ``FLOOR_DB``."""
    return max(FLOOR_DB, 20 * math.log10(amplitude)) if amplitude > 0 else FLOOR_DB


def energy_threshold(level_db: float, samples: int) -> float:
    """The least energy of a frame of ``samples`` samples whose level is at least ``level_db``.

    Every frame reaches ``FLOOR_DB``, digital silence too.
    """
    return samples * FULL_SCALE**2 * 10 ** (level_db / 10) if level_db > FLOOR_DB else 0.0


def frame_energy(frames: Int16Array) -> FloatArray:
    """The energy of each frame: shape (n, samples) gives shape (n,).

    The values are whole, and exact for frames of up to eight million samples.
    """
    wide = frames.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide), dtype=np.float64)


def rms_db(pcm: Int16Array) -> float:
    """The level of one stretch of audio in dBFS; ``FLOOR_DB`` if it is empty (VB05)."""
    if not pcm.size:
        return FLOOR_DB
    energy = float(frame_energy(pcm.reshape(1, -1))[0])
    return amplitude_to_db(math.sqrt(energy / pcm.size) / FULL_SCALE)


def to_int16(audio: npt.NDArray[np.floating[Any]]) -> Int16Array:
    """Round audio in [-1, 1] to int16. What lies beyond full scale is clipped."""
    pcm: Int16Array = np.clip(np.rint(audio * float(FULL_SCALE)), -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
    return pcm


def to_bytes(pcm: Int16Array) -> bytes:
    """PCM16 little-endian."""
    return pcm.astype("<i2", copy=False).tobytes()


def from_bytes(data: bytes | bytearray | memoryview) -> Int16Array:
    """Read PCM16 little-endian; a view of ``data`` where the machine allows it.

    Raises ValueError for an odd number of bytes.
    """
    if len(data) % 2:
        raise ValueError(f"PCM16 audio has an even number of bytes, not {len(data)}")
    pcm = np.frombuffer(data, dtype="<i2")
    return pcm.view(np.int16) if sys.byteorder == "little" else pcm.astype(np.int16)
