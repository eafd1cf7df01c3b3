"""Adds the calls of one run up into ``report.json`` (VB27, VB28, and the design's additions).

The report is plain JSON data. Everything that people read is made from it, and it is the same for the same calls.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from voicebench.exits import Exit
from voicebench.metrics.assertions import check
from voicebench.metrics.delivery import medians
from voicebench.metrics.results import RunInfo, SessionResult, TurnResult
from voicebench.metrics.serialise import to_dict
from voicebench.metrics.summary import by_scenario, by_turn, harness, summarise
from voicebench.report.failures import what_failed
from voicebench.report.redact import redact, redact_command, redact_text
from voicebench.report.store import SESSIONS_FILE
from voicebench.report.timeline import timeline

SCHEMA_VERSION = 1
#: Up to this many calls are listed in full in the report.
MAX_SESSIONS = 1000
#: Beyond that only failed ones, at most this many; also the limit of the failed turns.
MAX_FAILED = 200

#: What the report keeps of a call's health.
_OF_A_CALL = ("skipped_frames", "send_lag_ms", "receive_lag_ms", "loop_lag_ms", "collections", "cpu_share")

#: What a worker's row holds of the figures of ``metrics.summary.harness``.
_OF_A_WORKER = (
    "send_lag_ms",
    "receive_lag_ms",
    "loop_lag_ms",
    "skipped_frames",
    "void_turns",
    "void_turn_share",
    "collections",
    "cpu_share",
)

#: What the harness measures of itself. Where one of these breaks its limit, the measurement is not valid.
HARNESS_FIGURES = ("void_turns", "void_turn_share", "send_lag_p99_ms", "start_lag_ms")


def build_report(run: RunInfo, results: Iterable[SessionResult]) -> dict[str, Any]:
    """The report of one run as JSON data. ``results`` holds every call, the lost ones included."""
    calls = list(results)
    scenarios = [_scenario_view(scenario) for scenario in run.scenarios]
    of_scenario = by_scenario(calls)
    account = _account(run, calls)
    failed_turns = _failed_turns(calls)
    listed = calls if len(calls) <= MAX_SESSIONS else [call for call in calls if has_failed(call)][:MAX_FAILED]
    assertions = [*_assertions(run, of_scenario), *_builtin_assertions(run, calls)]
    workers = _workers(run, calls)
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "voicebench_version": run.voicebench_version,
        "created_at": run.created_at,
        "python": run.python,
        "scenario": scenarios[0] if scenarios else None,
        "scenarios": scenarios,
        "adapter": redact(run.adapter),
        "clock": run.clock,
        "run": account,
        "summary": summarise(calls),
        "assertions": assertions,
        "passed": all(assertion["passed"] for assertion in assertions),
        "harness": {
            **harness(calls, [worker.process for worker in run.workers if worker.process is not None]),
            "overloaded": overloaded(assertions, workers),
        },
        "workers": workers,
        "delivery": medians(call.metrics.delivery for call in calls if call.metrics and call.metrics.delivery),
        "by_scenario": of_scenario,
        "by_turn": by_turn(calls),
        "timeline": timeline(calls) if run.clock == "real" else [],
        "failures": _failures(calls),
        "failed_turns": failed_turns[:MAX_FAILED],
        "failed_turns_total": len(failed_turns),
        "sessions": [session_view(call) for call in listed],
        "sessions_listed": len(listed),
        "sessions_total": len(calls),
        "sessions_file": SESSIONS_FILE,
    }
    code = exit_code(report)
    return {**report, "valid": code not in (Exit.INVALID, Exit.UNREACHABLE), "exit_code": int(code)}


def exit_code(report: Mapping[str, Any]) -> Exit:
    """How the process should end.

    A measurement that is not valid outranks a failed assertion: what it says of the agent cannot be trusted.
    """
    run = report["run"]
    if run["lost"] or run["unaccounted"] or run.get("invalid"):
        return Exit.INVALID
    if not run["completed"]:
        return Exit.UNREACHABLE if run["started"] and run["unreachable"] == run["started"] else Exit.INVALID
    failed = [assertion for assertion in report["assertions"] if not assertion["passed"]]
    if any(is_harness_limit(assertion["key"]) for assertion in failed):
        return Exit.INVALID
    return Exit.ASSERTION if failed else Exit.OK


def is_harness_limit(key: str) -> bool:
    """Whether an assertion limits the harness rather than the agent."""
    return key.partition("_")[2] in HARNESS_FIGURES


def has_failed(call: SessionResult) -> bool:
    """Whether a call deserves a look: it did not complete, or one of its turns failed."""
    return call.outcome != "completed" or any(_turn_failed(turn) for turn in _turns(call))


def session_view(call: SessionResult) -> dict[str, Any]:
    """One call as the report lists it: as in ``sessions.jsonl``, without what the report says once for all calls.

    Its start is left out on the virtual clock, where it means nothing.
    """
    data = to_dict(call)
    health = data.pop("health")
    for name in ("schema_version", "adapter", "clock"):
        del data[name]
    return {
        **data,
        "reason": redact_text(call.reason),
        "metadata": redact(call.metadata),
        "started_at": call.started_at if call.clock == "real" else None,
        **{name: health[name] for name in _OF_A_CALL},
    }


def _turns(call: SessionResult) -> tuple[TurnResult, ...]:
    return call.metrics.turns if call.metrics else ()


def _turn_failed(turn: TurnResult) -> bool:
    return not turn.passed and turn.counted


def _scenario_view(scenario: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "description", "sample_rate", "frame_ms", "turns")
    return {name: scenario.get(name) for name in names}


def _account(run: RunInfo, calls: Sequence[SessionResult]) -> dict[str, Any]:
    """What became of every call that was started; started = completed + truncated + failed + lost."""
    outcomes = Counter(call.outcome for call in calls)
    completed, truncated, failed = outcomes["completed"], outcomes["truncated"], outcomes["failed"]
    lost = max(outcomes["lost"], sum(worker.lost for worker in run.workers))
    started = sum(worker.started for worker in run.workers) if run.workers else len(calls)
    unaccounted = started - (completed + truncated + failed + lost)
    notes = [redact_text(note) for note in run.notes]
    if unaccounted:
        sum_of_parts = f"{completed} completed + {truncated} truncated + {failed} failed + {lost} lost"
        more = "no trace of" if unaccounted > 0 else "more records than calls started, by"
        notes.append(f"the account does not balance: {started} started, {sum_of_parts}; {more} {abs(unaccounted)}")
    return {
        "id": run.id,
        "started": started,
        "completed": completed,
        "truncated": truncated,
        "failed": failed,
        "lost": lost,
        "recorded": completed + truncated + failed,
        "unaccounted": unaccounted,
        "unreachable": sum(call.outcome == "failed" and call.connect_ms is None for call in calls),
        "duration_s": run.duration_s,
        "command": redact_command(run.command),
        "arrivals": run.arrivals,
        "schedule": run.schedule,
        "notes": notes,
        **({"invalid": [redact_text(reason) for reason in run.invalid]} if run.invalid else {}),
    }


def _assertions(run: RunInfo, of_scenario: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Each scenario's assertions over that scenario's own calls (VB18, VB23)."""
    checked: list[dict[str, Any]] = []
    empty = summarise([])
    for scenario in run.scenarios:
        summary = of_scenario.get(scenario["name"], empty)
        results = check(summary, scenario.get("assertions") or {}, scenario=scenario["name"])
        checked += [asdict(result) for result in results]
    return checked


def _builtin_assertions(run: RunInfo, calls: Sequence[SessionResult]) -> list[dict[str, Any]]:
    """The run's own limits, each over all calls but those of scenarios that assert the same key themselves.

    Without any such call there is nothing to limit: that no call was made is told elsewhere.
    """
    checked: list[dict[str, Any]] = []
    for key, limit in run.limits.items():
        own = {scenario["name"] for scenario in run.scenarios if key in (scenario.get("assertions") or {})}
        summary = summarise(call for call in calls if call.scenario not in own)
        results = check(summary, {key: limit}, builtin=True)
        checked += [asdict(result) for result in results if result.actual is not None]
    return checked


def _workers(run: RunInfo, calls: Sequence[SessionResult]) -> list[dict[str, Any]]:
    """What each worker did, and how well it kept time by its own calls and its own account."""
    groups: dict[str, list[SessionResult]] = {}
    for call in calls:
        groups.setdefault(call.worker, []).append(call)
    views = []
    for worker in run.workers:
        group = groups.get(worker.id, [])
        figures = harness(group, [worker.process] if worker.process is not None else [])
        kept = {name: figures[name] for name in _OF_A_WORKER}
        lag = figures["send_lag_ms"] if group else None
        who = {name: getattr(worker, name) for name in ("id", "host", "started", "recorded", "lost")}
        if run.arrivals == "open":
            kept["start_lag_ms"] = summarise(group)["start_lag_ms"]
        views.append({**who, **kept, "send_lag_ms": lag, "timestamps": "+".join(figures["timestamps"]) or None})
    return views


def overloaded(assertions: Iterable[Mapping[str, Any]], workers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The workers that broke a limit on the harness which the run broke, the worst first.

    ``worker``, ``key``, ``limit``, ``actual``. If none broke it alone, then the one that came nearest.
    """
    found: list[dict[str, Any]] = []
    for item in assertions:
        if item["passed"] or not is_harness_limit(item["key"]) or item["key"].startswith("min_"):
            continue
        figures = [(_figure(worker, item["key"]), worker["id"]) for worker in workers]
        ranked = sorted(((value, name) for value, name in figures if value), key=lambda pair: (-pair[0], pair[1]))
        over = [pair for pair in ranked if pair[0] > item["limit"]] or ranked[:1]
        found += [
            {"worker": name, "key": item["key"], "limit": item["limit"], "actual": value} for value, name in over
        ]
    return [item for number, item in enumerate(found) if item not in found[:number]]


def _figure(worker: Mapping[str, Any], key: str) -> float | None:
    """A worker's own figure for a limit on the harness."""
    name = key.partition("_")[2]
    if name == "send_lag_p99_ms":
        value = (worker["send_lag_ms"] or {}).get("p99")
    elif name == "start_lag_ms":
        value = worker.get("start_lag_ms", {}).get(key.partition("_")[0])
    else:
        value = worker[name]
    return None if value is None else float(value)


def _failures(calls: Sequence[SessionResult]) -> list[dict[str, Any]]:
    """Why calls did not complete, the most frequent reason first."""
    reasons = Counter((call.outcome, redact_text(call.reason)) for call in calls if call.outcome != "completed")
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [{"outcome": outcome, "reason": reason, "count": times} for (outcome, reason), times in ranked[:50]]


def _failed_turns(calls: Sequence[SessionResult]) -> list[dict[str, Any]]:
    return [
        {
            "call_id": call.call_id,
            "scenario": call.scenario,
            "turn": turn.id,
            "what": what_failed(turn),
            "notes": list(turn.notes),
        }
        for call in calls
        for turn in _turns(call)
        if _turn_failed(turn)
    ]
