"""The grammar of assertions: `<statistic>_<metric>: <limit>`.

`max_response_latency_ms: 1500` reads: the maximum of the response latencies is at most 1500.
`min_barge_in_success_rate: 0.9` reads: the rate is at least 0.9.

A distribution takes the statistics `min p50 p90 p95 p99 max mean`; a single figure takes `min` and `max`.
`min_` sets a floor, every other statistic a ceiling. One key keeps the meaning it has had since VB23:
`max_wer` limits the *mean* word error rate; the largest one is `max_turn_wer`.
"""

import difflib
from dataclasses import dataclass
from typing import Literal

Statistic = Literal["min", "p50", "p90", "p95", "p99", "max", "mean", "value"]

STATISTICS: tuple[str, ...] = ("min", "p50", "p90", "p95", "p99", "max", "mean")

#: Metrics of which a run has one value per turn, or per call: the summary holds a distribution of each.
DISTRIBUTIONS: tuple[str, ...] = (
    "response_latency_ms",
    "ttfa_ms",
    "barge_in_stop_ms",
    "turn_wer",
    "setup_ms",
    "start_lag_ms",
    "first_audible_ms",
    "opening_heard_ms",
    "worst_burst_frames",
    "realtime_ratio",
    "worst_gap_ms",
    "interior_silent_ms",
    "cut_ms",
    "audio_wasted_ms",
    "unheard_backlog_ms",
    "overflow_ms",
    "underrun_ms",
    "backlog_growth_ms",
)

#: Metrics of which a run has one value.
FIGURES: tuple[str, ...] = (
    "turns_passed",
    "missed_responses",
    "talk_overs",
    "barge_in_success_rate",
    "resumed_barge_ins",
    "false_barge_ins",
    "spurious_responses",
    "mean_wer",
    "overlap_ms",
    "talk_over_ms",
    "failed_sessions",
    "truncated_sessions",
    "void_turns",
    "void_turn_share",
    "send_lag_p99_ms",
)


@dataclass(frozen=True)
class Assertion:
    """One parsed assertion.

    ``metric`` names a key of the summary, ``statistic`` a key of its distribution, or ``value`` where the
    summary holds a single figure.
    """

    key: str
    metric: str
    statistic: Statistic
    limit: float

    @property
    def is_floor(self) -> bool:
        """True if the actual value has to be at least the limit, else it has to be at most the limit."""
        return self.key.startswith("min_")

    def holds(self, actual: float | None) -> bool:
        """Whether ``actual`` keeps the limit. A value that does not exist never does (VB18)."""
        if actual is None or actual != actual:
            return False
        return actual >= self.limit if self.is_floor else actual <= self.limit

    def __str__(self) -> str:
        return f"{self.key} {'>=' if self.is_floor else '<='} {self.limit:g}"


def known_keys() -> list[str]:
    """Every key an ``assert`` block may hold."""
    keys = [f"{statistic}_{metric}" for metric in DISTRIBUTIONS for statistic in STATISTICS]
    keys += [f"{bound}_{metric}" for metric in FIGURES for bound in ("min", "max")]
    return [*keys, "max_wer"]


def parse_assertion(key: str, limit: float) -> Assertion:
    """Parse one entry of an ``assert`` block. Raises ValueError with what to write instead."""
    if key == "max_wer":
        return Assertion(key, "mean_wer", "value", limit)
    statistic, _, metric = key.partition("_")
    if metric in DISTRIBUTIONS and statistic in STATISTICS:
        return Assertion(key, metric, statistic, limit)  # type: ignore[arg-type]
    if metric in FIGURES and statistic in ("min", "max"):
        return Assertion(key, metric, "value", limit)
    near = difflib.get_close_matches(key, known_keys(), n=1)
    if near:
        raise ValueError(f"{key!r} is not an assertion; did you mean {near[0]!r}?")
    raise ValueError(
        f"{key!r} is not an assertion; write <statistic>_<metric>: {', '.join(STATISTICS)} of "
        f"{', '.join(DISTRIBUTIONS)}; min or max of {', '.join(FIGURES)}"
    )
