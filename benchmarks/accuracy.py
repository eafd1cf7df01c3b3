"""How far the measurement is off, against the log of an agent that writes down what it did when.

All callers live in this process, the agent in another. The error is the measured response latency minus the true one:
from the last loud sample that the agent received to the first frame of its reply. Each step runs until its callers
have had their turns.

    python benchmarks/accuracy.py 1 20 100
"""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import gevent
import numpy as np

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics.results import SessionResult
from voicebench.metrics.session import measure
from voicebench.runner.session import Call
from voicebench.scenario import parse_scenario

TURNS = 8
SCENARIO = parse_scenario(
    {
        "name": "accuracy",
        "tail_ms": 800,
        "turns": [{"audio": {"synth": "tone", "duration_ms": 400}, "start": {"delay_ms": 300}} for _ in range(TURNS)],
    }
)
#: Replies are jittered, so that they begin anywhere on the detector's grid of 10 ms.
AGENT: dict[str, Any] = {"endpoint_silence_ms": 100, "response_delay_ms": 150, "jitter_ms": 100, "response_ms": 400}
#: Callers begin evenly over this time.
SPREAD_S = 2.0
LOG_TIMEOUT_S = 10.0


def main() -> None:
    """Print one line per number of callers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("callers", nargs="*", type=int, default=[1, 20, 100], help="steps (default: 1 20 100)")
    steps: list[int] = parser.parse_args().callers
    print(
        f"{'callers':>7}  {'turns':>5}  {'void':>4}  error ms:"
        f" {'mean':>6} {'min':>6} {'p50':>6} {'p99':>6} {'max':>6}"
    )
    with BackgroundServer(**AGENT) as agent:
        for callers in steps:
            results = hold_calls(agent, callers)
            errors = np.array(list(errors_ms(agent, results)))
            turns = len(results) * TURNS
            figures = [errors.mean(), errors.min(), *np.percentile(errors, [50, 99]), errors.max()]
            text = " ".join(f"{figure:6.1f}" for figure in figures)
            print(f"{callers:7}  {turns:5}  {turns - len(errors):4}            {text}", flush=True)


def hold_calls(agent: BackgroundServer, callers: int) -> list[SessionResult]:
    """One call per caller, measured when all have ended."""

    def one() -> Call:
        return Call(SCENARIO, create_adapter("websocket", {"url": agent.url}))

    jobs = [gevent.spawn_later(SPREAD_S * n / callers, lambda: one().run()) for n in range(callers)]
    gevent.joinall(jobs, raise_error=True)
    return [measure(job.get()) for job in jobs]


def errors_ms(agent: BackgroundServer, results: list[SessionResult]) -> Iterator[float]:
    """Measured minus true, for all turns that are not void."""
    logs = truths(agent, {result.call_id for result in results})
    for result in results:
        if result.metrics is None:
            raise SystemExit(f"a call failed: {result.reason}")
        for turn, true in zip(result.metrics.turns, logs[result.call_id]["turns"], strict=False):
            if turn.response_latency_ms is not None and not turn.void:
                yield turn.response_latency_ms - (true["reply_start_ns"] - true["speech_end_ns"]) / 1e6


def truths(agent: BackgroundServer, calls: set[str]) -> dict[str, dict[str, Any]]:
    """The agent's log of these calls; it writes a line when a call has ended."""
    deadline = time.monotonic() + LOG_TIMEOUT_S
    while True:
        logs = {log.get("call_id"): log for log in map(json.loads, agent.log_path.read_text().splitlines())}
        if calls <= logs.keys():
            return logs
        if time.monotonic() > deadline:
            raise SystemExit("the agent did not log all calls")
        gevent.sleep(0.05)


if __name__ == "__main__":
    main()
