"""The one sentence on top of every report: what came out, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from voicebench.exits import Exit
from voicebench.report.build import is_harness_limit
from voicebench.report.format import count, quantity

Result = Literal["pass", "fail", "invalid", "unreachable"]

#: What to do about a harness that is late.
ADVICE = (
    "Use more workers with fewer users each, one worker per core (pin them with taskset), "
    "or a machine with less else to do"
)
#: Overloaded workers that the sentence names.
MOST_WORKERS = 3

_NAMES = {"send_lag_p99_ms": "send lag p99", "void_turn_share": "void turns", "void_turns": "void turns"}

_RESULTS: dict[Exit, Result] = {
    Exit.OK: "pass",
    Exit.ASSERTION: "fail",
    Exit.UNREACHABLE: "unreachable",
    Exit.INVALID: "invalid",
}


@dataclass(frozen=True)
class Verdict:
    """``result`` names the outcome, ``why`` is a sentence for the reader."""

    result: Result
    why: str


def verdict(report: Mapping[str, Any]) -> Verdict:
    """What the exit code means in words."""
    code = Exit(report["exit_code"])
    return Verdict(_RESULTS[code], _why(report, code))


def _why(report: Mapping[str, Any], code: Exit) -> str:
    run, assertions = report["run"], report["assertions"]
    failed = [assertion for assertion in assertions if not assertion["passed"]]
    own = [assertion for assertion in assertions if not assertion.get("builtin")]
    if code is Exit.UNREACHABLE:
        reason = report["failures"][0]["reason"] if report["failures"] else ""
        return f"No call reached the agent ({count(run['started'], 'attempt')})" + (f": {reason}." if reason else ".")
    if code is Exit.INVALID:
        return f"The measurement is not valid: {_invalid(report, failed)}."
    if code is Exit.ASSERTION:
        names = ", ".join(str(assertion["key"]) for assertion in failed[:3])
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        verb = "does not hold" if len(failed) == 1 else "do not hold"
        return f"{len(failed)} of {count(len(own), 'assertion')} {verb}: {names}{more}."
    completed = f"{count(run['completed'])} of {count(run['started'], 'call')} completed"
    void = report["summary"]["void_turns"]
    if void:  # the reader must know how little the figures may rest on
        turns = report["summary"]["turns"] + void
        completed += f"; {void:,} of {count(turns, 'turn')} do not count, since the harness disturbed them"
    if not own:
        return f"{completed}; the scenario asserts nothing."
    held = "The assertion holds" if len(own) == 1 else f"All {len(own)} assertions hold"
    return f"{held}; {completed}."


def _invalid(report: Mapping[str, Any], failed: list[dict[str, Any]]) -> str:
    run = report["run"]
    causes = []
    if run["lost"]:
        verb = "was" if run["lost"] == 1 else "were"
        causes.append(f"{count(run['lost'], 'call')} of {run['started']:,} {verb} lost")
    if run["unaccounted"]:
        causes.append(f"{count(abs(run['unaccounted']), 'call')} cannot be accounted for")
    causes += run.get("invalid", [])
    if not run["completed"]:
        causes.append("no call was started" if not run["started"] else "no call completed")
    limits = [assertion for assertion in failed if is_harness_limit(assertion["key"])]
    if limits:
        causes.append(_late(limits, report["harness"]["overloaded"]))
    return "; ".join(causes)


def _late(limits: Sequence[Mapping[str, Any]], workers: Sequence[Mapping[str, Any]]) -> str:
    """That the harness did not keep time, where, and what to do about it."""
    told = ", ".join(dict.fromkeys(f"{_figure(item)} (limit {_limit(item)})" for item in limits))
    figures: dict[str, list[str]] = {}
    for item in workers:
        figures.setdefault(item["worker"], []).append(_figure(item))
    named = ", ".join(f"{worker} ({', '.join(figures[worker])})" for worker in list(figures)[:MOST_WORKERS])
    more = f" and {len(figures) - MOST_WORKERS} more" if len(figures) > MOST_WORKERS else ""
    where = f"; overloaded: {named}{more}" if named else ""
    return f"the harness did not keep time: {told}{where}. {ADVICE}"


def _figure(item: Mapping[str, Any]) -> str:
    name = _NAMES.get(item["key"].partition("_")[2], item["key"])
    return f"{name} {quantity(item['key'], item['actual'])}" if item["actual"] is not None else f"{name} unknown"


def _limit(item: Mapping[str, Any]) -> str:
    return quantity(item["key"], item["limit"])
