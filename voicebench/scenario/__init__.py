"""What is to happen: scenario models, the loader, and the grammar of assertions."""

from voicebench.scenario.assertions import Assertion, parse_assertion
from voicebench.scenario.bundled import list_examples
from voicebench.scenario.loader import ScenarioError, load_scenario, parse_scenario
from voicebench.scenario.models import (
    AdapterSpec,
    AudioSpec,
    Direction,
    JitterBuffer,
    Network,
    Scenario,
    StartRule,
    Turn,
)
from voicebench.scenario.schema import schema

__all__ = [
    "AdapterSpec",
    "Assertion",
    "AudioSpec",
    "Direction",
    "JitterBuffer",
    "Network",
    "Scenario",
    "ScenarioError",
    "StartRule",
    "Turn",
    "list_examples",
    "load_scenario",
    "parse_assertion",
    "parse_scenario",
    "schema",
]
