"""The run directory: ``sessions.jsonl``, one call a line, written as calls end, and ``run.json``.

Any report can be made again from these two files, and what was recorded survives a run that is killed: every line
is in the file before ``add`` returns.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from voicebench.metrics.results import RunInfo, SessionResult, WorkerInfo
from voicebench.metrics.serialise import from_dict, run_from_dict, run_to_dict, to_dict
from voicebench.report.redact import redact, redact_command, redact_text
from voicebench.version import __version__

SESSIONS_FILE = "sessions.jsonl"
RUN_FILE = "run.json"
REPORT_FILES = ("report.json", "report.md", "report.html")

#: Which of two records of one call is worth more.
_WORTH = {"completed": 3, "truncated": 2, "failed": 1, "lost": 0}

_PROBE = b"x" * 4096


class ReportError(RuntimeError):
    """A run directory that cannot be written or read. The message is one line that says what and where."""


class RunWriter:
    """Writes a run directory. Open it before the run: it fails at once where a later write would.

    Files of an earlier run in the same directory are replaced. With ``run`` given, a first ``run.json`` is written
    at once, so that a run that is killed can still be reported. Raises ReportError.
    """

    def __init__(self, directory: str | Path, run: RunInfo | None = None) -> None:
        self.directory = Path(directory)
        self._path = self.directory / SESSIONS_FILE
        self._pending: list[bytes] = []
        self._good_bytes = 0
        self._written = 0
        self._problem = ""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            _prove_writable(self.directory)
            for name in (RUN_FILE, *REPORT_FILES):
                (self.directory / name).unlink(missing_ok=True)
            self._file: BinaryIO = self._path.open("wb", buffering=0)
            if run is not None:
                write_atomic(self.directory / RUN_FILE, _run_json(run, ended=False))
        except OSError as error:
            raise ReportError(f"cannot write to {self.directory}: {error.strerror}; choose another --out") from None

    @property
    def unwritten(self) -> int:
        """Calls that are only in memory, because the disk would not take them."""
        return len(self._pending)

    def add(self, result: SessionResult) -> None:
        """Append one call. If the disk refuses, it is kept in memory and tried again at the next call."""
        self._pending.append(_line(result))
        self._flush()

    def close(self, run: RunInfo) -> RunInfo:
        """Write what is pending, then ``run.json``. Returns ``run`` with a note of what could not be written."""
        self._flush()
        with contextlib.suppress(OSError):  # no such call on a device; the data is written all the same
            os.fsync(self._file.fileno())
        self._file.close()
        if self._pending:
            lost = f"{len(self._pending)} of {len(self._pending) + self._written} calls"
            run = replace(
                run, notes=(*run.notes, f"{lost} could not be stored in {self._path.name}: {self._problem}")
            )
        try:
            write_atomic(self.directory / RUN_FILE, _run_json(run, ended=True))
        except OSError as error:
            run = replace(run, notes=(*run.notes, f"{RUN_FILE} could not be written: {error.strerror}"))
        return run

    def _flush(self) -> None:
        done = 0
        for line in self._pending:
            if not self._append(line):
                break
            done += 1
        del self._pending[:done]
        self._written += done

    def _append(self, line: bytes) -> bool:
        """Write one whole line, or none of it."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.seek(self._good_bytes)
                self._file.truncate()
            self._warn(error.strerror or str(error))
            return False
        self._good_bytes += len(line)
        return True

    def _warn(self, problem: str) -> None:
        if not self._problem:
            print(f"voicebench: {self._path}: {problem}; keeping the calls in memory", file=sys.stderr)
        self._problem = problem


def load(directories: Sequence[str | Path], base: Path | None = None) -> tuple[RunInfo, list[SessionResult]]:
    """Read one or several run directories as one run.

    A torn line is left out and noted; of two records of one call the better one stays. Paths of recordings become
    relative to ``base`` (the first directory unless given). Raises ReportError.
    """
    if not directories:
        raise ReportError("no run directory given")
    base = base or Path(directories[0])
    runs: list[RunInfo] = []
    found: list[SessionResult] = []
    for directory in map(Path, directories):
        notes: list[str] = []
        results = _best(_rebased(result, directory, base) for result in _read_sessions(directory, notes))
        run = _read_run(directory, results, notes)
        runs.append(replace(run, notes=(*run.notes, *(note for note in notes if note not in run.notes))))
        found += results
    if len(runs) == 1:
        return runs[0], found
    results, run = _best(found), merge_runs(runs)
    return replace(run, workers=_recounted(run.workers, results)), results


def store(directory: Path, run: RunInfo, results: Sequence[SessionResult]) -> None:
    """Keep a run that was put together from others, so that its report can be made again from there.

    Each file is replaced in one step. Raises ReportError, also where that would drop a call that only
    ``directory`` holds.
    """
    if (directory / SESSIONS_FILE).exists():
        stored = {result.call_id for result in load([directory])[1]}
        only_here = len(stored - {result.call_id for result in results})
        if only_here:
            raise ReportError(
                f"{directory} holds {only_here} other calls; name it as a source too, or write elsewhere"
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomic(directory / SESSIONS_FILE, b"".join(map(_line, results)))
        write_atomic(directory / RUN_FILE, _run_json(run, ended=True))
    except OSError as error:
        raise ReportError(f"cannot write to {directory}: {error.strerror}") from None


def merge_runs(runs: Sequence[RunInfo]) -> RunInfo:
    """Several parts of one run (its workers' spools, say) as one: the longest span, all workers, all notes."""
    first = min(runs, key=lambda run: run.created_at)
    scenarios = {str(scenario["name"]): scenario for run in reversed(runs) for scenario in run.scenarios}
    workers: dict[str, WorkerInfo] = {}
    for worker in (worker for run in runs for worker in run.workers):
        known = workers.get(worker.id)
        workers[worker.id] = worker if known is None or worker.started > known.started else known
    return replace(
        first,
        duration_s=max(run.duration_s for run in runs),
        scenarios=tuple(scenarios[name] for name in dict.fromkeys(str(s["name"]) for r in runs for s in r.scenarios)),
        workers=tuple(workers.values()),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
        invalid=tuple(dict.fromkeys(reason for run in runs for reason in run.invalid)),
    )


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data`` in one step: a reader sees the old file or the new one. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def without_secrets(result: Mapping[str, Any]) -> dict[str, Any]:
    """A serialised call as any file may hold it (VB30)."""
    safe = {
        "adapter": redact(result["adapter"]),
        "metadata": redact(result["metadata"]),
        "reason": redact_text(result["reason"]),
    }
    return {**result, **safe}


def run_without_secrets(run: RunInfo) -> RunInfo:
    """A run's description as any file may hold it."""
    return replace(run, adapter=redact(run.adapter), command=redact_command(run.command))


def _prove_writable(directory: Path) -> None:
    probe = directory / f".voicebench-probe.{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(_PROBE)
            file.flush()
            os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _line(result: SessionResult) -> bytes:
    data = without_secrets(to_dict(result))
    return (json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str) + "\n").encode()


def _run_json(run: RunInfo, ended: bool) -> bytes:
    data = {"ended": ended, **run_to_dict(run_without_secrets(run))}
    return (json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n").encode()


def _read_sessions(directory: Path, notes: list[str]) -> Iterator[SessionResult]:
    path = directory / SESSIONS_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file; give the directory of a run") from None
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    torn: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield from_dict(json.loads(line))
        except (ValueError, TypeError, AttributeError) as error:
            torn.append(f"line {number} of {path.name} cannot be read and is left out: {_oneline(error)}")
    notes += torn[:3]
    if len(torn) > 3:
        notes.append(f"{len(torn) - 3} more lines of {path.name} cannot be read")


def _read_run(directory: Path, results: Sequence[SessionResult], notes: list[str]) -> RunInfo:
    path = directory / RUN_FILE
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        run = run_from_dict(data)
    except FileNotFoundError:
        notes.append(f"{path.name} is missing: the run was cut off, and its assertions are unknown")
        return _guess_run(directory, results)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ReportError(f"{path}: not the description of a run: {_oneline(error)}") from None
    if not data.get("ended", True):
        notes.append("the run was cut off before its end")
        return replace(run, workers=_recounted(run.workers, results), duration_s=_span(results))
    return run


def _guess_run(directory: Path, results: Sequence[SessionResult]) -> RunInfo:
    """What a directory without ``run.json`` still tells about its run."""
    started = min((result.started_at for result in results), default=0.0)
    scenarios: dict[str, dict[str, Any]] = {}
    for result in results:
        turns = result.metrics.turns if result.metrics else ()
        if len(turns) >= scenarios.get(result.scenario, {}).get("turns", 0):
            scenarios[result.scenario] = {
                "name": result.scenario,
                "description": "",
                "sample_rate": None,
                "frame_ms": None,
                "turns": len(turns),
                "turn_ids": [turn.id for turn in turns],
                "expects": [turn.expect for turn in turns],
                "assertions": {},
            }
    return RunInfo(
        id=directory.name,
        created_at=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
        duration_s=_span(results),
        command="",
        arrivals="closed",
        clock=results[0].clock if results else "real",
        adapter=results[0].adapter if results else {},
        scenarios=tuple(scenarios.values()),
        workers=_recounted((), results),
        voicebench_version=__version__,
        python="",
    )


def _recounted(workers: Sequence[WorkerInfo], results: Sequence[SessionResult]) -> tuple[WorkerInfo, ...]:
    """Workers with what was found of their calls. What one is known to have started, and left no record, is lost."""
    found: dict[str, list[SessionResult]] = {worker.id: [] for worker in workers}
    for result in results:
        found.setdefault(result.worker, []).append(result)
    known = {worker.id: worker for worker in workers}
    counted = []
    for name, group in found.items():
        worker = known.get(name, WorkerInfo(name, "", started=0, recorded=0, lost=0))
        started = max(worker.started, len(group))
        recorded = sum(result.outcome != "lost" for result in group)
        counted.append(replace(worker, started=started, recorded=recorded, lost=started - recorded))
    return tuple(counted)


def _best(results: Iterable[SessionResult]) -> list[SessionResult]:
    """One record for each call, the one that is worth most."""
    best: dict[str, SessionResult] = {}
    for result in results:
        known = best.get(result.call_id)
        if known is None or _WORTH[result.outcome] > _WORTH[known.outcome]:
            best[result.call_id] = result
    return list(best.values())


def _span(results: Sequence[SessionResult]) -> float:
    if not results:
        return 0.0
    ends = [result.started_at + (result.metrics.duration_s if result.metrics else 0.0) for result in results]
    return round(max(ends) - min(result.started_at for result in results), 3)


def _rebased(result: SessionResult, directory: Path, base: Path) -> SessionResult:
    if directory.resolve() == base.resolve():
        return result
    recording, frames = result.recording, result.frames
    if recording:
        recording = {name: os.path.relpath(directory / path, base) for name, path in recording.items()}
    if frames:
        frames = os.path.relpath(directory / frames, base)
    return replace(result, recording=recording, frames=frames)


def _oneline(error: Exception) -> str:
    return " ".join(str(error).split())
