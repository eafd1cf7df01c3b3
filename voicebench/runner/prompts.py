"""What the callers say: rendered once per process, shared by all calls."""

import os
from functools import lru_cache
from typing import Protocol

from voicebench.audio import g711, synth
from voicebench.audio.files import read_audio
from voicebench.audio.pcm import Int16Array, ms_to_samples, to_bytes
from voicebench.audio.resample import resample
from voicebench.scenario import AudioSpec, Scenario

#: Identifies one version of a file: modification time in ns and size. None for a synthetic signal.
Stamp = tuple[int, int] | None


class Encoder(Protocol):
    """The part of an adapter that turns frames into what goes over the wire."""

    @property
    def wire_key(self) -> str:
        """Equal keys mean equal encodings."""

    def encode_audio(self, pcm: bytes) -> bytes:
        """The wire form of one frame."""


class EncodedPrompts:
    """All frames of a scenario as one kind of adapter sends them: ``frames[turn][k]`` and ``silence``."""

    __slots__ = ("frames", "silence")

    def __init__(self, prompts: "Prompts", encoder: Encoder) -> None:
        self.silence: bytes = encoder.encode_audio(prompts.silence)
        self.frames: tuple[tuple[bytes, ...], ...] = tuple(
            tuple(encoder.encode_audio(frame) for frame in prompts.frames(turn)) for turn in range(len(prompts))
        )


class Prompts:
    """The audio of every turn of a scenario: as one array, and cut into frames of PCM16 little-endian.

    Use ``Prompts.of(scenario)``. Immutable, and safe to share between threads and greenlets.
    """

    def __init__(self, sample_rate: int, frame_ms: float, pcm: tuple[Int16Array, ...]) -> None:
        samples = ms_to_samples(frame_ms, sample_rate)
        self.sample_rate = sample_rate
        self._frame_ms = frame_ms
        self._pcm = pcm
        self._frames = tuple(_cut(track, samples) for track in pcm)
        self._encoded: dict[str, EncodedPrompts] = {}
        self._resampled: dict[int, Prompts] = {}
        self._companded: dict[str, Prompts] = {}
        self.silence = bytes(2 * samples)

    @classmethod
    def of(cls, scenario: Scenario) -> "Prompts":
        """The prompts of a scenario: the same object for equal audio, until a file changes.

        Raises AudioFileError.
        """
        specs = tuple((turn.audio, _stamp(turn.audio)) for turn in scenario.turns)
        return _prompts(scenario.sample_rate, scenario.frame_ms, specs)

    def __len__(self) -> int:
        """Number of turns."""
        return len(self._pcm)

    def pcm(self, turn: int) -> Int16Array:
        """A turn's audio at this rate; read-only."""
        return self._pcm[turn]

    def frames(self, turn: int) -> tuple[bytes, ...]:
        """A turn's audio in whole frames; the last one is filled up with silence."""
        return self._frames[turn]

    def at(self, sample_rate: int) -> "Prompts":
        """The same prompts at another rate, each resampled once and as a whole: frame by frame would click."""
        if sample_rate == self.sample_rate:
            return self
        found = self._resampled.get(sample_rate)
        if found is None:
            pcm = tuple(resample(track, self.sample_rate, sample_rate) for track in self._pcm)
            found = self._resampled.setdefault(sample_rate, Prompts(sample_rate, self._frame_ms, pcm))
        return found

    def over(self, codec: str) -> "Prompts":
        """The same prompts as a telephone's codec leaves them; ``none`` changes nothing."""
        if codec == "none":
            return self
        found = self._companded.get(codec)
        if found is None:
            law: g711.Law = "pcma" if codec == "pcma" else "pcmu"
            pcm = tuple(g711.through(track, self.sample_rate, law) for track in self._pcm)
            found = self._companded.setdefault(codec, Prompts(self.sample_rate, self._frame_ms, pcm))
        return found

    def encoded(self, adapter: Encoder) -> EncodedPrompts:
        """The frames in the adapter's wire form, encoded once for all adapters with one ``wire_key``."""
        key = adapter.wire_key
        found = self._encoded.get(key)
        if found is None:  # two threads may both encode; all the same, every caller gets one of them
            found = self._encoded.setdefault(key, EncodedPrompts(self, adapter))
        return found


@lru_cache(maxsize=64)
def _prompts(sample_rate: int, frame_ms: float, specs: tuple[tuple[AudioSpec, Stamp], ...]) -> Prompts:
    return Prompts(sample_rate, frame_ms, tuple(_render(spec, stamp, sample_rate) for spec, stamp in specs))


@lru_cache(maxsize=256)
def _render(spec: AudioSpec, stamp: Stamp, sample_rate: int) -> Int16Array:
    pcm = _audio(spec, sample_rate)
    pcm.setflags(write=False)
    return pcm


def _audio(spec: AudioSpec, sample_rate: int) -> Int16Array:
    if spec.file is not None:
        return read_audio(spec.file, sample_rate)
    if spec.synth == "speech":
        return synth.speech(spec.duration_ms, sample_rate, spec.level_db, seed=spec.seed)
    if spec.synth == "tone":
        return synth.tone(spec.duration_ms, sample_rate, spec.freq_hz, spec.level_db)
    if spec.synth == "telephone":
        return synth.telephone(spec.duration_ms, sample_rate, spec.level_db, spec.seed)
    if spec.synth == "noise":
        return synth.noise(spec.duration_ms, sample_rate, spec.level_db, spec.seed)
    return synth.silence(spec.duration_ms, sample_rate)


def _stamp(spec: AudioSpec) -> Stamp:
    if spec.file is None:
        return None
    try:
        status = os.stat(spec.file)  # noqa: PTH116 - once per call: a Path would only cost time
    except OSError:
        return (0, 0)  # reading it will say what is wrong
    return status.st_mtime_ns, status.st_size


def _cut(pcm: Int16Array, samples: int) -> tuple[bytes, ...]:
    data = to_bytes(pcm)
    size = 2 * samples
    return tuple(data[start : start + size].ljust(size, b"\0") for start in range(0, len(data), size))
