"""The key figures of a summary as rows of name and text, in one order for every report."""

from collections.abc import Mapping, Sequence
from typing import Any

from voicebench.report.format import DASH, at, count, ms, number, share


def key_figures(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each figure that this run can tell something about."""
    summary, run = report["summary"], report["run"]
    rows = [("Calls", account_text(run)), ("Turns passed", turns_text(summary))]
    for name, key in (("Response latency", "response_latency_ms"), ("Time to first audio", "ttfa_ms")):
        if summary[key]["count"]:
            rows.append((f"{name} p50 / p90 / p99", spread(summary[key], ("p50", "p90", "p99"))))
    rows.append(("Missed responses", count(summary["missed_responses"])))
    if summary["talk_overs"]:
        rows.append(("Talk-overs", f"{count(summary['talk_overs'])}, {ms(summary['talk_over_ms'])} in all"))
    if summary["barge_in_turns"]:
        rate = share(summary["barge_in_success_rate"])
        rows.append(("Barge-in success", f"{rate} of {summary['barge_in_turns']:,}"))
        rows.append(("Barge-in stop time p50 / max", spread(summary["barge_in_stop_ms"], ("p50", "max"))))
    if summary["noise_turns"]:
        rows.append(("False barge-ins", f"{count(summary['false_barge_ins'])} of {summary['noise_turns']:,}"))
        rows.append(("Spurious responses", count(summary["spurious_responses"])))
    if summary["mean_wer"] is not None:
        rows.append(("Mean WER of the agent's hearing", number(summary["mean_wer"])))
    harness = report["harness"]
    if run["arrivals"] == "open":
        rows.append(("Call setup p50 / p99 / max", spread(summary["setup_ms"], ("p50", "p99", "max"))))
        rows.append(("Calls begun late by p99 / max", spread(summary["start_lag_ms"], ("p99", "max"))))
    rows.append(("Harness send lag p99 / max", spread(harness["send_lag_ms"], ("p99", "max"))))
    if harness["loop_lag_ms"]["max"] is not None:
        rows.append(("Harness loop lag p99 / max", spread(harness["loop_lag_ms"], ("p99", "max"))))
    if harness["cpu_share"] is not None:
        rows.append(("Harness CPU, busiest process", f"{share(harness['cpu_share'])} of a core"))
    return rows


def account_text(run: Mapping[str, Any]) -> str:
    """The account of the calls: ``20 started = 17 completed + 2 truncated + 1 lost``."""
    parts = [f"{run[name]:,} {name}" for name in ("completed", "truncated", "failed", "lost") if run[name]]
    if run["unaccounted"]:
        parts.append(f"{run['unaccounted']:,} unaccounted")
    return f"{run['started']:,} started = {' + '.join(parts) or '0'}"


def turns_text(summary: Mapping[str, Any]) -> str:
    """``17 of 20``, and how many do not count."""
    void = summary["void_turns"]
    cut_off = summary["cut_off_turns"]
    aside = [f"{number:,} {what}" for number, what in ((void, "void"), (cut_off, "cut off")) if number]
    return f"{summary['turns_passed']:,} of {summary['turns']:,}" + (f" ({', '.join(aside)})" if aside else "")


def spread(distribution: Mapping[str, Any] | None, statistics: Sequence[str]) -> str:
    """``700 / 748 ms``: several statistics of a distribution in ms, with the unit once."""
    values = [ms(at(distribution, statistic)) for statistic in statistics]
    if all(value == DASH for value in values):
        return DASH
    *first, last = values
    return " / ".join([*(value.removesuffix(" ms") for value in first), last])


def assertion_text(assertion: Mapping[str, Any]) -> tuple[str, str]:
    """Limit and actual value of an assertion as text, the limit with its sign."""
    key = assertion["key"]
    sign = "≥" if key.startswith("min_") else "≤"
    actual = "none" if assertion["actual"] is None else number(assertion["actual"])
    return f"{sign} {number(assertion['limit'])}", actual


def assertion_scope(assertion: Mapping[str, Any]) -> str:
    """The calls that an assertion is about."""
    return "every load run" if assertion["builtin"] else str(assertion["scenario"])


def turn_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """The table by turn: one row for each turn of each scenario."""
    single = len(report["scenarios"]) == 1
    rows = []
    for key, summary in report["by_turn"].items():
        latency, stop = summary["response_latency_ms"], summary["barge_in_stop_ms"]
        rows.append(
            {
                "turn": key.partition("/")[2] if single else key,
                "passed": f"{summary['turns_passed']:,}/{summary['turns']:,}",
                "response": spread(latency, ("p50", "p90", "p99")),
                "ttfa": spread(summary["ttfa_ms"], ("p50", "p90")),
                "stop": spread(stop, ("p50", "max")),
                "wer": number(summary["mean_wer"]),
                "missed": number(latency.get("missed")),
                "void": number(summary.get("void_turns")),
            }
        )
    return rows


def facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was run, against what, when and how."""
    adapter, run = report["adapter"], report["run"]
    target = adapter.get("url") or (adapter.get("config") or {}).get("url")
    hosts = len({worker["host"] for worker in report["workers"] if worker["host"]})
    processes = len(report["workers"])
    rows = [
        ("Scenario", ", ".join(scenario["name"] for scenario in report["scenarios"]) or DASH),
        ("Agent", str(adapter.get("type", DASH)) + (f" at {target}" if target else "")),
        ("Started", report["created_at"]),
        ("Clock", report["clock"] + (f", {_arrivals(run)}" if run["started"] > 1 else "")),
    ]
    if report["workers"]:
        rows.append(
            (
                "Load from",
                f"{processes} process{'es' if processes > 1 else ''}" + (f" on {hosts} hosts" if hosts > 1 else ""),
            )
        )
    if run["command"]:
        rows.append(("Command", run["command"]))
    return rows


def _arrivals(run: Mapping[str, Any]) -> str:
    return f"{run['arrivals']} arrivals" + (f": {run['schedule']}" if run["schedule"] else "")
