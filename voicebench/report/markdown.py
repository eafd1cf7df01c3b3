"""``report.md``: the report for a pull request or a terminal pager."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from voicebench.report.delivery import COLUMNS, delivery_rows
from voicebench.report.figures import assertion_scope, assertion_text, facts, key_figures, spread, turn_rows
from voicebench.report.format import DASH, ms, number, share
from voicebench.report.verdict import verdict

#: With at most this many calls each gets its own table of turns.
MOST_CALLS = 5
MOST_FAILED_TURNS = 50

#: What means something to Markdown. An underscore within a word does not.
_MARKUP = re.compile(r"[\\`*\[\]|#~]|(?<![^\W_])_|_(?![^\W_])")


def render_markdown(report: Mapping[str, Any]) -> str:
    """The whole report as GitHub-flavoured Markdown."""
    result = verdict(report)
    names = ", ".join(scenario["name"] for scenario in report["scenarios"]) or "no scenario"
    parts = [
        f"# voicebench: {_safe(names)}\n",
        f"**{result.result.upper()}** {_safe(result.why)}\n",
        "\n".join(f"- {name}: {_safe(value)}" for name, value in facts(report)) + "\n",
        _section("Summary", ("Figure", "Value"), key_figures(report)),
        _assertions(report),
        _by_turn(report),
        _section("Delivery", COLUMNS, delivery_rows(report)),
        _workers(report),
        _failures(report),
        _failed_turns(report),
        *(_call(session) for session in report["sessions"] if len(report["sessions"]) <= MOST_CALLS),
        _notes(report),
        f"voicebench {_safe(report['voicebench_version'])}, Python {_safe(report['python'] or DASH)}, "
        f"run {_safe(report['run']['id'])}\n",
    ]
    return "\n".join(part for part in parts if part)


def _section(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table, nothing if there are no rows."""
    lines = ["| " + " | ".join(_safe(cell) for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return f"## {heading}\n\n" + "\n".join([*head, *lines]) + "\n"


def _assertions(report: Mapping[str, Any]) -> str:
    rows = [
        (assertion_scope(item), item["key"], *assertion_text(item), "pass" if item["passed"] else "FAIL")
        for item in report["assertions"]
    ]
    return _section("Assertions", ("Scenario", "Assertion", "Limit", "Actual", "Result"), rows)


def _by_turn(report: Mapping[str, Any]) -> str:
    columns = (
        "Turn",
        "Passed",
        "Response p50 / p90 / p99",
        "TTFA p50 / p90",
        "Stop p50 / max",
        "WER",
        "Missed",
        "Void",
    )
    return _section("Turns", columns, [tuple(row.values()) for row in turn_rows(report)])


def _workers(report: Mapping[str, Any]) -> str:
    rows = [
        (
            worker["id"],
            worker["host"] or DASH,
            number(worker["started"]),
            number(worker["recorded"]),
            number(worker["lost"]),
            spread(worker["send_lag_ms"], ("p99", "max")),
            spread(worker["loop_lag_ms"], ("p99", "max")),
            number(worker["skipped_frames"]),
            number(worker["void_turns"]),
            share(worker["cpu_share"]),
            worker["timestamps"] or DASH,
        )
        for worker in report["workers"]
    ]
    columns = (
        "Worker",
        "Host",
        "Started",
        "Recorded",
        "Lost",
        "Send lag p99 / max",
        "Loop lag p99 / max",
        "Skipped",
        "Void",
        "CPU",
        "Time stamps",
    )
    return _section("Workers", columns, rows if len(rows) > 1 else [])


def _failures(report: Mapping[str, Any]) -> str:
    rows = [(number(item["count"]), item["outcome"], item["reason"] or DASH) for item in report["failures"]]
    return _section("Calls that did not complete", ("Calls", "Outcome", "Reason"), rows)


def _failed_turns(report: Mapping[str, Any]) -> str:
    total, shown = report["failed_turns_total"], report["failed_turns"][:MOST_FAILED_TURNS]
    heading = f"Failed turns ({total:,})" + (f", the first {len(shown)}" if total > len(shown) else "")
    rows = [
        (item["call_id"], item["scenario"], item["turn"], item["what"], "; ".join(item["notes"])) for item in shown
    ]
    return _section(heading, ("Call", "Scenario", "Turn", "What", "Notes"), rows)


def _call(session: Mapping[str, Any]) -> str:
    rows = [
        (
            turn["id"],
            turn["expect"],
            ms(turn["response_latency_ms"]),
            ms(turn["ttfa_ms"]),
            ms(turn["stop_latency_ms"]),
            number(turn["wer"]),
            turn_result(turn),
            "; ".join(turn["notes"]),
        )
        for turn in session["turns"]
    ]
    columns = ("Turn", "Expect", "Response", "TTFA", "Stop", "WER", "Result", "Notes")
    return _section(f"Call {_safe(session['call_id'])} ({session['outcome']})", columns, rows)


def turn_result(turn: Mapping[str, Any]) -> str:
    """``pass``, ``fail``, ``void``, or ``not asked`` where the harness ended the call before the turn."""
    states = set(turn["status"].values())
    if "void" in states:
        return "void"
    if turn["trigger"] == "not_played" and states == {"not_applicable"}:
        return "not asked"
    return "pass" if turn["passed"] else "fail"


def _notes(report: Mapping[str, Any]) -> str:
    notes = report["run"]["notes"]
    return "## Notes\n\n" + "\n".join(f"- {_safe(note)}" for note in notes) + "\n" if notes else ""


def _safe(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = _MARKUP.sub(r"\\\g<0>", " ".join(str(text).split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
