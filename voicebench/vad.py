"""Where speech is: an energy detector with hysteresis and hangover (VB05, VB06).

Conventions
-----------
- The audio is cut into frames of ``frame_ms`` from its first sample on. Only whole frames count.
- A frame is *active* in a closed stretch if its level is at least ``threshold_db``, and in an open segment if it
  is at least ``threshold_db - hysteresis_db``.
- A segment opens once ``min_speech_ms`` of frames in a row were active (at least one frame), and starts with the
  first of them. It closes once ``min_silence_ms`` of frames in a row were not (at least one frame), and ends
  with the last active frame. So neither confirmation delays what is reported.
- Levels are never taken: a frame's energy, a whole number, is compared with the threshold's. Hence the streaming
  and the whole-track detector agree exactly, however the audio is cut into pieces.

Finer than the frame
--------------------
``refine: sample`` takes the boundaries that the frames gave to the sample; it neither makes nor drops a segment, and
``StreamingVad`` knows nothing of it: what is decided live rests on frames.

- *Power* is a sample's square, and counts up to ``CAP`` times the threshold's.
- The *onset* is the first sample from which the level holds: the mean power of every stretch that begins with it is
  at or above the opening threshold, that of every stretch that ends before it is below.
- The *offset* is the same in the mirror, with the closing threshold: every stretch that ends with the last sample of
  the segment is at or above it, every stretch that begins behind it is below.
- Stretches are taken from the boundary's own frame and its neighbours, those inside no farther than the segment
  goes. So a boundary leaves its frame by at most one frame.
- What lasts to the end of the track has no offset, and keeps the frame's end. So does a segment of few frames, and
  its start too, if nothing would be left of it.

Why stretches: there always is exactly one such sample (the lowest point of the running sum of power minus
threshold), with no window to choose, whose length would blur the edge, or whose level would drop at every zero
crossing of a low tone. A soft onset starts where it rises through the threshold, noise below the threshold has
no say, and a wave that is cut off ends at the cut. A constant offset counts as level, as it does in frames. Why the
cap: a click of d ms speaks for less than (CAP - 1) d ms of silence between it and the speech, however loud it is.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from voicebench.audio.pcm import Int16Array, energy_threshold, frame_energy, ms_to_samples, to_int16

IntArray = npt.NDArray[np.int64]
Refinement = Literal["frame", "sample"]

#: How many times the threshold a sample's power may count when boundaries are refined: 6 dB above it.
CAP = 4.0


class VadConfig(BaseModel):
    """Tuning of the detector (VB05). Levels are RMS in dBFS, times in ms."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    threshold_db: float = Field(-45.0, description="A frame at or above this level may open a segment.")
    hysteresis_db: float = Field(
        6.0,
        ge=0,
        description="An open segment lasts while the level is at most this far below the threshold.",
    )
    frame_ms: float = Field(10.0, gt=0, description="Length of one analysis frame.")
    min_speech_ms: float = Field(50.0, ge=0, description="A segment opens after this much active audio.")
    min_silence_ms: float = Field(250.0, ge=0, description="A segment closes after this much inactive audio.")
    refine: Refinement = Field(
        "frame",
        description="frame: boundaries are those of frames. sample: they are taken to the sample, after a call.",
    )


@dataclass(frozen=True)
class Segment:
    """A stretch of speech."""

    start_s: float
    end_s: float

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    def overlap(self, other: "Segment") -> float:
        """Seconds that both last."""
        return max(0.0, min(self.end_s, other.end_s) - max(self.start_s, other.start_s))


@dataclass(frozen=True)
class VadEvent:
    """A boundary of speech. It lies before the audio that confirmed it."""

    kind: Literal["onset", "offset"]
    time_s: float


@dataclass(frozen=True)
class _Rules:
    """A configuration in the units of the detector: samples, energies, numbers of frames."""

    frame: int
    opening: float
    closing: float
    frames_to_open: int
    frames_to_close: int

    @classmethod
    def of(cls, config: VadConfig, sample_rate: int) -> "_Rules":
        frame = max(1, ms_to_samples(config.frame_ms, sample_rate))

        def frames(duration_ms: float) -> int:
            return max(1, math.ceil((duration_ms / 1000 - 1e-9) * sample_rate / frame))

        return cls(
            frame,
            energy_threshold(config.threshold_db, frame),
            energy_threshold(config.threshold_db - config.hysteresis_db, frame),
            frames(config.min_speech_ms),
            frames(config.min_silence_ms),
        )


class StreamingVad:
    """The detector for audio that arrives in pieces. Its boundaries are those of frames.

    Feed one instance either with ``push`` or with ``push_energies``, and call ``flush`` at the end.
    """

    def __init__(self, sample_rate: int, config: VadConfig | None = None, origin_s: float = 0.0) -> None:
        """``origin_s`` is the time of the first sample."""
        self._rules = _Rules.of(config or VadConfig(), sample_rate)
        self._sample_rate = sample_rate
        self._origin_s = origin_s
        self._rest: Int16Array = np.zeros(0, dtype=np.int16)
        self._frames = 0
        self._speaking = False
        self._run = 0  # frames in a row that speak for a change: active ones while closed, inactive ones while open

    @property
    def speaking(self) -> bool:
        """Whether a confirmed segment is open."""
        return self._speaking

    @property
    def frame_length(self) -> int:
        """Samples in one analysis frame."""
        return self._rules.frame

    @property
    def position_s(self) -> float:
        """Up to where the audio has been analysed."""
        return self._time(self._frames)

    def push(self, audio: Int16Array | npt.NDArray[np.floating[Any]]) -> list[VadEvent]:
        """Take more audio, int16 or float in [-1, 1] (rounded to int16); return the boundaries it confirms."""
        exact = audio.dtype == np.int16
        pcm = audio.astype(np.int16, copy=False) if exact else to_int16(audio.astype(np.float64, copy=False))
        if self._rest.size:
            pcm = np.concatenate((self._rest, pcm))
        frame = self._rules.frame
        whole = len(pcm) // frame * frame
        self._rest = pcm[whole:].copy()
        return self.push_energies(frame_energy(pcm[:whole].reshape(-1, frame)).tolist())

    def push_energies(self, energies: Iterable[float]) -> list[VadEvent]:
        """Take the energies (sums of squared samples) of the next frames of ``frame_length`` samples.

        For callers that compute the frames of many calls in one batch. Plain floats or ints are fastest:
        ``array.tolist()``.
        """
        rules, events = self._rules, []
        for energy in energies:
            self._frames += 1
            if not self._speaking:
                self._run = self._run + 1 if energy >= rules.opening else 0
                if self._run == rules.frames_to_open:
                    events.append(VadEvent("onset", self._time(self._frames - self._run)))
                    self._speaking, self._run = True, 0
            else:
                self._run = self._run + 1 if energy < rules.closing else 0
                if self._run == rules.frames_to_close:
                    events.append(VadEvent("offset", self._time(self._frames - self._run)))
                    self._speaking, self._run = False, 0
        return events

    def flush(self) -> list[VadEvent]:
        """End of the audio: an open segment ends with its last active frame."""
        if not self._speaking:
            return []
        event = VadEvent("offset", self._time(self._frames - self._run))
        self._speaking, self._run = False, 0
        return [event]

    def _time(self, frames: int) -> float:
        return self._origin_s + frames * self._rules.frame / self._sample_rate


def detect(track: Int16Array, sample_rate: int, config: VadConfig | None = None) -> list[Segment]:
    """All speech in a whole track; exactly what StreamingVad finds in it, unless ``config.refine`` is sample."""
    config = config or VadConfig()
    rules = _Rules.of(config, sample_rate)
    whole = len(track) // rules.frame * rules.frame
    energy = frame_energy(track[:whole].reshape(-1, rules.frame))
    starts, ends = _boundaries(energy, rules)
    bounds = starts * rules.frame, ends * rules.frame
    if config.refine == "sample":
        bounds = _refined(track, *bounds, rules)
    return [
        Segment(start / sample_rate, end / sample_rate)
        for start, end in zip(bounds[0].tolist(), bounds[1].tolist(), strict=True)
    ]


def _refined(track: Int16Array, starts: IntArray, ends: IntArray, rules: _Rules) -> tuple[IntArray, IntArray]:
    """The boundaries of segments, given and returned in samples, taken from the frame to the sample."""
    frame, length = rules.frame, len(track)
    low, high = np.maximum(starts - frame, 0), np.minimum(starts + 2 * frame, ends)
    onsets = _holds_from(track, low, high, rules.opening / frame)
    low, high = np.maximum(ends - 2 * frame, starts), np.minimum(ends + frame, length)
    offsets = length - _holds_from(track[::-1], length - high, length - low, rules.closing / frame)
    offsets = np.where(ends + frame > length, ends, offsets)
    onsets[1:] = np.maximum(onsets[1:], offsets[:-1])  # one short noise between two segments may be near to both
    kept = onsets < offsets
    return np.where(kept, onsets, starts), np.where(kept, offsets, ends)


def _holds_from(track: Int16Array, low: IntArray, high: IntArray, threshold: float) -> IntArray:
    """In each stretch from ``low`` to before ``high``, the first sample from which the level holds; else ``high``."""
    at = low[:, None] + np.arange(np.max(high - low, initial=0))
    power = np.square(track[np.minimum(at, len(track) - 1)].astype(np.float64))
    gain = np.minimum(power, CAP * threshold) - threshold
    gain[at >= high[:, None]] = 0.0  # no lower than at the stretch's end, so never its first lowest point
    balance = np.zeros((len(low), at.shape[1] + 1))
    np.cumsum(gain, axis=1, out=balance[:, 1:])
    lowest: IntArray = balance.argmin(axis=1)
    return np.asarray(low + lowest)


def _boundaries(energy: npt.NDArray[np.float64], rules: _Rules) -> tuple[IntArray, IntArray]:
    """First frames of the segments, and the frames after their last ones.

    A run of frames that is long enough to open a segment does so unless one is open already, and likewise for
    closing. A frame that may open cannot close, so the two kinds of run never overlap: sorted by their first
    frame, each that differs from the one before it is a boundary.
    """
    opening = _long_runs(energy >= rules.opening, rules.frames_to_open)
    closing = _long_runs(energy < rules.closing, rules.frames_to_close)
    frames = np.concatenate((opening, closing))
    opens = np.arange(len(frames)) < len(opening)
    order = np.argsort(frames)
    frames, opens = frames[order], opens[order]
    changes = opens != np.concatenate(([False], opens[:-1]))
    starts, ends = frames[changes & opens], frames[changes & ~opens]
    if len(starts) > len(ends):  # still open at the end: up to the last frame that is active in a segment
        last = np.flatnonzero(energy >= rules.closing)[-1] + 1
        ends = np.append(ends, last)
    return starts, ends


def _long_runs(wanted: npt.NDArray[np.bool_], least: int) -> IntArray:
    """The first frame of each run of True that is at least ``least`` long."""
    edges = np.flatnonzero(np.diff(wanted.astype(np.int8), prepend=0, append=0))
    starts, ends = edges[::2], edges[1::2]
    return starts[ends - starts >= least]
