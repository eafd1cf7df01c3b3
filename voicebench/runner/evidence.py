"""The raw evidence of a call: its record as one file, from which every metric can be computed again (TV16).

A file is a zip of numpy arrays (``numpy.load`` opens it, without pickles), with a JSON text, and both tracks as FLAC.
``docs/records.md`` describes it entry by entry. What is read back equals what was written, bit for bit, but for the
adapter's options in the scenario: they may hold secrets, and no metric needs them.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from voicebench.audio.files import AudioFileError, read_flac, to_flac
from voicebench.runner.health import LoopHealth
from voicebench.runner.record import CallEvent, Int16Array, Packets, SessionRecord, Transcript, TurnWindow
from voicebench.runner.recording import file_stem
from voicebench.scenario import Scenario

SCHEMA_VERSION = 1
DIRECTORY = "frames"

#: What the JSON text holds as it is.
_PLAIN = (
    "call_id",
    "adapter",
    "clock",
    "timestamps",
    "outcome",
    "reason",
    "started_at",
    "origin_ns",
    "connect_ms",
    "connected_s",
    "max_duration_reached",
    "metadata",
)


class EvidenceError(ValueError):
    """A file that is no evidence of a call. The message is one line that names it."""


def write_evidence(record: SessionRecord, directory: Path) -> str:
    """Write ``frames/<call id>.npz`` into ``directory``; returns that path, relative to it. Raises OSError.

    The file appears under its name when it is complete.
    """
    name = f"{DIRECTORY}/{file_stem(record.call_id)}.npz"
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    entries: dict[str, Any] = {
        "about": np.frombuffer(json.dumps(_about(record), default=str).encode(), dtype=np.uint8),
        "tracks": np.frombuffer(_tracks(record), dtype=np.uint8),
        "caller_due": record.due,
        "caller_sent": record.sent,
        **{f"agent_{field.name}": getattr(record.packets, field.name) for field in fields(Packets)},
    }
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **entries)
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return name


def read_evidence(path: str | Path) -> SessionRecord:
    """The record of a call. Raises EvidenceError."""
    try:
        with Path(path).open("rb") as file, _entries(file) as entries:
            about = json.loads(entries["about"].tobytes())
            version = about["schema_version"]
            if version != SCHEMA_VERSION:
                raise EvidenceError(f"{path}: schema_version {version!r} is not {SCHEMA_VERSION}, which this reads")
            return _record(about, entries)
    except EvidenceError:
        raise
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except KeyError as error:
        raise EvidenceError(f"{path}: no evidence of a call: {error.args[0]} is missing") from None
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, AudioFileError) as error:
        raise EvidenceError(f"{path}: no evidence of a call: {' '.join(str(error).split())}") from None


def _entries(file: BinaryIO) -> Any:
    if not zipfile.is_zipfile(file):
        raise ValueError("this is no zip file")
    return np.load(file, allow_pickle=False)


def _about(record: SessionRecord) -> dict[str, Any]:
    scenario = record.scenario.model_dump(mode="json", by_alias=True)
    scenario["adapter"]["options"] = {}
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(record, name) for name in _PLAIN},
        "scenario": scenario,
        "windows": [[window.start, window.end, window.trigger] for window in record.windows],
        "clears": list(record.clears),
        "transcripts": [asdict(transcript) for transcript in record.transcripts],
        "events": [asdict(event) for event in record.events],
        "loop": asdict(record.loop) if record.loop else None,
    }


def _record(about: Mapping[str, Any], entries: Mapping[str, Any]) -> SessionRecord:
    scenario = Scenario.model_validate(about["scenario"])
    user, agent = _both(entries["tracks"].tobytes())
    return SessionRecord(
        **{name: about[name] for name in _PLAIN},
        scenario=scenario,
        user_track=user,
        agent_track=agent,
        sent=entries["caller_sent"],
        packets=Packets(**{field.name: entries[f"agent_{field.name}"] for field in fields(Packets)}),
        windows=tuple(
            TurnWindow(turn, *window) for turn, window in zip(scenario.turns, about["windows"], strict=False)
        ),
        clears=tuple(about["clears"]),
        transcripts=tuple(Transcript(**transcript) for transcript in about["transcripts"]),
        events=tuple(CallEvent(**event) for event in about["events"]),
        loop=LoopHealth(**about["loop"]) if about["loop"] else None,
    )


def _tracks(record: SessionRecord) -> bytes:
    """The caller on the left, the agent on the right; nothing if there is nothing to hear."""
    if not len(record.user_track):
        return b""
    return to_flac(np.stack([record.user_track, record.agent_track], axis=1), record.sample_rate)


def _both(flac: bytes) -> tuple[Int16Array, Int16Array]:
    if not flac:
        return np.zeros(0, dtype=np.int16), np.zeros(0, dtype=np.int16)
    tracks = read_flac(io.BytesIO(flac))
    return np.ascontiguousarray(tracks[:, 0]), np.ascontiguousarray(tracks[:, 1])
