"""The figures of a run while it goes on: a row for each turn, for the web UI."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from voicebench.metrics.results import SessionResult
from voicebench.metrics.stats import percentile


@dataclass
class _Row:
    calls: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    missed: int = 0
    void: int = 0


class LiveTable:
    """Adds calls up as they arrive."""

    def __init__(self) -> None:
        self.started = 0
        self._ended = 0
        self._failed = 0
        self._rows: dict[str, _Row] = {}
        self._workers: dict[str, dict[str, Any]] = {}

    def add(self, result: SessionResult) -> None:
        """A call that ended."""
        self._ended += 1
        self._failed += result.outcome == "failed"
        for turn in result.metrics.turns if result.metrics else ():
            if turn.trigger == "not_played":
                continue
            row = self._rows.setdefault(f"{result.scenario}/{turn.id}", _Row())
            row.calls += 1
            row.void += turn.void
            row.missed += "missed" in turn.status.values()
            if not turn.void and turn.response_latency_ms is not None:
                row.latencies_ms.append(turn.response_latency_ms)

    def keeps_time(self, worker: str, send_lag_p99_ms: float | None, process: Mapping[str, Any] | None) -> None:
        """A worker tells how late it has been lately, and how its process has fared so far."""
        told = process or {}
        self._workers[worker] = {
            "name": worker,
            "send_lag_p99_ms": _rounded(send_lag_p99_ms),
            "loop_lag_p99_ms": _rounded(told.get("loop_lag_ms", {}).get("p99")),
            "cpu_share": told.get("cpu_share"),
        }

    def worker_rows(self) -> list[dict[str, Any]]:
        """One object per worker that has told."""
        return [self._workers[name] for name in sorted(self._workers)]

    def rows(self) -> list[dict[str, Any]]:
        """One object per turn, and one for all calls; times to 0.1 ms."""
        rows = [
            {
                "name": name,
                "calls": row.calls,
                "p50_ms": _percentile(row.latencies_ms, 50),
                "p90_ms": _percentile(row.latencies_ms, 90),
                "missed": row.missed,
                "void": row.void,
                "open": 0,
                "failed": 0,
            }
            for name, row in sorted(self._rows.items())
        ]
        everything = [value for row in self._rows.values() for value in row.latencies_ms]
        total = {
            "name": "all calls",
            "calls": self._ended,
            "p50_ms": _percentile(everything, 50),
            "p90_ms": _percentile(everything, 90),
            "missed": sum(row.missed for row in self._rows.values()),
            "void": sum(row.void for row in self._rows.values()),
            "open": max(0, self.started - self._ended),
            "failed": self._failed,
        }
        return [*rows, total]


def _percentile(values: list[float], q: float) -> float | None:
    return _rounded(percentile(values, q))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
