"""The figures of many calls: of a run, of each scenario, of each turn (VB28).

Conventions
-----------
- Calls are added one by one, in any order; ``close`` then gives the figures. Distributions keep their raw values,
  sums are exact, and histograms hold whole numbers: one process and many workers agree to the last digit.
- A turn counts if ``TurnResult.counted``: void turns, and turns that the harness did not let happen, are counted
  apart and enter no other figure.
- A figure without any value to rest on is None; a distribution without values has the count 0.

Metrics
-------
sessions                calls added, of every outcome; completed_, truncated_, failed_ and lost_sessions add up to it
unmeasured_sessions     calls without metrics: they never connected, or were lost. Their turns appear nowhere
turns, turns_passed     turns that count, and those that were as expected
response_latency_ms     distribution over `respond` turns; likewise ttfa_ms
missed_responses        `respond` turns without a reply
talk_overs              `respond` turns that the agent answered before the user had finished
barge_in_turns          `stop` turns; barge_in_success_rate is the share of those that stopped in time
barge_in_stop_ms        distribution over the `stop` turns that stopped, in time or not
noise_turns             `ignore` turns; false_barge_ins and spurious_responses are those that were not ignored
setup_ms                distribution over calls: scheduled (or, with closed arrivals, begun) to connected. Missed: the
                        call failed before that; void: the harness ended it before that
start_lag_ms            distribution over calls with open arrivals: scheduled to begun
first_audible_ms to     distributions over calls, or over barge-ins, of what ``metrics.delivery`` measures of each
  backlog_growth_ms
resumed_barge_ins       barge-ins after which the agent fell silent, and then went on; None if none was measured
turn_wer, mean_wer      distribution over all turns that have a WER, and its mean
overlap_ms,             sums over calls
talk_over_ms
void_turns              turns whose measurement the harness disturbed; void_turn_share is their share of all that
                        were played or owed, void_noise_turns are the `ignore` turns among them
cut_off_turns           turns that were void only because the run ended while they were open; in no share
unplayed_turns          turns that the harness did not let happen, because it ended the call
send_lag_p99_ms,        of all caller frames (a skipped one counts with the time until the next), and of all agent
receive_lag_p99_ms      packets, within 0.5 %; None where not known
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from voicebench.metrics.delivery import values
from voicebench.metrics.histogram import Histogram
from voicebench.metrics.process import loop_lag_figures
from voicebench.metrics.results import Delivery, ProcessHealth, SessionResult, TurnResult
from voicebench.metrics.stats import distribution

#: Distribution of the summary: the turn's metric, the turns that it is about (None: all), decimals.
_DISTRIBUTIONS: dict[str, tuple[str, str | None, int]] = {
    "response_latency_ms": ("response_latency_ms", "respond", 1),
    "ttfa_ms": ("ttfa_ms", "respond", 1),
    "barge_in_stop_ms": ("stop_latency_ms", "stop", 1),
    "turn_wer": ("wer", None, 4),
}

#: Distribution of the summary: the call's figure, see ``metrics.delivery``; decimals.
_DELIVERY: dict[str, tuple[str, int]] = {
    "first_audible_ms": ("opening.first_audible_ms", 1),
    "opening_heard_ms": ("playout.opening_heard_ms", 1),
    "worst_burst_frames": ("pacing.worst_burst_frames", 1),
    "realtime_ratio": ("pacing.realtime_ratio", 3),
    "worst_gap_ms": ("continuity.worst_gap_ms", 1),
    "interior_silent_ms": ("continuity.interior_silent_ms", 1),
    "cut_ms": ("barge_in.cut_ms", 1),
    "audio_wasted_ms": ("barge_in.audio_wasted_ms", 1),
    "unheard_backlog_ms": ("barge_in.unheard_backlog_ms", 1),
    "overflow_ms": ("playout.overflow_ms", 1),
    "underrun_ms": ("playout.underrun_ms", 1),
    "backlog_growth_ms": ("playout.backlog_growth_ms", 1),
}
_BY_FIGURE = {figure: name for name, (figure, _) in _DELIVERY.items()}


class Summary:
    """Adds up calls: ``add`` each, then ``close``."""

    def __init__(self) -> None:
        self._sessions: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._values = {name: array("d") for name in (*_DISTRIBUTIONS, *_DELIVERY)}
        self._barge_ins: Counter[str] = Counter()
        self._setups_ms = array("d")
        self._start_lags_ms = array("d")
        self._missed: Counter[str] = Counter()
        self._void: Counter[str] = Counter()
        self._overlaps_ms = array("d")
        self._talk_overs_ms = array("d")
        self._send_lag: Counter[str] = Counter()
        self._receive_lag: Counter[str] = Counter()

    def add(self, result: SessionResult) -> None:
        """Count one call and its turns."""
        self._sessions["all"] += 1
        self._sessions[result.outcome] += 1
        self._add_setup(result)
        self._send_lag.update(result.health.send_lag_histogram)
        self._receive_lag.update(result.health.receive_lag_histogram)
        if result.metrics is None:
            self._sessions["unmeasured"] += 1
            return
        self._overlaps_ms.append(result.metrics.overlap_ms)
        self._talk_overs_ms.append(result.metrics.talk_over_ms)
        for turn in result.metrics.turns:
            self._add_turn(turn)
        if result.metrics.delivery is not None:
            self._add_delivery(result.metrics.delivery)

    def close(self) -> dict[str, Any]:
        """The figures of what was added so far, as JSON data."""
        sessions, turns = self._sessions, self._turns
        stats = {name: self._distribution(name, digits) for name, (_, _, digits) in _DISTRIBUTIONS.items()}
        barge_ins, void = turns["stop"], turns["void"]
        return {
            "sessions": sessions["all"],
            "turns": turns["counted"],
            "turns_passed": turns["passed"],
            "response_latency_ms": stats["response_latency_ms"],
            "ttfa_ms": stats["ttfa_ms"],
            "missed_responses": turns["missed_response"],
            "talk_overs": turns["talk_over"],
            "barge_in_turns": barge_ins,
            "barge_in_success_rate": round(turns["stopped"] / barge_ins, 4) if barge_ins else None,
            "barge_in_stop_ms": stats["barge_in_stop_ms"],
            "noise_turns": turns["ignore"],
            "false_barge_ins": turns["false_barge_in"],
            "spurious_responses": turns["spurious_response"],
            "mean_wer": stats["turn_wer"]["mean"],
            "overlap_ms": round(math.fsum(self._overlaps_ms), 1),
            "talk_over_ms": round(math.fsum(self._talk_overs_ms), 1),
            "turn_wer": stats["turn_wer"],
            "setup_ms": distribution(self._setups_ms, missed=self._missed["setup"], void=self._void["setup"]),
            "start_lag_ms": distribution(self._start_lags_ms, digits=3),
            **{name: self._distribution(name, digits) for name, (_, digits) in _DELIVERY.items()},
            "resumed_barge_ins": self._resumed(),
            "completed_sessions": sessions["completed"],
            "truncated_sessions": sessions["truncated"],
            "failed_sessions": sessions["failed"],
            "lost_sessions": sessions["lost"],
            "unmeasured_sessions": sessions["unmeasured"],
            "void_turns": void,
            "void_turn_share": _share(void, turns["counted"] + void),
            "void_noise_turns": turns["void_noise"],
            "cut_off_turns": turns["cut_off"],
            "unplayed_turns": turns["unplayed"],
            "send_lag_p99_ms": _lag(self._send_lag, 99),
            "receive_lag_p99_ms": _lag(self._receive_lag, 99),
        }

    def _add_setup(self, result: SessionResult) -> None:
        if result.outcome == "lost":
            return
        if result.start_lag_ms is not None:
            self._start_lags_ms.append(result.start_lag_ms)
        if result.setup_ms is not None:
            self._setups_ms.append(result.setup_ms)
        else:
            self._missed["setup"] += result.outcome == "failed"
            self._void["setup"] += result.outcome == "truncated"

    def _add_turn(self, turn: TurnResult) -> None:
        for name, (metric, expect, _) in _DISTRIBUTIONS.items():
            if expect not in (None, turn.expect):
                continue
            status = turn.status.get(metric)
            self._missed[name] += status == "missed"
            self._void[name] += status == "void"
            value = getattr(turn, metric)
            if value is not None:
                self._values[name].append(value)
        count = self._turns
        if not turn.counted:
            count["cut_off" if turn.cut_off else "void" if turn.void else "unplayed"] += 1
            count["void_noise"] += turn.void and turn.expect == "ignore"
            return
        count["counted"] += 1
        count["passed"] += turn.passed
        count[turn.expect] += 1
        if turn.expect == "respond":
            count["missed_response"] += not turn.responded
            count["talk_over"] += turn.talk_over
        elif turn.expect == "stop":
            count["stopped"] += bool(turn.stopped)
        else:
            count["false_barge_in"] += bool(turn.false_barge_in)
            count["spurious_response"] += bool(turn.spurious_response)

    def _add_delivery(self, delivery: Delivery) -> None:
        for figure, value, status in values(delivery):
            name = _BY_FIGURE.get(figure)
            if name is None:
                continue
            if value is not None:
                self._values[name].append(value)
            else:
                self._missed[name] += status == "missed"
                self._void[name] += status == "void"
        for barge_in in delivery.barge_ins:
            self._barge_ins["all"] += 1
            self._barge_ins["resumed"] += bool(barge_in.resumed_after_stop)

    def _resumed(self) -> int | None:
        """None if there were barge-ins, and not one could be measured."""
        return self._barge_ins["resumed"] if self._values["cut_ms"] or not self._barge_ins["all"] else None

    def _distribution(self, name: str, digits: int) -> dict[str, Any]:
        return distribution(self._values[name], missed=self._missed[name], void=self._void[name], digits=digits)


def summarise(results: Iterable[SessionResult]) -> dict[str, Any]:
    """The figures of all calls."""
    summary = Summary()
    for result in results:
        summary.add(result)
    return summary.close()


def by_scenario(results: Iterable[SessionResult]) -> dict[str, dict[str, Any]]:
    """The figures of each scenario's calls, scenarios in alphabetical order."""
    groups: dict[str, Summary] = {}
    for result in results:
        groups.setdefault(result.scenario, Summary()).add(result)
    return {name: groups[name].close() for name in sorted(groups)}


def by_turn(results: Iterable[SessionResult]) -> dict[str, dict[str, Any]]:
    """The figures of each turn, by "scenario/turn": scenarios in alphabetical order, turns in their own.

    ``sessions`` and the outcomes are those of the calls that measured the turn. What has no value per turn
    (overlap_ms, talk_over_ms, setup_ms, start_lag_ms, delivery) is None.
    """
    groups: dict[tuple[str, str], Summary] = {}
    places: dict[tuple[str, str], int] = {}
    for result in results:
        if result.metrics is None:
            continue
        for place, turn in enumerate(result.metrics.turns):
            alone = replace(result, metrics=replace(result.metrics, turns=(turn,), delivery=None))
            key = result.scenario, turn.id
            groups.setdefault(key, Summary()).add(alone)
            places[key] = min(place, places.get(key, place))
    of_calls = ("overlap_ms", "talk_over_ms", "setup_ms", "start_lag_ms", *_DELIVERY, "resumed_barge_ins")
    unknown = dict.fromkeys(of_calls)
    ordered = sorted(groups, key=lambda key: (key[0], places[key], key[1]))
    return {"/".join(key): {**groups[key].close(), **unknown} for key in ordered}


def harness(results: Iterable[SessionResult], processes: Iterable[ProcessHealth] = ()) -> dict[str, Any]:
    """How well the harness itself kept time over all calls.

    p50 and p99 are within 0.5 %, max is exact. ``timestamps`` counts calls by where their arrival times came from.
    What belongs to processes comes from ``processes``: every tick of each of them counts once in ``loop_lag_ms``,
    ``collections`` is the sum, ``cpu_share`` that of the busiest. If none reported, its calls still tell the longest
    loop lag, and the largest share of a core during any of them.
    """
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    sent_max: list[float] = []
    received_max: list[float] = []
    frames, skipped = 0, 0
    timestamps: Counter[str] = Counter()
    told = list(processes)
    loop_max: list[float] = []
    cpu_shares: list[float] = []
    summary = Summary()
    for result in results:
        summary.add(result)
        health = result.health
        sent.update(health.send_lag_histogram)
        received.update(health.receive_lag_histogram)
        sent_max += [lag for lag in [health.send_lag_ms.get("max")] if lag is not None]
        received_max += [lag for lag in [health.receive_lag_ms.get("max")] if lag is not None]
        loop_max += [lag for lag in [health.loop_lag_ms.get("max")] if lag is not None]
        cpu_shares += [share for share in [health.cpu_share] if share is not None]
        frames += health.frames
        skipped += health.skipped_frames
        timestamps[result.timestamps] += result.metrics is not None
    figures = summary.close()
    return {
        "send_lag_ms": {"p50": _lag(sent, 50), "p99": _lag(sent, 99), "max": max(sent_max, default=None)},
        "receive_lag_ms": {
            "p50": _lag(received, 50),
            "p99": _lag(received, 99),
            "max": max(received_max, default=None),
        },
        "loop_lag_ms": _loop_lag(told) if told else {"p50": None, "p99": None, "max": max(loop_max, default=None)},
        "frames": frames,
        "skipped_frames": skipped,
        "void_turns": figures["void_turns"],
        "void_turn_share": figures["void_turn_share"],
        "cut_off_turns": figures["cut_off_turns"],
        "timestamps": {name: timestamps[name] for name in sorted(timestamps) if timestamps[name]},
        "collections": sum(process.collections for process in told) if told else None,
        "cpu_share": max(_shares(told) if told else cpu_shares, default=None),
    }


def _loop_lag(processes: Iterable[ProcessHealth]) -> dict[str, float | None]:
    lags, worst_ms = Histogram(), 0.0
    for process in processes:
        lags.merge(Histogram.from_dict(process.loop_lag_histogram))
        worst_ms = max(worst_ms, process.loop_lag_ms.get("max") or 0.0)
    return loop_lag_figures(lags, worst_ms)


def _shares(processes: Iterable[ProcessHealth]) -> list[float]:
    return [process.cpu_share for process in processes if process.cpu_share is not None]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _lag(counts: Counter[str], q: float) -> float | None:
    value = Histogram.from_dict(counts).quantile(q)
    return None if value is None else round(value, 4)
