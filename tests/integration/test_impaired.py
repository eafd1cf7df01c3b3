"""A network in the path over sockets: the pacer reads through it, and both sides feel it."""

import pytest

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics.session import measure
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario


@pytest.mark.parametrize("transport", ["websocket", "audiosocket"])
def test_delay_and_loss_reach_a_call_over_a_socket(transport: str) -> None:
    turn = {"audio": {"synth": "speech", "duration_ms": 400}}
    network = {"codec": "pcma", "caller": {"delay_ms": 400}, "agent": {"delay_ms": 600, "loss": 0.3}}
    scenario = parse_scenario({"name": "networked", "tail_ms": 1500, "turns": [turn], "network": network})
    with BackgroundServer(protocol=transport, response_ms=1000) as agent:
        record = Call(scenario, create_adapter(transport, {"url": agent.url})).run()
        log = agent.call(record.call_id)
    assert record.outcome == "completed", record.reason
    metrics = measure(record).metrics
    assert metrics is not None
    (turn_result,) = metrics.turns
    assert turn_result.responded
    if not turn_result.void:  # 300 ms of silence and 400 ms of thought, and the network
        assert turn_result.response_latency_ms is not None
        assert turn_result.response_latency_ms > 300 + 400 + 400 + 600 - 60
    assert log["turns"][0]["frames_sent"] == 50
    assert 25 <= len(record.packets) <= 45
    heard_after_s = record.packets.arrived[0] - (log["turns"][0]["reply_start_ns"] - record.origin_ns) / 1e9
    assert 0.599 <= heard_after_s < 0.75
