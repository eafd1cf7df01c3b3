"""Calls every agent, measures, and checks what each defect moved."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import gevent

from voicebench.adapters import AdapterError, create_adapter
from voicebench.agents.background import BackgroundServer
from voicebench.metrics.results import SessionResult, Status
from voicebench.metrics.session import measure
from voicebench.metrics.signal import sound
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario
from voicebench.validation.rows import METRICS, PACED, ROWS, Row, shown

Transport = Literal["mock", "websocket", "audiosocket"]
TRANSPORTS: tuple[Transport, ...] = ("mock", "websocket", "audiosocket")
AGENT_LATE_MS = 50.0  #: an agent that by its own log was later than this says nothing of its defect
SPREAD_S = 0.5  #: calls of one batch begin over so long
ATTEMPTS = 3  #: over a socket: what is wrong for want of processor time is not wrong again and again

_GREETING: dict[str, Any] = {
    "name": "greeting",
    "turns": [
        {
            "audio": {"synth": "silence", "duration_ms": 20},
            "start": {"after": "agent_speech_end", "timeout_ms": 7000},
            "expect": "listen",
        }
    ],
}
_BARGE_IN: dict[str, Any] = {
    "name": "barge-in",
    "tail_ms": 2000,
    "turns": [
        {
            "audio": {"synth": "telephone", "duration_ms": 1500, "level_db": -11, "seed": 7},
            "start": {"after": "agent_speech_start", "delay_ms": 1000, "timeout_ms": 3000},
            "expect": "stop",
        }
    ],
}

Records = Sequence[SessionRecord]


@dataclass(frozen=True)
class Measured:
    """One row's values of each metric, one a call that had one."""

    row: Row
    values: Mapping[str, tuple[float, ...]]
    void: frozenset[str] = frozenset()  #: metrics of which the harness itself disturbed values
    failures: tuple[str, ...] = ()  #: why calls could not be held

    def value(self, metric: str) -> float | None:
        """The median; None without any value."""
        known = self.values[metric]
        return median(known) if known else None

    @property
    def unknown(self) -> frozenset[str]:
        """Metrics without a value because the harness disturbed it: nothing is known of them."""
        return frozenset(key for key in self.void if not self.values[key])


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be: in which row, and what."""

    row: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Matrix:
    """All rows over one transport, and what is wrong with them."""

    transport: Transport
    runs: int
    rows: tuple[Measured, ...]
    problems: tuple[Problem, ...]

    @property
    def valid(self) -> bool:
        """Whether every row could be measured."""
        return not any(each.unknown or each.failures for each in self.rows)

    @property
    def passed(self) -> bool:
        return not self.problems


def validate(
    transport: Transport, runs: int = 5, rows: Sequence[Row] = ROWS, parallel: int = 10, attempts: int = ATTEMPTS
) -> Matrix:
    """Measure all ``rows``, ``runs`` times each, and check them.

    Over a socket ``parallel`` rows are measured at once, each with an agent in a process of its own, and rows with
    problems are measured again, in up to ``attempts`` rounds in all. Raises AdapterError if an agent does not start.
    """
    chosen = [row for row in rows if transport != "audiosocket" or not row.needs_clear]
    measured: dict[str, Measured] = {}
    left, problems = chosen, []
    for _ in range(attempts if transport != "mock" else 1):
        for start in range(0, len(left), parallel):
            for each in _measure_batch(transport, runs, left[start : start + parallel]):
                measured[each.row.name] = each
        problems = list(check(list(measured.values())))
        left = [row for row in chosen if row.name in {problem.row for problem in problems}]
    return Matrix(transport, runs, tuple(measured[row.name] for row in chosen), tuple(problems))


def check(measured: Sequence[Measured]) -> Iterable[Problem]:
    """One problem for each metric that is not as it should be."""
    by_name = {each.row.name: each for each in measured}
    for each in measured:
        row, base = each.row, by_name.get(each.row.base)
        for failure in each.failures:
            yield Problem(row.name, f"{row.name}: a call failed: {failure}")
        if each.unknown:
            names = ", ".join(METRICS[key].name for key in METRICS if key in each.unknown)
            yield Problem(row.name, f"{row.name}: could not be measured, since this machine was too busy: {names}")
        for key, metric in METRICS.items():
            value, usual = each.value(key), base.value(key) if base else None
            if key in each.unknown or (base is not None and key in base.unknown):
                continue
            if key in row.own:
                if not row.own[key].holds(value, usual):
                    should = f"{metric.name} is {shown(key, value)}, should be {row.own[key]} {metric.unit}"
                    yield Problem(row.name, f"{f'gone blind to {row.name!r}' if row.options else row.name}: {should}")
            elif key not in row.besides and base is not None and not metric.is_near(value, usual):
                away = f"{metric.name} is {shown(key, value)}, should be near {shown(key, usual)} {metric.unit}"
                yield Problem(row.name, f"{row.name!r} moved another's metric: {away} as of {row.base!r}")


def _measure_batch(transport: Transport, runs: int, rows: Sequence[Row]) -> list[Measured]:
    if transport == "mock":
        return [_measured(row, *_hold(row, transport, _options(row), runs)) for row in rows]
    with ExitStack() as stack:
        starts = [gevent.spawn(_serve, row, transport) for row in rows]
        agents = []
        for start in starts:
            try:
                agents.append(stack.enter_context(start.get()))
            except RuntimeError as error:
                raise AdapterError(str(error)) from None
        jobs = [
            gevent.spawn(_hold, row, transport, {"url": agent.url}, runs)
            for row, agent in zip(rows, agents, strict=True)
        ]
        gevent.joinall(jobs, raise_error=True)
        held = [job.get() for job in jobs]
        return [
            _measured(row, *records, late=_late_calls(agent, records))
            for row, agent, records in zip(rows, agents, held, strict=True)
        ]


def _late_calls(agent: BackgroundServer, records: Iterable[Records]) -> frozenset[str]:
    """The calls in which the agent, for want of processor time, was not as it was meant to be."""
    calls = {record.call_id for each in records for record in each if record.connect_ms is not None}
    late_ms = {call: (agent.call(call)["late_ms"] or {}).get("max", 0.0) for call in calls}
    return frozenset(call for call, late in late_ms.items() if late > AGENT_LATE_MS)


def _serve(row: Row, transport: Transport) -> BackgroundServer:
    return BackgroundServer(protocol=transport, **_options(row))


def _options(row: Row) -> dict[str, Any]:
    return {**PACED, **row.options}


def _hold(row: Row, transport: Transport, options: Mapping[str, Any], runs: int) -> tuple[Records, Records]:
    """All calls of one row: over a socket at the same time."""
    scenarios = [parse_scenario(data) for data in (_GREETING, _BARGE_IN)]
    if transport == "mock":
        held = [[_call(scenario, transport, options) for _ in range(runs)] for scenario in scenarios]
        return held[0], held[1]
    spread = SPREAD_S / (2 * runs)
    jobs = [
        [gevent.spawn_later((2 * run + i) * spread, _call, scenario, transport, options) for run in range(runs)]
        for i, scenario in enumerate(scenarios)
    ]
    gevent.joinall([job for both in jobs for job in both], raise_error=True)
    return [job.get() for job in jobs[0]], [job.get() for job in jobs[1]]


def _call(scenario: Scenario, transport: Transport, options: Mapping[str, Any]) -> SessionRecord:
    return Call(scenario, create_adapter(transport, options)).run()


def _measured(row: Row, greetings: Records, barge_ins: Records, late: frozenset[str] = frozenset()) -> Measured:
    """The values of one row; those of calls in which the agent was ``late`` are void.

    Only once all calls have ended: measuring takes time that their frames do not have.
    """
    values: dict[str, list[float]] = {key: [] for key in METRICS}
    void: set[str] = set()
    failures: list[str] = []
    for records, figures in ((greetings, _of_greeting), (barge_ins, _of_barge_in)):
        for record in records:
            result = measure(record)
            if result.metrics is None or (record.outcome != "completed" and "hangs_up_after_ms" not in row.options):
                failures.append(record.reason)
            for key, (value, status) in figures(record, result).items():
                if status == "void" or record.call_id in late:
                    void.add(key)
                elif value is not None:
                    values[key].append(float(value))
    known = {key: tuple(each) for key, each in values.items()}
    return Measured(row, known, frozenset(void), tuple(dict.fromkeys(failures)))


Figures = dict[str, tuple[float | None, Status]]


def _of_greeting(record: SessionRecord, result: SessionResult) -> Figures:
    metrics = result.metrics
    if metrics is None or metrics.delivery is None:
        return {}
    delivery, tone = metrics.delivery, sound(record.agent_track, record.sample_rate)
    opening, pacing, continuity = (delivery.status[name] for name in ("opening", "pacing", "continuity"))
    return {
        "opening": (delivery.opening.first_audible_ms, opening),
        "preroll": (delivery.opening.silent_preroll_frames, opening),
        "burst": (delivery.pacing.worst_burst_frames, pacing),
        "ratio": (delivery.pacing.realtime_ratio, pacing),
        "audio": (delivery.pacing.audio_seconds, pacing),
        "hole": (delivery.continuity.worst_gap_ms, continuity),
        "backlog": (delivery.playout.backlog_growth_ms, delivery.status["playout"]),
        "call": (metrics.duration_s, "ok"),
        "level": (tone.level_db, "ok"),
        "clipped": (tone.clipping_rate, "ok"),
        "clicks": (tone.clicks_per_s, "ok"),
        "dc": (tone.dc_offset, "ok"),
    }


def _of_barge_in(_record: SessionRecord, result: SessionResult) -> Figures:
    metrics = result.metrics
    if metrics is None or metrics.delivery is None or not metrics.delivery.barge_ins:
        return {}
    (barge_in,), (turn,) = metrics.delivery.barge_ins, metrics.turns
    return {
        "cut": (barge_in.cut_ms, barge_in.status),
        "resumed": (barge_in.resumed_after_ms, barge_in.status),
        "stop": (turn.stop_latency_ms, turn.status["stop_latency_ms"]),
    }
