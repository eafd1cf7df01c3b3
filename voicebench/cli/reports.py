"""``voicebench report`` and ``merge``: make reports again from the calls that runs stored."""

import argparse
from pathlib import Path
from typing import Any

from voicebench.cli.options import UsageError, add_format_argument


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``report`` and ``merge``."""
    report = commands.add_parser(
        "report", parents=[common], help="make the report of a run again, or one of several parts of a run"
    )
    report.add_argument("directories", nargs="+", metavar="DIR", type=Path, help="what a run wrote")
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: the first DIR)")
    add_format_argument(report)
    report.add_argument("-q", "--quiet", action="store_true", help="do not print the summary")
    report.set_defaults(handler=lambda args: _remake(args.directories, args.out or args.directories[0], args))

    merge = commands.add_parser("merge", parents=[common], help="make one report of what several workers stored")
    merge.add_argument("out", type=Path, metavar="OUT", help="directory to write to")
    merge.add_argument("directories", nargs="+", metavar="DIR", type=Path, help="what a worker stored")
    add_format_argument(merge)
    merge.add_argument("-q", "--quiet", action="store_true", help="do not print the summary")
    merge.set_defaults(handler=lambda args: _remake(args.directories, args.out, args))


def _remake(sources: list[Path], out: Path, args: argparse.Namespace) -> int:
    """Read the stored calls, write their report to ``out``; returns the exit code that the run had."""
    from voicebench.report.console import render_console
    from voicebench.report.write import report_again

    # A worker's spool lies in its run directory under a fixed name: the file stands for the directory.
    directories = [source.parent if source.is_file() else source for source in sources]
    missing = [source for source in sources if not source.exists()]
    if missing:
        raise UsageError(f"{missing[0]}: no such directory")
    report = report_again(directories, out, args.formats)
    if not args.quiet:
        print(render_console(report, [out / f"report.{name}" for name in args.formats]))
    return int(report["exit_code"])
