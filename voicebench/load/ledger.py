"""The master's books: what each worker started, what has arrived, and what that leaves to be wished for.

Pure: messages go in, and at the end every call that was started is one result. Started = completed + truncated +
failed + lost, always.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from voicebench.load.messages import Chunk, Drained, Health, Started
from voicebench.metrics.results import ProcessHealth, SessionResult, WorkerInfo


@dataclass(frozen=True)
class Closed:
    """The books at the end of a run. ``invalid`` says what makes the measurement invalid, whatever its figures."""

    results: tuple[SessionResult, ...]
    workers: tuple[WorkerInfo, ...]
    notes: tuple[str, ...]
    invalid: tuple[str, ...]


#: Scenario, Unix time at which the call began, Unix time for which it was scheduled.
_Begun = tuple[str, float, float | None]


@dataclass
class _Account:
    """One worker."""

    worker: str
    host: str
    begun: dict[str, _Begun] = field(default_factory=dict)
    results: dict[str, SessionResult] = field(default_factory=dict)
    parts: dict[int, dict[int, bytes]] = field(default_factory=dict)  # batches of which chunks are missing
    seen: set[int] = field(default_factory=set)
    total: Drained | None = None
    process: ProcessHealth | None = None
    missing: str = ""  # why nothing more will come
    repeats: int = 0

    @property
    def started(self) -> int:
        known = len(self.begun.keys() | self.results.keys())
        return max(known, self.total["started"]) if self.total else known

    @property
    def gaps(self) -> int:
        expected = self.total["chunks"] if self.total else max(self.seen, default=-1) + 1
        return expected - len(self.seen)


class Ledger:
    """The books of one run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._accounts: dict[str, _Account] = {}
        self._strangers = 0
        self._notes: list[str] = []

    @property
    def started(self) -> int:
        """Calls begun so far."""
        return sum(account.started for account in self._accounts.values())

    @property
    def recorded(self) -> int:
        """Calls that have arrived so far."""
        return sum(len(account.results) for account in self._accounts.values())

    def started_by(self, worker: str) -> int:
        """Calls that one worker has begun so far."""
        return self._accounts[worker].started if worker in self._accounts else 0

    @property
    def workers(self) -> list[str]:
        """The workers that have been heard of."""
        return list(self._accounts)

    def announce(self, message: Started) -> bool:
        """Calls begin. False if the message belongs to another run."""
        account = self._account(message)
        if account is None:
            return False
        for call_id, scenario, started_at, scheduled_at in message["calls"]:
            account.begun[call_id] = (scenario, started_at, scheduled_at)
        return True

    def chunk(self, message: Chunk) -> bytes | None:
        """A chunk arrives. Returns the whole batch if this chunk completes it, b"" if not.

        None: it belongs to another run, and must not be acknowledged. A chunk seen before changes nothing.
        """
        account = self._account(message)
        if account is None:
            return None
        seq, batch = message["seq"], message["batch"]
        if seq in account.seen:
            account.repeats += 1
            return b""
        account.seen.add(seq)
        parts = account.parts.setdefault(batch, {})
        parts[seq] = message["data"]
        if len(parts) < message["parts"]:
            return b""
        del account.parts[batch]
        return b"".join(data for _, data in sorted(parts.items()))

    def store(self, worker: str, results: Iterable[SessionResult]) -> list[SessionResult]:
        """Enter the results of a batch; returns those that are new."""
        account = self._accounts[worker]
        new = []
        for result in results:
            if result.call_id in account.results:
                account.repeats += 1
            else:
                account.results[result.call_id] = result
                new.append(result)
        return new

    def drained(self, message: Drained) -> bool:
        """A worker says that it has sent everything. False if the message belongs to another run."""
        account = self._account(message)
        if account is None:
            return False
        account.total = message
        return True

    def health(self, message: Health) -> bool:
        """A worker tells how its process fares. False if the message belongs to another run."""
        account = self._account(message)
        if account is None:
            return False
        account.process = None if message["process"] is None else ProcessHealth(**message["process"])
        return True

    def is_settled(self, worker: str) -> bool:
        """Whether all that this worker has ever started is stored."""
        account = self._accounts.get(worker)
        if account is None or account.total is None:
            return False
        return len(account.results) >= account.total["recorded"] and account.begun.keys() <= account.results.keys()

    def gone(self, worker: str, why: str) -> None:
        """Nothing more will come from this worker."""
        if worker in self._accounts and not self.is_settled(worker):
            self._accounts[worker].missing = why

    def recovered(self, worker: str, results: Iterable[SessionResult]) -> list[SessionResult]:
        """Enter what a worker's spool holds: calls that only began, and results; returns the results that are new."""
        found = list(results)
        account = self._accounts[worker]
        for result in found:
            account.begun.setdefault(result.call_id, (result.scenario, result.started_at, result.scheduled_at))
        known = account.results.keys()
        return self.store(worker, [one for one in found if one.outcome != "lost" and one.call_id not in known])

    def note(self, text: str) -> None:
        """Something that the reader of the report must know."""
        if text not in self._notes:
            self._notes.append(text)

    def close(self) -> Closed:
        """The balance. May be called at any time; changes nothing."""
        results: list[SessionResult] = []
        workers: list[WorkerInfo] = []
        notes = list(self._notes)
        for account in self._accounts.values():
            lost = _lost(account)
            results += [*account.results.values(), *lost]
            counts = account.started, len(account.results), len(lost)
            workers.append(WorkerInfo(account.worker, account.host, *counts, account.process))
            notes += _remarks(account, len(lost))
        if self._strangers:
            notes.append(f"{self._strangers} messages of another run were rejected")
        results.sort(key=lambda result: (result.started_at, result.call_id))
        missing = [account for account in self._accounts.values() if account.missing]
        invalid = [f"worker {account.worker} {account.missing}" for account in missing]
        return Closed(tuple(results), tuple(workers), tuple(notes), tuple(invalid))

    def _account(self, message: Started | Chunk | Drained | Health) -> _Account | None:
        if message["run"] != self.run:
            self._strangers += 1
            return None
        worker = message["worker"]
        return self._accounts.setdefault(worker, _Account(worker, message["host"]))


def _lost(account: _Account) -> list[SessionResult]:
    """A result for each call that was started and never came back."""
    why = account.missing or ("its result never arrived" if account.total else "the worker never reported it")
    begun = {call_id: call for call_id, call in account.begun.items() if call_id not in account.results}
    unnamed = account.started - len(account.begun.keys() | account.results.keys())
    for number in range(unnamed):  # announced by nobody, but in the worker's own count
        begun[f"{account.worker}-unknown-{number + 1}"] = ("", 0.0, None)
    return [lost_result(call_id, account.worker, why, *call) for call_id, call in begun.items()]


def lost_result(
    call_id: str, worker: str, why: str, scenario: str, started_at: float, scheduled_at: float | None = None
) -> SessionResult:
    """The result of a call of which nothing is known but that it began."""
    return SessionResult(
        call_id=call_id,
        scenario=scenario,
        worker=worker,
        outcome="lost",
        reason=why,
        started_at=started_at,
        scheduled_at=scheduled_at,
        connect_ms=None,
        clock="real",
        timestamps="",
        adapter={},
        metrics=None,
    )


def _remarks(account: _Account, lost: int) -> list[str]:
    remarks = []
    if account.gaps > 0:
        remarks.append(f"worker {account.worker}: {account.gaps} of its chunks never arrived")
    if account.parts:
        remarks.append(f"worker {account.worker}: {len(account.parts)} batches arrived in part only")
    if lost:
        remarks.append(f"worker {account.worker}: {lost} of {account.started} calls lost")
    return remarks


def count_outcomes(results: Sequence[SessionResult]) -> Mapping[str, int]:
    """How many calls ended in each way."""
    counts: dict[str, Any] = dict.fromkeys(("completed", "truncated", "failed", "lost"), 0)
    for result in results:
        counts[result.outcome] += 1
    return counts
