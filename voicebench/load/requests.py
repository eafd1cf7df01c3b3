"""What Locust's own table sees of a call: one ``connect`` request, and one ``turn`` request for each turn.

With open arrivals the time of ``connect`` runs from the instant for which the call was scheduled.

Locust adds equal failures up by their text, so the texts are constants. A turn that the harness itself disturbed is
of the type ``void``, and never a failure. Response times are for Locust's charts, which round; the figures that count
are voicebench's own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from voicebench.metrics.results import SessionResult, TurnResult


class VoiceFailure(Exception):  # noqa: N818 - a finding about the agent, raised nowhere
    """Why a turn or a connection counts as failed. Its ``repr`` is what Locust shows."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Request:
    """The arguments of one of Locust's request events. ``response_time`` None stays out of its percentiles."""

    request_type: str
    name: str
    response_time: float | None
    exception: VoiceFailure | None = None


def requests_of(result: SessionResult) -> Iterator[Request]:
    """The request events of one call that ended."""
    if result.connect_ms is not None:
        yield Request("connect", result.scenario, result.setup_ms)
    elif result.outcome == "failed":
        yield Request("connect", result.scenario, None, VoiceFailure(kind_of(result.reason)))
    for turn in result.metrics.turns if result.metrics else ():
        if turn.trigger != "not_played" or "missed" in turn.status.values():  # else the harness itself ended the call
            yield _turn_request(result, turn)


def kind_of(reason: str) -> str:
    """The kind of a failure: its reason up to the first colon, which is the same for all calls that fail alike."""
    return reason.partition(":")[0].partition(",")[0].strip() or "unknown"


def _turn_request(result: SessionResult, turn: TurnResult) -> Request:
    name = f"{result.scenario}/{turn.id}"
    if turn.void:
        return Request("void", name, None)
    latency = {"respond": turn.response_latency_ms, "stop": turn.stop_latency_ms}.get(turn.expect)
    if latency is not None:
        latency = max(latency, 0.0)  # a talk-over's is negative, which Locust's tables cannot hold
    failure = "" if turn.passed else _failure(result, turn)
    return Request("turn", name, latency, VoiceFailure(failure) if failure else None)


def _failure(result: SessionResult, turn: TurnResult) -> str:
    if turn.trigger == "not_played":
        return f"call failed: {kind_of(result.reason)}" if result.outcome == "failed" else "not played"
    if turn.expect == "stop":
        return "agent was not speaking" if "error" in turn.status.values() else "did not stop"
    if turn.expect == "ignore":
        if turn.false_barge_in:
            return "false barge-in"
        if turn.spurious_response:
            return "spurious response"
    if turn.expect == "listen":
        return "agent was silent"
    return "no response" if turn.responded is False else "not measurable"
