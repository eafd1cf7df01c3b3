"""What a worker does before its first call, so that it need not do it during one."""

import subprocess
import sys

from locust import argument_parser

from voicebench.load.warmth import spare_the_loop


def test_locusts_defaults_are_worked_out_once() -> None:
    before = argument_parser.default_args_dict()
    spare_the_loop()
    assert argument_parser.default_args_dict() == before
    assert argument_parser.default_args_dict() is argument_parser.default_args_dict()


def test_a_real_call_after_the_warm_up_imports_nothing_more() -> None:
    script = """
import sys
from voicebench.load.warmth import warm_up
from voicebench.adapters import create_adapter
from voicebench.load.worker import WorkerSide
from voicebench.metrics import measure
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario
create_adapter("websocket", {})
warm_up()
known = set(sys.modules)
turn = {"audio": {"synth": "speech", "duration_ms": 200}, "start": {"delay_ms": 0}}
scenario = parse_scenario({"name": "after", "tail_ms": 100, "turns": [turn, turn | {"start": {"timeout_ms": 100}}]})
measure(Call(scenario, create_adapter("mock"), realtime=True).run())
print(sorted(set(sys.modules) - known))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
