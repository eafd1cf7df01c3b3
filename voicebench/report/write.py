"""Writes the reports of a run, and makes them again from what the run stored."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from voicebench.metrics.results import SessionResult
from voicebench.report.build import build_report
from voicebench.report.html import render_html
from voicebench.report.markdown import render_markdown
from voicebench.report.store import ReportError, load, store, write_atomic

FORMATS = ("json", "md", "html")


def write_reports(
    directory: str | Path,
    report: Mapping[str, Any],
    results: Iterable[SessionResult],
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Write ``report.<format>`` for each format and return the paths.

    Each file is replaced in one step. The same report gives the same bytes. If one cannot be written, the others
    still are; then ReportError names the first that could not.
    """
    directory = Path(directory)
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ReportError(f"{unknown[0]!r} is not a format of reports; use some of {', '.join(FORMATS)}")
    calls = list(results)
    written: list[Path] = []
    problems: list[str] = []
    for name in formats:
        path = directory / f"report.{name}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomic(path, _render(name, report, calls).encode())
            written.append(path)
        except OSError as error:
            problems.append(f"{path}: cannot be written: {error.strerror}")
    if problems:
        raise ReportError(problems[0])
    return written


def report_again(
    directories: Sequence[str | Path], out: str | Path | None = None, formats: Sequence[str] = FORMATS
) -> dict[str, Any]:
    """Make the report of a run again, or of several parts of one run together.

    ``out`` is where the files go: the first directory unless given. If that is not the only source, what was put
    together is stored there as well, as a run directory of its own. Raises ReportError.
    """
    if not directories:
        raise ReportError("no run directory given")
    target = Path(out) if out is not None else Path(directories[0])
    run, results = load(directories, base=target)
    if [Path(directory).resolve() for directory in directories] != [target.resolve()]:
        store(target, run, results)
    report = build_report(run, results)
    write_reports(target, report, results, formats)
    return report


def _render(name: str, report: Mapping[str, Any], calls: Sequence[SessionResult]) -> str:
    if name == "json":
        return json.dumps(_finite(report), indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
    return render_markdown(report) if name == "md" else render_html(report, calls)


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become null."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
