"""``voicebench analyze``: measure calls again from their raw evidence, and report."""

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voicebench.cli.options import UsageError, add_format_argument

if TYPE_CHECKING:
    from voicebench.metrics.results import RunInfo, SessionResult
    from voicebench.runner.record import SessionRecord


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``analyze``."""
    analyze = commands.add_parser(
        "analyze",
        parents=[common],
        help="measure calls again from the evidence that --frames kept",
        description="Compute every metric again from what each frame's clocks and the audio tell, and report.",
    )
    analyze.add_argument(
        "sources", nargs="+", metavar="FILE_OR_DIR", type=Path, help="frames/<call>.npz, or what a run wrote"
    )
    analyze.add_argument("--out", type=Path, metavar="DIR", help="write a run directory there (default: print only)")
    add_format_argument(analyze)
    analyze.add_argument("-q", "--quiet", action="store_true", help="do not print the summary")
    analyze.set_defaults(handler=analyze_command)


def analyze_command(args: argparse.Namespace) -> int:
    """Measure, report, and return the exit code that the report gives."""
    from voicebench.report.build import build_report
    from voicebench.report.console import render_console
    from voicebench.report.store import store
    from voicebench.report.write import write_reports

    sources: list[Path] = args.sources
    missing = [source for source in sources if not source.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such file or directory")
    if args.out and any(args.out.resolve() == source.resolve() for source in sources):
        raise UsageError(f"--out {args.out}: write elsewhere, so that what the run stored stays as it is")
    directories = [source for source in sources if source.is_dir()]
    if directories and len(directories) < len(sources):
        raise UsageError("give files or directories, not both")
    run, results = runs_again(directories, args.out) if directories else calls_again(sources)
    report = build_report(run, results)
    paths: Sequence[Path] = ()
    if args.out:
        store(args.out, run, results)
        paths = write_reports(args.out, report, results, args.formats)
    if not args.quiet:
        print(render_console(report, paths))
    return int(report["exit_code"])


def runs_again(directories: Sequence[Path], out: Path | None) -> "tuple[RunInfo, list[SessionResult]]":
    """What runs stored, each call that left evidence measured again. Raises ReportError, EvidenceError."""
    from voicebench.report.store import load

    base = out or directories[0]
    run, stored = load(directories, base=base)
    results = []
    for call in stored:
        if call.frames is None:
            results.append(call)
            continue
        again = _measured(Path(os.path.normpath(base / call.frames)))[1]  # base may not exist yet
        own = {name: getattr(call, name) for name in ("worker", "recording", "frames", "scheduled_at")}
        results.append(replace(again, **own))
    kept = sum(call.frames is not None for call in stored)
    if not kept:
        raise UsageError(f"{directories[0]}: no call left evidence; run with --frames all")
    if kept < len(stored):
        note = f"{kept} of {len(stored)} calls were measured again; of the others there is no evidence"
        run = replace(run, notes=(*run.notes, note))
    return run, results


def calls_again(paths: Iterable[Path]) -> "tuple[RunInfo, list[SessionResult]]":
    """Single calls, apart from the run that they belong to. Raises EvidenceError."""
    measured = [_measured(path) for path in paths]
    return _run_of([record for record, _ in measured]), [result for _, result in measured]


def _measured(path: Path) -> "tuple[SessionRecord, SessionResult]":
    from voicebench.metrics.session import measure
    from voicebench.runner.evidence import EvidenceError, read_evidence

    record = read_evidence(path)
    try:
        return record, measure(record)
    except ValueError as error:
        raise EvidenceError(f"{path}: cannot be measured: {error}") from None


def _run_of(records: "Sequence[SessionRecord]") -> "RunInfo":
    from voicebench.bench import describe_scenario
    from voicebench.metrics.results import RunInfo
    from voicebench.version import __version__

    first = min(records, key=lambda record: record.started_at)
    return RunInfo(
        id=f"analysis of {first.call_id}" + (f" and {len(records) - 1} more" if len(records) > 1 else ""),
        created_at=datetime.fromtimestamp(first.started_at, UTC).isoformat(timespec="seconds"),
        duration_s=round(sum(record.duration for record in records), 3),
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        arrivals="closed",
        clock=first.clock,
        adapter=first.adapter,
        scenarios=tuple({record.scenario.name: describe_scenario(record.scenario) for record in records}.values()),
        workers=(),
        voicebench_version=__version__,
        python=platform.python_version(),
    )
