"""``voicebench run``: play a scenario against an agent, once or several times, one call after the other."""

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voicebench.cli.options import UsageError, add_format_argument, add_option_argument, key_values, positive_int

if TYPE_CHECKING:
    from voicebench.bench import BenchResult
    from voicebench.metrics.results import SessionResult

RESULTS_DIR = Path("voicebench-results")


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``run``."""
    run = commands.add_parser(
        "run",
        parents=[common],
        help="run a scenario against an agent",
        description="Play a scenario against an agent, once or several times, one call after the other.",
    )
    run.add_argument("scenario", type=Path, help="scenario file (YAML)")
    run.add_argument(
        "-a", "--adapter", help="mock, websocket, audiosocket, or module:Class; overrides the scenario's adapter"
    )
    add_option_argument(run, "option of the adapter; the value is YAML (repeatable)")
    run.add_argument(
        "--url", help="address of the agent: the adapter's option 'url'; without -a its scheme chooses the adapter"
    )
    run.add_argument("-n", "--repeat", type=positive_int, help="number of calls (default: the scenario's runs, or 1)")
    run.add_argument("--realtime", action="store_true", help="hold the mock's call in real time too")
    run.add_argument("--out", type=Path, help=f"where to write (default: {RESULTS_DIR}/<scenario>-<time>)")
    add_format_argument(run)
    run.add_argument("--record", choices=("none", "failed", "all"), default="none", help="which calls to keep as WAV")
    run.add_argument(
        "--frames",
        choices=("none", "failed", "all"),
        default="none",
        help="of which calls to keep every frame's clocks",
    )
    run.add_argument("--no-write", action="store_true", help="print the summary, write no files")
    run.add_argument("-q", "--quiet", action="store_true", help="do not print the summary")
    run.set_defaults(handler=run_command)


def run_command(args: argparse.Namespace) -> int:
    """Run the calls, write the reports, print the summary; returns the exit code."""
    if args.no_write and (args.out or (args.record, args.frames) != ("none", "none")):
        raise UsageError("--no-write leaves no place for --out, --record or --frames; drop one of them")
    # Adapters may block their own greenlet, in connect() above all, while the pacer keeps time. This comes before
    # whatever else imports sockets and threads.
    from gevent import monkey

    monkey.patch_all()
    from voicebench.adapters import adapter_for
    from voicebench.bench import run_benchmark
    from voicebench.scenario import load_scenario

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a stopped run reports, as after Ctrl-C
    scenario = load_scenario(args.scenario)
    options = key_values(args.options)
    adapter = args.adapter
    if args.url is not None:
        options["url"] = args.url
        adapter = adapter or adapter_for(args.url, scenario.adapter.type)
    out = None if args.no_write else args.out or default_directory(scenario.name)
    repeat = args.repeat or scenario.runs
    progress = _Progress(repeat) if repeat > 1 and not args.quiet else None
    bench = run_benchmark(
        scenario,
        adapter,
        options,
        repeat=repeat,
        realtime=args.realtime,
        out=out,
        formats=args.formats,
        record=args.record,
        frames=args.frames,
        on_result=progress,
    )
    _print_summary(bench, args.quiet)
    return bench.exit_code


def default_directory(name: str) -> Path:
    """A new directory named after the scenario and the time (VB26)."""
    from voicebench.bench import slug

    base = RESULTS_DIR / f"{slug(name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 2
    while path.exists():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def _print_summary(bench: "BenchResult", quiet: bool) -> None:
    from voicebench.report.console import render_console

    if not quiet:
        print(render_console(bench.report, bench.paths))
    for note in bench.run.notes if quiet else ():
        print(f"voicebench: {note}", file=sys.stderr)


class _Progress:
    """One line on standard error per finished call."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def __call__(self, result: "SessionResult") -> None:
        self._done += 1
        turns = result.metrics.turns if result.metrics else ()
        passed = sum(turn.passed for turn in turns)
        detail = f" ({result.reason})" if result.reason else f", {passed}/{len(turns)} turns passed"
        print(f"call {self._done}/{self._total}: {result.outcome}{detail}", file=sys.stderr)
