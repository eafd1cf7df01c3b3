"""The side that plays calls: a Locust worker, or the whole of a run without workers."""

import io
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import gevent
import gevent.util
from gevent.event import Event
from gevent.pool import Group
from gevent.threadpool import ThreadPool
from locust.env import Environment
from locust.exception import StopUser

from voicebench.adapters import create_adapter
from voicebench.load.courier import ANNOUNCE_EVERY_S, Courier, Send
from voicebench.load.messages import DRAINED, Drained
from voicebench.load.mix import Mix
from voicebench.load.options import LoadOptions
from voicebench.load.patience import wait_until
from voicebench.load.requests import requests_of
from voicebench.load.results import measured
from voicebench.load.spool import Spool, spool_directory
from voicebench.metrics.results import RunInfo, SessionResult
from voicebench.metrics.serialise import to_dict
from voicebench.runner.prompts import Prompts
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario

#: Once the last call has ended: how long to wait without any progress until all are measured, and acknowledged.
MEASURE_S = 15.0
DELIVER_S = 10.0

logger = logging.getLogger(__name__)

RUN_ENDED = "run ended: the load run was stopped"


@dataclass
class _Run:
    """What one run holds on this worker."""

    id: str
    worker: str
    directory: Path
    options: LoadOptions
    courier: Courier
    mix: Mix
    active: int = 0
    draining: bool = False
    hurry: bool = False
    drained: Event = field(default_factory=Event)
    finishing: Group = field(default_factory=Group)  # no users: nobody kills what measures and records
    ticker: "gevent.Greenlet[[Courier], None] | None" = None


class WorkerSide:
    """Plays the calls of one run after the other, and sees to it that each leaves a record."""

    def __init__(self, environment: Environment, send: Send) -> None:
        self._environment = environment
        self._send = send
        self._run: _Run | None = None
        # One thread: the loop, which keeps time for all calls, has to win the interpreter's lock against it alone.
        self._analyst = ThreadPool(1)

    def begin(self, info: RunInfo, options: LoadOptions, directory: Path, worker: str, number: int) -> None:
        """A run begins. Renders the prompts, so that spawning users is cheap. Raises AudioFileError."""
        self.end()
        for scenario, _ in options.scenarios:
            prompts = Prompts.of(scenario)
            prompts.encoded(create_adapter(*options.adapter_for(scenario)))
        host = socket.gethostname()
        spools, _ = spool_directory()
        spool = Spool(spools / info.id / worker, info)
        courier = Courier(info.id, worker, host, self._send, time.monotonic, spool)
        mix = Mix([weight for _, weight in options.scenarios], seed=number)
        self._run = run = _Run(info.id, worker, directory, options, courier, mix)
        run.ticker = gevent.spawn(_tick, courier)

    def play(self) -> SessionResult:
        """Play one call to its end and record it; raises StopUser once the run is ending.

        Whatever ends the call, a kill included, it is measured and recorded before this returns or raises, unless
        the user's greenlet is killed a second time; then that goes on without it.
        """
        run = self._run
        if run is None or run.draining:
            raise StopUser
        scenario: Scenario = run.options.scenarios[run.mix.pick()][0]
        call = Call(scenario, create_adapter(*run.options.adapter_for(scenario)), realtime=True)
        run.active += 1
        run.courier.started(call.call_id, scenario.name, time.time())
        try:
            record = call.run()
        except BaseException as error:
            why = RUN_ENDED if isinstance(error, gevent.GreenletExit) else f"harness error: {error!r}"
            self._finish(run, lambda: call.interrupted(why)).join()
            raise
        finished = self._finish(run, lambda: record)
        result: SessionResult = finished.get()
        return result

    def drain(self, grace_s: float, wait: bool = True) -> None:
        """Begin no call, let calls end for ``grace_s``, cut off the others, and hand everything over.

        Returns when the master has it all, or cannot be reached. Safe to call more than once: later callers wait
        for the first. ``wait`` False: from a greenlet that is needed to receive the acknowledgements.
        """
        run = self._run
        if run is None:
            return
        if run.draining:
            run.drained.wait(None if wait else 0)
            return
        run.draining = True
        wait_until(lambda: run.active == 0 or run.hurry, grace_s)
        self._kill_users()
        if not wait_until(lambda: not run.finishing, MEASURE_S, lambda: run.courier.recorded_count):
            stacks = io.StringIO()
            gevent.util.print_run_info(file=stacks)
            logger.error("voicebench: %d calls not measured in time:\n%s", len(run.finishing), stacks.getvalue())
        if wait:
            wait_until(lambda: _is_delivered(run.courier), DELIVER_S, lambda: run.courier.in_hand)
        run.courier.abandon()
        run.courier.drained()
        run.drained.set()

    def hurry(self) -> None:
        """Cut the grace short."""
        if self._run is not None:
            self._run.hurry = True

    def acknowledged(self, run_id: str, seq: int) -> None:
        """The master has a chunk."""
        if self._run is not None and self._run.id == run_id:
            self._run.courier.acknowledged(seq)

    def settled(self, run_id: str) -> None:
        """The master has stored everything of this run: the spool is not needed, unless somebody asked for it."""
        if self._run is not None and self._run.id == run_id:
            self._run.courier.close(delete_spool=not spool_directory()[1])

    def answer(self, run_id: str) -> None:
        """Report the end of a run that this worker has no part in, so that nobody waits for it."""
        message: Drained = {
            "run": run_id,
            "worker": worker_name(self._environment),
            "host": socket.gethostname(),
            "started": 0,
            "recorded": 0,
            "chunks": 0,
        }
        self._send(DRAINED, message)

    @property
    def is_draining(self) -> bool:
        """Whether the current run is ending on this worker."""
        return self._run is not None and self._run.draining

    def takes_part_in(self, run_id: str) -> bool:
        """Whether this worker has begun that run."""
        return self._run is not None and self._run.id == run_id

    def end(self) -> None:
        """Forget the run."""
        if self._run is not None:
            if self._run.ticker is not None:
                self._run.ticker.kill()
            self._run.courier.close(delete_spool=False)
            self._run = None

    def _finish(self, run: _Run, make_record: Callable[[], SessionRecord]) -> "gevent.Greenlet[..., SessionResult]":
        """Measure and record a call in a greenlet that no stop kills."""
        finishing: gevent.Greenlet[..., SessionResult] = run.finishing.spawn(self._record, run, make_record)
        return finishing

    def _record(self, run: _Run, make_record: Callable[[], SessionRecord]) -> SessionResult:
        try:
            record = make_record()
            arguments = (record, run.worker, run.options.record, run.directory)
            result: SessionResult = self._analyst.apply(measured, arguments)
            run.courier.recorded(self._analyst.apply(to_dict, (result,)))
        finally:
            run.active -= 1
        for request in requests_of(result):
            self._environment.events.request.fire(
                request_type=request.request_type,
                name=request.name,
                response_time=request.response_time,
                response_length=0,
                exception=request.exception,
                context={"call_id": result.call_id},
                start_time=result.started_at,
            )
        return result

    def _kill_users(self) -> None:
        """Kill the user greenlets; each sees to it that its call is recorded."""
        runner = self._environment.runner
        if runner is None:
            return
        current = gevent.getcurrent()
        users = [user for user in list(runner.user_greenlets) if user is not current]
        gevent.killall(users, block=False)
        gevent.sleep(0)  # now each has handed over its call


def worker_name(environment: Environment) -> str:
    """A short name, unique among the workers of a master."""
    number = worker_number(environment)
    return f"{socket.gethostname()}-{number}"


def worker_number(environment: Environment) -> int:
    """The number that the master gave to this worker, from 0."""
    return max(0, int(getattr(environment.runner, "worker_index", 0)))


def _tick(courier: Courier) -> None:
    while True:
        gevent.sleep(ANNOUNCE_EVERY_S)
        courier.tick()


def _is_delivered(courier: Courier) -> bool:
    courier.flush()
    return courier.is_idle
