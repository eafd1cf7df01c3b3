"""The side that plays calls: a Locust worker, or the whole of a run without workers."""

import io
import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from weakref import WeakSet

import gevent
import gevent.util
from gevent.event import Event
from gevent.pool import Group
from locust.env import Environment
from locust.exception import StopUser

from voicebench.adapters import create_adapter
from voicebench.load.arrivals import Arrival, Plan
from voicebench.load.courier import ANNOUNCE_EVERY_S, Courier, Send
from voicebench.load.dispatcher import Dispatcher
from voicebench.load.messages import DRAINED, THROUGH, Drained, Sender
from voicebench.load.mix import Mix
from voicebench.load.options import LoadOptions
from voicebench.load.patience import wait_until
from voicebench.load.requests import requests_of
from voicebench.load.results import measured, not_started
from voicebench.load.spool import Spool, spool_directory
from voicebench.load.warmth import warm_up
from voicebench.load.watch import EVERY_S, Watch
from voicebench.metrics.process import ProcessMeter
from voicebench.metrics.results import RunInfo, SessionResult
from voicebench.metrics.serialise import to_dict
from voicebench.runner.pacer import shared_pacer
from voicebench.runner.prompts import Prompts
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario

#: Once the last call has ended: how long to wait without any progress until all are measured, and acknowledged.
MEASURE_S = 15.0
DELIVER_S = 10.0

logger = logging.getLogger(__name__)

#: From the order to begin until the first open arrival, unless prompts take longer: so that workers begin together.
LEAD_S = 0.1

RUN_ENDED = "run ended: the load run was stopped"
NOT_STARTED = "not started: "  # the kind of reason of a call that was scheduled and not begun


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
    calls: WeakSet[Call] = field(default_factory=WeakSet)  # those that go on, at least
    watch: Watch | None = None
    watcher: "gevent.Greenlet[[Watch], None] | None" = None
    dispatcher: Dispatcher | None = None  # with open arrivals
    callers: Group = field(default_factory=Group)  # who hold the calls that it began


class WorkerSide:
    """Plays the calls of one run after the other, and sees to it that each leaves a record."""

    def __init__(self, environment: Environment, send: Send) -> None:
        self._environment = environment
        self._send = send
        self._run: _Run | None = None

    def begin(
        self, info: RunInfo, options: LoadOptions, directory: Path, worker: str, number: int, plan: Plan | None = None
    ) -> None:
        """A run begins, and with a ``plan`` its calls. Raises AudioFileError.

        Renders the prompts, so that spawning users is cheap.
        """
        zero_s = time.monotonic() + LEAD_S
        self.end()
        warm_up()
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
        run.watch = self._watch(run, host)
        run.watcher = gevent.spawn(_look, run.watch)
        if plan is not None and number in plan.workers:
            zero_s = max(zero_s, time.monotonic())
            run.dispatcher = Dispatcher(
                plan.share(number), zero_s, lambda *due: self._arrive(run, *due), lambda: self._through(run)
            )

    def play(self) -> SessionResult:
        """Play one call to its end and record it; raises StopUser once the run is ending.

        Whatever ends the call, a kill included, it is measured and recorded before this returns or raises, unless
        the user's greenlet is killed a second time; then that goes on without it. With open arrivals there is
        nothing for users to do: this waits for the end of the run.
        """
        run = self._run
        if run is not None and run.options.arrivals is not None:
            run.drained.wait()
        if run is None or run.draining:
            raise StopUser
        result: SessionResult = self._hold(run, _pick(run)).get()
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
        self._end_arrivals(run)
        wait_until(lambda: run.active == 0 or run.hurry, grace_s)
        self._kill_users()
        if not wait_until(lambda: not run.finishing, MEASURE_S, lambda: run.courier.recorded_count):
            stacks = io.StringIO()
            gevent.util.print_run_info(file=stacks)
            logger.error("voicebench: %d calls not measured in time:\n%s", len(run.finishing), stacks.getvalue())
        if wait:
            wait_until(lambda: _is_delivered(run.courier), DELIVER_S, lambda: run.courier.in_hand)
        self._report_health(run)
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
            if self._run.watcher is not None:
                self._run.watcher.kill()
            if self._run.dispatcher is not None:
                self._run.dispatcher.end()
            self._run.courier.close(delete_spool=False)
            self._run = None

    def _arrive(self, run: _Run, arrival: Arrival, scheduled_at: float) -> None:
        """An open arrival is due: a call begins, or there is a record that says why not."""
        scenario = run.options.scenario_named(arrival.scenario) if arrival.scenario else _pick(run)
        if len(run.callers) < run.options.max_active:
            run.callers.spawn(self._hold, run, scenario, scheduled_at)
        else:
            why = f"{NOT_STARTED}more than {run.options.max_active} calls at once on this worker"
            run.finishing.spawn(self._not_started, run, scenario, scheduled_at, "failed", why)

    def _through(self, run: _Run) -> None:
        """The last call of this worker's share has begun: tell the master when it has ended, too."""
        wait_until(lambda: run.active == 0 and not run.callers, float("inf"))
        message: Sender = {"run": run.id, "worker": run.worker, "host": socket.gethostname()}
        self._send(THROUGH, message)

    def _end_arrivals(self, run: _Run) -> None:
        """Begin no more calls on schedule. Those that were due, and that a late loop had not begun, are truncated."""
        if run.dispatcher is None:
            return
        for arrival, scheduled_at in run.dispatcher.end():
            scenario = run.options.scenario_named(arrival.scenario) if arrival.scenario else _pick(run)
            why = f"{NOT_STARTED}the run ended first"
            run.finishing.spawn(self._not_started, run, scenario, scheduled_at, "truncated", why)
        gevent.sleep(0)  # each caller that was spawned gets to begin its call, so that it leaves a record

    def _hold(
        self, run: _Run, scenario: Scenario, scheduled_at: float | None = None
    ) -> "gevent.Greenlet[..., SessionResult]":
        """Hold a call to its end; gives the greenlet that measures and records it."""
        call = Call(scenario, create_adapter(*run.options.adapter_for(scenario)), realtime=True)
        run.calls.add(call)
        run.active += 1
        run.courier.started(call.call_id, scenario.name, time.time(), scheduled_at)
        try:
            record = call.run()
        except BaseException as error:
            why = RUN_ENDED if isinstance(error, gevent.GreenletExit) else f"harness error: {error!r}"
            self._finish(run, lambda: call.interrupted(why), scheduled_at).join()
            raise
        return self._finish(run, lambda: record, scheduled_at)

    def _finish(
        self, run: _Run, make_record: Callable[[], SessionRecord], scheduled_at: float | None
    ) -> "gevent.Greenlet[..., SessionResult]":
        """Measure and record a call in a greenlet that no stop kills."""
        finishing: gevent.Greenlet[..., SessionResult] = run.finishing.spawn(
            self._record, run, make_record, scheduled_at
        )
        return finishing

    def _record(
        self, run: _Run, make_record: Callable[[], SessionRecord], scheduled_at: float | None
    ) -> SessionResult:
        try:
            record = make_record()
            keep = run.options.record, run.options.frames
            arguments = (record, run.worker, keep, run.directory, scheduled_at)
            result: SessionResult = shared_pacer().analyst.apply(measured, arguments)
            run.courier.recorded(shared_pacer().analyst.apply(to_dict, (result,)))
        finally:
            run.active -= 1
        self._fire(result)
        return result

    def _not_started(
        self, run: _Run, scenario: Scenario, scheduled_at: float, outcome: Literal["failed", "truncated"], why: str
    ) -> None:
        """Record a call that was scheduled and could not begin."""
        adapter = create_adapter(*run.options.adapter_for(scenario)).describe()
        result = not_started(scenario, adapter, run.worker, scheduled_at, outcome, why)
        run.courier.started(result.call_id, scenario.name, result.started_at, scheduled_at)
        run.courier.recorded(to_dict(result))
        self._fire(result)

    def _fire(self, result: SessionResult) -> None:
        """Show a call that ended to Locust."""
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

    def _watch(self, run: _Run, host: str) -> Watch:
        """Who looks after how well this worker keeps time."""
        sender: Sender = {"run": run.id, "worker": run.worker, "host": host}
        meter = ProcessMeter(shared_pacer().health)
        limit_ms = run.options.limit("max_send_lag_p99_ms")
        return Watch(sender, limit_ms, lambda: list(run.calls), meter, shared_pacer().analyst.apply, self._send)

    def _report_health(self, run: _Run) -> None:
        """Tell the master how the whole run went."""
        if run.watch is not None and run.watcher is not None:
            run.watcher.kill()
            run.watch.look()

    def _kill_users(self) -> None:
        """Kill the user greenlets, and the callers; each sees to it that its call is recorded."""
        runner = self._environment.runner
        callers = list(self._run.callers) if self._run is not None else []
        if runner is None:
            return
        current = gevent.getcurrent()
        users = [user for user in list(runner.user_greenlets) if user is not current]
        gevent.killall([*users, *callers], block=False)
        gevent.sleep(0)  # now each has handed over its call


def worker_name(environment: Environment) -> str:
    """A short name, unique among the workers of a master."""
    number = worker_number(environment)
    return f"{socket.gethostname()}-{number}"


def worker_number(environment: Environment) -> int:
    """The number that the master gave to this worker, from 0."""
    return max(0, int(getattr(environment.runner, "worker_index", 0)))


def _pick(run: _Run) -> Scenario:
    """The scenario of the next call, by the weights."""
    return run.options.scenarios[run.mix.pick()][0]


def _tick(courier: Courier) -> None:
    while True:
        gevent.sleep(ANNOUNCE_EVERY_S)
        courier.tick()


def _look(watch: Watch) -> None:
    while True:
        gevent.sleep(EVERY_S)
        watch.look()


def _is_delivered(courier: Courier) -> bool:
    courier.flush()
    return courier.is_idle
