"""The side that keeps the books: a Locust master, or the whole of a run without workers."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from gevent.queue import Queue
from locust.env import Environment
from locust.runners import STATE_MISSING, MasterRunner

from voicebench.exits import Exit
from voicebench.load.arrivals import Plan
from voicebench.load.describe import RunTicket
from voicebench.load.ledger import Closed, Ledger
from voicebench.load.live import LiveTable
from voicebench.load.messages import ACK, DRAIN, SETTLED, Chunk, Drained, Health, Sender, Started, unpack
from voicebench.load.options import LoadOptions
from voicebench.load.patience import wait_until
from voicebench.load.spool import spool_directory
from voicebench.metrics.results import RunInfo, SessionResult
from voicebench.metrics.serialise import from_dict
from voicebench.report.build import build_report
from voicebench.report.console import render_console
from voicebench.report.store import SESSIONS_FILE, ReportError, RunWriter, load
from voicebench.report.write import write_reports

logger = logging.getLogger(__name__)

#: Beyond the grace: how long to wait for workers that deliver nothing more.
PATIENCE_S = 20.0
#: How often to look whether the workers that have not ended their share of the schedule are still there.
THROUGH_EVERY_S = 0.5


class MasterSide:
    """Keeps the books of one run after the other, and writes their reports."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._run: _Open | None = None
        self.used: list[Path] = []
        self.live = LiveTable()

    @property
    def is_open(self) -> bool:
        """Whether a run is going on."""
        return self._run is not None

    def begin(self, ticket: RunTicket, info: RunInfo, options: LoadOptions, plan: Plan | None = None) -> None:
        """A run begins. Raises ReportError if its directory cannot be written."""
        directory = Path(ticket["directory"])
        writer = RunWriter(directory, info)
        self.used.append(directory)
        self.live = LiveTable()
        self._run = _Open(self._environment, info, options, writer, self.live, plan)

    def started(self, message: Started, node: str) -> None:
        """A worker announces calls."""
        if self._run is not None and self._run.ledger.announce(message):
            self._run.know(node, message["worker"])
            self._run.calls_begin(node)
            self.live.started = self._run.ledger.started

    def chunk(self, message: Chunk, node: str) -> None:
        """A worker sends results: acknowledge, decode later."""
        if self._run is not None:
            self._run.chunk(message, node)

    def drained(self, message: Drained, node: str) -> None:
        """A worker has sent everything."""
        if self._run is not None and self._run.ledger.drained(message):
            self._run.know(node, message["worker"])
            if not self._run.draining:
                self._run.stopped_early(node)
                self._run.ledger.note(f"worker {message['worker']} was stopped during the run, with all its calls")

    def health(self, message: Health, node: str) -> None:
        """A worker tells how well it keeps time."""
        if self._run is not None and self._run.ledger.health(message):
            self._run.know(node, message["worker"])
            self.live.keeps_time(message["worker"], message["send_lag_p99_ms"], message["process"])

    def worker_came(self) -> None:
        """A worker joins."""
        if self._run is not None and not self._run.draining:
            plan = "it begins none of the scheduled calls, which those have that were there at the start"
            what = plan if self._run.plan else "Locust spread the callers anew"
            self._run.ledger.note(f"a worker joined during the run: {what}")

    def through(self, message: Sender, node: str, end_run: Callable[[], None]) -> None:
        """A worker has held all calls of its share of the schedule. Once all have, ``end_run``."""
        if self._run is not None and self._run.ledger.run == message["run"]:
            self._run.through(node, end_run)

    def note(self, text: str) -> None:
        """Something that the reader of the report must know."""
        if self._run is not None:
            self._run.ledger.note(text)

    def drain(self) -> None:
        """End the run's calls and collect everything; safe to call more than once and from several greenlets."""
        if self._run is not None:
            self._run.drain()

    def close(self) -> Exit:
        """Write the report of the open run; returns the exit code that it stands for."""
        run, self._run = self._run, None
        assert run is not None
        return run.report()

    def hurry(self) -> None:
        """Cut the grace short."""
        if self._run is not None:
            self._run.hurry()


class _Open:
    """A run that is going on."""

    def __init__(
        self,
        environment: Environment,
        info: RunInfo,
        options: LoadOptions,
        writer: RunWriter,
        live: LiveTable,
        plan: Plan | None,
    ) -> None:
        self.info = info
        self.ledger = Ledger(info.id)
        self.plan = plan
        self.draining = False
        self._environment = environment
        self._options = options
        self._writer = writer
        self._live = live
        self._began = time.monotonic()
        self._names: dict[str, str] = {}  # Locust's node id: our worker's name
        self._through: set[str] = set()  # node ids of workers that have nothing more to begin
        self._early: set[str] = set()  # node ids of workers that left before the end
        self._zeros: dict[str, float] = {}  # node id: when its schedule began, by our clock
        self._watch: gevent.Greenlet[..., None] | None = None
        self._batches: Queue[tuple[str, bytes]] = Queue()
        self._unread = 0
        self._drained = Event()
        self._reader = gevent.spawn(self._read_batches)

    def know(self, node: str, worker: str) -> None:
        self._names[node] = worker

    def chunk(self, message: Chunk, node: str) -> None:
        blob = self.ledger.chunk(message)
        if blob is None:
            return
        self.know(node, message["worker"])
        self._send(ACK, {"run": self.info.id, "seq": message["seq"]}, node)
        if blob:
            self._unread += 1
            self._batches.put((message["worker"], blob))

    def drain(self) -> None:
        if self.draining:
            self._drained.wait()
            return
        self.draining = True
        ended = time.monotonic()
        grace_s = self._options.drain_s
        still_open = self.ledger.started - self.ledger.recorded
        if still_open:
            how = f"they have {grace_s:g} s to end; Ctrl-C again cuts them off now" if grace_s else "they are cut off"
            logger.info("voicebench: the run ends with %d calls going on: %s", still_open, how)
        self._send(DRAIN, {"run": self.info.id, "grace_s": grace_s})
        wait_until(lambda: not (self._awaited() or self._unread), PATIENCE_S, self._progress, first_s=grace_s)
        self.info = replace(self.info, duration_s=round(time.monotonic() - self._began, 3))
        late = {self._names.get(node) for node in self._awaited()}
        for worker in self.ledger.workers:
            if not self.ledger.is_settled(worker):
                self._recover(worker)
                self.ledger.gone(worker, _why(worker in late))
        self._note_never_begun(ended)
        self._drained.set()

    def calls_begin(self, node: str) -> None:
        number = next((number for seat, number in self._seats() if seat == node), None)
        if self.plan is not None and number is not None and node not in self._zeros:
            first = next(self.plan.share(number), None)
            self._zeros[node] = time.monotonic() - (first.at_s if first else 0.0)

    def stopped_early(self, node: str) -> None:
        self._early.add(node)

    def through(self, node: str, end_run: Callable[[], None]) -> None:
        self._through.add(node)
        if self._watch is None:
            self._watch = gevent.spawn(self._end_when_through, end_run)

    def hurry(self) -> None:
        self._send(DRAIN, {"run": self.info.id, "grace_s": 0.0})

    def report(self) -> Exit:
        """Close the books, write the report and print its summary."""
        closed = self.ledger.close()
        gevent.kill(self._reader)
        if self._watch is not None:
            gevent.kill(self._watch)
        pool = gevent.get_hub().threadpool
        report, problem = pool.apply(self._write, (closed,))
        for node, worker in self._names.items():
            if self.ledger.is_settled(worker) and not self._writer.unwritten:
                self._send(SETTLED, {"run": self.info.id}, node)
        print(render_console(report, [self._writer.directory]), flush=True)
        if problem:
            print(f"voicebench: {problem}", file=sys.stderr)
        return Exit(report["exit_code"])

    def _write(self, closed: Closed) -> tuple[dict[str, Any], str]:
        for result in closed.results:
            if result.outcome == "lost":
                self._writer.add(result)
        notes = (*self.info.notes, *closed.notes)
        run = replace(self.info, workers=closed.workers, notes=notes, invalid=closed.invalid)
        run = self._writer.close(run)
        report = build_report(run, closed.results)
        try:
            write_reports(self._writer.directory, report, closed.results, self._options.formats)
        except (ReportError, OSError) as error:
            return report, str(error)
        return report, ""

    def _recover(self, worker: str) -> None:
        """Look for the spool of a worker that is gone: if it ran on this machine, its last results are there."""
        spool = spool_directory()[0] / self.info.id / worker
        if not (spool / SESSIONS_FILE).exists():
            return
        pool = gevent.get_hub().threadpool
        try:
            _, found = pool.apply(load, ([spool],))
        except ReportError as error:
            self.ledger.note(str(error))
            return
        new = self.ledger.recovered(worker, found)
        pool.apply(self._store, (new,))
        if new:
            self.ledger.note(f"worker {worker}: {len(new)} results were recovered from its spool")

    def _end_when_through(self, end_run: Callable[[], None]) -> None:
        """End the run as soon as no live worker has anything left to begin: a lost one must not hold it up."""
        while not self.draining:
            live = self._live_nodes()
            if all(node in self._through for node, _ in self._seats() if node in live):
                end_run()
                return
            gevent.sleep(THROUGH_EVERY_S)

    def _note_never_begun(self, ended: float) -> None:
        """Tell how many calls were scheduled on workers that left, and were never begun."""
        for node, number in self._seats():
            assert self.plan is not None
            if node in self._live_nodes() and node not in self._early:
                continue
            worker = self._names.get(node, "")
            ran_s = ended - self._zeros.get(node, self._began)
            missing = self.plan.due(number, ran_s) - self.ledger.started_by(worker)
            if missing > 0:
                left = f"worker {worker or node} left"
                self.ledger.note(f"{left}: {missing} calls that were scheduled on it were never begun")

    def _seats(self) -> list[tuple[str, int]]:
        """Node id and number of each worker that shares the schedule."""
        runner = self._environment.runner
        numbers = runner.worker_indexes if isinstance(runner, MasterRunner) else {"local": 0}
        return [(node, number) for node, number in numbers.items() if self.plan and number in self.plan.workers]

    def _progress(self) -> tuple[int, int]:
        return self.ledger.recorded, len(self._names)

    def _awaited(self) -> list[str]:
        """The live workers of which something is still to come."""
        return [node for node in self._live_nodes() if not self.ledger.is_settled(self._names.get(node, ""))]

    def _live_nodes(self) -> list[str]:
        runner = self._environment.runner
        if isinstance(runner, MasterRunner):
            return [client.id for client in runner.clients.all if client.state != STATE_MISSING]
        return ["local"]

    def _send(self, kind: str, data: Mapping[str, Any], node: str | None = None) -> None:
        runner = self._environment.runner
        if runner is not None:
            runner.send_message(kind, dict(data), client_id=node)

    def _read_batches(self) -> None:
        """Decode batches in a thread, one after the other: the loop has other messages to take."""
        pool = gevent.get_hub().threadpool
        while True:
            worker, blob = self._batches.get()
            try:
                new = self.ledger.store(worker, pool.apply(_decode, (blob,)))
                pool.apply(self._store, (new,))
                for result in new:
                    self._live.add(result)
            except ValueError as error:
                self.ledger.note(f"worker {worker}: results that cannot be read: {error}")
            finally:
                self._unread -= 1

    def _store(self, results: list[SessionResult]) -> None:
        for result in results:
            self._writer.add(result)


def _decode(blob: bytes) -> list[SessionResult]:
    return [from_dict(line) for line in unpack(blob)]


def _why(late: bool) -> str:
    if late:
        return f"did not hand over everything: nothing came for {PATIENCE_S:.0f} s after the end of the run"
    return "vanished before the end of the run"
