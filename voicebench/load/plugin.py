"""Ties both sides to Locust's events. What happens is decided elsewhere.

One ``Plugin`` per environment, on the master, on each worker, and with both sides in a run without workers.

How a run ends, whatever ends it (run time, SIGTERM, SIGINT, the web UI's stop button, a shape that is through):
``test_stopping`` or ``quitting``, whichever comes first, holds the barrier, in which workers end their calls and hand
over their results; ``test_stop`` or ``quitting`` writes the report. Both steps happen once per run.
"""

import logging
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NoReturn, cast

import gevent
from locust import events
from locust.env import Environment
from locust.exception import RPCError
from locust.rpc import Message
from locust.runners import LocalRunner, MasterRunner, WorkerRunner

from voicebench.adapters import AdapterError
from voicebench.audio.files import AudioFileError
from voicebench.exits import Exit
from voicebench.load import messages, web
from voicebench.load.describe import RunTicket, describe_run, new_ticket, plan_of, prove_writable
from voicebench.load.master import MasterSide
from voicebench.load.options import LoadOptions, OptionError, add_arguments, read_options
from voicebench.load.warmth import spare_the_loop
from voicebench.load.worker import WorkerSide, worker_name, worker_number
from voicebench.report.store import ReportError
from voicebench.scenario import ScenarioError

logger = logging.getLogger(__name__)

#: Where the run's ticket travels: among the options that Locust sends with each order to spawn users.
TICKET = "voicebench_run"
_ATTRIBUTE = "voicebench"

REFUSALS = (OptionError, ScenarioError, AudioFileError, AdapterError, ReportError)


def install() -> None:
    """Listen to Locust. Called once, by importing ``voicebench.load.user``."""
    events.init_command_line_parser.add_listener(add_arguments)
    events.init.add_listener(_on_init)


def of(environment: Environment) -> "Plugin":
    """The plugin of an environment."""
    return cast(Plugin, getattr(environment, _ATTRIBUTE))


def _on_init(environment: Environment, **_: Any) -> None:
    plugin = Plugin(environment)
    setattr(environment, _ATTRIBUTE, plugin)
    plugin.listen()
    plugin.check()


class Plugin:
    """Both sides of one process."""

    def __init__(self, environment: Environment) -> None:
        assert environment.runner is not None
        self.environment = environment
        self.runner = environment.runner
        self.is_worker = isinstance(self.runner, WorkerRunner)
        self.is_local = isinstance(self.runner, LocalRunner)
        self.master = MasterSide(environment)
        self.worker = WorkerSide(environment, self._send)
        self._stop_timeout = environment.stop_timeout
        self._refused: Exit | None = None
        self._interrupts = 0

    @property
    def options(self) -> Namespace:
        """Locust's options, ours among them."""
        return cast(Namespace, self.environment.parsed_options)

    def listen(self) -> None:
        """Register for what the sides need to know."""
        listen, register = self.environment.events, self.runner.register_message
        listen.test_start.add_listener(self._on_test_start)
        listen.test_stopping.add_listener(self._on_test_stopping)
        listen.test_stop.add_listener(self._on_test_stop)
        listen.quitting.add_listener(self._on_quitting)
        if not self.is_worker:
            listen.worker_connect.add_listener(lambda **_: self.master.worker_came())
            register(messages.STARTED, self._on_started)
            register(messages.CHUNK, self._on_chunk)
            register(messages.HEALTH, self._on_health)
            register(messages.DRAINED, self._on_drained)
            register(messages.PROBLEM, self._on_problem)
            register(messages.THROUGH, self._on_through)
        if self.is_worker or self.is_local:
            register(messages.ACK, self._on_ack)
            register(messages.DRAIN, self._on_drain)
            register(messages.SETTLED, self._on_settled)
        if self.is_worker:
            spare_the_loop()
            self.environment.process_exit_code = 0  # the master judges; a container must not be started again
        if self.environment.web_ui is not None:
            web.extend(self.environment.web_ui, lambda: self.master.live)
        self._take_interrupts()

    def check(self) -> None:
        """Before anything starts: can this run be played and reported? If not, exit with one line."""
        headless = self.options.headless or self.options.autostart
        if self.is_worker or not (headless or self.options.scenario):
            return
        try:
            options = self._read()
            describe_run("check", "", options)
            prove_writable(options)
        except REFUSALS as error:
            self._exit(_exit_of(error), str(error))

    # A run.

    def _on_test_start(self, **_: Any) -> None:
        self._refused = None
        try:
            if not self.is_worker:
                self._begin_books()
            if self.is_worker or self.is_local:
                self._begin_calls()
        except REFUSALS as error:
            self._refuse(error)

    def _begin_books(self) -> None:
        setattr(self.options, TICKET, None)
        options = self._read()
        # When workers join or go, Locust takes users away from others: those may finish their call first. The end of
        # the run does not wait for it, since the barrier has ended all calls by then.
        self.environment.stop_timeout = self._stop_timeout or (0.0 if options.arrivals else options.longest_s)
        ticket = new_ticket(options, self.master.used, self._seats())
        plan = plan_of(ticket, options)
        self.master.begin(ticket, describe_run(ticket["id"], ticket["created_at"], options, plan), options, plan)
        setattr(self.options, TICKET, ticket)

    def _begin_calls(self) -> None:
        ticket: RunTicket | None = getattr(self.options, TICKET, None)
        self.worker.end()
        if ticket is None:  # the master refused the run, or it does not know voicebench
            return
        options = self._read()
        plan = plan_of(ticket, options)
        info = describe_run(ticket["id"], ticket["created_at"], options, plan)
        name, number = worker_name(self.environment), worker_number(self.environment)
        self.worker.begin(info, options, Path(ticket["directory"]), name, number, plan)

    def _on_test_stopping(self, **_: Any) -> None:
        if self.is_worker:
            # The master's barrier comes before this. Without it (a lost master, say) this greenlet may be the one
            # that receives messages, so there is nobody to acknowledge anything.
            self.worker.drain(0.0, wait=False)
        else:
            self.master.drain()

    def _on_test_stop(self, **_: Any) -> None:
        if self.is_worker:
            self.environment.stop_timeout = 0.0  # all users are gone: be ready for the next run at once
        else:
            self._report()

    def _on_quitting(self, **_: Any) -> None:
        if self.is_worker:
            self.worker.drain(self._grace_s())
        else:
            self.master.drain()
            self._report()
            if self.environment.process_exit_code is None and self.options.headless:
                self.environment.process_exit_code = int(self._refused or Exit.INVALID)  # no run ever began

    def _report(self) -> None:
        if self.master.is_open:
            self.environment.process_exit_code = int(Exit.INVALID)  # should writing the report fail
            code = self.master.close()
            self.environment.process_exit_code = int(self._refused or code)

    def _refuse(self, error: Exception) -> None:
        """This run cannot be played: say so, and stop it."""
        logger.error("voicebench: %s", error)
        if self.is_worker:
            self._send(messages.PROBLEM, {"text": str(error), "code": int(_exit_of(error))})
        else:
            self._stop(_exit_of(error))

    def _stop(self, code: Exit) -> None:
        self._refused = code
        self.environment.process_exit_code = int(code)
        self._end_run()

    def _end_run(self) -> None:
        gevent.spawn(self.runner.quit if self.options.headless else self.runner.stop)

    # Messages to the master.

    def _on_started(self, msg: Message, **_: Any) -> None:
        self.master.started(msg.data, msg.node_id)

    def _on_chunk(self, msg: Message, **_: Any) -> None:
        self.master.chunk(msg.data, msg.node_id)

    def _on_health(self, msg: Message, **_: Any) -> None:
        self.master.health(msg.data, msg.node_id)

    def _on_drained(self, msg: Message, **_: Any) -> None:
        self.master.drained(msg.data, msg.node_id)

    def _on_problem(self, msg: Message, **_: Any) -> None:
        if self.master.is_open and self._refused is None:
            text = f"worker {msg.node_id} cannot play the run: {msg.data['text']}"
            print(f"voicebench: {text}", file=sys.stderr)
            self.master.note(text)
            self._stop(Exit(msg.data["code"]))

    def _on_through(self, msg: Message, **_: Any) -> None:
        self.master.through(msg.data, msg.node_id, self._end_run)

    # Messages to a worker.

    def _on_ack(self, msg: Message, **_: Any) -> None:
        self.worker.acknowledged(msg.data["run"], msg.data["seq"])

    def _on_drain(self, msg: Message, **_: Any) -> None:
        if not self.worker.takes_part_in(msg.data["run"]):
            self.worker.answer(msg.data["run"])
        elif self.worker.is_draining:  # after a signal of its own, or the master's second thoughts
            if not msg.data["grace_s"]:
                self.worker.hurry()
        else:
            gevent.spawn(self.worker.drain, msg.data["grace_s"])  # this greenlet has acknowledgements to receive

    def _on_settled(self, msg: Message, **_: Any) -> None:
        self.worker.settled(msg.data["run"])

    # Small things.

    def _send(self, kind: str, data: Any) -> None:
        """To the master. What a broken link does not take is not lost: it is in the spool, and is sent again."""
        try:
            self.runner.send_message(kind, data)
        except RPCError as error:
            logger.warning("voicebench: %s could not be sent: %s", kind, error)

    def _read(self) -> LoadOptions:
        return read_options(self.options, self.environment.host)

    def _seats(self) -> list[int]:
        """The numbers of the workers that are there."""
        if not isinstance(self.runner, MasterRunner):
            return [worker_number(self.environment)]
        there = self.runner.clients
        return [self.runner.get_worker_index(node.id) for node in there.ready + there.running + there.spawning]

    def _grace_s(self) -> float:
        return float(self.options.voicebench_drain_s)

    def _exit(self, code: Exit, text: str) -> NoReturn:
        print(f"voicebench: {text}", file=sys.stderr)
        if isinstance(self.runner, MasterRunner):
            self.runner.quit()  # workers that have connected need not wait
        sys.exit(int(code))

    def _take_interrupts(self) -> None:
        """Bring Ctrl-C to the main greenlet.

        Python raises KeyboardInterrupt wherever it happens to be, which in a busy worker is the pacer, on which all
        calls depend. A second Ctrl-C cuts the grace short, a third ends the process.
        """
        main = gevent.getcurrent()
        loop = gevent.get_hub().loop

        def on_interrupt(*_: Any) -> None:
            self._interrupts += 1
            if self._interrupts == 1:
                loop.run_callback_threadsafe(main.throw, KeyboardInterrupt)
            elif self._interrupts == 2:
                loop.run_callback_threadsafe(gevent.spawn, self._hurry)
            else:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, on_interrupt)

    def _hurry(self) -> None:
        self.worker.hurry()
        if not self.is_worker:
            self.master.hurry()


def _exit_of(error: Exception) -> Exit:
    return Exit.UNREACHABLE if isinstance(error, AdapterError) else Exit.USAGE
