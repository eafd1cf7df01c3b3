"""Whether a summary keeps the limits that a scenario asserts (VB18, VB23).

Conventions
-----------
- The grammar of the keys is that of ``voicebench.scenario.assertions``.
- A value that does not exist keeps no limit: what was not measured cannot pass (VB18). So does a count of 0 for
  want of anything that could be counted: no turn measured at all, or none of the turns that the count is about
  though there were some, all void.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from voicebench.scenario.assertions import Assertion, parse_assertion

#: Figures that count turns, and the distribution whose ``void`` says how many such turns were left out.
_COUNTS = {
    "turns_passed": None,
    "resumed_barge_ins": None,
    "missed_responses": "response_latency_ms",
    "talk_overs": "response_latency_ms",
    "false_barge_ins": "noise",
    "spurious_responses": "noise",
}

_NEVER_AUDIBLE = "the agent was never audible", "no call was measured"
_NO_BARGE_IN = "the agent never stopped sending", "no turn cut in while audio was on its way"
#: Why a figure of the delivery is absent: if it is missed, and if nothing was to be measured.
_ABSENT_DELIVERY = {
    **dict.fromkeys(("first_audible_ms", "opening_heard_ms", "worst_gap_ms", "interior_silent_ms"), _NEVER_AUDIBLE),
    **dict.fromkeys(("worst_burst_frames", "realtime_ratio"), ("the agent sent nothing", "too few frames came")),
    **dict.fromkeys(("overflow_ms", "backlog_growth_ms"), ("the agent sent nothing", "no call was measured")),
    "underrun_ms": ("the agent sent nothing", "the player has no bound, see playout"),
    **dict.fromkeys(("cut_ms", "audio_wasted_ms", "unheard_backlog_ms"), _NO_BARGE_IN),
}


@dataclass(frozen=True)
class AssertionResult:
    """One assertion with the value it met. ``message`` is one line that stands for itself."""

    key: str
    limit: float
    actual: float | None
    passed: bool
    scenario: str = ""
    message: str = ""
    builtin: bool = False  #: a limit of every load run, not one that a scenario asserts


def check(
    summary: Mapping[str, Any],
    assertions: Iterable[Assertion] | Mapping[str, float],
    *,
    scenario: str = "",
    builtin: bool = False,
) -> list[AssertionResult]:
    """Compare a summary (``metrics.summary``) with assertions, parsed or as the ``assert`` block has them.

    Raises ValueError for a key that is no assertion.
    """
    if isinstance(assertions, Mapping):
        assertions = [parse_assertion(key, limit) for key, limit in assertions.items()]
    return [_check(summary, assertion, scenario, builtin) for assertion in assertions]


def _check(summary: Mapping[str, Any], assertion: Assertion, scenario: str, builtin: bool) -> AssertionResult:
    actual = _actual(summary, assertion)
    passed = assertion.holds(actual)
    if actual is None:
        message = f"{assertion.key}: {_why_absent(summary, assertion)}"
    else:
        message = f"{assertion}: {'holds' if passed else 'broken'}, it is {actual:g}"
    return AssertionResult(assertion.key, assertion.limit, actual, passed, scenario, message, builtin)


def _actual(summary: Mapping[str, Any], assertion: Assertion) -> float | None:
    value = summary.get(assertion.metric)
    if assertion.statistic != "value":
        return None if value is None else value.get(assertion.statistic)
    if assertion.metric in _COUNTS and not _countable(summary, assertion.metric):
        return None
    return value


def _countable(summary: Mapping[str, Any], metric: str) -> bool:
    """Whether there was a turn that a count could have counted. None of its kind in the script is a true 0."""
    if not summary.get("turns"):
        return False
    if _COUNTS[metric] == "noise":
        return bool(summary["noise_turns"]) or not summary.get("void_noise_turns")
    if _COUNTS[metric] is None:
        return True
    replies = summary["response_latency_ms"]
    return not replies.get("void") or bool(replies["count"] or summary["missed_responses"])


def _why_absent(summary: Mapping[str, Any], assertion: Assertion) -> str:
    metric = assertion.metric
    if metric in ("mean_wer", "turn_wer"):
        return "no turn has a WER: " + _because(
            summary["turn_wer"], "the agent reported no user transcript", "no turn that was played sets 'text'"
        )
    if metric in ("response_latency_ms", "ttfa_ms"):
        return f"no turn has a {metric}: " + _because(
            summary[metric], "the agent never replied", "no turn was measured that expects a reply"
        )
    if metric in ("barge_in_stop_ms", "barge_in_success_rate"):
        nothing = (
            "the agent was silent at every barge-in" if summary["barge_in_turns"] else "no barge-in was measured"
        )
        return "no barge-in has a stop time: " + _because(
            summary["barge_in_stop_ms"], "the agent never stopped", nothing
        )
    if metric in _ABSENT_DELIVERY:
        return f"no {metric} was measured: " + _because(summary[metric], *_ABSENT_DELIVERY[metric])
    if metric == "resumed_barge_ins":
        return "no barge-in has a cut: " + _because(summary["cut_ms"], *_ABSENT_DELIVERY["cut_ms"])
    if metric == "setup_ms":
        return "no call has a setup_ms: " + _because(summary[metric], "no call connected", "no call began")
    if metric == "start_lag_ms":
        return "no call has a start_lag_ms: arrivals were closed, and nothing was scheduled"
    if metric in _COUNTS:
        void = summary.get("void_turns", 0)
        return f"no such turn was measured{f': {void} void, since the harness was late' if void else ''}"
    if metric == "send_lag_p99_ms":
        return "no caller frame was sent"
    if metric == "void_turn_share":
        return "no turn was played"
    return f"{metric} was not measured"


def _because(distribution: Mapping[str, Any], missed: str, nothing: str) -> str:
    reasons = []
    if distribution.get("missed"):
        reasons.append(f"{missed} ({distribution['missed']} missed)")
    if distribution.get("void"):
        reasons.append(f"{distribution['void']} void, since the harness was late or ended the call")
    return "; ".join(reasons) or nothing
