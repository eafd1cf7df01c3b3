"""The interface between a call and the agent (VB32).

Write a plug-in like this, and name it ``package.module:ClassName`` in the scenario or after ``--adapter``::

    class MyAdapter(Adapter):
        name = "mine"

        def connect(self) -> None: ...              # open the connection; raise AdapterError with the reason
        def send_audio(self, pcm: bytes) -> None: ...  # one frame, PCM16 little-endian mono; must not block
        def close(self) -> None: ...                # release everything; safe to call twice

and call ``self.emit(...)`` from wherever the agent's audio turns up (a greenlet, a thread, ``send_audio``).
An adapter whose connection is one socket derives from :class:`SocketAdapter` instead: the pacer then reads the
socket itself, with the kernel's receive timestamps, and hundreds of calls share one core.
"""

import abc
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from voicebench.clock import Clock


class AdapterError(RuntimeError):
    """The adapter cannot be loaded, or cannot reach or talk to the agent. The message says why, without secrets."""


@dataclass(frozen=True)
class AgentAudio:
    """Audio from the agent: PCM16 little-endian mono at the adapter's ``agent_sample_rate``.

    ``time`` is the arrival in seconds on the session's clock; None means now.
    """

    pcm: bytes
    time: float | None = None


@dataclass(frozen=True)
class AgentClear:
    """The agent asks the caller's player to drop what has not sounded yet (VB04)."""

    time: float | None = None


@dataclass(frozen=True)
class AgentTranscript:
    """Text reported by the agent: what it heard (role user) or said (role agent)."""

    role: Literal["user", "agent"]
    text: str
    final: bool = True
    time: float | None = None


@dataclass(frozen=True)
class AgentHangup:
    """The agent ended the call. With ``error`` set the call counts as failed, for that reason."""

    reason: str
    error: bool = True
    time: float | None = None


@dataclass(frozen=True)
class AgentOther:
    """Anything else the agent sent; kept in the record's event log."""

    kind: str
    detail: str = ""
    time: float | None = None


AgentEvent = AgentAudio | AgentClear | AgentTranscript | AgentHangup | AgentOther


@dataclass(frozen=True)
class SessionInfo:
    """What an adapter needs to know of the call it joins."""

    sample_rate: int
    frame_ms: float
    clock: Clock
    scenario_name: str
    call_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    metadata: dict[str, Any] = field(default_factory=dict)


class Adapter(abc.ABC):
    """Base class of every transport."""

    #: Name used in reports and on the command line.
    name: ClassVar[str] = "base"
    #: True if the adapter can run on the virtual clock.
    supports_virtual_clock: ClassVar[bool] = False

    def __init__(self, **options: Any) -> None:
        if options:
            known = "it takes none" if type(self) is Adapter else "see its documentation"
            raise AdapterError(f"{self.name}: unknown option(s) {', '.join(sorted(options))}; {known}")
        self._session: SessionInfo | None = None
        self._pending: deque[AgentEvent] = deque()

    @property
    def session(self) -> SessionInfo:
        """The session this adapter was started for. Raises AdapterError before that."""
        if self._session is None:
            raise AdapterError(f"{self.name}: not connected")
        return self._session

    @property
    def caller_sample_rate(self) -> int:
        """Sample rate in Hz of the frames that it takes; prompts are resampled to it. Fixed once connected."""
        return self.session.sample_rate

    @property
    def agent_sample_rate(self) -> int:
        """Sample rate in Hz of the audio that the agent sends; fixed once connected."""
        return self.session.sample_rate

    def start(self, session: SessionInfo) -> None:
        """Bind the session and connect. Called once per call. Raises AdapterError."""
        self._session = session
        self.connect()

    @abc.abstractmethod
    def connect(self) -> None:
        """Open the connection to the agent. May block the call's own greenlet. Raises AdapterError."""

    @abc.abstractmethod
    def send_audio(self, pcm: bytes) -> None:
        """Send one frame of the caller's audio (PCM16 little-endian mono at ``caller_sample_rate``). Never blocks."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything. Safe to call more than once."""

    def encode_audio(self, pcm: bytes) -> bytes:
        """The wire form of one frame. Pure: its results are kept and shared by all calls with one ``wire_key``."""
        return pcm

    @property
    def wire_key(self) -> str:
        """Calls whose adapters have equal keys share their encoded prompts."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    def send_encoded(self, wire: bytes) -> None:
        """Send what ``encode_audio`` returned."""
        self.send_audio(wire)

    def emit(self, event: AgentEvent) -> None:
        """Report something from the agent, now unless it has a time. The runner collects it with ``drain``."""
        self._pending.append(event if event.time is not None else replace(event, time=self.session.clock.now()))

    def drain(self) -> list[AgentEvent]:
        """Return and forget the events reported since the last call."""
        events: list[AgentEvent] = []
        while self._pending:
            events.append(self._pending.popleft())
        return events

    def describe(self) -> dict[str, Any]:
        """What the report says of this adapter. Never a secret."""
        return {"type": self.name}


class Sink(Protocol):
    """Where a socket adapter puts what it reads. Times are CLOCK_MONOTONIC nanoseconds."""

    def audio(self, pcm: bytes | bytearray | memoryview, arrived_ns: int) -> None:
        """Audio as in AgentAudio; ``pcm`` is only valid during the call."""

    def event(self, event: AgentEvent, arrived_ns: int) -> None:
        """Anything else."""


class SocketAdapter(Adapter):
    """An adapter whose connection is one socket, read by the pacer."""

    @abc.abstractmethod
    def fileno(self) -> int:
        """The connected, non-blocking socket."""

    @abc.abstractmethod
    def read(self, sink: Sink) -> bool:
        """Read what is there without blocking, at most a bounded amount.

        Returns False once the connection has ended; the sink then got an AgentHangup. Never raises for what
        the agent sent.
        """

    @property
    def has_kernel_timestamps(self) -> bool:
        """Whether ``arrived_ns`` comes from the kernel, or was read at wake-up."""
        return False
