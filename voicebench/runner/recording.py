"""Recordings of a call: both sides together, the caller alone, the agent alone."""

import re
from pathlib import Path

from voicebench.audio.files import write_stereo, write_wav
from voicebench.runner.record import SessionRecord


def file_stem(call_id: str) -> str:
    """A call id as a part of a file's name."""
    return re.sub(r"[^\w.-]+", "_", call_id)


def write_recording(record: SessionRecord, directory: Path) -> dict[str, str]:
    """Write three WAV files named by the call id into ``directory/recordings``.

    The stereo file has the caller on the left, the agent on the right. Returns the paths relative to
    ``directory``, by ``stereo``, ``user`` and ``agent``. Raises OSError if they cannot be written.
    """
    name = file_stem(record.call_id)
    paths = {
        "stereo": f"recordings/{name}.wav",
        "user": f"recordings/{name}-user.wav",
        "agent": f"recordings/{name}-agent.wav",
    }
    (directory / "recordings").mkdir(parents=True, exist_ok=True)
    write_stereo(directory / paths["stereo"], record.user_track, record.agent_track, record.sample_rate)
    write_wav(directory / paths["user"], record.user_track, record.sample_rate)
    write_wav(directory / paths["agent"], record.agent_track, record.sample_rate)
    return paths
