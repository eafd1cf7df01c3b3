"""A network in the path, without one: what is lost, late, swapped and companded."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from voicebench.adapters.impaired import ImpairedAdapter, Line, NarrowBand, impaired
from voicebench.adapters.mock import MockAdapter
from voicebench.audio import synth
from voicebench.audio.pcm import from_bytes, rms_db, to_bytes
from voicebench.bench import run_benchmark
from voicebench.metrics.results import SessionMetrics
from voicebench.scenario import Direction, Network, parse_scenario

MS = 1_000_000


def send(count: int, lost: int | None = None, **direction: Any) -> list[tuple[int, float]]:
    """Items 0, 1, ... sent every 20 ms: (item, arrival in ms)."""
    line: Line[int] = Line(Direction(**direction), "seed")
    arrived = [pair for i in range(count) for pair in line.take(i, i * 20 * MS, lost)]
    return [(item, at / MS) for item, at in [*arrived, *line.flush()]]


def test_a_perfect_line_changes_nothing() -> None:
    assert send(5) == [(i, 20.0 * i) for i in range(5)]
    adapter = MockAdapter()
    assert impaired(adapter, Network()) is adapter


def test_a_delay_is_the_same_for_all() -> None:
    assert send(3, delay_ms=75) == [(0, 75.0), (1, 95.0), (2, 115.0)]


def test_a_share_is_lost() -> None:
    assert 880 <= len(send(1000, loss=0.1)) <= 920
    assert send(10, loss=1) == []
    assert send(3, lost=-1, loss=1) == [(-1, 0.0), (-1, 20.0), (-1, 40.0)]


def test_jitter_makes_late_and_keeps_order() -> None:
    arrived = send(1000, jitter_ms=60)
    assert [item for item, _ in arrived] == list(range(1000))
    late = np.array([at - 20 * item for item, at in arrived])
    assert (late >= 0).all()
    assert late.max() <= 60
    assert late.mean() > 25
    assert (np.diff([at for _, at in arrived]) >= 0).all()


def test_what_is_swapped_arrives_with_the_next() -> None:
    arrived = send(1000, reorder=0.05)
    assert sorted(item for item, _ in arrived) == list(range(1000))
    behind = sum(a > b for (a, _), (b, _) in pairwise(arrived))
    assert 25 <= behind <= 75
    assert all(at - 20 * item in (0, 20) for item, at in arrived)


def test_equal_seeds_give_equal_trouble() -> None:
    trouble: dict[str, Any] = {"loss": 0.1, "jitter_ms": 30, "reorder": 0.1}
    assert send(200, **trouble) == send(200, **trouble)


def test_a_stream_is_companded_without_seams() -> None:
    tone = synth.tone(1000, 16000, 1000, -20)
    band = NarrowBand("pcma", 16000)
    packets = [band.pass_on(to_bytes(tone[i : i + 320])) for i in range(0, 16000, 320)]
    heard = from_bytes(b"".join(packets))
    whole = from_bytes(NarrowBand("pcma", 16000).pass_on(to_bytes(tone)))
    assert (heard == whole).all()
    assert rms_db(heard) == pytest.approx(-20, abs=0.2)
    high = from_bytes(NarrowBand("pcma", 16000).pass_on(to_bytes(synth.tone(1000, 16000, 6000, -20))))
    assert rms_db(high) < -55


def call(**network: Any) -> SessionMetrics:
    turn = {"audio": {"synth": "speech", "duration_ms": 1000}}
    scenario = parse_scenario({"name": "networked", "turns": [turn], "network": network})
    (result,) = run_benchmark(scenario, "mock", {"response_ms": 3000}).results
    assert result.outcome == "completed"
    assert result.metrics is not None
    return result.metrics


def test_delays_of_both_sides_count_in_the_latency() -> None:
    plain = call().turns[0].response_latency_ms
    late = call(caller={"delay_ms": 100}, agent={"delay_ms": 60}).turns[0].response_latency_ms
    assert plain is not None
    assert late == pytest.approx(plain + 160, abs=10.01)


def test_loss_shows_in_the_agents_frames_and_the_codec_in_none() -> None:
    plain, lossy, narrow = call(), call(agent={"loss": 0.2}), call(codec="pcmu")
    assert plain.delivery is not None
    assert lossy.delivery is not None
    assert narrow.delivery is not None
    assert plain.delivery.pacing.frames == narrow.delivery.pacing.frames == 150
    assert 105 <= lossy.delivery.pacing.frames <= 135
    assert narrow.turns[0].response_latency_ms == pytest.approx(plain.turns[0].response_latency_ms, abs=10.01)
    assert lossy.delivery.continuity.worst_gap_ms is not None
    assert lossy.delivery.continuity.worst_gap_ms >= 40


def test_the_wrapper_tells_of_the_agent_as_the_adapter_itself() -> None:
    inner = MockAdapter(response_ms=500)
    outer = impaired(inner, Network(codec="pcma"))
    assert isinstance(outer, ImpairedAdapter)
    assert outer.describe() == inner.describe()
    assert outer.supports_virtual_clock
    assert outer.name == "mock"
