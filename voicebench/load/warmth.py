"""What would hold up the event loop at its first use, used before the first call.

A worker keeps time for all of its calls on one loop. Python imports, and numpy loads, some things only when they are
first needed, which would be in the middle of calls: tenths of a second without a frame.
"""

from functools import cache

from locust import argument_parser

from voicebench.adapters import create_adapter
from voicebench.metrics import measure
from voicebench.metrics.serialise import to_dict
from voicebench.runner.pacer import shared_pacer
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario


@cache
def warm_up() -> None:
    """Hold a simulated call, measure it, and look at the loop's health, so that all that takes is there."""
    scenario = parse_scenario(
        {
            "name": "warm-up",
            "tail_ms": 1200,
            "turns": [{"audio": {"synth": "tone", "duration_ms": 200}, "text": "hello"}],
        }
    )
    to_dict(measure(Call(scenario, create_adapter("mock", {"transcripts": ["hello"]})).run()))
    health = shared_pacer().health
    begin = health.mark()
    health.tick(0)
    health.between(begin, health.mark())


@cache
def spare_the_loop() -> None:
    """Let Locust look up its options' defaults instead of working them out.

    With every order to spawn users (once a second of a ramp) a worker builds Locust's whole argument parser anew for
    each of its options: 0.1 to 0.5 s in which no call sends. The defaults do not change.
    """
    defaults = argument_parser.default_args_dict()
    argument_parser.default_args_dict = lambda: defaults
