"""What Locust's table sees of a call."""

import pytest

from tests.unit.load.builders import result, turn
from voicebench.load.requests import Request, kind_of, requests_of
from voicebench.metrics.results import SessionResult, Status, TurnResult


def seen(one: SessionResult) -> list[tuple[str, str, float | None, str]]:
    def row(request: Request) -> tuple[str, str, float | None, str]:
        failure = repr(request.exception) if request.exception else ""
        return request.request_type, request.name, request.response_time, failure

    return [row(request) for request in requests_of(one)]


def status(value: Status) -> dict[str, Status]:
    return {"response_latency_ms": value}


def test_a_call_is_one_connect_and_one_request_per_turn() -> None:
    stop = turn(
        None, id="cut-in", expect="stop", stopped=True, stop_latency_ms=210.0, passed=True, status=status("ok")
    )
    noise = turn(None, id="cough", expect="ignore", false_barge_in=False, passed=True, status=status("ok"))
    assert seen(result("a", turns=(turn(812.5), stop, noise))) == [
        ("connect", "booking", 4.0, ""),
        ("turn", "booking/turn-1", 812.5, ""),
        ("turn", "booking/cut-in", 210.0, ""),
        ("turn", "booking/cough", None, ""),
    ]


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (turn(None), "no response"),
        (turn(None, expect="stop", stopped=False, stop_latency_ms=None), "did not stop"),
        (turn(None, expect="stop", status=status("error")), "agent was not speaking"),
        (turn(None, expect="ignore", false_barge_in=True, status=status("ok")), "false barge-in"),
        (turn(None, expect="ignore", spurious_response=True, status=status("ok")), "spurious response"),
        (turn(None, responded=None, status=status("error")), "not measurable"),
        (turn(None, trigger="not_played", responded=None), "not played"),
    ],
)
def test_a_failed_turn_has_a_constant_text(failed: TurnResult, text: str) -> None:
    assert seen(result("a", turns=(failed,)))[1][3] == text


def test_a_void_turn_is_no_failure_and_has_no_time() -> None:
    void = turn(None, passed=False, status=status("void"))
    assert seen(result("a", turns=(void,)))[1] == ("void", "booking/turn-1", None, "")


def test_a_turn_that_the_harness_did_not_get_to_is_no_request() -> None:
    unplayed = turn(None, trigger="not_played", responded=None, status=status("not_applicable"))
    assert len(seen(result("a", outcome="truncated", turns=(unplayed,)))) == 1


def test_turns_that_a_failed_call_did_not_get_to_name_the_kind_of_failure() -> None:
    unplayed = turn(None, trigger="not_played", responded=None)
    failed = result(
        "a", outcome="failed", reason="agent hung up: code 1011 after 3.2 s, in turn-1", turns=(unplayed,)
    )
    assert seen(failed)[1][3] == "call failed: agent hung up"


def test_a_call_that_never_connected_is_one_failed_connect() -> None:
    refused = result("a", outcome="failed", reason="connection refused: 127.0.0.1:1", connect_ms=None, metrics=None)
    assert seen(refused) == [("connect", "booking", None, "connection refused")]


def test_a_scheduled_call_counts_its_wait_from_the_schedule() -> None:
    waited = result("a", scheduled_at=998.5)  # began at 1000, connected in 4 ms
    assert seen(waited)[0] == ("connect", "booking", 1504.0, "")


def test_a_call_cut_off_while_connecting_is_no_request() -> None:
    assert seen(result("a", outcome="truncated", reason="run ended", connect_ms=None, metrics=None)) == []


def test_a_talk_over_counts_as_no_wait() -> None:
    assert seen(result("a", turns=(turn(-120.0, talk_over=True),)))[1][2] == 0.0


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("HTTP 401: no token", "HTTP 401"), ("timeout", "timeout"), ("flood, in turn-2", "flood"), ("", "unknown")],
)
def test_the_kind_of_a_failure_is_what_stands_before_the_details(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind
