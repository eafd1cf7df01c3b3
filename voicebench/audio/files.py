"""Audio files: read what libsndfile reads, write WAV that is never half there."""

import io
import os
import tempfile
import wave
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile

from voicebench.audio.pcm import Int16Array, to_bytes, to_int16
from voicebench.audio.resample import resample_float


class AudioFileError(ValueError):
    """A file that cannot be read as audio. The message is one line that names it."""


def read_audio(path: str | Path, sample_rate: int) -> Int16Array:
    """Read a file as mono int16 at ``sample_rate``: channels are averaged, then resampled.

    A mono 16-bit file at that rate comes back bit for bit. Raises AudioFileError.
    """
    try:
        audio, rate = soundfile.read(str(path), dtype="float64", always_2d=True)
    except (soundfile.SoundFileError, OSError) as error:
        raise AudioFileError(f"{path}: cannot be read as audio: {' '.join(str(error).split())}") from None
    if not np.isfinite(audio).all():
        raise AudioFileError(f"{path}: holds samples that are no numbers; export it again")
    return to_int16(resample_float(audio.mean(axis=1), rate, sample_rate))


def write_wav(path: str | Path, pcm: Int16Array, sample_rate: int, channels: int = 1) -> None:
    """Write 16-bit WAV. ``pcm`` has shape (n,), with more channels (n, channels).

    The file appears under its name when it is complete. Raises OSError, and then leaves nothing behind.
    """
    if pcm.size % channels or (pcm.ndim == 2 and pcm.shape[1] != channels):
        raise ValueError(f"audio of shape {pcm.shape} does not have {channels} channel(s)")
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with wave.open(file, "wb") as wav:
                wav.setnchannels(channels)
                wav.setsampwidth(2)
                wav.setframerate(sample_rate)
                wav.writeframes(to_bytes(pcm))
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_flac(pcm: Int16Array, sample_rate: int) -> bytes:
    """Compress audio of shape (n,) or (n, channels), at least one sample, without loss."""
    file = io.BytesIO()
    soundfile.write(file, pcm, sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def read_flac(file: BinaryIO) -> Int16Array:
    """What ``to_flac`` compressed, of shape (n, channels). Raises AudioFileError."""
    try:
        audio: Int16Array = soundfile.read(file, dtype="int16", always_2d=True)[0]
    except soundfile.SoundFileError as error:
        raise AudioFileError(f"no FLAC: {' '.join(str(error).split())}") from None
    return audio


def write_stereo(path: str | Path, left: Int16Array, right: Int16Array, sample_rate: int) -> None:
    """Write two tracks as one stereo file; the shorter one is filled up with silence."""
    both = np.zeros((max(len(left), len(right)), 2), dtype=np.int16)
    both[: len(left), 0] = left
    both[: len(right), 1] = right
    write_wav(path, both, sample_rate, channels=2)
