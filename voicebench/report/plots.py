"""The report's plots as SVG: the distribution of response latencies, and the course of the run.

Conventions
-----------
- Latencies in ms on a common axis, so that turns can be compared by eye. What lies beyond the axis is counted at its
  end, never left out in silence.
- The same calls give the same drawing: nothing is random.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from voicebench.metrics.results import SessionResult
from voicebench.metrics.stats import percentile
from voicebench.report.format import ms
from voicebench.report.svg import Axis, drawing, line, nice_step, path, rect, tag, text, title
from voicebench.report.timeline import answered, call_span, unanswered

WIDTH = 1000.0
LEFT = 190.0
RIGHT = 262.0
ROW = 30.0
#: A turn with at most this many values shows each as a dot.
MOST_DOTS = 40
MOST_ROWS = 40
MOST_POINTS = 1500


def latency_plot(report: Mapping[str, Any], calls: Sequence[SessionResult]) -> str:
    """All response latencies as a histogram, and below it a strip for each turn. Empty without a value."""
    by_turn: dict[str, list[float]] = {}
    for _, latency, call, turn in answered(calls):
        by_turn.setdefault(f"{call.scenario}/{turn}", []).append(latency)
    values = sorted(latency for group in by_turn.values() for latency in group)
    if not values:
        return ""
    limits = _limits(report)
    summary = report["summary"]["response_latency_ms"]
    axis = _latency_axis(values, summary, [limit for _, limit, _ in limits])
    keys = [key for key in report["by_turn"] if key in by_turn or _missed(report, key)][:MOST_ROWS]
    strip_top = 196.0
    height = strip_top + ROW * len(keys) + 8
    single = len(report["scenarios"]) == 1
    parts = [
        _latency_grid(axis, height),
        _histogram(axis, values, 40.0, 150.0),
        *_limit_marks(axis, limits, 150.0),
        *_percentile_marks(axis, summary, 150.0),
        *(
            _strip(axis, key, single, sorted(by_turn.get(key, [])), report["by_turn"][key], strip_top + ROW * row)
            for row, key in enumerate(keys)
        ),
        text(WIDTH - RIGHT + 72, strip_top - 8, "p50", "column", "end"),
        text(WIDTH - RIGHT + 140, strip_top - 8, "p90", "column", "end"),
        text(WIDTH - RIGHT + 197, strip_top - 8, "count", "column", "end"),
        text(WIDTH, strip_top - 8, "missed", "column", "end"),
    ]
    return drawing(WIDTH, height, "".join(parts), "Distribution of the response latency, overall and by turn")


def _missed(report: Mapping[str, Any], key: str) -> int:
    return int((report["by_turn"][key].get("response_latency_ms") or {}).get("missed") or 0)


def _limits(report: Mapping[str, Any]) -> list[tuple[str, float, bool]]:
    """Assertions on the response latency: label, limit in ms, whether it holds."""
    wanted: dict[str, tuple[str, float, bool]] = {}
    for assertion in report["assertions"]:
        statistic, _, metric = assertion["key"].partition("_")
        if metric == "response_latency_ms" and statistic != "min":
            label = f"{statistic} ≤ {ms(assertion['limit'])}"
            wanted[label] = (
                label,
                float(assertion["limit"]),
                assertion["passed"] and wanted.get(label, (0, 0, True))[2],
            )
    return list(wanted.values())[:4]


def _latency_axis(values: Sequence[float], summary: Mapping[str, Any], limits: Sequence[float]) -> Axis:
    most = max([summary["p99"] * 1.15, *(limit * 1.08 for limit in limits if limit < values[-1] * 3)])
    most = min(most, max(values[-1] * 1.05, *limits)) if limits else min(most, values[-1] * 1.05)
    least = min(0.0, values[0])
    step = nice_step(max(most - least, 1.0) / 6)
    return Axis(step * (least // step), step * -(-most // step), LEFT, WIDTH - RIGHT)


def _latency_grid(axis: Axis, height: float) -> str:
    parts = []
    for tick in axis.ticks(6):
        parts.append(line(axis(tick), 40, axis(tick), height - 8, "grid" if tick else "axis"))
        parts.append(text(axis(tick), 168, ms(tick), "tick", "middle"))
    return "".join([*parts, line(axis.start, 150, axis.end, 150, "axis")])


def _bins(axis: Axis, values: Sequence[float], most: int) -> tuple[float, dict[int, int]]:
    """Counts per bin of a round width; values beyond the axis count in its last bin."""
    width = nice_step((axis.high - axis.low) / most)
    counts: dict[int, int] = {}
    last = int((axis.high - axis.low) / width - 1e-9)
    for value in values:
        number = min(int((value - axis.low) // width), last)
        counts[number] = counts.get(number, 0) + 1
    return width, counts


def _histogram(
    axis: Axis, values: Sequence[float], top: float, bottom: float, most: int = 56, label: bool = True
) -> str:
    width, counts = _bins(axis, values, most)
    peak = max(counts.values())
    bars = []
    for number, count in sorted(counts.items()):
        low = axis.low + number * width
        left, right = axis(low), axis(low + width)
        height = max((bottom - top) * count / peak, 1.5)
        hint = f"{low:g} to {low + width:g} ms: {count}"
        bars.append(rect(left + 0.5, bottom - height, right - left - 1, height, "bar", hint))
    beyond = sum(value > axis.high for value in values)
    if beyond and label:
        bars.append(text(axis.end + 10, bottom - 4, f"→ {beyond:,} beyond, up to {ms(values[-1])}", "mark is-warn"))
    if label:
        bars.append(text(LEFT - 12, top + 14, "All turns", "row-name", "end"))
        bars.append(text(LEFT - 12, top + 30, f"n = {len(values):,}", "tick", "end"))
    return "".join(bars)


def _percentile_marks(axis: Axis, summary: Mapping[str, Any], bottom: float) -> list[str]:
    """Lines with labels, each on the lowest of three rows that is free there."""
    lines, labels = [], []
    taken = {36.0: 0.0, 24.0: 0.0, 12.0: 0.0}
    for name in ("p50", "p90", "p99"):
        at = axis(summary[name])
        y = next((row for row, end in taken.items() if at - 44 > end), 12.0)
        taken[y] = at + 44
        lines.append(line(at, y + 3, at, bottom, "percentile"))
        labels.append(text(at, y, f"{name} {ms(summary[name])}", "mark strong", "middle"))
    return lines + labels


def _limit_marks(axis: Axis, limits: Sequence[tuple[str, float, bool]], bottom: float) -> list[str]:
    parts = []
    for row, (label, limit, holds) in enumerate(limits):
        if limit > axis.high:
            continue
        state = "is-good" if holds else "is-bad"
        y = 56.0 + 14 * row
        near_end = axis(limit) > axis.end - 110
        parts.append(line(axis(limit), 44, axis(limit), bottom, f"limit {state}"))
        parts.append(
            text(axis(limit) + (-4 if near_end else 4), y, label, f"mark {state}", "end" if near_end else "start")
        )
    return parts


def _strip(
    axis: Axis, key: str, single: bool, values: Sequence[float], summary: Mapping[str, Any], top: float
) -> str:
    name = key.partition("/")[2] if single else key
    shown = name if len(name) <= 27 else "…" + name[-26:]
    middle, bottom = top + ROW / 2, top + ROW - 5
    latency = summary.get("response_latency_ms") or {}
    parts = [
        line(0, top, WIDTH, top, "rule"),
        tag("g", title(key) + text(LEFT - 12, middle + 4, shown, "row-name", "end")),
    ]
    if len(values) > MOST_DOTS:
        parts.append(_histogram(axis, values, top + 4, bottom, most=80, label=False))
    else:
        for number, value in enumerate(values):
            y = middle + (number % 3 - 1) * 4
            parts.append(tag("circle", title(ms(value)), cx=axis(value), cy=y, r=3, class_="dot"))
    for name, class_ in (("p50", "percentile strong"), ("p90", "percentile"), ("p99", "percentile faint")):
        if latency.get(name) is not None:
            parts.append(
                line(axis(latency[name]), top + 4, axis(latency[name]), bottom, class_, f"{name} {ms(latency[name])}")
            )
    parts.append(text(WIDTH - RIGHT + 72, middle + 4, ms(latency.get("p50")), "figure", "end"))
    parts.append(text(WIDTH - RIGHT + 140, middle + 4, ms(latency.get("p90")), "figure", "end"))
    missed = int(latency.get("missed") or 0)
    parts.append(text(WIDTH - RIGHT + 197, middle + 4, f"{len(values):,}", "figure", "end"))
    parts.append(text(WIDTH, middle + 4, f"{missed:,}", "figure is-bad" if missed else "figure", "end"))
    return "".join(parts)


def course_plot(report: Mapping[str, Any], calls: Sequence[SessionResult]) -> str:
    """Latency, calls under way and the harness's own lag over the time of the run. Empty for a short run."""
    bins = report["timeline"]
    if len(bins) < 5 or len(calls) < 2:
        return ""
    origin = min(call_span(call)[0] for call in calls)
    width = bins[1]["t_s"] - bins[0]["t_s"]
    x = Axis(0.0, bins[-1]["t_s"] + width, 70.0, WIDTH - 20)
    points = [(at - origin, latency) for at, latency, _, _ in answered(calls)]
    parts = [
        _latency_panel(x, points, [at - origin for at in unanswered(calls)]),
        _active_panel(x, bins, width),
        _lag_panel(x, bins, width),
    ]
    for tick in x.ticks(10):
        parts.append(text(x(tick), 392, f"{tick:g} s", "tick", "middle"))
        parts.append(line(x(tick), 370, x(tick), 375, "axis"))
    return drawing(WIDTH, 400, "".join(parts), "Response latency, calls under way and harness lag over the run")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MOST_POINTS: the highest always, the others evenly."""
    if len(points) <= MOST_POINTS:
        return list(points)
    ranked = sorted(points, key=lambda point: -point[1])
    kept, rest = ranked[:200], sorted(ranked[200:])
    step = len(rest) / (MOST_POINTS - 200)
    return kept + [rest[int(number * step)] for number in range(MOST_POINTS - 200)]


def _panel(y: Axis, x: Axis, name: str, unit: str, ticks: int) -> str:
    parts = [text(0, y.end - 14, name, "panel-name")]
    for tick in y.ticks(ticks):
        parts.append(line(x.start, y(tick), x.end, y(tick), "grid" if tick else "axis"))
        parts.append(text(x.start - 8, y(tick) + 4, f"{tick:,g}{unit}", "tick", "end"))
    return "".join(parts)


def _latency_panel(
    x: Axis,
    points: Sequence[tuple[float, float]],
    missed: Sequence[float],
) -> str:
    high = max((latency for _, latency in points), default=1000.0)
    step = nice_step(high / 4)
    low = min([0.0, *(latency for _, latency in points)])
    y = Axis(step * (low // step), step * -(-high // step), 200.0, 38.0)
    parts = [_panel(y, x, "Response latency", " ms", 4)]
    radius, class_ = (3.0, "dot") if len(points) < 200 else (2.0, "point")
    parts += [tag("circle", cx=x(at), cy=y(latency), r=radius, class_=class_) for at, latency in _thinned(points)]
    parts += _curves(x, y, points)
    for at in missed[:MOST_POINTS]:
        parts.append(text(x(at), 36, "✕", "mark is-bad", "middle"))
    if missed:
        parts.append(text(x.end, 14, f"✕ missed: {len(missed):,}", "mark is-bad", "end"))
    return "".join(parts)


def _curves(x: Axis, y: Axis, points: Sequence[tuple[float, float]]) -> list[str]:
    """Median and p90 of the responses in stretches of equal length, where there are enough for a trend."""
    stretches = min(len(points) // 8, 40)
    if stretches < 4:
        return []
    width = x.high / stretches
    groups: dict[int, list[float]] = {}
    for at, latency in points:
        groups.setdefault(int(at // width), []).append(latency)
    full = {number: group for number, group in sorted(groups.items()) if len(group) >= 3}
    parts = []
    for name, q, class_ in (("p90", 90, "curve faint"), ("p50", 50, "curve")):
        trend = [(x((number + 0.5) * width), y(percentile(group, q) or 0.0)) for number, group in full.items()]
        if len(trend) > 1:
            parts.append(path(trend, class_))
            parts.append(text(trend[-1][0] + 4, trend[-1][1] + 4, name, "mark strong"))
    return parts


def _active_panel(x: Axis, bins: Sequence[Mapping[str, Any]], width: float) -> str:
    most = max(row["active"] for row in bins)
    step = max(nice_step(most / 3), 1.0)
    y = Axis(0.0, step * -(-most // step), 290.0, 240.0)
    outline = [(x(0.0), y(0.0))]
    for row in bins:
        outline += [(x(row["t_s"]), y(row["active"])), (x(row["t_s"] + width), y(row["active"]))]
    outline.append((outline[-1][0], y(0.0)))
    parts = [_panel(y, x, "Calls under way", "", 2), path(outline, "area", close=True)]
    for row in bins:
        if row["failed"]:
            height = max(50 * min(row["failed"] / max(most, 1), 1), 4)
            hint = f"{row['failed']} failed or lost at {row['t_s']} s"
            parts.append(rect(x(row["t_s"]), 290 - height, x(width) - x(0), height, "failed", hint))
    if any(row["failed"] for row in bins):
        parts.append(text(x.end, 230, "■ failed or lost", "mark is-bad", "end"))
    return "".join(parts)


def _lag_panel(x: Axis, bins: Sequence[Mapping[str, Any]], width: float) -> str:
    points = [
        (row["t_s"] + width / 2, row["send_lag_ms"]["p99"]) for row in bins if row["send_lag_ms"]["p99"] is not None
    ]
    high = max([1.0, *(lag for _, lag in points)])
    step = nice_step(high / 2)
    y = Axis(0.0, step * -(-high // step), 370.0, 330.0)
    curve = path([(x(at), y(lag)) for at, lag in points], "curve harness") if len(points) > 1 else ""
    return _panel(y, x, "Harness send lag p99", " ms", 2) + curve
