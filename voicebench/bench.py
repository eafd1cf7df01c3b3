"""Run a scenario some times in this process, one call after the other, and add the calls up into a report.

The same in a script, in a test, and behind ``voicebench run``::

    from voicebench import load_scenario, run_benchmark

    bench = run_benchmark(load_scenario("scenarios/booking.yaml"), "websocket", {"url": "ws://127.0.0.1:8765"})
    assert bench.passed, bench.report["assertions"]

Many callers at once are Locust's business: see ``voicebench.load``.
"""

import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from voicebench.adapters import Adapter, create_adapter
from voicebench.exits import Exit
from voicebench.metrics.process import ProcessMeter
from voicebench.metrics.results import RunInfo, SessionResult, WorkerInfo
from voicebench.metrics.session import measure
from voicebench.report.build import build_report, has_failed
from voicebench.report.store import ReportError, RunWriter
from voicebench.report.write import write_reports
from voicebench.runner.evidence import write_evidence
from voicebench.runner.pacer import shared_pacer
from voicebench.runner.prompts import Prompts
from voicebench.runner.record import SessionRecord
from voicebench.runner.recording import write_recording
from voicebench.runner.session import Call
from voicebench.scenario import Scenario
from voicebench.version import __version__

Record = Literal["none", "failed", "all"]

INTERRUPTED = "interrupted by the user"


@dataclass(frozen=True)
class BenchResult:
    """A finished run. ``report`` is the content of ``report.json``; ``results`` holds every call."""

    run: RunInfo
    results: tuple[SessionResult, ...]
    report: dict[str, Any]
    paths: tuple[Path, ...] = ()  #: the reports that were written
    interrupted: bool = False

    @property
    def exit_code(self) -> Exit:
        """How ``voicebench run`` ends after this run."""
        return Exit.INVALID if self.interrupted else Exit(self.report["exit_code"])

    @property
    def passed(self) -> bool:
        """Whether the measurement is valid and every assertion held."""
        return self.exit_code is Exit.OK


def run_benchmark(
    scenario: Scenario,
    adapter: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    repeat: int | None = None,
    realtime: bool = False,
    out: str | Path | None = None,
    formats: Sequence[str] = ("json", "md", "html"),
    record: Record = "none",
    frames: Record = "none",
    on_result: Callable[[SessionResult], None] | None = None,
) -> BenchResult:
    """Play ``scenario`` ``repeat`` times (its own ``runs`` if None), each time with a fresh adapter, and report.

    ``adapter`` and ``options`` go before the scenario's own; the scenario's options are dropped if another adapter
    is named. With ``out`` every call is stored there as it ends, and the reports are written there. A call that
    fails is a record like any other. An interrupt (Ctrl-C) ends the run early: the call it met is recorded as
    truncated, and the run says so in its notes and its exit code.

    Raises AdapterError if the adapter cannot be made, AudioFileError if a prompt cannot be decoded, and ReportError
    if ``out`` cannot be written, all before the first call; ValueError if ``repeat`` is below 1, or if recordings or
    frames are wanted without ``out``.
    """
    repeat = scenario.runs if repeat is None else repeat
    if repeat < 1:
        raise ValueError(f"repeat is {repeat}, must be at least 1")
    if (record, frames) != ("none", "none") and out is None:
        raise ValueError("recordings and frames need a directory: give out")
    name, chosen = choose_adapter(scenario, adapter, options)
    first = create_adapter(name, chosen)  # a misspelt option fails here, before anything is written
    Prompts.of(scenario)  # and so does audio that cannot be decoded
    run = _describe(scenario, first, realtime)
    writer = RunWriter(out, run) if out is not None else None
    bench = _Bench(scenario, run, writer, record, frames, on_result)
    try:
        for number in range(1, repeat + 1):
            bench.call(first if number == 1 else create_adapter(name, chosen), number, realtime)
    except KeyboardInterrupt:
        bench.interrupted = True
        bench.note(f"{INTERRUPTED} in call {len(bench.results)} of {repeat}")
    return bench.finish(formats)


def choose_adapter(
    scenario: Scenario, adapter: str | None, options: Mapping[str, Any] | None
) -> tuple[str, dict[str, Any]]:
    """The adapter's name and options: those given go before the scenario's own."""
    name = adapter or scenario.adapter.type
    own = scenario.adapter.options if name == scenario.adapter.type else {}
    return name, {**own, **(options or {})}


def wanted(what: Record, result: SessionResult) -> bool:
    """Whether something is to be kept of a call."""
    return what == "all" or (what == "failed" and has_failed(result))


def describe_scenario(scenario: Scenario) -> dict[str, Any]:
    """What ``RunInfo.scenarios`` holds of a scenario."""
    return {
        "name": scenario.name,
        "description": scenario.description,
        "sample_rate": scenario.sample_rate,
        "frame_ms": scenario.frame_ms,
        "turns": len(scenario.turns),
        "turn_ids": [turn.id for turn in scenario.turns],
        "expects": [turn.expect for turn in scenario.turns],
        "assertions": dict(scenario.assertions),
    }


def slug(name: str) -> str:
    """A scenario's name as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "scenario"


class _Bench:
    """The run in progress."""

    def __init__(
        self,
        scenario: Scenario,
        run: RunInfo,
        writer: RunWriter | None,
        record: Record,
        frames: Record,
        on_result: Callable[[SessionResult], None] | None,
    ) -> None:
        self.scenario = scenario
        self.results: list[SessionResult] = []
        self.interrupted = False
        self._run = run
        self._writer = writer
        self._record, self._frames = record, frames
        self._on_result = on_result
        self._began = time.monotonic()
        self._meter = ProcessMeter(shared_pacer().health) if run.clock == "real" else None
        # Runs that are merged later keep their calls apart; simulated ones, which are all alike, need not.
        self._worker = "local" if run.clock == "virtual" else f"{platform.node()}-{os.getpid()}"

    def note(self, text: str) -> None:
        self._run = replace(self._run, notes=(*self._run.notes, text))

    def call(self, adapter: Adapter, number: int, realtime: bool) -> None:
        """Hold one call and keep what came of it, even if it is interrupted."""
        # Names of simulated calls count up, so that equal runs leave equal reports.
        call_id = f"{slug(self.scenario.name)}-{number:04d}" if self._run.clock == "virtual" else None
        call = Call(self.scenario, adapter, call_id=call_id, realtime=realtime)
        try:
            record = call.run()
        except KeyboardInterrupt:
            self._keep(call.interrupted(INTERRUPTED))
            raise
        self._keep(record)

    def _keep(self, record: SessionRecord) -> None:
        if self._meter is not None:
            self._meter.take()
        result = measure(record, worker=self._worker)
        if self._writer is not None:
            if wanted(self._record, result):
                result = self._with_recording(result, record, self._writer.directory)
            if wanted(self._frames, result):
                result = self._with_evidence(result, record, self._writer.directory)
            self._writer.add(result)
        self.results.append(result)
        if self._on_result is not None:
            self._on_result(result)

    def _with_recording(self, result: SessionResult, record: SessionRecord, directory: Path) -> SessionResult:
        if not len(record.user_track):  # never connected: there is nothing to hear
            return result
        try:
            return replace(result, recording=write_recording(record, directory))
        except OSError as error:
            self.note(f"the recording of call {result.call_id} could not be written: {error.strerror}")
            return result

    def _with_evidence(self, result: SessionResult, record: SessionRecord, directory: Path) -> SessionResult:
        try:
            return replace(result, frames=write_evidence(record, directory))
        except OSError as error:
            self.note(f"the evidence of call {result.call_id} could not be written: {error.strerror}")
            return result

    def finish(self, formats: Sequence[str]) -> BenchResult:
        """Close the run, and write its reports. A disk that refuses them costs a note, never the result."""
        if self._run.clock == "virtual":
            duration = sum(result.metrics.duration_s for result in self.results if result.metrics)
        else:
            duration = time.monotonic() - self._began
        count = len(self.results)
        process = self._meter.total() if self._meter is not None else None
        worker = WorkerInfo(self._worker, platform.node(), count, count, lost=0, process=process)
        self._run = replace(self._run, duration_s=round(duration, 3), workers=(worker,))
        if self._writer is not None:
            self._run = self._writer.close(self._run)
        report = build_report(self._run, self.results)
        paths: list[Path] = []
        if self._writer is not None:
            try:
                paths = write_reports(self._writer.directory, report, self.results, formats)
            except ReportError as error:
                self.note(str(error))
                report = build_report(self._run, self.results)
        return BenchResult(self._run, tuple(self.results), report, tuple(paths), self.interrupted)


def _describe(scenario: Scenario, adapter: Adapter, realtime: bool) -> RunInfo:
    now = datetime.now(UTC)
    return RunInfo(
        id=f"{slug(scenario.name)}-{now:%Y%m%d-%H%M%S}",
        created_at=now.isoformat(timespec="seconds"),
        duration_s=0.0,
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        arrivals="closed",
        clock="virtual" if adapter.supports_virtual_clock and not realtime else "real",
        adapter=adapter.describe(),
        scenarios=(describe_scenario(scenario),),
        workers=(),
        voicebench_version=__version__,
        python=platform.python_version(),
    )
