"""The course of a run."""

from dataclasses import replace

from tests.golden.report.handmade import answered, booking, call, measured, missed
from voicebench.metrics.results import SessionResult
from voicebench.report.timeline import MAX_BINS, timeline, unanswered
from voicebench.report.timeline import answered as answers


def short(call_id: str, started: float, length: float) -> SessionResult:
    """A call of ``length`` seconds, connecting included, whose caller stops speaking after half a second."""
    metrics = replace(measured((answered("ask", 0.0, 0.5, 400.0),), ()), duration_s=length)
    return replace(call(call_id, "booking", metrics, started=started), connect_ms=0.0)


def test_bins_count_what_began_ended_and_was_under_way() -> None:
    calls = [short("a", 0.0, 2.5), short("b", 1.0, 1.0), short("c", 1.25, 0.25)]
    rows = timeline(calls)
    assert [row["t_s"] for row in rows] == [0, 1, 2]
    assert [row["started"] for row in rows] == [1, 2, 0]
    assert [row["ended"] for row in rows] == [0, 1, 2]
    assert [row["active"] for row in rows] == [1, 3, 2]


def test_calls_that_waited_count_where_they_were_scheduled() -> None:
    calls = [short("a", 2.5, 1.0), short("b", 2.75, 1.0)]
    calls = [replace(one, scheduled_at=one.started_at - 2.5 + number) for number, one in enumerate(calls)]
    rows = timeline(calls)
    assert [(row["scheduled"], row["started"]) for row in rows] == [(1, 0), (1, 0), (0, 2), (0, 0)]


def test_a_response_counts_where_the_caller_stopped_speaking() -> None:
    rows = timeline([short("a", 0.0, 3.0), short("b", 0.75, 3.0)])
    assert [row["response_latency_ms"]["count"] for row in rows[:2]] == [1, 1]
    assert rows[0]["response_latency_ms"] == {"count": 1, "p50": 400.0, "p90": 400.0}


def test_long_runs_have_wider_bins() -> None:
    rows = timeline([short("a", 0.0, 1.0), short("b", 3600.0, 1.0)])
    assert len(rows) <= MAX_BINS
    assert [row["t_s"] for row in rows[:3]] == [0, 13, 26]
    assert (rows[0]["started"], rows[-1]["started"]) == (1, 1)
    assert [row["active"] for row in rows[1:-1]] == [0] * (len(rows) - 2)


def test_a_lost_call_never_ends() -> None:
    lost = call("lost", "booking", None, "lost", "worker-1 died", started=0.5)
    rows = timeline([short("a", 0.0, 1.5), lost])
    assert [(row["started"], row["ended"], row["failed"]) for row in rows] == [(2, 0, 1), (0, 1, 0)]


def test_the_send_lag_is_that_of_the_calls_under_way() -> None:
    late = replace(short("late", 4.0, 1.5), health=replace(booking("x", 1.0).health, send_lag_histogram={"926": 10}))
    early = replace(short("early", 0.0, 2.0), health=replace(late.health, send_lag_histogram={"695": 10}))
    lags = [row["send_lag_ms"]["p99"] for row in timeline([early, late])]
    assert lags[0] == lags[1] == lags[2] == 1.003  # bin 695 spans 0.998 to 1.008 ms
    assert lags[3] is None
    assert 9.9 < lags[4] < 10.1  # bin 926


def test_missed_and_measured_responses_are_told_apart() -> None:
    silent = replace(call("silent", "booking", measured((missed("ask", 0.0, 0.5),), ())), connect_ms=0.0)
    assert [latency for _, latency, _, _ in answers([silent, short("a", 0.0, 1.0)])] == [400.0]
    assert unanswered([silent, short("a", 0.0, 1.0)]) == [silent.started_at + 0.5]
