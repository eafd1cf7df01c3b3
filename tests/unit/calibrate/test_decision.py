"""What the ramp tries next, and what it concludes."""

from dataclasses import replace

import pytest

from voicebench.calibrate.decision import Step, judge, next_calls
from voicebench.cli.calibrate import report, row, sentences

FINE = Step(
    calls=100,
    cpu_share=0.5,
    send_lag_p50_ms=0.1,
    send_lag_p99_ms=0.5,
    send_lag_max_ms=2.0,
    skipped_share=0.0,
    failed_calls=0,
    failure="",
    memory_per_call_kib=380.0,
    turns=200,
    void_turns=0,
    error_p50_ms=4.0,
    error_p99_ms=9.0,
    agent_cpu_share=0.4,
    agent_late_p99_ms=0.7,
)


def held(calls: int, lag_ms: float = 0.5) -> Step:
    return replace(FINE, calls=calls, send_lag_p99_ms=lag_ms)


def late(calls: int, cpu_share: float = 0.97) -> Step:
    """A step in which the harness could not keep up."""
    return replace(FINE, calls=calls, send_lag_p99_ms=50.0, cpu_share=cpu_share)


def explore(limit: int, first: int = 50, most: int = 2000) -> list[Step]:
    """The whole ramp on a machine that holds so many calls."""
    steps: list[Step] = []
    while (calls := next_calls(steps, first, most)) is not None:
        steps.append(held(calls) if calls <= limit else late(calls))
        assert len(steps) < 30
    return steps


def test_it_doubles_until_something_breaks_and_then_halves_the_gap() -> None:
    assert [step.calls for step in explore(650)] == [50, 100, 200, 400, 800, 600, 700, 650]


@pytest.mark.parametrize("limit", [7, 50, 99, 333, 1999])
def test_it_ends_within_a_tenth_or_ten_calls_of_the_limit(limit: int) -> None:
    steps = explore(limit)

    assert limit - max(10, limit * 0.1) <= judge(steps).calls <= limit


def test_it_never_tries_more_than_it_may() -> None:
    assert [step.calls for step in explore(5000, first=60, most=200)] == [60, 120, 200]
    assert [step.calls for step in explore(5000, first=60, most=20)] == [20]


def test_a_machine_that_holds_nothing_is_given_up_at_few_calls() -> None:
    steps = explore(0)

    assert steps[-1].calls <= 10
    assert judge(steps).calls == 0
    assert "cannot keep time" in "\n".join(sentences(judge(steps)))


def test_a_late_step_with_an_idle_core_is_tried_once_more_and_only_once() -> None:
    stalled = late(100, cpu_share=0.4)

    assert next_calls([held(50), stalled], 50, 2000) == 100
    assert next_calls([held(50), stalled, stalled], 50, 2000) == 70
    assert next_calls([held(50), stalled, held(100)], 50, 2000) == 200
    assert judge([held(50), stalled, held(100)]).calls == 100


def test_a_full_core_is_believed_at_once() -> None:
    assert next_calls([held(50), late(100)], 50, 2000) == 70


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"send_lag_p99_ms": 20.1}, "harness"),
        ({"cpu_share": 0.96}, "harness"),
        ({"skipped_share": 0.02}, "harness"),
        ({"failed_calls": 1, "failure": "timeout"}, "agent"),
        ({"agent_late_p99_ms": 21.0}, "agent"),
        ({"agent_late_p99_ms": 21.0, "send_lag_p99_ms": 30.0}, "harness"),
    ],
)
def test_who_broke(change: dict[str, float | str], culprit: str) -> None:
    broke = replace(FINE, **change).broke  # type: ignore[arg-type]

    assert broke is not None
    assert broke[0] == culprit


def test_a_frame_of_lag_at_the_limit_still_holds() -> None:
    assert held(100, lag_ms=20.0).broke is None


def test_the_verdict_names_the_comfortable_figure_the_best_step_and_the_culprit() -> None:
    drowned = replace(FINE, calls=400, agent_late_p99_ms=90.0, agent_cpu_share=0.99)
    verdict = judge([held(100, 0.5), held(200, 6.0), drowned, held(300, 8.0)])

    assert verdict.calls == 300
    assert verdict.comfortable_calls == 100
    assert verdict.best == held(300, 8.0)
    assert verdict.culprit == "agent"
    text = "\n".join(sentences(verdict))
    assert "drives 300 calls" in text
    assert "100 with at most 5 ms" in text
    assert "The agent broke first: its frames were 90.0 ms late at p99" in text


def test_if_nothing_broke_it_says_how_to_go_on() -> None:
    verdict = judge([held(100)])

    assert verdict.culprit is None
    assert "Nothing broke: raise --max or --time" in "\n".join(sentences(verdict))


def test_the_table_and_the_object_show_a_step() -> None:
    line = row(late(100))
    about = report([held(50), late(100)], judge([held(50), late(100)]), (0, 1))

    assert line.split()[:2] == ["100", "97%"]
    assert line.endswith("harness broke: its send lag was 50.0 ms at p99")
    assert about["calls"] == 50
    assert about["broke_first"] == "harness"
    assert [step["calls"] for step in about["steps"]] == [50, 100]
