"""``report.html``: one file that needs nothing else, in light and dark, on a desk and on a phone.

The page holds no script, and its content security policy allows none: what an agent or a call id says can only be
text. Drawings are static SVG (``plots``, ``speech``).
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from voicebench.metrics.results import SessionResult
from voicebench.report import format as fmt
from voicebench.report.build import has_failed, session_view
from voicebench.report.delivery import delivery_rows
from voicebench.report.figures import (
    account_text,
    assertion_scope,
    assertion_text,
    facts,
    spread,
    turn_rows,
    turns_text,
)
from voicebench.report.markdown import turn_result
from voicebench.report.plots import course_plot, latency_plot
from voicebench.report.speech import speech_timeline
from voicebench.report.verdict import verdict

#: Up to this many calls are all drawn; of more, the failed ones and then the slowest.
SHOW_ALL = 20
SHOW_MOST = 30
#: A call that never connected has nothing to draw; the table of failures tells their number.
SHOW_UNMEASURED = 5


def render_html(report: Mapping[str, Any], results: Sequence[SessionResult]) -> str:
    """The page. ``results`` are the calls of the report, for the drawings."""
    shown = shown_calls(results)
    result = verdict(report)
    cards = _cards(report)
    environment = Environment(
        loader=PackageLoader("voicebench.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(ms=fmt.ms, number=fmt.number, share=fmt.share, seconds=fmt.seconds)
    return environment.get_template("report.html").render(
        report=report,
        run=report["run"],
        summary=report["summary"],
        verdict=result,
        words={"pass": "Pass", "fail": "Fail", "invalid": "Invalid", "unreachable": "Unreachable"},
        title=", ".join(scenario["name"] for scenario in report["scenarios"]) or "no scenario",
        facts=facts(report),
        cards=cards,
        columns=_columns(len(cards)),
        outcomes=_outcomes(report["run"]),
        assertions=[(item, assertion_scope(item), *assertion_text(item)) for item in report["assertions"]],
        overloaded={item["worker"] for item in report["harness"]["overloaded"]},
        latency_plot=Markup(latency_plot(report, results)),
        course_plot=Markup(course_plot(report, results)),
        turns=turn_rows(report),
        delivery=delivery_rows(report),
        calls=[_call(call) for call in shown],
        shown=len(shown),
        total=len(results),
        account=account_text(report["run"]),
        turn_result=turn_result,
        spread=spread,
    )


def shown_calls(results: Sequence[SessionResult]) -> list[SessionResult]:
    """All calls if they are few, else the failed ones, then the slowest (by their slowest response)."""
    if len(results) <= SHOW_ALL:
        return list(results)
    failed = [call for call in results if has_failed(call)]
    measured = [call for call in failed if call.metrics is not None]
    unmeasured = [call for call in failed if call.metrics is None][:SHOW_UNMEASURED]
    slowest = sorted((call for call in results if not has_failed(call)), key=_slowest, reverse=True)
    return [*measured[: SHOW_MOST - len(unmeasured)], *unmeasured, *slowest][:SHOW_MOST]


def _slowest(call: SessionResult) -> float:
    turns = call.metrics.turns if call.metrics else ()
    return max((turn.response_latency_ms for turn in turns if turn.response_latency_ms is not None), default=-1e9)


def _call(call: SessionResult) -> dict[str, Any]:
    view = session_view(call)
    counted = [turn for turn in call.metrics.turns if turn.counted] if call.metrics else []
    passed = sum(turn.passed for turn in counted)
    facts = [
        call.scenario,
        fmt.seconds(call.metrics.duration_s) if call.metrics else "",
        f"{passed} of {fmt.count(len(counted), 'turn')} passed" if counted else "",
        call.worker,
        f"connected in {fmt.ms(call.connect_ms)}" if call.connect_ms is not None else "",
    ]
    label = f"Speech timeline of call {call.call_id}"
    return {
        **view,
        "facts": [fact for fact in facts if fact],
        "failed": has_failed(call),
        "timeline": Markup(speech_timeline(call.metrics, label)) if call.metrics else "",
        "links": {name: link for name, path in (call.recording or {}).items() if (link := _link(path))},
    }


def _link(path: str) -> str:
    """A relative URL of a recording; nothing for what is no path, such as ``javascript:...``."""
    posix = PurePosixPath(path.replace("\\", "/"))
    if posix.is_absolute():
        return quote(f"file://{posix}", safe="/:")
    return "./" + quote(str(posix)) if path else ""


def _outcomes(run: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """Outcome, calls, and share of those started in per cent."""
    names = ("completed", "truncated", "failed", "lost", "unaccounted")
    return [(name, run[name], 100 * run[name] / max(run["started"], 1)) for name in names if run[name] > 0]


def _cards(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """The key figures: name, value, what stands beside it, and whether it is good or bad."""
    summary, lag = report["summary"], report["harness"]["send_lag_ms"]
    latency, ttfa, stop = summary["response_latency_ms"], summary["ttfa_ms"], summary["barge_in_stop_ms"]
    passed = summary["turns_passed"] / summary["turns"] if summary["turns"] else None
    bad_turns = summary["turns_passed"] < summary["turns"]
    cards = [
        _card("Response latency", fmt.ms(latency["p50"]), "p90 / p99 " + spread(latency, ("p90", "p99"))),
        _card("Time to first audio", fmt.ms(ttfa["p50"]), "p90 / p99 " + spread(ttfa, ("p90", "p99"))),
        _card("Turns passed", fmt.share(passed), turns_text(summary), "bad" if bad_turns else "good"),
        _card(
            "Missed responses",
            fmt.count(summary["missed_responses"]),
            f"{fmt.count(summary['talk_overs'], 'talk-over')}",
            "bad" if summary["missed_responses"] else "",
        ),
    ]
    if summary["barge_in_turns"]:
        rate = summary["barge_in_success_rate"]
        of = f"of {summary['barge_in_turns']:,} · stops in p50 {fmt.ms(stop['p50'])}"
        cards.append(
            _card("Barge-in success", fmt.share(rate), of, "bad" if rate is not None and rate < 1 else "good")
        )
    if summary["noise_turns"]:
        false = summary["false_barge_ins"]
        spurious = fmt.count(summary["spurious_responses"], "spurious response")
        cards.append(
            _card("False barge-ins", f"{false:,} of {summary['noise_turns']:,}", spurious, "bad" if false else "good")
        )
    if summary["mean_wer"] is not None:
        worst = fmt.number(fmt.at(summary.get("turn_wer"), "max"))
        cards.append(_card("Mean word error rate", fmt.number(summary["mean_wer"]), f"worst turn {worst}"))
    if report["run"]["arrivals"] == "open":
        setup, late = summary["setup_ms"], fmt.ms(summary["start_lag_ms"]["max"])
        beside = f"p99 {fmt.ms(setup['p99'])} · from the scheduled time; begun late by at most {late}"
        cards.append(_card("Call setup", fmt.ms(setup["p50"]), beside, "bad" if setup["missed"] else ""))
    void = summary.get("void_turns") or 0
    skipped = fmt.count(report["harness"]["skipped_frames"], "frame")
    beside = f"send lag p99 · {fmt.count(void, 'void turn')}, {skipped} skipped"
    cards.append(_card("Harness", fmt.ms(lag["p99"]), beside, "bad" if void else ""))
    return cards


def _columns(cards: int) -> int:
    """Columns in which the cards fill their rows as evenly as they can."""
    return cards if cards <= 5 else 3 if cards == 6 else 4


def _card(name: str, value: str, beside: str, state: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "beside": beside, "state": state}
