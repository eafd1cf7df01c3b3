"""How loud the callers' frames are, for all that arrived together at once.

One frame at a time costs 30 us of numpy; thirty together cost 1.2 us each. Frames come as they were on the wire,
masked, and are unmasked in the same stroke.
"""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from voicebench.audio.pcm import FLOOR_DB, FULL_SCALE, FloatArray, energy_threshold

Caller = TypeVar("Caller")

NO_MASK = bytes(4)
_BLOCK_MS = 1


class Loudness(NamedTuple):
    """One frame. ``first_s`` and ``last_s`` bound what reaches the threshold, from the frame's start.

    They are the edges of samples: of the first one at the threshold's amplitude in the first millisecond at the
    threshold's level, and of the last one in the last such millisecond.
    """

    level_db: float
    first_s: float
    last_s: float  #: 0 if nothing does


class Hearing:
    """Collects frames with :meth:`add`, and measures them all with :meth:`measure`.

    ``threshold_db`` is the level (RMS in dBFS) from which a millisecond counts as speech.
    """

    def __init__(self, sample_rate: int, threshold_db: float) -> None:
        self.sample_rate = sample_rate
        self._threshold_db = threshold_db
        self._block = max(1, sample_rate * _BLOCK_MS // 1000)
        self._payloads: list[bytes] = []
        self._masks: list[bytes] = []

    def __len__(self) -> int:
        return len(self._payloads)

    def add(self, payload: bytes, mask: bytes = NO_MASK) -> None:
        """One frame of PCM16LE, masked with ``mask``. Its length is even, and a multiple of 4 if it is masked."""
        self._payloads.append(payload)
        self._masks.append(mask)

    def measure(self) -> list[Loudness]:
        """The loudness of each frame in the order in which they were added; then forget them."""
        payloads, self._payloads = self._payloads, []
        masks, self._masks = self._masks, []
        if len(payloads) == 1 or len({len(payload) for payload in payloads}) == 1:
            return self._measure_equal(payloads, masks)
        found: list[Loudness] = [Loudness(FLOOR_DB, 0.0, 0.0)] * len(payloads)
        by_size: dict[int, list[int]] = {}
        for index, payload in enumerate(payloads):
            by_size.setdefault(len(payload), []).append(index)
        for indexes in by_size.values():
            measured = self._measure_equal([payloads[i] for i in indexes], [masks[i] for i in indexes])
            for index, loudness in zip(indexes, measured, strict=True):
                found[index] = loudness
        return found

    def _measure_equal(self, payloads: list[bytes], masks: list[bytes]) -> list[Loudness]:
        """Frames of one length."""
        count, size = len(payloads), len(payloads[0])
        if not size:
            return [Loudness(FLOOR_DB, 0.0, 0.0)] * count
        if size % 4:
            samples = np.frombuffer(b"".join(payloads), "<i2").reshape(count, -1)
        else:
            words = np.frombuffer(b"".join(payloads), "<u4").reshape(count, -1)
            samples = (words ^ np.frombuffer(b"".join(masks), "<u4")[:, None]).view("<i2")
        squares = samples.astype(np.int32)
        squares *= squares
        starts = np.arange(0, samples.shape[1], self._block)
        blocks = np.add.reduceat(squares, starts, axis=1, dtype=np.int64)
        energies = blocks.sum(axis=1)
        full = samples.shape[1] * FULL_SCALE**2
        levels = np.maximum(10 * np.log10(np.maximum(energies, 1e-9) / full), FLOOR_DB)
        active = blocks >= energy_threshold(self._threshold_db, self._block)
        firsts, lasts = self._edges(squares, active)
        return list(map(Loudness, levels.tolist(), firsts.tolist(), lasts.tolist()))

    def _edges(self, squares: npt.NDArray[np.int32], active: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """``first_s`` and ``last_s`` of each frame, from its samples' squares and its active milliseconds."""
        firsts, lasts = np.zeros(len(squares)), np.zeros(len(squares))
        rows = np.flatnonzero(active.any(axis=1))
        if not len(rows):
            return firsts, lasts
        loud = squares[rows] >= energy_threshold(self._threshold_db, 1)
        loud &= np.repeat(active[rows], self._block, axis=1)[:, : loud.shape[1]]
        firsts[rows] = loud.argmax(axis=1) / self.sample_rate
        lasts[rows] = (loud.shape[1] - loud[:, ::-1].argmax(axis=1)) / self.sample_rate
        return firsts, lasts
