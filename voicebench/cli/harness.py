"""``voicebench validate-harness``: does the tool see what it is there to see (TV13, TV14)."""

import argparse
import json
from pathlib import Path
from typing import Any, Literal

from voicebench.cli.options import UsageError, positive_int
from voicebench.exits import Exit

_TRANSPORTS: tuple[Literal["mock", "websocket", "audiosocket"], ...] = ("mock", "websocket", "audiosocket")


def add_commands(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add ``validate-harness``."""
    validate = commands.add_parser(
        "validate-harness",
        parents=[common],
        help="measure the reference agent with each of its defects",
        description="Measure the reference agent with each of its defects: each has to move its own metrics, and to "
        "leave the others. Exit code 1: the tool has gone blind to one, or one moved what is another's.",
    )
    validate.add_argument(
        "--transport", choices=(*_TRANSPORTS, "all"), default="all", help="how to reach it (default: all of them)"
    )
    validate.add_argument("--runs", type=positive_int, default=5, help="calls of each kind and defect (default: 5)")
    validate.add_argument("--out", type=Path, metavar="FILE", help="write every median and range as JSON")
    validate.set_defaults(handler=validate_command)


def validate_command(args: argparse.Namespace) -> int:
    """Measure, print a table for each transport, say what is wrong; returns the exit code."""
    from gevent import monkey

    monkey.patch_all()
    from voicebench.validation import ranges, table, to_dict, validate

    if args.out is not None and not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: there is no directory {args.out.parent}")
    matrices = []
    for transport in _TRANSPORTS:
        if args.transport not in (transport, "all"):
            continue
        matrix = validate(transport, args.runs)
        matrices.append(matrix)
        print(f"{transport}, {args.runs} runs: medians; what a defect is to move is marked with *")
        print(table(matrix))
        print(ranges(matrix) if args.runs > 1 else "", flush=True)
        for problem in matrix.problems:
            print(f"{transport}: {problem}")
        if matrix.passed:
            print(f"{transport}: every defect moves its own metrics, and leaves the others", flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps([to_dict(matrix) for matrix in matrices], indent=2) + "\n")
    if not all(matrix.valid for matrix in matrices):
        return Exit.INVALID
    return Exit.OK if all(matrix.passed for matrix in matrices) else Exit.ASSERTION
