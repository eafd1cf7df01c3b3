"""Defects of the reference agent over sockets, on a share of the calls, as its own log tells (TV12)."""

from typing import Any

import gevent
import pytest

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario

SCENARIO = parse_scenario(
    {
        "name": "listen",
        "tail_ms": 300,
        "turns": [
            {
                "audio": {"synth": "telephone", "duration_ms": 300, "level_db": -11},
                "start": {"delay_ms": 500},
                "expect": "stop",
            }
        ],
    }
)


def hold(transport: str, count: int = 1, **options: Any) -> list[tuple[SessionRecord, dict[str, Any]]]:
    with BackgroundServer(protocol=transport, greeting_ms=2000, response_ms=200, **options) as agent:
        jobs = [
            gevent.spawn(lambda: Call(SCENARIO, create_adapter(transport, {"url": agent.url})).run())
            for _ in range(count)
        ]
        gevent.joinall(jobs, timeout=30, raise_error=True)
        return [(job.get(), agent.call(job.get().call_id)) for job in jobs]


@pytest.mark.parametrize("transport", ["websocket", "audiosocket"])
def test_a_share_of_the_calls_has_the_defects_and_the_log_says_which(transport: str) -> None:
    held = hold(transport, 12, hangs_up_after_ms=250, defect_share=0.5, seed=1)
    sick = [log["defects"] == ["hangs_up_after_ms"] for _, log in held]
    assert 2 <= sum(sick) <= 10
    assert [record.outcome == "failed" for record, _ in held] == sick
    assert all(log["defects"] in ([], ["hangs_up_after_ms"]) for _, log in held)
    for record, log in held:
        if record.outcome == "failed":
            assert "hung up" in record.reason
            assert log["reason"] == "agent hung up"


@pytest.mark.parametrize("transport", ["websocket", "audiosocket"])
def test_one_way_sends_nothing_over_a_socket(transport: str) -> None:
    ((record, log),) = hold(transport, one_way=True)
    assert len(record.packets) == 0
    assert log["greeting"] is None


@pytest.mark.parametrize("transport", ["websocket", "audiosocket"])
def test_a_burst_comes_at_once_and_whole(transport: str) -> None:
    ((record, log),) = hold(transport, burst=True, interruptible=False)
    assert log["greeting"]["frames_sent"] == 100
    assert record.packets.duration[record.packets.arrived < 0.4].sum() == pytest.approx(2.0)


def test_a_late_clear_is_logged_behind_the_stop_and_none_without_one() -> None:
    ((record, log),) = hold("websocket", burst=True, clear_delay_ms=200)
    greeting = log["greeting"]
    assert greeting["cut"]
    assert greeting["clear_ns"] - greeting["stop_ns"] == pytest.approx(200e6, abs=30e6)
    assert record.clears[0] == pytest.approx((greeting["clear_ns"] - record.origin_ns) / 1e9, abs=0.03)
    ((record, log),) = hold("websocket", burst=True, no_clear=True)
    assert log["greeting"]["cut"]
    assert log["greeting"]["clear_ns"] is None
    assert record.clears == ()


@pytest.mark.parametrize("transport", ["websocket", "audiosocket"])
def test_an_echo_is_the_callers_own_audio(transport: str) -> None:
    with BackgroundServer(protocol=transport, echo_ms=100, response_ms=20) as agent:
        record = Call(SCENARIO, create_adapter(transport, {"url": agent.url})).run()
    loud = record.packets.arrived[record.packets.level_db > -25]
    assert len(loud) >= 12  # 300 ms of them
    assert loud[0] - 0.5 == pytest.approx(0.1, abs=0.06)
