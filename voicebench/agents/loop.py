"""The event loop of the reference agent's server: hundreds of calls on one core.

One thread, one epoll, one timer. What makes it cheap: a sweep serves everything that became ready since the last
one, and there are at most two thousand sweeps a second; a caller's frame is read, recognised and put aside in a few
microseconds, and all frames of a sweep are measured in one stroke; the agent's frames are encoded once per process.
What makes it exact: a frame's time is the kernel's receive time stamp, however late the sweep, and every deadline
is absolute. A server that falls behind by a frame moves the rest of the reply back: it never sends a burst.
"""

import errno
import heapq
import itertools
import select
import socket
import ssl
import time
import traceback
from collections import deque
from contextlib import suppress
from functools import partial
from time import monotonic_ns

from voicebench.agents.call import Call, CallEnded, Stage
from voicebench.agents.hearing import NO_MASK, Hearing
from voicebench.agents.reference import (
    Audio,
    Clear,
    Echoed,
    HangUp,
    Output,
    ReferenceAgent,
    ReferenceOptions,
    Stopped,
)
from voicebench.agents.truth import CallTruth, TruthLog
from voicebench.agents.voice import FramedVoice
from voicebench.clock.kernel import NS, KernelClock
from voicebench.clock.timer import TimerFd
from voicebench.wire.rfc6455 import apply_mask

SWEEP_S = 0.0005  #: sweeps are at least this far apart while there is much to do
HOUSEKEEPING_S = 0.5
CLOSE_TIMEOUT_S = 1.0
_READY_AT_ONCE = 64  # sockets read before what is due is sent
_DUE_AT_ONCE = 128  # frames sent before sockets are read
_READ_BYTES = 1 << 16
_FEW_CALLS = 20  # up to here there is no need to save time by gathering work
_PIECE_S = 0.02  # longer messages are heard in pieces of this length


class AgentLoop:
    """Serves one listening socket until :meth:`stop`. Owns the socket from then on."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: type[Call],
        sample_rate: int,
        options: ReferenceOptions,
        log: TruthLog,
        tls: ssl.SSLContext | None = None,
        frame_ms: float = 20.0,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._sample_rate = sample_rate
        self._options = options
        self._log = log
        self._tls = tls
        self._frame_s = frame_ms / 1000
        self._bytes_per_s = 2 * sample_rate
        self._piece_bytes = 2 * round(sample_rate * _PIECE_S)
        self._encode = partial(protocol.encode_audio, sample_rate=sample_rate)
        self._voices = {  # keyed by whether the call has the defects
            bool(each.defects): FramedVoice(each, sample_rate, frame_ms, self._encode)
            for each in (options, options.sound())
            if each is options or options.defect_share < 1
        }
        for voice in self._voices.values():
            voice.prepare()
        self._hearing = Hearing(sample_rate, options.threshold_db)
        self._heard: list[tuple[Call, float, float]] = []  # call, arrival, duration of each frame in _hearing
        self._origin_ns = monotonic_ns()
        self._clock = KernelClock()
        self._timer = TimerFd()
        self._wake_read, self.wake_write = socket.socketpair()  # anything written to wake_write ends the wait
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._calls: dict[int, Call] = {}
        # A heap of (due, tie-breaker, call). An entry counts only if ``due`` is the call's ``scheduled_s``.
        self._schedule: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._opened = 0  # calls so far
        self._finished: deque[tuple[CallTruth, float, str]] = deque()
        self._stopping = False
        self._accepting = False
        self._armed_ns = 0
        self._epoll = select.epoll()
        for sock in (self._listener, self._wake_read, self.wake_write):
            sock.setblocking(False)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._epoll.register(self._timer, select.EPOLLIN)

    def run(self) -> None:
        """Serve until :meth:`stop` was called and every call has ended."""
        self._accept_again()
        swept = housekept = 0.0
        try:
            while not self._stopping or self._calls:
                pause = swept + SWEEP_S - self._now()
                if pause > 0 and len(self._calls) > _FEW_CALLS:
                    time.sleep(pause)
                self._arm(housekept + HOUSEKEEPING_S)
                events = self._epoll.poll(-1, _READY_AT_ONCE)
                swept = self._now()
                self._serve(events)
                if swept >= housekept + HOUSEKEEPING_S:
                    housekept = swept
                    self._keep_house(swept)
        finally:
            self._release()

    def stop(self) -> None:
        """Take no more calls and hang up those that are open. From a signal handler, write to ``wake_write``."""
        if self._stopping:
            return
        self._stopping = True
        self._stop_accepting()
        for call in list(self._calls.values()):
            self._hang_up(call, "agent shut down")

    # One sweep

    def _serve(self, events: list[tuple[int, int]]) -> None:
        for fd, event in events:
            call = self._calls.get(fd)
            if call is not None:
                self._serve_call(call, event)
            elif fd == self._timer.fileno():
                self._timer.clear()
                self._armed_ns = 0
            elif fd == self._listener.fileno():
                self._accept()
            elif fd == self._wake_read.fileno():
                self._wake_read.recv(64)
                self.stop()
        if self._heard:
            self._hear()
        self._send_due()
        if self._finished:
            self._log.call(*self._finished.popleft())  # one a sweep: summing up takes a moment

    def _serve_call(self, call: Call, event: int) -> None:
        try:
            if event & select.EPOLLOUT and call.backlog:
                call.flush()
                self._watch(call)
            if event & ~select.EPOLLOUT:
                self._read(call)
                while call.more_to_read:
                    self._read(call)
        except CallEnded as end:
            self._end(call, str(end))
        except Exception:  # a mistake of ours must not end the other calls
            self._fail(call)

    def _read(self, call: Call) -> None:
        if call.stage is Stage.TLS:
            call.continue_tls()
            return
        size, arrived_ns = call.read(self._buffer, self._clock)
        if not size:
            return
        arrived = (arrived_ns - self._origin_ns) / NS
        if call.stage is Stage.OPEN:
            whole = call.whole_audio(self._buffer, size)
            if whole is not None and len(whole[0]) <= self._piece_bytes:
                if self._options.echo_ms and call.agent is not None:
                    call.agent.overhear(apply_mask(*whole), arrived)
                self._hearing.add(*whole)
                self._heard.append((call, arrived, len(whole[0]) / self._bytes_per_s))
                call.last_arrival_s = arrived
                return
        data: bytes | memoryview = self._view[:size]
        if call.stage is Stage.OPENING:
            behind = call.open(bytes(data))
            if behind is None:
                return
            self._open(call)
            data = behind
        self._put_aside(call, call.parse(data), arrived)
        self._watch(call)

    def _put_aside(self, call: Call, messages: list[bytes], arrived: float) -> None:
        """Messages that were read together and arrived one after the other, the last one at ``arrived``.

        A caller paces its frames, so the others came their length earlier; never before what was read before.
        """
        t = max(arrived - sum(map(len, messages[1:])) / self._bytes_per_s, min(call.last_arrival_s, arrived))
        for message in messages:
            for start in range(0, len(message), self._piece_bytes):
                piece = message[start : start + self._piece_bytes]
                if call.agent is not None:
                    call.agent.overhear(piece, t + start / self._bytes_per_s)
                self._hearing.add(piece, NO_MASK)
                duration = len(piece) / self._bytes_per_s
                self._heard.append((call, t + start / self._bytes_per_s, duration))
            call.last_arrival_s = t
            t += len(message) / self._bytes_per_s

    def _hear(self) -> None:
        heard, self._heard = self._heard, []
        for (call, t, duration), loudness in zip(heard, self._hearing.measure(), strict=True):
            agent, truth = call.agent, call.truth
            if call.stage is not Stage.OPEN or agent is None or truth is None:
                continue
            try:
                noticed = agent.hear(loudness.level_db, duration, t)
                truth.heard(agent, loudness, duration, t, noticed)
                self._plan(call, agent)
            except Exception:
                self._fail(call)

    def _send_due(self) -> None:
        schedule = self._schedule
        now = self._now()
        for _ in range(_DUE_AT_ONCE):
            if not schedule or schedule[0][0] > now:
                return
            due, _, call = heapq.heappop(schedule)
            if call.scheduled_s != due:
                continue  # it was planned anew since
            call.scheduled_s = None
            try:
                self._send_outputs(call)
            except CallEnded as end:
                self._end(call, str(end))
            except Exception:
                self._fail(call)
            now = self._now()

    def _send_outputs(self, call: Call) -> None:
        agent, truth = call.agent, call.truth
        if agent is None or truth is None:
            return
        for output in agent.due(self._now()):
            self._send_output(call, output)
            if isinstance(output, Audio | Clear | Stopped):
                truth.sent(agent, output, self._now())
        if call.stage is not Stage.OPEN:
            return
        self._plan(call, agent)
        if call.backlog:
            self._watch(call)

    def _send_output(self, call: Call, output: Output) -> None:
        if isinstance(output, Audio):
            call.send(output.frame)
        elif isinstance(output, Echoed):
            call.send(self._encode(output.pcm))
        elif isinstance(output, Clear):
            call.send(call.clear)
        elif isinstance(output, HangUp):
            self._hang_up(call, "agent hung up")
        elif not isinstance(output, Stopped):
            call.send(call.encode_text(output))

    def _plan(self, call: Call, agent: ReferenceAgent) -> None:
        due = agent.next_due()
        if due is not None and due != call.scheduled_s:
            call.scheduled_s = due
            heapq.heappush(self._schedule, (due, next(self._numbers), call))

    # The life of a call

    def _accept(self) -> None:
        for _ in range(_READY_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._stop_accepting()  # until the next housekeeping, or the loop would spin
                    return
                continue  # that caller has gone again
            self._welcome(sock)

    def _welcome(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            call = self._protocol(sock, self._sample_rate)
        except OSError:
            sock.close()
            self._log.refused += 1
            return
        call.deadline_s = self._now() + call.opening_timeout_s
        self._calls[call.fd] = call
        self._epoll.register(call.fd, select.EPOLLIN)

    def _open(self, call: Call) -> None:
        call.deadline_s = None
        options = self._options.for_call(self._opened)
        self._opened += 1
        call.agent = ReferenceAgent(options, self._voices[bool(options.defects)], self._frame_s)
        call.truth = CallTruth(call.call_id, self._now(), self._origin_ns, options, self._frame_s)

    def _hang_up(self, call: Call, reason: str) -> None:
        """End a call from our side."""
        try:
            if call.stage is not Stage.OPEN:
                raise CallEnded(reason)
            call.hang_up(reason)
            self._watch(call)
        except CallEnded as end:
            self._end(call, str(end))

    def _watch(self, call: Call) -> None:
        """Ask to be told when the socket takes more, if something waits; and bound how long a closing may last."""
        if call.stage is Stage.CLOSING and call.deadline_s is None:
            call.deadline_s = self._now() + CLOSE_TIMEOUT_S
        if call.waits_to_send != bool(call.backlog):
            call.waits_to_send = bool(call.backlog)
            self._epoll.modify(call.fd, select.EPOLLIN | (select.EPOLLOUT if call.waits_to_send else 0))

    def _end(self, call: Call, reason: str) -> None:
        if self._calls.pop(call.fd, None) is None:
            return
        call.scheduled_s = None
        call.stage = Stage.CLOSING
        with suppress(OSError):
            self._epoll.unregister(call.fd)
        with suppress(OSError):
            call.sock.close()
        if call.truth is None:
            self._log.refused += 1
        else:
            self._finished.append((call.truth, self._now(), call.reason or reason))

    def _fail(self, call: Call) -> None:
        traceback.print_exc()
        self._end(call, "internal error of the agent")

    def _keep_house(self, now: float) -> None:
        self._clock.refresh()
        for call in list(self._calls.values()):
            if call.deadline_s is not None and now >= call.deadline_s:
                self._end(call, "opening timed out")
        if not self._accepting and not self._stopping:
            self._accept_again()

    # Waiting

    def _now(self) -> float:
        return (monotonic_ns() - self._origin_ns) / NS

    def _arm(self, at_the_latest: float) -> None:
        """Let the timer end the wait when something is due."""
        due = min(self._schedule[0][0], at_the_latest) if self._schedule else at_the_latest
        due_ns = self._origin_ns + int(due * NS) + 1 if not self._finished else 1
        if due_ns != self._armed_ns:
            self._timer.arm_at(due_ns)
            self._armed_ns = due_ns

    def _accept_again(self) -> None:
        self._epoll.register(self._listener, select.EPOLLIN)
        self._accepting = True

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._epoll.unregister(self._listener)
            self._accepting = False

    def _release(self) -> None:
        for call in list(self._calls.values()):
            self._end(call, "agent shut down")
        while self._finished:
            self._log.call(*self._finished.popleft())
        self._epoll.close()
        self._timer.close()
        for sock in (self._listener, self._wake_read, self.wake_write):
            sock.close()
