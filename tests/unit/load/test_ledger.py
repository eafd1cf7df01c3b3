"""The books: started = completed + truncated + failed + lost, whatever happens on the way."""

import random

import pytest

from tests.unit.load.builders import RUN, chunks, drained, enter, result, run_info, started, turn
from voicebench.load.ledger import Closed, Ledger, count_outcomes, lost_result
from voicebench.load.messages import unpack
from voicebench.metrics.serialise import from_dict
from voicebench.metrics.summary import summarise


def balance(closed: Closed) -> dict[str, int]:
    counts = dict(count_outcomes(closed.results))
    assert sum(worker.started for worker in closed.workers) == sum(counts.values())
    return counts


def test_every_call_that_arrives_is_counted_by_how_it_ended() -> None:
    ledger = Ledger(RUN)
    ledger.announce(started("a", "b", "c"))
    enter(ledger, result("a"), result("b", outcome="truncated"), result("c", outcome="failed"))
    ledger.drained(drained(3, 3, 1))
    closed = ledger.close()
    assert balance(closed) == {"completed": 1, "truncated": 1, "failed": 1, "lost": 0}
    assert ledger.is_settled("w0")
    assert closed.notes == ()


def test_a_call_that_was_started_and_never_recorded_is_lost_and_says_where_and_why() -> None:
    ledger = Ledger(RUN)
    ledger.announce(started("a", "b"))
    enter(ledger, result("a"))
    ledger.gone("w0", "vanished")
    closed = ledger.close()
    assert balance(closed) == {"completed": 1, "truncated": 0, "failed": 0, "lost": 1}
    lost = next(one for one in closed.results if one.outcome == "lost")
    assert (lost.call_id, lost.worker, lost.scenario, lost.reason) == ("b", "w0", "booking", "vanished")
    assert closed.workers[0].lost == 1
    assert closed.notes == ("worker w0: 1 of 2 calls lost",)
    assert closed.invalid == ("worker w0 vanished",)


def test_a_lost_call_still_knows_for_when_it_was_scheduled() -> None:
    ledger = Ledger(RUN)
    ledger.announce({**started("a"), "calls": [("a", "booking", 1000.5, 1000.0)]})
    assert (ledger.started_by("w0"), ledger.started_by("w1")) == (1, 0)
    ledger.recovered("w0", [lost_result("b", "w0", "open", "booking", 1001.5, 1001.0)])
    ledger.gone("w0", "vanished")
    assert [(one.call_id, one.scheduled_at) for one in ledger.close().results] == [("a", 1000.0), ("b", 1001.0)]


def test_what_a_vanished_worker_spooled_is_entered_once_and_names_its_open_calls() -> None:
    ledger = Ledger(RUN)
    ledger.announce(started("a"))
    enter(ledger, result("a"))
    spooled = [result("a"), result("b"), lost_result("c", "w0", "open", "booking", 1000.0)]
    assert [one.call_id for one in ledger.recovered("w0", spooled)] == ["b"]
    ledger.gone("w0", "vanished")
    assert balance(ledger.close()) == {"completed": 2, "truncated": 0, "failed": 0, "lost": 1}


def test_a_worker_keeps_what_it_last_told_of_its_process() -> None:
    ledger = Ledger(RUN)
    enter(ledger, result("a"))
    process = {"loop_lag_ms": {"p50": 0.1, "p99": 0.2, "max": 3.0}, "loop_lag_histogram": {"463": 10}}
    for share in (0.2, 0.4):
        told = {**process, "collections": 1, "cpu_share": share}
        assert ledger.health({"run": RUN, "worker": "w0", "host": "h", "send_lag_p99_ms": 1.0, "process": told})
    (worker,) = ledger.close().workers
    assert worker.process is not None
    assert (worker.process.cpu_share, worker.process.loop_lag_ms["max"]) == (0.4, 3.0)
    assert not ledger.health({"run": "x", "worker": "w0", "host": "h", "send_lag_p99_ms": 1.0, "process": None})


def test_a_vanished_worker_makes_the_run_invalid_even_if_no_call_is_missing() -> None:
    ledger = Ledger(RUN)
    enter(ledger, result("a"))
    ledger.gone("w0", "vanished")
    assert balance(ledger.close())["lost"] == 0
    assert ledger.close().invalid == ("worker w0 vanished",)
    ledger.drained(drained(1, 1, 1))


def test_calls_that_only_the_worker_counted_are_lost_too() -> None:
    ledger = Ledger(RUN)
    ledger.announce(started("a"))
    enter(ledger, result("a"))
    ledger.drained(drained(3, 3, 2))
    closed = ledger.close()
    assert not ledger.is_settled("w0")
    assert balance(closed)["lost"] == 2
    assert "worker w0: 1 of its chunks never arrived" in closed.notes


def test_a_result_counts_as_started_even_if_its_announcement_was_lost() -> None:
    ledger = Ledger(RUN)
    enter(ledger, result("a"))
    assert balance(ledger.close()) == {"completed": 1, "truncated": 0, "failed": 0, "lost": 0}
    assert ledger.started == 1


def test_messages_of_another_run_are_rejected_and_noted() -> None:
    ledger = Ledger(RUN)
    assert not ledger.announce(started("x", run="run-0"))
    assert ledger.chunk(chunks(result("x"), run="run-0")[0]) is None
    assert not ledger.drained(drained(1, 1, 1, run="run-0"))
    closed = ledger.close()
    assert closed.results == ()
    assert closed.notes == ("3 messages of another run were rejected",)


def test_a_chunk_that_comes_twice_counts_once() -> None:
    ledger = Ledger(RUN)
    chunk = chunks(result("a"))[0]
    assert ledger.chunk(chunk)
    ledger.store("w0", [result("a")])
    assert ledger.chunk(chunk) == b""
    assert ledger.store("w0", [result("a")]) == []
    assert balance(ledger.close())["completed"] == 1


def test_a_batch_in_several_chunks_is_whole_when_its_last_one_arrives_in_any_order() -> None:
    rng = random.Random(1)
    noisy = [turn(id=f"turn-{n}", notes=(rng.randbytes(400).hex(),)) for n in range(400)]
    big = result("a", turns=tuple(noisy))
    pieces = chunks(big)
    assert len(pieces) > 2
    assert max(len(piece["data"]) for piece in pieces) <= 64 * 1024
    ledger = Ledger(RUN)
    rng.shuffle(pieces)
    outcomes = [ledger.chunk(piece) for piece in pieces]
    assert outcomes[:-1] == [b""] * (len(pieces) - 1)
    assert [from_dict(line) for line in unpack(outcomes[-1] or b"")] == [big]


def test_a_worker_is_settled_only_when_it_has_reported_and_everything_is_stored() -> None:
    ledger = Ledger(RUN)
    assert not ledger.is_settled("w0")
    ledger.announce(started("a"))
    ledger.drained(drained(1, 1, 1))
    assert not ledger.is_settled("w0")
    enter(ledger, result("a"))
    assert ledger.is_settled("w0")


def test_a_worker_that_ran_nothing_is_settled_once_it_says_so() -> None:
    ledger = Ledger(RUN)
    ledger.drained(drained(0, 0, 0, worker="idle"))
    assert ledger.is_settled("idle")
    assert balance(ledger.close())["lost"] == 0


def test_notes_are_kept_once() -> None:
    ledger = Ledger(RUN)
    ledger.note("a worker joined")
    ledger.note("a worker joined")
    assert ledger.close().notes == ("a worker joined",)


@pytest.mark.parametrize("workers", [1, 4, 7])
def test_percentiles_are_the_same_from_any_number_of_workers(workers: int) -> None:
    rng = random.Random(7)
    latencies = [rng.uniform(300, 3000) for _ in range(400)]

    def summary(count: int) -> dict[str, object]:
        ledger = Ledger(RUN)
        for number in range(count):
            name = f"w{number}"
            mine = [result(f"c{i}", name, (turn(latencies[i]),)) for i in range(number, 400, count)]
            ledger.announce(started(*(one.call_id for one in mine), worker=name))
            enter(ledger, *mine, worker=name)
            ledger.drained(drained(len(mine), len(mine), 1, worker=name))
        return summarise(ledger.close().results)

    assert summary(workers) == summary(1)
    assert run_info().id == RUN
