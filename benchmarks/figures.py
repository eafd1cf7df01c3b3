"""From what a client left behind to one row of the table.

The machine is *on time* but for its stalls: stretches in which a sentinel on either core woke more than 1 ms late.
What was due in a stall, or behind it for 25 ms and as long again as it lasted, is left out of the figures
``on_time``, and counts in those named ``raw``. A turn is left out if any of that falls between the end of the
caller's speech and the reply.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MS = 1_000_000
STALL_NS = 1 * MS
RECOVERY_NS = 25 * MS
REPLY_NS = 1_500 * MS  #: a turn counts if its speech ended this long before the end of the stretch
MATCH_NS = 400 * MS  #: a caller and the agent mean the same turn if their ends of its speech are this close
LAG_LIMIT_MS = 10.0
CPU_LIMIT = 0.95


@dataclass(frozen=True)
class Run:
    """One step of one client as it was run."""

    client: str
    calls: int
    out: Path
    truth: dict[str, list[dict[str, Any]]]
    agent: dict[str, Any]
    lateness: IntArray
    reply: str  #: which instant of the agent's log the client's latency ends at: reply_start_ns or reply_heard_ns


def stalls_in(lateness: IntArray, start_ns: int, end_ns: int) -> IntArray:
    """The stretches (from, to) that do not count, in order and without overlaps."""
    long = lateness[lateness[:, 1] - lateness[:, 0] > STALL_NS]
    spans = np.column_stack((long[:, 0] - STALL_NS, 2 * long[:, 1] - long[:, 0] + RECOVERY_NS))
    spans = spans[(spans[:, 1] > start_ns) & (spans[:, 0] < end_ns)]
    merged: list[list[int]] = []
    for first, last in sorted(spans.tolist()):
        if merged and first <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return np.array(merged, dtype=np.int64).reshape(-1, 2)


def clear_of(stalls: IntArray, first: IntArray, last: IntArray) -> BoolArray:
    """Whether what lasted from ``first`` to ``last`` touched no stall."""
    behind = np.searchsorted(stalls[:, 1], first)  # the first stall that ends at or after it began
    nearest = np.append(stalls[:, 0], np.iinfo(np.int64).max)[behind]
    return np.asarray(nearest > last)


def row(run: Run) -> dict[str, Any]:
    """All figures of a step."""
    about = json.loads(Path(f"{run.out}.json").read_text())
    start, end = about["start_ns"], about["end_ns"]
    stalls = stalls_in(run.lateness, start, end)
    inside = np.clip(stalls, start, end)
    wall_s = (end - start) / 1e9
    cpu = about["cpu_s"] / wall_s
    found = {
        "client": run.client,
        "calls": run.calls,
        "machine_on_time": round(1 - float((inside[:, 1] - inside[:, 0]).sum()) / (end - start), 3),
        "cpu": round(cpu, 3),
        "waited": round(about["waited_s"] / wall_s, 3),
        "send_lag_ms": _sent(run.out, start, end, stalls),
        "arrival_error_ms": _received(run.out, start, end, stalls),
        **_turns(run, start, end, stalls),
        "failed_calls": about["failed"],
        "reasons": about.get("reasons", []),
        "timestamps": about["stamps"],
        "memory_per_call_kib": round((about["rss_after_kib"] - about["rss_before_kib"]) / run.calls),
        "agent_late_ms": run.agent.get("late_ms"),
    }
    found["skipped_frames"] = found["send_lag_ms"].pop("skipped")
    found["broke"] = _broke(found)
    return found


def _broke(found: dict[str, Any]) -> str:
    """Why this is more than the client can hold, or an empty text."""
    lag = found["send_lag_ms"]["on_time"]
    if found["failed_calls"]:
        return f"{found['failed_calls']} calls failed"
    if lag is None:
        return "the machine was never on time"
    if lag["p99"] > LAG_LIMIT_MS:
        return f"send lag over {LAG_LIMIT_MS:g} ms"
    if found["cpu"] > CPU_LIMIT:
        return f"over {CPU_LIMIT:.0%} of the core"
    return ""


def _table(out: Path, name: str, columns: int) -> IntArray:
    return np.fromfile(f"{out}.{name}", dtype=np.int64).reshape(-1, columns)


def _sent(out: Path, start: int, end: int, stalls: IntArray) -> dict[str, Any]:
    sent = _table(out, "sent", 2)
    sent = sent[(sent[:, 0] >= start) & (sent[:, 0] < end)]
    skipped = sent[:, 1] < 0
    sent = sent[~skipped]
    lag = (sent[:, 1] - sent[:, 0]) / MS
    clear = clear_of(stalls, sent[:, 0], sent[:, 0])
    return {**_both(lag, clear), "skipped": int(skipped.sum())}


def _received(out: Path, start: int, end: int, stalls: IntArray) -> dict[str, Any] | None:
    received = _table(out, "received", 2)
    received = received[(received[:, 1] >= start) & (received[:, 1] < end)]
    if not len(received):
        return None  # another agent, which puts no stamps into its frames
    error = np.abs(received[:, 0] - received[:, 1]) / MS
    return _both(error, clear_of(stalls, received[:, 1], received[:, 1]))


def _turns(run: Run, start: int, end: int, stalls: IntArray) -> dict[str, Any]:
    turns = _table(run.out, "turns", 4)
    turns = turns[(turns[:, 1] >= start) & (turns[:, 1] < end - REPLY_NS)]
    void = turns[:, 3] == 1
    errors, spans = [], []
    for number, speech_end, latency, _ in turns[~void & (turns[:, 2] >= 0)].tolist():
        true = _match(run.truth.get(str(number), []), speech_end)
        if true is not None and true.get(run.reply):
            errors.append((latency - (true[run.reply] - true["speech_end_ns"])) / MS)
            spans.append((true["speech_end_ns"], true[run.reply]))
    error = np.abs(np.array(errors, dtype=np.float64))
    span = np.array(spans, dtype=np.int64).reshape(-1, 2)
    clear = clear_of(stalls, turns[:, 1], turns[:, 1] + np.maximum(turns[:, 2], REPLY_NS // 2))
    return {
        "turns": len(turns),
        "void_turns": {"on_time": int((void & clear).sum()), "raw": int(void.sum())},
        "missed_turns": int(((turns[:, 2] < 0) & ~void).sum()),
        "response_error_ms": _both(error, clear_of(stalls, span[:, 0], span[:, 1])),
    }


def _match(turns: list[dict[str, Any]], speech_end_ns: int) -> dict[str, Any] | None:
    near = min(turns, key=lambda turn: abs(turn["speech_end_ns"] - speech_end_ns), default=None)
    return near if near is not None and abs(near["speech_end_ns"] - speech_end_ns) < MATCH_NS else None


def _both(values: npt.NDArray[np.float64], clear: BoolArray) -> dict[str, Any]:
    return {"on_time": _percentiles(values[clear]), "raw": _percentiles(values)}


def _percentiles(values: npt.NDArray[np.float64]) -> dict[str, float] | None:
    if not len(values):
        return None
    p50, p99, top = np.percentile(values, [50, 99, 100]).tolist()
    return {"count": len(values), "p50": round(p50, 4), "p99": round(p99, 4), "max": round(top, 4)}
