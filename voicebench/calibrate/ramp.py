"""The ramp itself: callers in this process, the reference agent in another one, each on a core of its own.

Every step begins anew, with a fresh agent. Its calls are spread over the phases of the frame and over the script, and
count while all of them are up. The agent speaks about three quarters of the time, the callers send all the time.
"""

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
import numpy as np
import numpy.typing as npt

from voicebench.adapters import create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.calibrate.decision import Step, next_calls
from voicebench.metrics.session import measure
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario

CALLS_PER_S = 200  #: how fast a step's calls are begun
SETTLE_S = 0.5  #: behind the beginning of the last call, before anything counts
OVERHEAD_S = 2.0  #: of a step: the agent's start and end, and the analysis
PATIENCE_S = 20.0  #: for calls that should have ended
AGENT: dict[str, Any] = {"endpoint_silence_ms": 100, "response_delay_ms": 100, "jitter_ms": 60, "response_ms": 1500}
TURN_S = 2.1
#: What is left out at the end of a step, for a turn to be answered.
ANSWER_S = 0.6

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What to do. ``cores``: the callers' and the agent's; equal on a machine with a single core."""

    first: int
    most: int
    seconds: float  #: of each step, with all calls up
    budget_s: float  #: for everything
    cores: tuple[int, int]


def default_cores() -> tuple[int, int]:
    """The first two cores that this process may use; the same one twice if there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[min(1, len(cores) - 1)]


def ramp(plan: Plan, on_step: Callable[[Step], None] | None = None) -> list[Step]:
    """Try more and more calls until the answer is known or the time is up. Raises RuntimeError without an agent.

    This process is pinned to its core meanwhile. gevent must have patched the standard library.
    """
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # a call is a socket
    steps: list[Step] = []
    deadline = time.monotonic() + plan.budget_s
    while (calls := next_calls(steps, plan.first, plan.most)) is not None:
        if steps and time.monotonic() + _expected_s(calls, plan.seconds) > deadline:
            break
        steps.append(hold(calls, plan))
        if on_step is not None:
            on_step(steps[-1])
    return steps


def _expected_s(calls: int, seconds: float) -> float:
    return calls / CALLS_PER_S + SETTLE_S + seconds + OVERHEAD_S + calls / 400


def hold(calls: int, plan: Plan) -> Step:
    """One step."""
    with _pinned(plan.cores[1]):
        agent = BackgroundServer(**AGENT)
        agent.__enter__()  # what is started here stays on the agent's core
    try:
        with _pinned(plan.cores[0]):
            return _Callers(agent, calls, plan.seconds).run()
    finally:
        agent.stop()


@contextmanager
def _pinned(core: int) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def script(duration_s: float) -> Scenario:
    """Questions, one after the other, until the call is over."""
    turns = int(duration_s / TURN_S) + 2
    question = {"audio": {"synth": "tone", "duration_ms": 400}, "start": {"delay_ms": 100, "timeout_ms": 4000}}
    return parse_scenario({"name": "calibrate", "max_duration_ms": duration_s * 1000, "turns": [question] * turns})


class _Callers:
    """The callers of one step."""

    def __init__(self, agent: BackgroundServer, calls: int, seconds: float) -> None:
        self._agent = agent
        self._calls = calls
        self._spread_s = calls / CALLS_PER_S
        self._seconds = seconds
        self._scenario = script(self._spread_s + SETTLE_S + seconds)

    def run(self) -> Step:
        memory = _memory_kib()
        jobs = [gevent.spawn_later(n / CALLS_PER_S, self._hold_one) for n in range(self._calls)]
        gevent.sleep(self._spread_s + SETTLE_S)
        begin_ns, mine, its = time.monotonic_ns(), time.process_time(), self._agent_cpu_s()
        gevent.sleep(self._seconds)
        end_ns, mine, its = time.monotonic_ns(), time.process_time() - mine, self._agent_cpu_s() - its
        used = _memory_kib() - memory
        gevent.joinall(jobs, timeout=self._spread_s + PATIENCE_S)
        records = [job.get() for job in jobs if job.ready() and job.successful()]
        gevent.killall([job for job in jobs if not job.ready()])
        self._agent.stop()
        return self._step(records, begin_ns, end_ns, mine, its, used / self._calls)

    def _hold_one(self) -> SessionRecord:
        return Call(self._scenario, create_adapter("websocket", {"url": self._agent.url})).run()

    def _step(
        self,
        records: Sequence[SessionRecord],
        begin_ns: int,
        end_ns: int,
        mine_s: float,
        its_s: float,
        memory_kib: float,
    ) -> Step:
        wall_s = (end_ns - begin_ns) / 1e9
        lag_ms = np.concatenate([_lag_ms(record, begin_ns, end_ns) for record in records] or [np.zeros(0)])
        sent_ms = lag_ms[~np.isnan(lag_ms)]
        errors_ms, turns, void = _errors(records, self._agent.log(), begin_ns, end_ns)
        failures = [record.reason for record in records if record.outcome == "failed"]
        failures += ["not ended in time"] * (self._calls - len(records))
        summary = next((line for line in self._agent.log() if "calls" in line), {})
        p50, p99, top = np.percentile(sent_ms, [50, 99, 100]).tolist() if len(sent_ms) else [float("inf")] * 3
        return Step(
            calls=self._calls,
            cpu_share=mine_s / wall_s,
            send_lag_p50_ms=p50,
            send_lag_p99_ms=p99,
            send_lag_max_ms=top,
            skipped_share=1 - len(sent_ms) / len(lag_ms) if len(lag_ms) else 1.0,
            failed_calls=len(failures),
            failure=failures[0] if failures else "",
            memory_per_call_kib=memory_kib,
            turns=turns,
            void_turns=void,
            error_p50_ms=float(np.percentile(errors_ms, 50)) if len(errors_ms) else None,
            error_p99_ms=float(np.percentile(errors_ms, 99)) if len(errors_ms) else None,
            agent_cpu_share=its_s / wall_s,
            agent_late_p99_ms=(summary.get("late_ms") or {}).get("p99", 0.0),
        )

    def _agent_cpu_s(self) -> float:
        assert self._agent.process is not None
        fields = Path(f"/proc/{self._agent.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_kib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def _lag_ms(record: SessionRecord, begin_ns: int, end_ns: int) -> FloatArray:
    """Of the frames that were due while all calls were up; NaN for skipped ones."""
    due_ns = record.origin_ns + record.due * 1e9
    lag: FloatArray = record.send_lag[(due_ns >= begin_ns) & (due_ns < end_ns)] * 1000
    return lag


def _errors(
    records: Sequence[SessionRecord], log: Sequence[dict[str, Any]], begin_ns: int, end_ns: int
) -> tuple[FloatArray, int, int]:
    """Measured minus true response latency in ms, absolute; how many turns there were, and how many were void."""
    truth = {line["call_id"]: line["turns"] for line in log if "call_id" in line}
    errors, turns, void = [], 0, 0
    for record in records:
        metrics = measure(record).metrics
        for turn in metrics.turns if metrics is not None else ():
            if turn.user_offset_s is None:
                continue
            offset_ns = record.origin_ns + turn.user_offset_s * 1e9
            if not begin_ns <= offset_ns < end_ns - ANSWER_S * 1e9:
                continue
            turns += 1
            void += turn.void
            near = min(
                truth.get(record.call_id, ()), key=lambda true: abs(true["speech_end_ns"] - offset_ns), default=None
            )
            if near and near["reply_start_ns"] and turn.response_latency_ms is not None and not turn.void:
                true_ms = (near["reply_start_ns"] - near["speech_end_ns"]) / 1e6
                errors.append(abs(turn.response_latency_ms - true_ms))
    return np.array(errors, dtype=np.float64), turns, void
