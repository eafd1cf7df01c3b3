"""What a call measured: one module per family of metrics.

``measure`` makes a ``SessionResult`` of a record, ``Summary`` adds results up, ``check`` holds a summary against a
scenario's assertions, and ``to_dict``/``from_dict`` store results.
"""

from voicebench.metrics.assertions import AssertionResult, check
from voicebench.metrics.results import Health, RunInfo, SessionMetrics, SessionResult, TurnResult, WorkerInfo
from voicebench.metrics.serialise import from_dict, run_from_dict, run_to_dict, to_dict
from voicebench.metrics.session import analyse, measure
from voicebench.metrics.summary import Summary, by_scenario, by_turn, harness, summarise

__all__ = [
    "AssertionResult",
    "Health",
    "RunInfo",
    "SessionMetrics",
    "SessionResult",
    "Summary",
    "TurnResult",
    "WorkerInfo",
    "analyse",
    "by_scenario",
    "by_turn",
    "check",
    "from_dict",
    "harness",
    "measure",
    "run_from_dict",
    "run_to_dict",
    "summarise",
    "to_dict",
]
