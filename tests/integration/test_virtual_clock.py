"""On the virtual clock a call is cheap, and always the same."""

import json
import time

from voicebench.adapters import create_adapter
from voicebench.bench import run_benchmark
from voicebench.report.html import render_html
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario

AGENT = {"jitter_ms": 150, "response_ms": 1500, "seed": 3}


def twenty_seconds() -> Scenario:
    """Questions, an interruption and a cough."""
    question = {"audio": {"synth": "speech", "duration_ms": 1200}, "start": {"delay_ms": 300}}
    cut_in = {**question, "expect": "stop", "start": {"after": "agent_speech_start", "delay_ms": 500}}
    cough = {
        "audio": {"synth": "noise", "duration_ms": 60},
        "expect": "ignore",
        "start": {"after": "agent_speech_start", "delay_ms": 400},
    }
    return parse_scenario({"name": "long", "turns": [question, question, cut_in, cough, question], "tail_ms": 9000})


def test_twenty_seconds_of_talk_cost_less_than_50_ms_of_processor() -> None:
    scenario = twenty_seconds()
    costs = []
    for _ in range(7):
        began = time.process_time()
        record = Call(scenario, create_adapter("mock", AGENT)).run()
        costs.append(time.process_time() - began)
    assert record.duration > 20
    assert min(costs) < 0.05  # the least of several: what the others took more is the machine's


def test_a_hundred_repetitions_give_the_same_report_to_the_byte() -> None:
    scenario = parse_scenario(
        {"name": "same", "tail_ms": 1800, "turns": [{"audio": {"synth": "speech", "duration_ms": 300}}] * 2}
    )

    def everything() -> str:
        bench = run_benchmark(scenario, "mock", AGENT)
        report = {**bench.report, "created_at": "", "run": {**bench.report["run"], "id": ""}}
        return json.dumps(report) + render_html(report, bench.results)

    first = everything()
    assert '"response_latency_ms": 7' in first
    assert {everything() for _ in range(100)} == {first}
