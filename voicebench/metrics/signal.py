"""How the agent's audio sounds, whatever it says: the level, and what is wrong with the samples (VT14).

Conventions
-----------
- A track is one-dimensional int16. Amplitudes are shares of full scale, levels dBFS.
- Only audible stretches count: blocks of 20 ms whose RMS is at least 0.01 of full scale, as in ``metrics.frames``,
  after their mean was taken away. Without any, every value is None.

Metrics
-------
level_db       RMS level of the audible stretches, each without its mean
clipping_rate  share of their samples that lie at full scale
clicks_per_s   samples that lie off the line between their two neighbours by more than 10 times what is usual there,
               and by more than 0.05
dc_offset      mean of their samples
"""

from dataclasses import dataclass

import numpy as np

from voicebench.audio.pcm import FULL_SCALE, FloatArray, Int16Array, amplitude_to_db
from voicebench.metrics.frames import AUDIBLE_RMS, FRAME_S

OUTLIER = 10.0
FAINTEST_CLICK = 0.05
_TOP = (FULL_SCALE - 1) / FULL_SCALE


@dataclass(frozen=True)
class Sound:
    """One side of a call as a signal."""

    level_db: float | None = None
    clipping_rate: float | None = None
    clicks_per_s: float | None = None
    dc_offset: float | None = None


def sound(track: Int16Array, sample_rate: int) -> Sound:
    """Measure one track."""
    blocks = audible_blocks(track, sample_rate)
    if not len(blocks):
        return Sound()
    steady = blocks - blocks.mean(axis=1, keepdims=True)
    seconds = blocks.size / sample_rate
    return Sound(
        level_db=round(amplitude_to_db(float(np.sqrt(np.mean(steady**2)))), 2),
        clipping_rate=round(float(np.mean(np.abs(blocks) >= _TOP)), 6),
        clicks_per_s=round(clicks(blocks) / seconds, 3),
        dc_offset=round(float(blocks.mean()), 5),
    )


def audible_blocks(track: Int16Array, sample_rate: int) -> FloatArray:
    """The audible blocks of 20 ms as shares of full scale, shape (n, samples)."""
    size = round(FRAME_S * sample_rate)
    blocks = track[: len(track) // size * size].reshape(-1, size).astype(np.float64) / FULL_SCALE
    rms = blocks.std(axis=1)
    return np.asarray(blocks[rms >= AUDIBLE_RMS], dtype=np.float64)


def clicks(blocks: FloatArray) -> int:
    """How many samples stick out from their neighbours."""
    off = np.abs(blocks[:, 1:-1] - (blocks[:, :-2] + blocks[:, 2:]) / 2)
    usual = np.median(off, axis=1, keepdims=True)
    out = (off > OUTLIER * usual) & (off > FAINTEST_CLICK)
    # A click's neighbours stick out too, so that it counts once.
    return int(np.count_nonzero(out[:, 0]) + np.count_nonzero(out[:, 1:] & ~out[:, :-1]))
