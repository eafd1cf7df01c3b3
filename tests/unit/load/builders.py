"""Small results, messages and spools for the tests of this folder."""

from typing import Any

from voicebench.load.ledger import Ledger
from voicebench.load.messages import Chunk, Drained, Started, json_line, pack
from voicebench.load.spool import Ref, Spool
from voicebench.metrics.results import RunInfo, SessionMetrics, SessionResult, Status, TurnResult
from voicebench.metrics.serialise import to_dict

RUN = "run-1"


def turn(latency_ms: float | None = 800.0, **fields: Any) -> TurnResult:
    status: dict[str, Status] = {"response_latency_ms": "ok" if latency_ms is not None else "missed"}
    usual: dict[str, Any] = {
        "id": "turn-1",
        "expect": "respond",
        "trigger": "anchor",
        "start_s": 0.5,
        "end_s": 1.5,
        "responded": latency_ms is not None,
        "response_latency_ms": latency_ms,
        "passed": latency_ms is not None,
        "status": status,
    }
    return TurnResult(**{**usual, **fields})


def result(
    call_id: str, worker: str = "w0", turns: tuple[TurnResult, ...] = (turn(),), **fields: Any
) -> SessionResult:
    metrics = SessionMetrics(turns, 5.0, 1000.0, 1500.0, 0.0, 0.0, ((0.5, 1.5),), ((2.3, 3.8),), False)
    usual: dict[str, Any] = {
        "call_id": call_id,
        "scenario": "booking",
        "worker": worker,
        "outcome": "completed",
        "reason": "",
        "started_at": 1000.0,
        "connect_ms": 4.0,
        "clock": "real",
        "timestamps": "kernel",
        "adapter": {"type": "websocket"},
        "metrics": metrics,
    }
    return SessionResult(**{**usual, **fields})


def started(*call_ids: str, worker: str = "w0", run: str = RUN) -> Started:
    return {
        "run": run,
        "worker": worker,
        "host": "h",
        "calls": [(call_id, "booking", 1000.0, None) for call_id in call_ids],
    }


def drained(begun: int, recorded: int, chunks: int, worker: str = "w0", run: str = RUN) -> Drained:
    return {"run": run, "worker": worker, "host": "h", "started": begun, "recorded": recorded, "chunks": chunks}


def chunks(*results: SessionResult, first: int = 0, worker: str = "w0", run: str = RUN) -> list[Chunk]:
    pieces = pack([json_line(to_dict(one)) for one in results])
    return [
        {
            "run": run,
            "worker": worker,
            "host": "h",
            "seq": first + i,
            "batch": first,
            "parts": len(pieces),
            "data": data,
        }
        for i, data in enumerate(pieces)
    ]


def enter(ledger: Ledger, *results: SessionResult, worker: str = "w0", first: int = 0) -> None:
    """What the master does with a batch."""
    for chunk in chunks(*results, worker=worker, first=first):
        if ledger.chunk(chunk):
            ledger.store(worker, results)


def run_info() -> RunInfo:
    return RunInfo(RUN, "2026-01-01T00:00:00+00:00", 0.0, "locust", "closed", "real", {}, (), (), "0.1.0", "3.11")


class MemorySpool(Spool):
    """Keeps its lines; counts how many were read back."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed: list[bool] = []

    def append(self, value: Any) -> Ref:
        self.lines.append(json_line(value))
        return self.lines[-1]

    def read(self, ref: Ref) -> bytes:
        assert isinstance(ref, bytes)
        return ref

    def close(self, delete: bool = False) -> None:
        self.closed.append(delete)
