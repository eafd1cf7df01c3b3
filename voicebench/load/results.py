"""From the record of a call to its result, off the event loop."""

import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from voicebench.bench import Record, wanted
from voicebench.metrics import measure
from voicebench.metrics.results import SessionResult
from voicebench.runner.evidence import write_evidence
from voicebench.runner.record import SessionRecord
from voicebench.runner.recording import write_recording
from voicebench.scenario import Scenario


def measured(
    record: SessionRecord,
    worker: str,
    keep: tuple[Record, Record],
    directory: Path,
    scheduled_at: float | None = None,
) -> SessionResult:
    """Measure a call; ``keep`` says whether to write its recording, and whether its evidence.

    Never raises: a call whose measurement fails is still a call, and says so.
    """
    recordings, frames = keep
    try:
        result = measure(record, worker=worker)
        if wanted(recordings, result):
            result = replace(result, recording=_recorded(record, directory))
    except Exception as error:
        result = unmeasured(record, worker, f"measurement error: {type(error).__name__}: {error}")
    if wanted(frames, result):
        result = replace(result, frames=_evidence(record, directory))
    return replace(result, scheduled_at=scheduled_at)


def unmeasured(record: SessionRecord, worker: str, reason: str) -> SessionResult:
    """The result of a call of which only the record is known."""
    return SessionResult(
        call_id=record.call_id,
        scenario=record.scenario.name,
        worker=worker,
        outcome="failed",
        reason=" ".join(reason.split()),
        started_at=record.started_at,
        connect_ms=record.connect_ms,
        clock=record.clock,
        timestamps=record.timestamps,
        adapter=record.adapter,
        metrics=None,
        metadata=record.metadata,
    )


def not_started(
    scenario: Scenario,
    adapter: Mapping[str, Any],
    worker: str,
    scheduled_at: float,
    outcome: Literal["failed", "truncated"],
    reason: str,
) -> SessionResult:
    """The result of a call that was scheduled, and that the harness did not begin."""
    return SessionResult(
        call_id=uuid.uuid4().hex,
        scenario=scenario.name,
        worker=worker,
        outcome=outcome,
        reason=reason,
        started_at=time.time(),
        connect_ms=None,
        clock="real",
        timestamps="",
        adapter=adapter,
        metrics=None,
        metadata=scenario.metadata,
        scheduled_at=scheduled_at,
    )


def _recorded(record: SessionRecord, directory: Path) -> dict[str, str] | None:
    if not len(record.user_track):  # never connected: there is nothing to hear
        return None
    try:
        return write_recording(record, directory)
    except OSError as error:
        print(f"voicebench: recording of call {record.call_id}: {error.strerror or error}", file=sys.stderr)
        return None


def _evidence(record: SessionRecord, directory: Path) -> str | None:
    try:
        return write_evidence(record, directory)
    except Exception as error:  # a full disk, or a record that contradicts itself
        print(f"voicebench: evidence of call {record.call_id}: {error}", file=sys.stderr)
        return None
