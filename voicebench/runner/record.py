"""What one call leaves behind: two tracks, the clocks of every frame, and the events.

Conventions
-----------
- Times are float seconds on the session's clock. 0 is the instant at which the first caller frame was due.
- Tracks are int16 arrays at the session sample rate; sample ``n`` sounds at ``n / sample_rate``.
- Frame ``i`` of the caller was *due* at ``i * frame_ms / 1000`` and holds the samples from there on.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from voicebench.runner.health import LoopHealth
from voicebench.scenario import Scenario, Turn

Int16Array = npt.NDArray[np.int16]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: The levels of a packet are kept for each 20 ms of it.
PIECES_PER_S = 50

Outcome = Literal["completed", "truncated", "failed"]
Timestamps = Literal["kernel", "wakeup", "virtual"]
Trigger = Literal["anchor", "timeout", "not_played"]


@dataclass(frozen=True)
class TurnWindow:
    """When a turn's audio played (by ``due``), and what set it off (VB16)."""

    turn: Turn
    start: float
    end: float
    trigger: Trigger


@dataclass(frozen=True)
class Transcript:
    """Text that the agent reported: what it heard (role user) or said (role agent)."""

    role: Literal["user", "agent"]
    text: str
    time: float
    final: bool = True


@dataclass(frozen=True)
class CallEvent:
    """Anything else worth keeping: unknown messages, hang-up, protocol errors, skipped frames."""

    time: float
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Packets:
    """The agent's audio packets in the order of their arrival; arrays of one length but for the last.

    ``arrived`` is the arrival plane. ``heard`` is when the packet's first sample sounds in the caller's
    player, or NaN if it never does. ``level_db`` is the packet's RMS level (floor -120). ``read`` is when the
    harness read the packet: ``read - arrived`` is the receive lag.

    ``queued`` is when the first sample was to sound as things stood at the packet's arrival, or NaN if the player
    had no room for it; ``cleared`` when a clear took back what had not sounded of it by then, or NaN. ``pieces_db``
    holds the level of every 20 ms of audio, one packet after the other; a packet's last piece may be shorter.
    """

    arrived: FloatArray
    heard: FloatArray
    duration: FloatArray
    level_db: FloatArray
    read: FloatArray
    queued: FloatArray
    cleared: FloatArray
    pieces_db: FloatArray

    @property
    def pieces(self) -> IntArray:
        """How many of ``pieces_db`` belong to each packet."""
        return np.ceil(self.duration * PIECES_PER_S - 1e-6).astype(np.int64)

    def __len__(self) -> int:
        return len(self.arrived)


@dataclass(frozen=True)
class SessionRecord:
    """Everything that the metrics need from one call."""

    call_id: str
    scenario: Scenario
    adapter: dict[str, Any]
    clock: Literal["virtual", "real"]
    timestamps: Timestamps
    outcome: Outcome
    reason: str  #: why the call failed or was truncated; empty when it completed
    started_at: float  #: Unix time of the instant at which the call began (before connecting)
    origin_ns: int  #: CLOCK_MONOTONIC of session time 0; 0 on the virtual clock
    connect_ms: float | None  #: time to open the connection; None if it never opened
    user_track: Int16Array
    agent_track: Int16Array
    sent: FloatArray  #: per caller frame: when it was sent, NaN if it was skipped
    packets: Packets
    windows: tuple[TurnWindow, ...] = ()
    clears: tuple[float, ...] = ()
    transcripts: tuple[Transcript, ...] = ()
    events: tuple[CallEvent, ...] = ()
    max_duration_reached: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    connected_s: float | None = None  #: when the connection was open, at most a frame before 0; None if it never was
    loop: LoopHealth | None = None  #: how the event loop fared meanwhile; None on the virtual clock

    @property
    def sample_rate(self) -> int:
        return self.scenario.sample_rate

    @property
    def duration(self) -> float:
        """Length of the recorded session in seconds."""
        return len(self.user_track) / self.scenario.sample_rate

    @property
    def frame_s(self) -> float:
        return self.scenario.frame_ms / 1000

    @property
    def due(self) -> FloatArray:
        """Per caller frame: when it was due."""
        return np.arange(len(self.sent), dtype=np.float64) * self.scenario.frame_ms / 1000

    @property
    def send_lag(self) -> FloatArray:
        """Per caller frame: sent minus due in seconds, NaN for a skipped frame."""
        return self.sent - self.due
