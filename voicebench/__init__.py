"""Load testing and evaluation of real-time voice agents.

What scripts and tests use is here: ``load_scenario``, ``run_benchmark`` and their results. It is imported on first
use, so that ``import voicebench`` costs nothing.
"""

from typing import TYPE_CHECKING, Any

from voicebench.version import __version__

if TYPE_CHECKING:
    from voicebench.bench import BenchResult, run_benchmark
    from voicebench.scenario import Scenario, ScenarioError, load_scenario

_HOMES = {
    "BenchResult": "voicebench.bench",
    "Scenario": "voicebench.scenario",
    "ScenarioError": "voicebench.scenario",
    "load_scenario": "voicebench.scenario",
    "run_benchmark": "voicebench.bench",
}

__all__ = ["BenchResult", "Scenario", "ScenarioError", "__version__", "load_scenario", "run_benchmark"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
