"""A telephone network between the caller and the agent, applied by the harness itself to any adapter.

What the scenario's ``network`` block declares: each direction loses, delays, jitters and swaps its frames, by seeded
numbers that are the same in every call. A frame that the caller loses reaches the agent as silence; one that the
agent loses never arrives. Order is kept otherwise. The caller's frames move in whole ticks of the call; the agent's
carry the time at which they would have arrived, to the nanosecond, so nothing has to wait here.

What the agent sends is companded too, packet by packet, behind a low-pass of 3.4 kHz; the prompts are companded as a
whole before they are sent (``runner.prompts``).
"""

import random
from collections import deque
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from voicebench.adapters.base import (
    Adapter,
    AgentAudio,
    AgentEvent,
    AgentHangup,
    SessionInfo,
    Sink,
    SocketAdapter,
)
from voicebench.audio import g711
from voicebench.audio.pcm import from_bytes, to_bytes, to_int16
from voicebench.scenario import Direction, Network

MS = 1_000_000
LOW_PASS_HZ = 3400.0
LOW_PASS_TAPS = 63  #: delays by half as many samples

Item = TypeVar("Item")


def impaired(adapter: Adapter, network: Network) -> Adapter:
    """The adapter behind that network; the adapter itself if the network is perfect."""
    if network.perfect:
        return adapter
    if isinstance(adapter, SocketAdapter):
        return ImpairedSocketAdapter(adapter, network)
    return ImpairedAdapter(adapter, network)


class Line(Generic[Item]):
    """One direction, without I/O: what goes in at which time comes out when, in order."""

    def __init__(self, direction: Direction, seed: str) -> None:
        self._direction = direction
        self._random = random.Random(seed)
        self._last_ns = -(1 << 62)
        self._held: Item | None = None

    def take(self, item: Item, at_ns: int, lost: Item | None = None) -> list[tuple[Item, int]]:
        """What arrives because of ``item``, and when; ``lost`` arrives in the place of an item that is lost."""
        direction, draw = self._direction, self._random.random
        is_lost, is_late, jitter = draw() < direction.loss, draw() < direction.reorder, draw() * direction.jitter_ms
        due_ns = self.due(at_ns + round(jitter * MS))
        passed = lost if is_lost else item
        held, self._held = self._held, None
        if is_late and held is None:
            self._held = passed
            return []
        return [(each, due_ns) for each in (passed, held) if each is not None]

    def due(self, at_ns: int) -> int:
        """When what is sent at ``at_ns`` arrives: never before what was sent earlier."""
        self._last_ns = max(self._last_ns, at_ns + round(self._direction.delay_ms * MS))
        return self._last_ns

    def flush(self) -> list[tuple[Item, int]]:
        """What was to arrive behind an item that never came."""
        held, self._held = self._held, None
        return [] if held is None else [(held, self._last_ns)]


class NarrowBand:
    """What a telephone's codec leaves of a stream of packets."""

    def __init__(self, law: g711.Law, sample_rate: int) -> None:
        self._law = law
        n = np.arange(LOW_PASS_TAPS) - LOW_PASS_TAPS // 2
        cutoff = min(1.0, 2 * LOW_PASS_HZ / sample_rate)
        taps = cutoff * np.sinc(cutoff * n) * np.hamming(LOW_PASS_TAPS)
        self._taps = taps / taps.sum()
        self._before = np.zeros(LOW_PASS_TAPS - 1)

    def pass_on(self, pcm: bytes) -> bytes:
        """One packet of PCM16LE, in step with the one before."""
        samples = np.concatenate([self._before, from_bytes(pcm) / 32768])
        self._before = samples[-(LOW_PASS_TAPS - 1) :]
        return to_bytes(g711.companded(to_int16(np.convolve(samples, self._taps, "valid")), self._law))


class ImpairedAdapter(Adapter):
    """Any adapter behind a network."""

    def __init__(self, inner: Adapter, network: Network) -> None:
        super().__init__()
        self._inner = inner
        self._network = network
        self.name = inner.name  # type: ignore[misc]
        self.supports_virtual_clock = inner.supports_virtual_clock  # type: ignore[misc]
        self._to_agent: Line[bytes] = Line(network.caller, f"{network.seed} caller")
        self._to_caller: Line[bytes] = Line(network.agent, f"{network.seed} agent")
        self._on_the_way: deque[tuple[bytes, int]] = deque()
        self._ticks = 0
        self._silence = b""
        self._band: NarrowBand | None = None

    def start(self, session: SessionInfo) -> None:
        self._inner.start(session)
        self._session = session
        rate = self._inner.caller_sample_rate
        self._silence = self._inner.encode_audio(bytes(2 * round(rate * session.frame_ms / 1000)))
        if self._network.codec != "none":
            self._band = NarrowBand(self._network.codec, self._inner.agent_sample_rate)

    def connect(self) -> None:
        """The inner adapter connects in :meth:`start`."""

    @property
    def caller_sample_rate(self) -> int:
        return self._inner.caller_sample_rate

    @property
    def agent_sample_rate(self) -> int:
        return self._inner.agent_sample_rate

    @property
    def wire_key(self) -> str:
        return self._inner.wire_key

    def encode_audio(self, pcm: bytes) -> bytes:
        return self._inner.encode_audio(pcm)

    def describe(self) -> dict[str, Any]:
        return self._inner.describe()

    def close(self) -> None:
        self._inner.close()

    def send_audio(self, pcm: bytes) -> None:
        self.send_encoded(self.encode_audio(pcm))

    def send_encoded(self, wire: bytes) -> None:
        """One frame of the caller sets out; those that arrive by now are sent."""
        now_ns = round(self._ticks * self.session.frame_ms * MS)
        self._ticks += 1
        self._on_the_way += self._to_agent.take(wire, now_ns, lost=self._silence)
        while self._on_the_way and self._on_the_way[0][1] <= now_ns:
            self._inner.send_encoded(self._on_the_way.popleft()[0])

    def drain(self) -> list[AgentEvent]:
        return [late for event in self._inner.drain() for late in self._late(event)]

    def _late(self, event: AgentEvent) -> list[AgentEvent]:
        at_ns = round((event.time or 0.0) * 1000 * MS)
        if isinstance(event, AgentAudio):
            return [AgentAudio(pcm, due / 1e9) for pcm, due in self.arriving(event.pcm, at_ns)]
        rest: list[AgentEvent] = [AgentAudio(pcm, due / 1e9) for pcm, due in self._to_caller.flush()]
        if isinstance(event, AgentHangup):
            return [*rest, event]
        return [*rest, replace(event, time=self._to_caller.due(at_ns) / 1e9)]

    def arriving(self, pcm: bytes, at_ns: int) -> list[tuple[bytes, int]]:
        """What a packet that the agent sent becomes, and when it arrives."""
        if self._band is not None and len(pcm) % 2 == 0:
            pcm = self._band.pass_on(pcm)
        return self._to_caller.take(pcm, at_ns)


class ImpairedSocketAdapter(ImpairedAdapter, SocketAdapter):
    """The same for an adapter whose socket the pacer reads."""

    _inner: SocketAdapter

    def fileno(self) -> int:
        return self._inner.fileno()

    def read(self, sink: Sink) -> bool:
        return self._inner.read(_LateSink(self, sink))

    @property
    def has_kernel_timestamps(self) -> bool:
        return self._inner.has_kernel_timestamps

    @property
    def close_timeout_s(self) -> float:
        return float(getattr(self._inner, "close_timeout_s", 0.0))

    @close_timeout_s.setter
    def close_timeout_s(self, seconds: float) -> None:
        if hasattr(self._inner, "close_timeout_s"):
            self._inner.close_timeout_s = seconds

    def pass_event(self, sink: Sink, event: AgentEvent, at_ns: int) -> None:
        """Anything but audio: behind what was sent before it."""
        for pcm, due_ns in self._to_caller.flush():
            sink.audio(pcm, due_ns)
        sink.event(event, at_ns if isinstance(event, AgentHangup) else self._to_caller.due(at_ns))


class _LateSink:
    """Gives on what was read with the time at which it would have arrived."""

    def __init__(self, adapter: ImpairedSocketAdapter, sink: Sink) -> None:
        self._adapter = adapter
        self._sink = sink

    def audio(self, pcm: bytes | bytearray | memoryview, arrived_ns: int) -> None:
        for each, due_ns in self._adapter.arriving(bytes(pcm), arrived_ns):
            self._sink.audio(each, due_ns)

    def event(self, event: AgentEvent, arrived_ns: int) -> None:
        self._adapter.pass_event(self._sink, event, arrived_ns)
