"""What can be wrong with the reference agent: how its replies are sent, how they sound, and what comes back (TV12).

No I/O, and no state but the echo's. The options say what is switched on; see ``voicebench.agents.options``.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from voicebench.agents.options import ReferenceOptions
from voicebench.audio.pcm import FULL_SCALE, Int16Array, db_to_amplitude, ms_to_samples, to_int16

SENTENCE_S = 2.0  #: a gap comes after so much of a reply
STALL_AT_S = 0.5  #: a stall comes after so much of a reply
CLICK = 0.6  #: amplitude of a click, as a share of full scale
_EPSILON_S = 1e-9

#: The options that change when the frames of a reply are sent.
_DELIVERY = ("burst", "gap_ms", "stall_ms", "frame_interval_ms", "answers_twice_ms")


def shaped(
    options: ReferenceOptions, frames: Sequence[bytes], frame_s: float
) -> tuple[Sequence[bytes], Sequence[float]]:
    """The frames of a reply as they are to be sent, and for each the time in s until the next.

    Behind the last frame is how long the agent goes on as if it spoke: until what it sent ahead has sounded.
    """
    if options.answers_twice_ms:
        frames = [*frames, *frames]
    return frames, _intervals(*(getattr(options, name) for name in _DELIVERY), len(frames), frame_s)


@lru_cache(maxsize=256)
def _intervals(
    burst: bool, gap_ms: float, stall_ms: float, every_ms: float | None, again_ms: float, count: int, frame_s: float
) -> tuple[float, ...]:
    gaps = np.full(count, frame_s if every_ms is None else every_ms / 1000)
    said_s = np.arange(1, count + 1) * frame_s
    if gap_ms:
        sentence = np.floor(said_s / SENTENCE_S + _EPSILON_S)
        gaps += np.diff(sentence, prepend=0.0) * gap_ms / 1000
    if again_ms:
        gaps[count // 2 - 1] += again_ms / 1000
    due = np.concatenate([[0.0], np.cumsum(gaps)])[:count]
    if stall_ms:
        end = STALL_AT_S + stall_ms / 1000
        due = np.where((due >= STALL_AT_S - _EPSILON_S) & (due < end), end, due)
    if burst:
        due = np.zeros(count)
    sounded = max(float(due[-1]), (count - 1) * frame_s)
    return tuple(np.diff(due, append=sounded).tolist())


def distorted(samples: Int16Array, sample_rate: int, options: ReferenceOptions, seed: int) -> Int16Array:
    """The agent's voice with the defects of its sound: quieter, crackling, off centre, clipped, after a silence."""
    sound = samples.astype(np.float64) / FULL_SCALE * db_to_amplitude(-options.quiet_db)
    if options.crackle_per_s:
        random = np.random.default_rng(seed)
        clicks = random.integers(0, len(sound), round(options.crackle_per_s * len(sound) / sample_rate))
        sound[clicks] = random.choice([-CLICK, CLICK], len(clicks))
    sound = (sound + options.dc_offset) * db_to_amplitude(options.clip_gain_db)
    silence = np.zeros(ms_to_samples(options.leading_silence_ms, sample_rate))
    return to_int16(np.concatenate([silence, sound]))


class Echo:
    """The caller's own audio on its way back."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._waiting: deque[tuple[float, bytes]] = deque()

    def hear(self, pcm: bytes, t: float) -> None:
        """A frame of the caller that arrived at ``t``."""
        self._waiting.append((t + self._delay_s, pcm))

    def due(self, t: float) -> list[tuple[float, bytes]]:
        """When each frame that is due by ``t`` was due, and the frame."""
        back = []
        while self._waiting and self._waiting[0][0] <= t + _EPSILON_S:
            back.append(self._waiting.popleft())
        return back

    def next_due(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None
