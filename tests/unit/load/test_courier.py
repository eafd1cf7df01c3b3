"""The courier: bounded in rate, size and what is in flight; nothing it was given is ever forgotten."""

import json
import random
from typing import Any

from tests.unit.load.builders import RUN, MemorySpool, result, turn
from voicebench.load.courier import WINDOW, Courier
from voicebench.load.messages import CHUNK, DRAINED, STARTED, unpack
from voicebench.metrics.serialise import to_dict


class Link:
    """A clock, and what was sent over the link and when."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[tuple[str, Any, float]] = []
        self.spool = MemorySpool()
        self.courier = Courier(RUN, "w0", "h", self.send, lambda: self.now, self.spool)

    def send(self, kind: str, data: Any) -> None:
        self.sent.append((kind, data, self.now))

    def of(self, kind: str) -> list[Any]:
        return [data for sent, data, _ in self.sent if sent == kind]

    def run(self, seconds: float, acknowledge: bool = False) -> None:
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            self.courier.tick()
            if acknowledge:
                for chunk in self.of(CHUNK):
                    self.courier.acknowledged(chunk["seq"])

    def results(self) -> list[str]:
        """The call ids that a master has after putting all chunks together."""
        by_batch: dict[int, dict[int, bytes]] = {}
        for chunk in self.of(CHUNK):
            by_batch.setdefault(chunk["batch"], {})[chunk["seq"]] = chunk["data"]
        blobs = [b"".join(data for _, data in sorted(parts.items())) for _, parts in sorted(by_batch.items())]
        return [line["call_id"] for blob in blobs for line in unpack(blob)]


def big(call_id: str, seed: int) -> dict[str, Any]:
    """A result that hardly compresses: about 100 KB a line."""
    noise = random.Random(seed)
    return to_dict(
        result(call_id, turns=tuple(turn(id=f"t{n}", notes=(noise.randbytes(400).hex(),)) for n in range(120)))
    )


def test_a_call_is_announced_at_once_and_many_at_most_twenty_times_a_second() -> None:
    link = Link()
    link.courier.started("first", "booking", 1.0)
    assert [call[0] for call in link.of(STARTED)[0]["calls"]] == ["first"]
    for number in range(1000):
        link.now += 0.001
        link.courier.started(f"c{number}", "booking", 1.0)
    link.run(0.1)
    assert len(link.of(STARTED)) <= 23
    assert sum(len(message["calls"]) for message in link.of(STARTED)) == 1001
    assert link.courier.started_count == 1001


def test_results_go_out_in_chunks_of_at_most_64_kb_and_four_a_second() -> None:
    link = Link()
    for number in range(20):
        link.courier.recorded(big(f"c{number}", number))
    link.run(2.0, acknowledge=True)
    chunks = link.of(CHUNK)
    assert max(len(chunk["data"]) for chunk in chunks) <= 64 * 1024
    assert 7 <= len(chunks) <= 9
    assert [chunk["seq"] for chunk in chunks] == list(range(len(chunks)))
    link.run(30.0, acknowledge=True)
    assert link.results() == [f"c{number}" for number in range(20)]
    assert link.courier.is_idle


def test_without_acknowledgements_eight_chunks_are_in_flight_and_the_rest_waits_in_the_spool() -> None:
    link = Link()
    for number in range(40):
        link.courier.recorded(big(f"c{number}", number))
    link.run(4.0)
    assert len({chunk["seq"] for chunk in link.of(CHUNK)}) == WINDOW
    assert len(link.spool.lines) == 40
    assert not link.courier.is_idle


def test_a_chunk_without_acknowledgement_is_sent_again_after_five_seconds() -> None:
    link = Link()
    link.courier.recorded(to_dict(result("a")))
    link.run(0.3)
    assert len(link.of(CHUNK)) == 1
    link.run(4.0)
    assert len(link.of(CHUNK)) == 1
    link.run(1.2)
    assert [chunk["seq"] for chunk in link.of(CHUNK)] == [0, 0]
    link.courier.acknowledged(0)
    link.run(20)
    assert len(link.of(CHUNK)) == 2


def test_flush_ignores_the_rate_but_not_the_window() -> None:
    link = Link()
    for number in range(40):
        link.courier.recorded(big(f"c{number}", number))
    link.courier.flush()
    assert len(link.of(CHUNK)) == WINDOW
    while not link.courier.is_idle:
        for chunk in link.of(CHUNK):
            link.courier.acknowledged(chunk["seq"])
        link.courier.flush()
    assert link.results() == [f"c{number}" for number in range(40)]


def test_abandon_sends_everything_once_and_drained_counts_it() -> None:
    link = Link()
    for number in range(40):
        link.courier.started(f"c{number}", "booking", 1.0)
        link.courier.recorded(big(f"c{number}", number))
    link.courier.abandon()
    link.courier.drained()
    message = link.of(DRAINED)[0]
    assert (message["started"], message["recorded"], message["chunks"]) == (40, 40, len(link.of(CHUNK)))
    assert message["chunks"] > WINDOW
    assert sum(len(started["calls"]) for started in link.of(STARTED)) == 40


def test_the_spool_has_each_call_as_lost_first_and_then_its_result() -> None:
    link = Link()
    link.courier.started("a", "booking", 1.0)
    link.courier.recorded(to_dict(result("a")))
    lines = [json.loads(line) for line in link.spool.lines]
    assert [(line["call_id"], line["outcome"]) for line in lines] == [("a", "lost"), ("a", "completed")]


def test_a_line_that_the_spool_no_longer_has_is_skipped_and_not_claimed() -> None:
    class Torn(MemorySpool):
        def read(self, ref: Any) -> bytes:
            if b'"a"' in ref:
                raise OSError(5, "gone")
            return super().read(ref)

    link = Link()
    link.spool = Torn()
    link.courier = Courier(RUN, "w0", "h", link.send, lambda: link.now, link.spool)
    for call_id in ("a", "b"):
        link.courier.started(call_id, "booking", 1.0)
        link.courier.recorded(to_dict(result(call_id)))
    link.courier.abandon()
    link.courier.drained()
    assert link.results() == ["b"]
    assert (link.of(DRAINED)[0]["started"], link.of(DRAINED)[0]["recorded"]) == (2, 1)
