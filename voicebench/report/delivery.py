"""How audio arrived, as rows for every report: median, range, and a word on the median (TV08, TV15)."""

from collections.abc import Callable, Mapping
from typing import Any

from voicebench.metrics.delivery import CUT_MS, FAST_RATIO, HOLE_MS, MILD_FRAMES, PACED_FRAMES
from voicebench.report.format import DASH, ms, number

#: A backlog that grew by less is within what a network does.
STEADY_MS = 40.0
COLUMNS = ("Delivery", "Median", "Range", "n", "Missed", "Void", "Verdict")

_Judge = Callable[[float], str]


def delivery_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of the table, as COLUMNS has them; none if no call was measured."""
    figures, summary = report["delivery"], report["summary"]
    if not any(_is_known(summary[metric]) for _, _, metric, _, _ in _ROWS):
        return []
    rows: list[tuple[str, ...]] = []
    for name, figure, metric, text, judge in _ROWS:
        values, known = figures[figure], summary[metric]
        if _is_idle(metric, summary):
            continue
        span = _span(text(values["min"]), text(values["max"])) if values["n"] > 1 else DASH
        shown = (number(values["n"]), number(known["missed"]), number(known["void"]))
        rows.append((name, text(values["median"]), span, *shown, _verdict(values, judge)))
    if summary["resumed_barge_ins"]:
        times = number(summary["resumed_barge_ins"])
        rows.append(("Went on after a stop", times, DASH, number(summary["cut_ms"]["count"]), "0", "0", "resumed"))
    return rows


def _verdict(values: Mapping[str, Any], judge: _Judge) -> str:
    """A word on the median, and on the worst call if that deserves another one."""
    if values["median"] is None:
        return "not measured"
    usual, worst = judge(values["median"]), judge(values["max"])
    return usual if usual == worst else f"{usual}, at worst {worst}"


def _span(low: str, high: str) -> str:
    """``2 to 40 frames``: the unit once."""
    value, _, unit = low.partition(" ")
    return f"{value if unit and high.endswith(unit) else low} to {high}"


def _is_known(distribution: Mapping[str, Any]) -> bool:
    return bool(distribution["count"] or distribution["missed"] or distribution["void"])


def _is_idle(metric: str, summary: Mapping[str, Any]) -> bool:
    """Whether a row would say nothing: nobody cut in, the player has no bound, nothing was lost."""
    if metric in ("cut_ms", "unheard_backlog_ms"):
        return not (summary["barge_in_turns"] or _is_known(summary[metric]))
    if metric == "underrun_ms":
        return not summary[metric]["count"]
    if metric == "overflow_ms":
        return not summary[metric]["max"]
    return metric == "backlog_growth_ms" and (summary[metric]["max"] or 0.0) < STEADY_MS


def _frames(value: float | None) -> str:
    return DASH if value is None else f"{value:,.4g} frame{'' if value == 1 else 's'}"


def _ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _burst(frames: float) -> str:
    return "paced" if frames <= PACED_FRAMES else "mildly bursty" if frames <= MILD_FRAMES else "bursting"


def _none(_: float) -> str:
    return ""


_ROWS: tuple[tuple[str, str, str, Callable[[float | None], str], _Judge], ...] = (
    ("First audible frame", "opening.first_audible_ms", "first_audible_ms", ms, _none),
    ("Worst burst in 20 ms", "pacing.worst_burst_frames", "worst_burst_frames", _frames, _burst),
    (
        "Audio per real time",
        "pacing.realtime_ratio",
        "realtime_ratio",
        _ratio,
        lambda ratio: "too fast" if ratio > FAST_RATIO else "real time",
    ),
    (
        "Longest hole in a reply",
        "continuity.worst_gap_ms",
        "worst_gap_ms",
        ms,
        lambda gap_ms: "continuous" if gap_ms < HOLE_MS else "holes",
    ),
    (
        "Barge-in cut",
        "barge_in.cut_ms",
        "cut_ms",
        ms,
        lambda cut_ms: "quick" if cut_ms <= CUT_MS else "slow",
    ),
    ("Unheard when cut into", "barge_in.unheard_backlog_ms", "unheard_backlog_ms", ms, _none),
    ("Lost by the player", "playout.overflow_ms", "overflow_ms", ms, lambda _: "overflow"),
    (
        "Player ran dry for",
        "playout.underrun_ms",
        "underrun_ms",
        ms,
        lambda dry_ms: "underrun" if dry_ms else "",
    ),
    ("Growth of the backlog", "playout.backlog_growth_ms", "backlog_growth_ms", ms, _none),
)
