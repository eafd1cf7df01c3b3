"""The course of a run: bins of equal length from the first call to the end of the last (``timeline[]``).

Conventions
-----------
- ``t_s`` is the start of a bin in seconds after the first call began, or was to begin. Bins last a whole number of
  seconds, and there are at most ``MAX_BINS``.
- ``scheduled`` counts calls by when they were to begin, ``started`` by when they did; with closed arrivals that is
  the same.
- ``active`` is the largest number of calls that were under way at once during the bin.
- A response latency counts in the bin in which the caller stopped speaking.
- ``send_lag_ms.p99`` is that of all frames of the calls that were under way in the bin.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from voicebench.metrics.histogram import Histogram
from voicebench.metrics.results import SessionResult
from voicebench.metrics.stats import percentile

MAX_BINS = 300


@dataclass
class _Bin:
    active: int = 0
    scheduled: int = 0
    started: int = 0
    ended: int = 0
    failed: int = 0
    latencies: list[float] = field(default_factory=list)
    lag_in: Counter[str] = field(default_factory=Counter)
    lag_out: Counter[str] = field(default_factory=Counter)


def call_span(call: SessionResult) -> tuple[float, float]:
    """Unix times at which a call began and ended. A call without a record has no length."""
    connected = call.started_at + (call.connect_ms or 0.0) / 1000
    return call.started_at, connected + (call.metrics.duration_s if call.metrics else 0.0)


def answered(calls: Iterable[SessionResult]) -> list[tuple[float, float, SessionResult, str]]:
    """Every measured response: Unix time at which the caller stopped, latency in ms, call, turn id."""
    points = []
    for call in calls:
        begin = call.started_at + (call.connect_ms or 0.0) / 1000
        for turn in call.metrics.turns if call.metrics else ():
            if turn.response_latency_ms is not None and not turn.void:
                at = turn.user_offset_s if turn.user_offset_s is not None else turn.end_s
                points.append((begin + at, turn.response_latency_ms, call, turn.id))
    return points


def unanswered(calls: Iterable[SessionResult]) -> list[float]:
    """Unix times at which a caller stopped speaking and got no response in time."""
    times = []
    for call in calls:
        begin = call.started_at + (call.connect_ms or 0.0) / 1000
        for turn in call.metrics.turns if call.metrics else ():
            if turn.status.get("response_latency_ms") == "missed" and turn.counted:
                times.append(begin + (turn.user_offset_s if turn.user_offset_s is not None else turn.end_s))
    return times


def timeline(calls: Sequence[SessionResult]) -> list[dict[str, Any]]:
    """The run's course, empty if there were no calls."""
    if not calls:
        return []
    spans = [call_span(call) for call in calls]
    due = [call.started_at if call.scheduled_at is None else call.scheduled_at for call in calls]
    origin = min(*due, *(begin for begin, _ in spans))
    length = max(end for _, end in spans) - origin
    width = max(1, math.ceil(length / MAX_BINS))
    bins = [_Bin() for _ in range(max(1, math.ceil(length / width)))]

    def place(time: float) -> int:
        return min(max(int((time - origin) // width), 0), len(bins) - 1)

    for at in due:
        bins[place(at)].scheduled += 1
    for call, (begin, end) in zip(calls, spans, strict=True):
        first, last = place(begin), place(end)
        bins[first].started += 1
        if call.outcome != "lost":
            bins[last].ended += 1
        bins[last].failed += call.outcome in ("failed", "lost")
        bins[first].lag_in.update(call.health.send_lag_histogram)
        bins[last].lag_out.update(call.health.send_lag_histogram)
    for at, latency, _, _ in answered(calls):
        bins[place(at)].latencies.append(latency)
    for number, active in enumerate(_most_active(spans, place, len(bins))):
        bins[number].active = active
    return _rendered(bins, width)


def _most_active(spans: Sequence[tuple[float, float]], place: Callable[[float], int], bins: int) -> list[int]:
    """Per bin, the largest number of calls under way at once."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for begin, end in spans])
    most = [0] * bins
    now, current = 0, 0
    for time, change in changes:
        at = place(time)
        for number in range(current + 1, at + 1):
            most[number] = now
        current = at
        now += change
        most[at] = max(most[at], now)
    return most


def _rendered(bins: Sequence[_Bin], width: int) -> list[dict[str, Any]]:
    rows = []
    lag: Counter[str] = Counter()
    for number, bin_ in enumerate(bins):
        lag.update(bin_.lag_in)
        rows.append(
            {
                "t_s": number * width,
                "active": bin_.active,
                "scheduled": bin_.scheduled,
                "started": bin_.started,
                "ended": bin_.ended,
                "failed": bin_.failed,
                "response_latency_ms": {
                    "count": len(bin_.latencies),
                    "p50": _rounded(percentile(bin_.latencies, 50), 1),
                    "p90": _rounded(percentile(bin_.latencies, 90), 1),
                },
                "send_lag_ms": {"p99": _rounded(Histogram.from_dict(lag).quantile(99), 3)},
            }
        )
        lag.subtract(bin_.lag_out)
        lag = +lag
    return rows


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
