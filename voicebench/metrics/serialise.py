"""Results as JSON data and back, exactly. ``docs/records.md`` describes every field.

Conventions
-----------
- ``from_dict(json.loads(json.dumps(to_dict(result)))) == result``: nothing is rounded or lost.
- A call's metrics lie at the top level, under the names of VB27. A call without metrics has no turns, and None
  for every figure.
- A reader ignores keys that it does not know; a key that is missing, or a later schema, is a ValueError.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from voicebench.metrics.results import (
    BargeIn,
    Continuity,
    Delivery,
    Health,
    Opening,
    Pacing,
    Playout,
    ProcessHealth,
    RunInfo,
    SessionMetrics,
    SessionResult,
    TurnResult,
    WorkerInfo,
)

SCHEMA_VERSION = 1

_T = TypeVar("_T")
_GROUPS: Mapping[str, Any] = {
    "opening": Opening,
    "pacing": Pacing,
    "continuity": Continuity,
    "playout": Playout,
}
_HINTS: Mapping[type, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (SessionResult, RunInfo)}
_FIGURES = ("duration_s", "user_speech_ms", "agent_speech_ms", "overlap_ms", "talk_over_ms")
_CALL = (
    "call_id",
    "scenario",
    "worker",
    "outcome",
    "reason",
    "started_at",
    "connect_ms",
    "clock",
    "timestamps",
)
#: When the call was to begin, and for readers what follows from it.
_ARRIVAL = ("scheduled_at", "start_lag_ms", "setup_ms")


def to_dict(result: SessionResult) -> dict[str, Any]:
    """One call as one line of ``sessions.jsonl`` holds it."""
    metrics = result.metrics
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(result, name) for name in _CALL},
        **{name: getattr(result, name) for name in _ARRIVAL},
        "adapter": dict(result.adapter),
        "metadata": dict(result.metadata),
        "turns": [_turn_to_dict(turn) for turn in metrics.turns] if metrics else [],
        **{name: getattr(metrics, name) if metrics else None for name in _FIGURES},
        "user_segments": [list(segment) for segment in metrics.user_segments] if metrics else [],
        "agent_segments": [list(segment) for segment in metrics.agent_segments] if metrics else [],
        "clears_s": list(metrics.clears_s) if metrics else [],
        "delivery": delivery_to_dict(metrics.delivery) if metrics and metrics.delivery else None,
        "truncated": metrics.truncated if metrics else result.outcome == "truncated",
        "health": _health_to_dict(result.health),
        "recording": None if result.recording is None else dict(result.recording),
        "frames": result.frames,
    }
    return data


def from_dict(data: Mapping[str, Any]) -> SessionResult:
    """The inverse of ``to_dict``. Raises ValueError naming the call and what is wrong."""
    return _read(data, "session", data.get("call_id"), _session_from_dict)


def run_to_dict(run: RunInfo) -> dict[str, Any]:
    """One run as ``run.json`` holds it."""
    return {
        "schema_version": SCHEMA_VERSION,
        **asdict(run),
        "scenarios": [dict(scenario) for scenario in run.scenarios],
        "workers": [asdict(worker) for worker in run.workers],
        "notes": list(run.notes),
        "invalid": list(run.invalid),
    }


def run_from_dict(data: Mapping[str, Any]) -> RunInfo:
    """The inverse of ``run_to_dict``. Raises ValueError naming the run and what is wrong."""
    return _read(data, "run", data.get("id"), _run_from_dict)


def _read(data: Mapping[str, Any], what: str, name: object, build: Callable[[Mapping[str, Any]], _T]) -> _T:
    version = data.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{what} {name}: schema_version {version!r} is not {SCHEMA_VERSION}, which this version reads"
        )
    try:
        built = build(data)
        _check_types(built)
        return built
    except KeyError as error:
        raise ValueError(f"{what} {name}: {error.args[0]!r} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{what} {name}: {error}") from None


def _check_types(built: object) -> None:
    """Raise TypeError for a field of a wrong type: files can be edited, and reports count on types."""
    for name, hint in _HINTS[type(built)].items():
        value = getattr(built, name)
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, UnionType):
            kinds = tuple(get_origin(kind) or kind for kind in arguments)
        else:
            kinds = (type(arguments[0]),) if origin is Literal else (origin,)
        if float in kinds:
            kinds = (*kinds, int)
        if not isinstance(value, kinds):
            raise TypeError(f"{name!r} cannot be {value!r}")
        if name == "recording" and value and not all(isinstance(path, str) for path in value.values()):
            raise TypeError(f"{name!r} holds something that is no path")


def _session_from_dict(data: Mapping[str, Any]) -> SessionResult:
    metrics = None
    if data["duration_s"] is not None:
        metrics = SessionMetrics(
            turns=tuple(_turn_from_dict(turn) for turn in data["turns"]),
            **{name: data[name] for name in _FIGURES},
            user_segments=tuple((start, end) for start, end in data["user_segments"]),
            agent_segments=tuple((start, end) for start, end in data["agent_segments"]),
            truncated=data["truncated"],
            clears_s=tuple(data.get("clears_s", ())),
            delivery=_delivery_from_dict(data.get("delivery")),
        )
    return SessionResult(
        **{name: data[name] for name in _CALL},
        scheduled_at=data.get("scheduled_at"),
        adapter=data["adapter"],
        metrics=metrics,
        health=Health(**_known(Health, data["health"])),
        recording=data["recording"],
        frames=data.get("frames"),
        metadata=data["metadata"],
    )


def _run_from_dict(data: Mapping[str, Any]) -> RunInfo:
    lists = {
        "scenarios": tuple(data["scenarios"]),
        "workers": tuple(_worker_from_dict(worker) for worker in data["workers"]),
        "notes": tuple(data.get("notes", ())),
        "invalid": tuple(data.get("invalid", ())),
    }
    return RunInfo(**{**_known(RunInfo, data), **lists})


def _worker_from_dict(data: Mapping[str, Any]) -> WorkerInfo:
    process = data.get("process")
    health = None if process is None else ProcessHealth(**_known(ProcessHealth, process))
    return WorkerInfo(**{**_known(WorkerInfo, data), "process": health})


def _turn_to_dict(turn: TurnResult) -> dict[str, Any]:
    return {**vars(turn), "notes": list(turn.notes), "status": dict(turn.status)}


def _turn_from_dict(data: Mapping[str, Any]) -> TurnResult:
    known = _known(TurnResult, data)
    return TurnResult(**{**known, "notes": tuple(known.get("notes", ()))})


def _health_to_dict(health: Health) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(health).items()}


def delivery_to_dict(delivery: Delivery) -> dict[str, Any]:
    """The delivery block of a call; ``barge_in`` is the worst of ``barge_ins``, for readers."""
    return {
        **{name: dict(vars(getattr(delivery, name))) for name in _GROUPS},
        "barge_in": dict(vars(delivery.barge_in)) if delivery.barge_in else None,
        "barge_ins": [dict(vars(barge_in)) for barge_in in delivery.barge_ins],
        "status": dict(delivery.status),
    }


def _delivery_from_dict(data: Mapping[str, Any] | None) -> Delivery | None:
    if data is None:
        return None
    groups = {name: kind(**_known(kind, data[name])) for name, kind in _GROUPS.items()}
    barge_ins = tuple(BargeIn(**_known(BargeIn, barge_in)) for barge_in in data["barge_ins"])
    return Delivery(**groups, barge_ins=barge_ins, status=data["status"])


def _known(kind: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in kind.__dataclass_fields__ if name in data}
