"""What several commands share: parsing of option values, and the error for bad ones."""

import argparse
from collections.abc import Sequence
from typing import Any

#: The formats a report can be written in.
FORMATS = ("json", "md", "html")


class UsageError(ValueError):
    """Arguments that do not make sense. The message is one line that says what to write instead."""


def key_values(texts: Sequence[str]) -> dict[str, Any]:
    """Parse several ``KEY=YAML``; of two with one key the last one counts. Raises UsageError."""
    from voicebench.load.options import parse_pair

    try:
        return dict(parse_pair(text) for text in texts)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"-o {error}") from None


def formats(text: str) -> tuple[str, ...]:
    """Parse ``json,md,html``. Raises ArgumentTypeError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: use one or several of {', '.join(FORMATS)}, with commas")
    return names


def positive_int(text: str) -> int:
    """Parse a whole number of at least 1. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def positive_float(text: str) -> float:
    """Parse a finite number above 0. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def add_option_argument(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add ``-o KEY=YAML``; ``args.options`` becomes a list of texts for ``key_values``."""
    parser.add_argument(
        "-o", "--option", dest="options", metavar="KEY=YAML", action="append", default=[], help=help_text
    )


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--format json,md,html``."""
    parser.add_argument(
        "--format",
        dest="formats",
        metavar="LIST",
        type=formats,
        default=FORMATS,
        help="formats of the report, with commas (default: json,md,html)",
    )
