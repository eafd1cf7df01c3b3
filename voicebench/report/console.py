"""What a run prints at its end: at most 100 columns, plain text, coloured only for a terminal."""

import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from voicebench.report.delivery import COLUMNS, delivery_rows
from voicebench.report.figures import assertion_scope, assertion_text, facts, key_figures, turn_rows
from voicebench.report.format import ms, number
from voicebench.report.markdown import turn_result
from voicebench.report.verdict import verdict

WIDTH = 100
MOST_LINES = 10

_COLORS = {"PASS": "32", "FAIL": "31", "INVALID": "33", "UNREACHABLE": "31", "pass": "32", "fail": "31", "void": "33"}


def render_console(report: Mapping[str, Any], paths: Sequence[str | Path] = (), color: bool | None = None) -> str:
    """The table for the terminal. ``paths`` are the reports' files; ``color`` None asks the standard output."""
    paint = _Paint(wants_color(sys.stdout) if color is None else color)
    result = verdict(report)
    blocks = [
        _pairs([("voicebench " + report["voicebench_version"], ""), *_short_facts(report)]),
        _pairs(key_figures(report)),
        _turns(report, paint),
        _delivery(report, paint),
        _assertions(report, paint),
        _troubles(report),
        [line for note in report["run"]["notes"] for line in _wrapped("note: ", note)],
        _verdict(result.result.upper(), result.why, paint),
        _paths(paths),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def wants_color(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal whose user did not forbid colour (NO_COLOR)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


class _Paint:
    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, word: str) -> str:
        code = _COLORS.get(word.strip())
        return f"\x1b[1;{code}m{word}\x1b[0m" if self._on and code else word


def _short_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in facts(report) if name != "Command"]


def _pairs(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, value in rows for line in _wrapped(f"{name:<36}", value)]


def _wrapped(first: str, text: str) -> list[str]:
    text = _plain(text)
    if not text:
        return [first.rstrip()]
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def _plain(text: str) -> str:
    """One line without control characters: what an agent sends must not steer the terminal."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)).split())


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], paint: _Paint) -> list[str]:
    """Columns side by side: the first to the left, the others to the right; the first gives way if it is too wide."""
    if not rows:
        return []
    cells = [[_plain(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(columns))]
    widths[0] = max(12, min(widths[0], WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1)))
    lines = []
    for row in cells:
        first = row[0] if len(row[0]) <= widths[0] else row[0][: widths[0] - 1] + "…"
        others = [paint(cell.rjust(width)) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *others]).rstrip())
    return [lines[0], "-" * min(WIDTH, sum(widths) + 2 * (len(widths) - 1)), *lines[1:]]


def _turns(report: Mapping[str, Any], paint: _Paint) -> list[str]:
    """One call: its turns. Many: the distributions of each turn."""
    if report["sessions_total"] == 1:
        rows = [
            (
                turn["id"],
                turn["expect"],
                ms(turn["response_latency_ms"]),
                ms(turn["ttfa_ms"]),
                ms(turn["stop_latency_ms"]),
                number(turn["wer"]),
                turn_result(turn),
            )
            for turn in report["sessions"][0]["turns"]
        ]
        return _table(("turn", "expect", "response", "TTFA", "stop", "WER", "result"), rows, paint)
    many = [
        (row["turn"], row["passed"], row["response"], row["ttfa"], row["stop"], row["missed"], row["void"])
        for row in turn_rows(report)
    ]
    columns = ("turn", "passed", "response p50/p90/p99", "TTFA p50/p90", "stop p50/max", "missed", "void")
    return _table(columns, many, paint)


def _delivery(report: Mapping[str, Any], paint: _Paint) -> list[str]:
    return _table([name.lower() for name in COLUMNS], delivery_rows(report), paint)


def _assertions(report: Mapping[str, Any], paint: _Paint) -> list[str]:
    single = len(report["scenarios"]) == 1
    lines = []
    for item in report["assertions"]:
        limit, actual = assertion_text(item)
        where = "" if single and not item["builtin"] else _plain(assertion_scope(item)) + ": "
        mark = paint("PASS" if item["passed"] else "FAIL")
        lines.append(f"{mark}  {where}{item['key']} {limit} (actual {actual})")
    return lines


def _troubles(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for item in report["failures"][:MOST_LINES]:
        lines += _wrapped(f"{item['count']:>5,} {item['outcome']:<10} ", item["reason"] or "no reason given")
    shown = report["failed_turns"][:MOST_LINES]
    for item in shown:
        notes = f" ({'; '.join(item['notes'])})" if item["notes"] else ""
        lines += _wrapped("  ", f"{item['call_id']} {item['turn']}: {item['what']}{notes}")
    if report["failed_turns_total"] > len(shown):
        lines.append(f"  and {report['failed_turns_total'] - len(shown):,} more failed turns, see the report")
    return lines


def _verdict(word: str, why: str, paint: _Paint) -> list[str]:
    first, *rest = _wrapped(f"{word}  ", why)
    return [paint(word) + first[len(word) :], *rest]


def _paths(paths: Sequence[str | Path]) -> list[str]:
    return ["reports: " + str(path) if not number else "         " + str(path) for number, path in enumerate(paths)]
