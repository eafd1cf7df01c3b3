"""Limits held against a summary."""

import math
from typing import Any

import pytest

from voicebench.metrics.assertions import check
from voicebench.metrics.session import measure
from voicebench.metrics.summary import summarise
from voicebench.scenario.assertions import known_keys, parse_assertion

from .builders import call

RESPOND: dict[str, Any] = {"expect": "respond"}
STOP: dict[str, Any] = {"expect": "stop"}
IGNORE: dict[str, Any] = {"expect": "ignore"}
USER = [(0.5, 1.5)]


def summary_of(*records: Any) -> dict[str, Any]:
    return summarise(measure(record) for record in records)


REPLIED = summary_of(call([RESPOND], USER, [(2.26, 3.0)]))
SILENT = summary_of(call([RESPOND], USER))
NOTHING = summarise([])


@pytest.mark.parametrize(
    ("key", "limit", "passed"),
    [
        ("max_response_latency_ms", 760, True),
        ("max_response_latency_ms", 759.9, False),
        ("p95_response_latency_ms", 760, True),
        ("min_ttfa_ms", 760, True),
        ("min_ttfa_ms", 761, False),
        ("max_missed_responses", 0, True),
        ("min_turns_passed", 1, True),
        ("max_send_lag_p99_ms", 5, True),
        ("p99_setup_ms", 12.5, True),
        ("p99_setup_ms", 12.4, False),
        ("p99_start_lag_ms", 1000, False),  # nothing was scheduled
    ],
)
def test_a_limit_holds_up_to_the_limit_itself(key: str, limit: float, passed: bool) -> None:
    (result,) = check(REPLIED, [parse_assertion(key, limit)])
    assert (result.key, result.limit, result.passed) == (key, limit, passed)


def test_the_message_says_limit_and_value() -> None:
    broken, kept = check(REPLIED, {"max_response_latency_ms": 500, "min_turns_passed": 1}, scenario="demo")
    assert (broken.scenario, broken.actual) == ("demo", 760.0)
    assert broken.message == "max_response_latency_ms <= 500: broken, it is 760"
    assert kept.message == "min_turns_passed >= 1: holds, it is 1"


def test_every_known_key_can_be_checked_and_none_passes_without_data_vb18() -> None:
    results = check(NOTHING, dict.fromkeys(known_keys(), 0.0))
    floors_of_sums = {"overlap_ms", "talk_over_ms", "failed_sessions", "truncated_sessions", "void_turns"}
    for result in results:
        if result.key.partition("_")[2] in floors_of_sums:
            continue  # no call, no failed call
        assert (result.passed, result.actual) == (False, None), result.key
        assert result.message.startswith(f"{result.key}: no "), result.message


@pytest.mark.parametrize(
    ("summary", "key", "message"),
    [
        (SILENT, "p50_ttfa_ms", "no turn has a ttfa_ms: the agent never replied (1 missed)"),
        (NOTHING, "p50_ttfa_ms", "no turn has a ttfa_ms: no turn was measured that expects a reply"),
        (REPLIED, "max_wer", "no turn has a WER: no turn that was played sets 'text'"),
        (
            summary_of(call([{**RESPOND, "text": "hello"}], USER, [(2.0, 3.0)])),
            "max_wer",
            "no turn has a WER: the agent reported no user transcript (1 missed)",
        ),
        (REPLIED, "min_barge_in_success_rate", "no barge-in has a stop time: no barge-in was measured"),
        (
            summary_of(call([STOP], USER, [(0.1, 10.0)])),
            "max_barge_in_stop_ms",
            "no barge-in has a stop time: the agent never stopped (1 missed)",
        ),
        (
            summary_of(call([STOP], USER)),
            "max_barge_in_stop_ms",
            "no barge-in has a stop time: the agent was silent at every barge-in",
        ),
    ],
)
def test_an_absent_value_says_what_is_missing_and_why(summary: dict[str, Any], key: str, message: str) -> None:
    (result,) = check(summary, {key: 1.0})
    assert (result.passed, result.actual, result.message) == (False, None, f"{key}: {message}")


def test_void_turns_do_not_let_a_count_pass() -> None:
    late = {60: math.nan}
    void_reply = call([RESPOND], USER, lag_s=late)
    void_noise = call([IGNORE], [(1.0, 1.5)], lag_s=late)
    keys = {"max_missed_responses": 0.0, "max_false_barge_ins": 0.0}
    assert [r.passed for r in check(summary_of(void_reply, void_noise), keys)] == [False, False]
    both = summary_of(void_reply, void_noise, call([RESPOND, IGNORE], [(0.5, 1.5), (4.0, 4.3)], [(2.0, 3.0)]))
    assert [r.passed for r in check(both, keys)] == [True, True]
    good_reply, good_noise = call([RESPOND], USER, [(2.0, 3.0)]), call([IGNORE], [(1.0, 1.5)])
    assert [r.passed for r in check(summary_of(good_reply, void_noise), keys)] == [True, False]
    assert [r.passed for r in check(summary_of(void_reply, good_noise), keys)] == [False, True]
    (result,) = check(summary_of(void_reply), {"max_missed_responses": 0})
    assert result.message == "max_missed_responses: no such turn was measured: 1 void, since the harness was late"


def test_a_script_without_noise_has_no_false_barge_ins() -> None:
    (result,) = check(REPLIED, {"max_false_barge_ins": 0})
    assert (result.passed, result.actual) == (True, 0)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'max_ttfa_ms'"):
        check(REPLIED, {"max_tfta_ms": 1})
