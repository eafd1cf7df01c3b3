"""What the report adds up, and how the process ends."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.golden.report.handmade import (
    PROCESS,
    answered,
    booking,
    call,
    handmade_calls,
    handmade_run,
    interrupted,
    measured,
    missed,
    scenario,
)
from voicebench.exits import Exit
from voicebench.metrics.results import RunInfo, SessionResult, WorkerInfo
from voicebench.report.build import build_report, exit_code
from voicebench.report.figures import facts, key_figures
from voicebench.report.verdict import verdict


def run_of(
    calls: list[SessionResult],
    limits: dict[str, float] | None = None,
    builtin: dict[str, float] | None = None,
    **more: Any,
) -> RunInfo:
    """A run of one worker and one scenario whose account balances."""
    lost = sum(call.outcome == "lost" for call in calls)
    worker = WorkerInfo("worker-1", "host-a", len(calls), len(calls) - lost, lost)
    only = scenario("booking", ["ask", "confirm"], ["respond", "respond"], limits or {})
    return handmade_run(**{"scenarios": (only,), "workers": (worker,), "notes": (), "limits": builtin or {}, **more})


def refused(call_id: str) -> SessionResult:
    return call(call_id, "booking", None, "failed", "connection refused")


def test_every_started_call_is_accounted_for() -> None:
    run = build_report(handmade_run(), handmade_calls())["run"]
    parts = {name: run[name] for name in ("started", "completed", "truncated", "failed", "lost", "recorded")}
    assert parts == {"started": 13, "completed": 9, "truncated": 1, "failed": 2, "lost": 1, "recorded": 12}
    assert run["unaccounted"] == 0


def test_an_account_that_does_not_balance_says_by_how_much_and_is_not_valid() -> None:
    calls = [booking(f"call-{number}", 600.0) for number in range(3)]
    run = run_of(calls, workers=(WorkerInfo("worker-1", "host-a", started=5, recorded=5, lost=0),))
    report = build_report(run, calls)
    assert report["run"]["unaccounted"] == 2
    assert report["run"]["notes"] == [
        "the account does not balance: 5 started, 3 completed + 0 truncated + 0 failed + 0 lost; no trace of 2"
    ]
    assert (report["valid"], report["exit_code"]) == (False, Exit.INVALID)


def test_calls_that_a_worker_lost_count_though_no_record_names_them() -> None:
    calls = [booking("call-1", 600.0)]
    report = build_report(run_of(calls, workers=(WorkerInfo("worker-1", "", started=3, recorded=1, lost=2),)), calls)
    assert (report["run"]["lost"], report["run"]["unaccounted"]) == (2, 0)
    assert report["exit_code"] == Exit.INVALID


def test_a_lost_call_counts_though_no_worker_owns_up_to_it() -> None:
    report = build_report(run_of([GOOD, LOST], workers=()), [GOOD, LOST])
    assert (report["run"]["started"], report["run"]["lost"], report["run"]["unaccounted"]) == (2, 1, 0)


def test_the_fields_of_a_call_that_never_connected_are_there_and_empty() -> None:
    session = build_report(run_of([refused("a")]), [refused("a")])["sessions"][0]
    assert (session["turns"], session["duration_s"], session["user_segments"]) == ([], None, [])
    assert (session["outcome"], session["reason"], session["recording"]) == ("failed", "connection refused", None)


GOOD = booking("good", 600.0)
SLOW = booking("slow", 1900.0)
LOST = call("lost", "booking", None, "lost", "worker-1 died")
CUT = call("cut", "booking", measured((), ()), "truncated", "the run ended")
DROPPED = call("dropped", "booking", measured((answered("ask", 0.5, 2.5, 600.0),), ()), "failed", "hung up")
LIMIT = {"max_response_latency_ms": 1000.0}


def test_calls_that_began_late_are_the_harness_s_fault_and_shown_with_their_worker() -> None:
    late = replace(GOOD, scheduled_at=GOOD.started_at - 0.5)  # connected 12 ms after it began
    run = run_of([late], {"p99_start_lag_ms": 20.0}, arrivals="open", schedule="5 calls a second, evenly spaced")
    report = build_report(run, [late])
    assert report["exit_code"] == Exit.INVALID
    assert [(item["worker"], item["actual"]) for item in report["harness"]["overloaded"]] == [("worker-1", 500.0)]
    figures = dict(key_figures(report))
    assert figures["Call setup p50 / p99 / max"] == "512 / 512 / 512 ms"
    assert figures["Calls begun late by p99 / max"] == "500 / 500 ms"
    assert (
        dict(facts({**report, "run": {**report["run"], "started": 2}}))["Clock"]
        == "real, open arrivals: 5 calls a second, evenly spaced"
    )


@pytest.mark.parametrize(
    ("calls", "limits", "expected"),
    [
        pytest.param([GOOD], LIMIT, Exit.OK, id="every assertion holds"),
        pytest.param([GOOD], {}, Exit.OK, id="nothing asserted"),
        pytest.param([SLOW], LIMIT, Exit.ASSERTION, id="an assertion fails"),
        pytest.param([GOOD, refused("a")], LIMIT, Exit.OK, id="one of two connected"),
        pytest.param([refused("a"), refused("b")], LIMIT, Exit.UNREACHABLE, id="none connected"),
        pytest.param([refused("a"), DROPPED], {}, Exit.INVALID, id="one connected, none completed"),
        pytest.param([CUT], {}, Exit.INVALID, id="only truncated"),
        pytest.param([GOOD, LOST], {}, Exit.INVALID, id="a call lost"),
        pytest.param([SLOW, LOST], LIMIT, Exit.INVALID, id="lost outranks a failed assertion"),
        pytest.param([refused("a"), LOST], {}, Exit.INVALID, id="lost outranks unreachable"),
        pytest.param([], LIMIT, Exit.INVALID, id="no call at all"),
        pytest.param([GOOD], {"max_send_lag_p99_ms": 0.1}, Exit.INVALID, id="the harness broke its limit"),
        pytest.param([GOOD], {"max_send_lag_p99_ms": 5.0}, Exit.OK, id="the harness kept its limit"),
        pytest.param([GOOD, refused("a")], {"max_failed_sessions": 0.0}, Exit.ASSERTION, id="failed calls limited"),
    ],
)
def test_exit_code(calls: list[SessionResult], limits: dict[str, float], expected: Exit) -> None:
    report = build_report(run_of(calls, limits), calls)
    assert exit_code(report) is expected
    assert report["exit_code"] == int(expected)
    assert report["valid"] is (expected in (Exit.OK, Exit.ASSERTION))


def test_a_run_that_calls_itself_invalid_is() -> None:
    report = build_report(run_of([GOOD], LIMIT, invalid=("the clock went backwards",)), [GOOD])
    assert report["exit_code"] == Exit.INVALID
    assert verdict(report).why == "The measurement is not valid: the clock went backwards."


def test_assertions_are_checked_over_the_calls_of_their_own_scenario() -> None:
    limits = {"max_response_latency_ms": 1000.0}
    slow_elsewhere = replace(booking("call-2", 1900.0), scenario="other")
    both = (scenario("booking", ["ask"], ["respond"], limits), scenario("other", ["ask"], ["respond"], limits))
    calls = [booking("call-1", 600.0), slow_elsewhere]
    report = build_report(run_of(calls, scenarios=both), calls)
    assert [(a["scenario"], a["actual"], a["passed"]) for a in report["assertions"]] == [
        ("booking", 600.0, True),
        ("other", 1900.0, False),
    ]
    assert [scenario["name"] for scenario in report["scenarios"]] == ["booking", "other"]
    assert report["scenario"]["name"] == "booking"


def test_assertions_of_a_scenario_that_no_call_played_fail() -> None:
    calls = [replace(GOOD, scenario="other")]
    report = build_report(run_of(calls, {"max_missed_responses": 0.0}), calls)
    assert [(a["actual"], a["passed"]) for a in report["assertions"]] == [(None, False)]


def test_a_report_without_calls_is_complete_and_serialisable() -> None:
    report = build_report(handmade_run(workers=()), [])
    assert json.loads(json.dumps(report)) == report
    assert report["summary"]["response_latency_ms"]["count"] == 0
    assert (report["timeline"], report["sessions"], report["failed_turns"]) == ([], [], [])
    assert verdict(report).why == "The measurement is not valid: no call was started."


def test_failed_turns_leave_out_what_the_harness_disturbed() -> None:
    turns = build_report(handmade_run(), handmade_calls())["failed_turns"]
    assert [(turn["call_id"], turn["turn"], turn["what"]) for turn in turns] == [
        ("call-06", "ask", "no response"),
        ("call-09", "confirm", "no response"),
        ("call-12", "cut-in", "did not stop"),
        ("call-12", "cough", "false barge-in"),
    ]


def test_a_pass_says_how_many_turns_it_does_not_rest_on() -> None:
    calls = [item for item in handmade_calls() if item.call_id in ("call-01", "call-07")]
    assert verdict(build_report(run_of(calls, LIMIT), calls)).why == (
        "The assertion holds; 2 of 2 calls completed; 1 of 4 turns do not count, since the harness disturbed them."
    )


def test_a_late_stop_is_told_from_none() -> None:
    late = interrupted("late", 1500.0, False, False)
    assert build_report(run_of([late]), [late])["failed_turns"][0]["what"] == "stopped too late"


def test_beyond_1000_calls_only_the_failed_ones_are_listed_and_at_most_200() -> None:
    silent = measured((missed("ask", 0.5, 2.5),), ())
    calls = [booking(f"good-{number}", 600.0) for number in range(801)]
    calls += [call(f"bad-{number}", "booking", silent) for number in range(200)]
    report = build_report(run_of(calls), calls)
    assert (len(report["sessions"]), report["sessions_listed"], report["sessions_total"]) == (200, 200, 1001)
    assert all(session["call_id"].startswith("bad-") for session in report["sessions"])
    assert report["sessions_file"] == "sessions.jsonl"

    assert len(build_report(run_of(calls[:1000]), calls[:1000])["sessions"]) == 1000


def test_failed_turns_are_capped_and_their_total_is_told() -> None:
    silent = measured((missed("ask", 0.5, 2.5),), ())
    calls = [call(f"bad-{number}", "booking", silent) for number in range(250)]
    report = build_report(run_of(calls), calls)
    assert (len(report["failed_turns"]), report["failed_turns_total"]) == (200, 250)


def test_reasons_are_counted_the_most_frequent_first() -> None:
    calls = [GOOD, refused("a"), DROPPED, refused("b")]
    assert build_report(run_of(calls), calls)["failures"] == [
        {"outcome": "failed", "reason": "connection refused", "count": 2},
        {"outcome": "failed", "reason": "hung up", "count": 1},
    ]


def test_the_virtual_clock_leaves_no_wall_clock_time_in_the_report() -> None:
    def simulated(begin: float) -> dict[str, Any]:
        calls = [replace(booking("call-1", 600.0, started=begin), clock="virtual", timestamps="virtual")]
        return build_report(run_of(calls, clock="virtual"), calls)

    assert simulated(0.0) == simulated(1234.5)
    assert simulated(0.0)["timeline"] == []


def test_a_workers_figures_are_those_of_its_own_calls() -> None:
    lagging = replace(GOOD.health, send_lag_ms={"p50": 1.0, "p99": 9.0, "max": 20.0})
    calls = [GOOD, replace(SLOW, worker="worker-2", health=lagging)]
    workers = (WorkerInfo("worker-1", "a", 1, 1, 0), WorkerInfo("worker-2", "b", 1, 1, 0))
    report = build_report(run_of(calls, workers=workers), calls)
    assert [worker["send_lag_ms"]["max"] for worker in report["workers"]] == [2.5, 20.0]
    assert [worker["timestamps"] for worker in report["workers"]] == ["kernel", "kernel"]


def test_a_worker_tells_how_its_process_fared() -> None:
    worker = WorkerInfo("worker-1", "a", 1, 1, 0, PROCESS)
    report = build_report(run_of([GOOD], workers=(worker,)), [GOOD])
    (row,) = report["workers"]
    assert row["loop_lag_ms"] == report["harness"]["loop_lag_ms"]
    assert (row["loop_lag_ms"]["max"], row["collections"], row["cpu_share"]) == (2.0, 4, 0.25)
    assert (row["skipped_frames"], row["void_turns"], row["receive_lag_ms"]["max"]) == (0, 0, 6.0)


BUILTIN = {"max_void_turn_share": 0.05, "max_send_lag_p99_ms": 20.0}


def late(call_id: str, worker: str = "worker-1", scenario: str = "booking") -> SessionResult:
    """A call whose frames went out 40 ms late."""
    health = replace(GOOD.health, send_lag_histogram={"1066": 900}, send_lag_ms={"p50": 40.0, "p99": 40, "max": 41.0})
    return replace(booking(call_id, 600.0), worker=worker, health=health, scenario=scenario)


def test_the_limits_of_a_load_run_hold_for_all_its_scenarios_together() -> None:
    two = (scenario("booking", ["ask"], ["respond"], LIMIT), scenario("other", ["ask"], ["respond"], {}))
    calls = [GOOD, late("late", scenario="other")]
    report = build_report(run_of(calls, scenarios=two, builtin=BUILTIN), calls)
    assert [(a["scenario"], a["key"], a["builtin"], a["passed"]) for a in report["assertions"]] == [
        ("booking", "max_response_latency_ms", False, True),
        ("", "max_void_turn_share", True, True),
        ("", "max_send_lag_p99_ms", True, False),
    ]
    assert (report["exit_code"], report["passed"], report["valid"]) == (Exit.INVALID, False, False)


def test_a_scenario_that_sets_a_limit_itself_is_held_to_that_alone() -> None:
    own = {"max_send_lag_p99_ms": 50.0}
    two = (scenario("booking", ["ask"], ["respond"], {}), scenario("lax", ["ask"], ["respond"], own))
    calls = [GOOD, late("late", scenario="lax")]
    report = build_report(run_of(calls, scenarios=two, builtin=BUILTIN), calls)
    found = {(a["scenario"], a["key"]): round(a["actual"]) for a in report["assertions"]}
    assert found == {
        ("lax", "max_send_lag_p99_ms"): 40,
        ("", "max_void_turn_share"): 0,
        ("", "max_send_lag_p99_ms"): 1,
    }
    assert report["exit_code"] == Exit.OK


def test_beyond_a_limit_the_report_names_the_overloaded_workers_and_says_what_to_do() -> None:
    calls = [GOOD, late("a", "worker-2"), late("b", "worker-3")]
    workers = tuple(WorkerInfo(f"worker-{n}", "h", 1, 1, 0) for n in (1, 2, 3))
    report = build_report(run_of(calls, workers=workers, builtin=BUILTIN), calls)
    assert [(item["worker"], item["key"]) for item in report["harness"]["overloaded"]] == [
        ("worker-2", "max_send_lag_p99_ms"),
        ("worker-3", "max_send_lag_p99_ms"),
    ]
    assert verdict(report).why == (
        "The measurement is not valid: the harness did not keep time: send lag p99 40 ms (limit 20 ms); overloaded: "
        "worker-2 (send lag p99 40 ms), worker-3 (send lag p99 40 ms). Use more workers with fewer users each, one "
        "worker per core (pin them with taskset), or a machine with less else to do."
    )


def test_the_sentence_names_a_worker_once_with_all_its_figures_and_at_most_three() -> None:
    calls = [replace(handmade_calls()[6], worker=f"worker-{n}", call_id=f"void-{n}") for n in range(1, 5)]
    calls = [replace(item, health=late("x").health) for item in calls]
    workers = tuple(WorkerInfo(f"worker-{n}", "h", 1, 1, 0) for n in range(1, 5))
    why = verdict(build_report(run_of(calls, workers=workers, builtin=BUILTIN), calls)).why
    assert "overloaded: worker-1 (void turns 50 %, send lag p99 40 ms), worker-2 (void turns 50 %, " in why
    assert "worker-3 (void turns 50 %, send lag p99 40 ms) and 1 more. Use more workers" in why


def test_a_share_that_no_worker_breaks_alone_names_the_nearest() -> None:
    void_run = [item for item in handmade_calls() if item.call_id in ("call-01", "call-07")]
    calls = [*void_run, *(booking(f"good-{n}", 600.0, worker="worker-2") for n in range(2))]
    workers = (WorkerInfo("worker-1", "h", 2, 2, 0), WorkerInfo("worker-2", "h", 2, 2, 0))
    report = build_report(run_of(calls, workers=workers, builtin={"max_void_turn_share": 0.1}), calls)
    assert report["harness"]["overloaded"] == [
        {"worker": "worker-1", "key": "max_void_turn_share", "limit": 0.1, "actual": 0.25}
    ]
    lax = build_report(run_of(calls, workers=workers, builtin={"max_void_turn_share": 0.2}), calls)
    assert (lax["harness"]["overloaded"], lax["exit_code"]) == ([], Exit.OK)


def test_built_in_limits_are_not_counted_as_what_the_scenario_asserts() -> None:
    assert verdict(build_report(run_of([GOOD], builtin=BUILTIN), [GOOD])).why == (
        "1 of 1 call completed; the scenario asserts nothing."
    )
    slow = build_report(run_of([SLOW], LIMIT, builtin=BUILTIN), [SLOW])
    assert verdict(slow).why == "1 of 1 assertion does not hold: max_response_latency_ms."


def test_a_run_in_which_no_call_was_measured_breaks_no_limit_on_the_harness() -> None:
    report = build_report(run_of([refused("a")], builtin=BUILTIN), [refused("a")])
    assert (report["assertions"], report["exit_code"]) == ([], Exit.UNREACHABLE)


def test_results_may_come_as_an_iterator() -> None:
    assert build_report(handmade_run(), iter(handmade_calls())) == build_report(handmade_run(), handmade_calls())
