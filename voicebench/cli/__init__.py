"""The ``voicebench`` command (VB24-VB26).

Each module here adds its commands to the parser and imports what they need only when one of them runs, so that
``voicebench --help`` answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from voicebench.cli import agent, analyze, calibrate, calls, harness, reports, scenarios, signals
from voicebench.exits import Exit
from voicebench.version import __version__


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.USAGE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each sets ``handler``: a function from the parsed arguments to an exit code."""
    common = Parser(add_help=False)
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks of errors")
    parser = Parser(
        prog="voicebench",
        description="Load testing and evaluation of real-time voice agents.",
        epilog="Load runs start with Locust: locust -f locustfiles/voice.py --help",
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"voicebench {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for module in (calls, scenarios, agent, harness, signals, reports, analyze, calibrate):
        module.add_commands(commands, common)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code; a user's mistake prints one line, never a traceback."""
    args = build_parser().parse_args(argv)
    try:
        code = int(args.handler(args))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `voicebench schema | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except KeyboardInterrupt:
        print("voicebench: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if getattr(args, "debug", False):
            raise
        code, text = _explain(error)
        print(f"voicebench: {text}", file=sys.stderr)
        return code


def _explain(error: Exception) -> tuple[Exit, str]:
    """The exit code and the line for an error."""
    from voicebench.adapters.base import AdapterError
    from voicebench.audio.files import AudioFileError
    from voicebench.cli.options import UsageError
    from voicebench.report.store import ReportError
    from voicebench.runner.evidence import EvidenceError
    from voicebench.scenario import ScenarioError

    text = " ".join(str(error).split())
    if isinstance(error, UsageError | ScenarioError | AudioFileError | ReportError | EvidenceError):
        return Exit.USAGE, text
    if isinstance(error, AdapterError):
        return Exit.UNREACHABLE, text
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return Exit.USAGE, f"{place}{error.strerror or text}"
    return Exit.INVALID, f"unexpected {type(error).__name__}: {text} (run again with --debug, and please report it)"
