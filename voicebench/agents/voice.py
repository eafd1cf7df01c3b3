"""The reference agent's voice: made once per process, cut into frames, shared by all calls."""

from collections.abc import Callable
from functools import cache

import numpy as np

from voicebench.agents.defects import distorted
from voicebench.agents.options import ReferenceOptions
from voicebench.audio.pcm import Int16Array
from voicebench.audio.synth import speech, tone

PITCH_HZ = 210.0  #: above the callers' 140 Hz, so that a listener tells the two sides apart
TONE_HZ = 1000.0  #: of the voice ``tone``
VOICES = 16  #: replies sound different up to this many turns, then they repeat: nothing is synthesised in mid-call


class FramedVoice:
    """``voice(turn, duration_ms)``: the reply's frames, as ``encode`` wraps their PCM16 bytes for the wire.

    Every frame is whole (the last one is filled up with silence), and a reply has at least one. The same seed,
    turn and duration give the same bytes.
    """

    def __init__(
        self,
        options: ReferenceOptions,
        sample_rate: int,
        frame_ms: float = 20.0,
        encode: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self._options = options
        self._sample_rate = sample_rate
        self._frame_samples = round(sample_rate * frame_ms / 1000)
        self._encode = encode
        self._frames = cache(self._make)

    def __call__(self, turn: int, duration_ms: float) -> tuple[bytes, ...]:
        return self._frames(turn % VOICES, duration_ms)

    def prepare(self) -> None:
        """Make every reply now, so that no call waits for one."""
        if self._options.greeting_ms > 0:
            self(0, self._options.greeting_ms)
        for turn in range(VOICES):
            self(turn, self._options.response_ms)

    def _make(self, turn: int, duration_ms: float) -> tuple[bytes, ...]:
        samples = self._sound(turn, duration_ms)
        count = max(1, -(-len(samples) // self._frame_samples))
        padded = np.zeros(count * self._frame_samples, dtype="<i2")
        padded[: len(samples)] = samples
        return tuple(self._encode(frame.tobytes()) for frame in padded.reshape(count, self._frame_samples))

    def _sound(self, turn: int, duration_ms: float) -> Int16Array:
        options = self._options
        seed = options.seed + turn
        if options.voice == "tone":
            sound = tone(duration_ms, self._sample_rate, TONE_HZ, options.level_db, fade_ms=0.0)
        else:
            sound = speech(duration_ms, self._sample_rate, options.level_db, pitch_hz=PITCH_HZ, seed=seed)
        return distorted(sound, self._sample_rate, options, seed) if options.defects else sound
