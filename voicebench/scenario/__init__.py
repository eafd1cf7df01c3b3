"""What is to happen: scenario models, the loader, and the grammar of assertions."""

from voicebench.scenario.assertions import Assertion, parse_assertion
from voicebench.scenario.loader import ScenarioError, load_scenario, parse_scenario
from voicebench.scenario.models import AdapterSpec, AudioSpec, JitterBuffer, Scenario, StartRule, Turn

__all__ = [
    "AdapterSpec",
    "Assertion",
    "AudioSpec",
    "JitterBuffer",
    "Scenario",
    "ScenarioError",
    "StartRule",
    "Turn",
    "load_scenario",
    "parse_assertion",
    "parse_scenario",
]
