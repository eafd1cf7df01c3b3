"""Runs one call from connecting to its record, in real time or on the virtual clock."""

import time
import uuid
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gevent.event import Event

from voicebench.adapters.base import (
    Adapter,
    AdapterError,
    AgentAudio,
    AgentClear,
    AgentEvent,
    AgentHangup,
    AgentTranscript,
    SessionInfo,
    SocketAdapter,
)
from voicebench.adapters.impaired import impaired
from voicebench.audio.resample import resample
from voicebench.clock import RealClock, VirtualClock
from voicebench.runner.conversation import Conversation
from voicebench.runner.ears import hear_all
from voicebench.runner.health import Mark
from voicebench.runner.pacer import Pacer, shared_pacer
from voicebench.runner.player import NANO
from voicebench.runner.prompts import Prompts
from voicebench.runner.record import Int16Array, Outcome, Packets, SessionRecord, Timestamps
from voicebench.scenario import Scenario

#: How long an interrupted call waits for the agent's goodbye.
HASTY_CLOSE_S = 0.2


class Call:
    """One call. ``run`` blocks its greenlet until the call has ended; nothing the agent does raises.

    ``reason`` of a failed record reads "kind: detail"; the kind is the same text for all calls that fail alike.
    """

    def __init__(
        self,
        scenario: Scenario,
        adapter: Adapter,
        *,
        call_id: str | None = None,
        realtime: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.scenario = scenario
        self.adapter = impaired(adapter, scenario.network)
        self.call_id = call_id or uuid.uuid4().hex
        self.metadata = {**scenario.metadata, **(metadata or {})}
        self.virtual = adapter.supports_virtual_clock and not realtime
        self._prompts = Prompts.of(scenario)
        self._spoken = self._prompts  # at the rate of the wire, once connected
        self._clock: RealClock | VirtualClock = VirtualClock() if self.virtual else RealClock()
        self._period_ns = round(scenario.frame_ms * 1_000_000)
        self._origin_ns = 0
        self._started_at = 0.0
        self._connect_ms: float | None = None
        self._connected_ns = 0  # on the clock of the origin
        self._conversation: Conversation | None = None
        self._pacer: Pacer | None = None
        self._fd: int | None = None
        self._timestamps: Timestamps = "virtual" if self.virtual else "wakeup"
        self._ended = Event()
        self._outcome: Outcome = "failed"
        self._reason = ""
        self._record: SessionRecord | None = None
        self._stretch: tuple[Mark, Mark] | None = None

    @property
    def conversation(self) -> Conversation:
        """The running conversation. Only after connecting."""
        assert self._conversation is not None
        return self._conversation

    @property
    def frame_s(self) -> float:
        """Length of the caller's frames."""
        return self.scenario.frame_ms / 1000

    @property
    def sent_ns(self) -> "array[int]":
        """Per caller frame so far: when it was sent, negative if it was skipped. Empty before and after the call."""
        return self._conversation.sent if self._conversation is not None else array("q")

    def run(self) -> SessionRecord:
        """Connect, play the scenario, close, and return the record."""
        if not self.virtual:
            self._started_at = time.time()
        if self._connect():
            if self.virtual:
                self._play_virtual()
            else:
                self._play()
        return self._close()

    def interrupted(self, reason: str) -> SessionRecord:
        """End a call whose ``run`` was left by an exception, for example a killed greenlet; its truncated record."""
        if self._record is not None:
            return self._record
        if not self._ended.is_set():
            self._end("truncated", reason)
        self._leave_pacer()
        if hasattr(self.adapter, "close_timeout_s"):
            self.adapter.close_timeout_s = HASTY_CLOSE_S
        return self._close()

    # Connecting and closing.

    def _connect(self) -> bool:
        info = SessionInfo(
            self.scenario.sample_rate,
            self.scenario.frame_ms,
            self._clock,
            self.scenario.name,
            self.call_id,
            self.metadata,
        )
        began = time.monotonic()
        try:
            self.adapter.start(info)
            rate = self.adapter.agent_sample_rate
            self._spoken = self._prompts.at(self.adapter.caller_sample_rate)
            encoded = self._spoken.over(self.scenario.network.codec).encoded(self.adapter)
        except AdapterError as error:
            self._end("failed", str(error))
            return False
        except Exception as error:  # a plug-in's own fault is that call's failure, with its name in the record
            self._end("failed", f"adapter error: {type(error).__name__}: {error}")
            return False
        connected = time.monotonic()
        self._connect_ms = 0.0 if self.virtual else (connected - began) * 1000
        self._connected_ns = round(connected * NANO)
        lengths = [len(self._prompts.pcm(turn)) for turn in range(len(self.scenario.turns))]
        self._conversation = Conversation(self.scenario, encoded.frames, encoded.silence, lengths, rate)
        if isinstance(self.adapter, SocketAdapter) and self.adapter.has_kernel_timestamps:
            self._timestamps = "kernel"
        return True

    def _close(self) -> SessionRecord:
        try:
            self.adapter.close()
        except Exception as error:
            if self._conversation is not None:
                self._conversation.note("close failed", f"{type(error).__name__}: {error}", self._now_ns())
        if self._pacer is None:
            self._record = self._make_record()
        else:  # the tracks of a long call take milliseconds, which other calls' frames do not have
            self._record = self._pacer.analyst.apply(self._make_record)
        self._conversation = None  # the record holds it all
        return self._record

    # The virtual clock.

    def _play_virtual(self) -> None:
        conversation, adapter, clock = self.conversation, self.adapter, self._clock
        assert isinstance(clock, VirtualClock)
        frame = 0
        while not self._ended.is_set():
            due_ns = frame * self._period_ns
            clock.advance_to(due_ns / NANO)
            try:
                samples = self.listen(due_ns)
                if samples is not None:
                    hear_all([(conversation, samples)])
                self.step(due_ns)
            except Exception as error:
                self.abort(error)
            frame += 1
        for event in adapter.drain():
            self.event(event, self._now_ns())

    # Real time: what the pacer calls.

    def _play(self) -> None:
        self._fd = self.adapter.fileno() if isinstance(self.adapter, SocketAdapter) else None
        self._pacer = shared_pacer()
        self._origin_ns = self._pacer.join(self, self._period_ns, self._fd)
        assert isinstance(self._clock, RealClock)
        early_s = (self._origin_ns - self._clock.origin_ns) / NANO  # what came while connecting has times before 0
        self._clock.origin_ns = self._origin_ns
        for event in self.adapter.drain():
            self.event(replace(event, time=(event.time or 0.0) - early_s), 0)
        mark = self._pacer.health.mark()
        try:
            self._ended.wait()
        finally:
            self._leave_pacer()
            self._stretch = mark, self._pacer.health.mark()

    def _leave_pacer(self) -> None:
        if self._pacer is not None:
            self._pacer.leave(self, self._period_ns, self._fd)

    def listen(self, due_ns: int) -> memoryview | None:
        """Collect what the adapter reported, and say what the live detector has to hear (see PacedCall)."""
        if self._fd is None:
            for event in self.adapter.drain():
                self.event(event, self._now_ns())
        return self.conversation.unheard((due_ns - self._origin_ns) // self._period_ns)

    def step(self, due_ns: int) -> None:
        """Send the frame that is due (see PacedCall)."""
        if self._ended.is_set():
            return
        frame = (due_ns - self._origin_ns) // self._period_ns
        conversation = self.conversation
        wire = conversation.tick(frame)
        if conversation.max_duration_reached:
            self._end("truncated", "max_duration_ms: the call was still going on")
            return
        self.adapter.send_encoded(wire)
        conversation.mark_sent(frame, self._now_ns())
        if conversation.finished:
            self._end("completed", "")

    def read(self) -> bool:
        """Read from the socket (see PacedCall)."""
        assert isinstance(self.adapter, SocketAdapter)
        return self.adapter.read(self) and not self._ended.is_set()

    def abort(self, error: Exception) -> None:
        """A fault in the harness or a plug-in ends this call, and no other (see PacedCall)."""
        if isinstance(error, AdapterError):
            if isinstance(self.adapter, SocketAdapter) and not self._ended.is_set():
                self.adapter.read(self)  # a goodbye that lies unread says more than a broken pipe
            self._end("failed", f"{error}, {self.conversation.whereabouts}")
        else:
            self._end("failed", f"adapter error: {type(error).__name__}: {error}")

    # What the adapter reports (see Sink).

    def audio(self, pcm: bytes | bytearray | memoryview, arrived_ns: int) -> None:
        """A packet that arrived at a CLOCK_MONOTONIC time."""
        origin = self._origin_ns
        conversation = self.conversation
        # A network in the path delivers later than the packet was read.
        conversation.audio(pcm, arrived_ns - origin, max(time.monotonic_ns(), arrived_ns) - origin)
        if conversation.flooded:
            self._end("failed", "flood: the agent sends more audio than any caller could hear")

    def event(self, event: AgentEvent, arrived_ns: int) -> None:
        """Anything else. ``arrived_ns`` is CLOCK_MONOTONIC, or virtual time; the event's own time goes before it."""
        at_ns = arrived_ns - self._origin_ns if event.time is None else round(event.time * NANO)
        conversation = self.conversation
        if isinstance(event, AgentAudio):
            if len(event.pcm) & 1:
                self._end("failed", f"odd audio: {len(event.pcm)} bytes are no whole number of 16-bit samples")
            else:
                conversation.audio(event.pcm, at_ns, max(arrived_ns - self._origin_ns, at_ns))
        elif isinstance(event, AgentClear):
            conversation.clear(at_ns)
        elif isinstance(event, AgentTranscript):
            conversation.transcript(event.role, event.text, event.final, at_ns)
        elif isinstance(event, AgentHangup):
            self._hung_up(event, at_ns)
        else:
            conversation.note(event.kind, event.detail, at_ns)

    def _hung_up(self, event: AgentHangup, at_ns: int) -> None:
        conversation = self.conversation
        conversation.note("hang-up", event.reason, at_ns)
        if conversation.all_played and not event.error:
            self._end("completed", "")
        else:
            self._end("failed", f"{event.reason}, {conversation.whereabouts}")

    def _now_ns(self) -> int:
        """Session time in ns; on the real clock as CLOCK_MONOTONIC minus the origin."""
        if self.virtual:
            return round(self._clock.now() * NANO)
        return time.monotonic_ns() - self._origin_ns

    def _end(self, outcome: Outcome, reason: str) -> None:
        if not self._ended.is_set():
            self._outcome, self._reason = outcome, " ".join(reason.split())
            self._ended.set()

    # The record.

    def _make_record(self) -> SessionRecord:
        conversation = self._conversation
        sent = np.array(conversation.sent if conversation else [], dtype=np.float64)
        sent = np.where(sent < 0, np.nan, sent / NANO)
        user = self._user_track(sent)
        agent, packets = np.zeros(len(user), dtype=np.int16), _no_packets()
        if conversation is not None:
            heard = resample(conversation.player.heard(), conversation.player.rate, self.scenario.sample_rate)
            agent[: len(heard)] = heard[: len(agent)]
            packets = conversation.player.packets()
        return SessionRecord(
            call_id=self.call_id,
            scenario=self.scenario,
            adapter=self.adapter.describe(),
            clock="virtual" if self.virtual else "real",
            timestamps=self._timestamps,
            outcome=self._outcome,
            reason=self._reason,
            started_at=self._started_at,
            origin_ns=self._origin_ns,
            connect_ms=self._connect_ms,
            user_track=user,
            agent_track=agent,
            sent=sent,
            packets=packets,
            windows=tuple(conversation.windows) if conversation else (),
            clears=tuple(conversation.clears) if conversation else (),
            transcripts=tuple(conversation.transcripts) if conversation else (),
            events=tuple(conversation.closing_notes()) if conversation else (),
            max_duration_reached=conversation.max_duration_reached if conversation else False,
            metadata=self.metadata,
            connected_s=self._connected_s(),
            loop=self._pacer.health.between(*self._stretch) if self._pacer is not None and self._stretch else None,
        )

    def _connected_s(self) -> float | None:
        if self._connect_ms is None:
            return None
        return (self._connected_ns - self._origin_ns) / NANO if self._origin_ns else 0.0

    def _user_track(self, sent: np.ndarray) -> Int16Array:
        """The caller's audio exactly as sent (VB02), at the session's rate: a frame that was skipped is silence."""
        spoken = self._spoken
        frame = len(spoken.silence) // 2
        track = np.zeros(len(sent) * frame, dtype=np.int16)
        for turn, first in enumerate(self._conversation.first_frames if self._conversation else ()):
            pcm = spoken.pcm(turn)[: max(0, len(track) - first * frame)]
            track[first * frame : first * frame + len(pcm)] = pcm
        track.reshape(-1, frame)[np.isnan(sent)] = 0
        return resample(track, spoken.sample_rate, self.scenario.sample_rate)


def _no_packets() -> Packets:
    none = np.zeros(0)
    return Packets(none, none, none, none, none, none, none, none)
