"""What was measured: the results of turns, calls and runs. Plain frozen data, JSON at the edge.

Conventions
-----------
- Times end in ``_ms`` or ``_s`` and are on the session's clock. Rates lie between 0 and 1.
- A field that is None was not measured; ``status`` says why, per metric.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: ok: measured. missed: the agent owed it and did not deliver. not_applicable: nobody asked for it. void: the
#: harness itself disturbed the measurement, or ended the call first. error: it could not be computed.
Status = Literal["ok", "missed", "not_applicable", "void", "error"]

#: The metrics of a turn that have a status.
TURN_METRICS: tuple[str, ...] = ("response_latency_ms", "ttfa_ms", "stop_latency_ms", "noise", "wer")


@dataclass(frozen=True)
class TurnResult:
    """Measurements of one scripted turn (VB09-VB14, VB16)."""

    id: str
    expect: str
    trigger: str
    start_s: float
    end_s: float
    user_onset_s: float | None = None
    user_offset_s: float | None = None
    responded: bool | None = None
    response_latency_ms: float | None = None
    ttfa_ms: float | None = None
    talk_over: bool = False
    stopped: bool | None = None
    stop_latency_ms: float | None = None
    false_barge_in: bool | None = None
    spurious_response: bool | None = None
    transcript: str | None = None
    wer: float | None = None
    passed: bool = False
    notes: tuple[str, ...] = ()
    status: Mapping[str, Status] = field(default_factory=dict)  #: keys: TURN_METRICS
    cut_off: bool = False  #: void only because the run ended while the turn was open

    @property
    def void(self) -> bool:
        """Whether the harness disturbed this turn: then it counts neither for nor against the agent."""
        return "void" in self.status.values()

    @property
    def counted(self) -> bool:
        """Whether this turn counts for or against the agent: it is not void, and the harness did not end the
        call before the turn could be played (then nothing was asked of the agent, and no metric applies)."""
        unasked = self.trigger == "not_played" and set(self.status.values()) == {"not_applicable"}
        return not self.void and not unasked


@dataclass(frozen=True)
class SessionMetrics:
    """Everything measured in one call (VB15). Segments are (start_s, end_s) pairs."""

    turns: tuple[TurnResult, ...]
    duration_s: float
    user_speech_ms: float
    agent_speech_ms: float
    overlap_ms: float
    talk_over_ms: float
    user_segments: tuple[tuple[float, float], ...]
    agent_segments: tuple[tuple[float, float], ...]
    truncated: bool
    clears_s: tuple[float, ...] = ()  #: when the agent asked the player to drop what had not sounded (VB04)


@dataclass(frozen=True)
class Health:
    """How well the harness itself kept time during one call.

    The histograms count milliseconds in log-spaced bins (see ``metrics.histogram``), so that those of many
    calls add up. The last three belong to the process, and so to all calls that it held meanwhile; None, or empty,
    on the virtual clock.
    """

    frames: int = 0
    skipped_frames: int = 0
    send_lag_ms: Mapping[str, float | None] = field(default_factory=dict)  #: p50, p99, max
    receive_lag_ms: Mapping[str, float | None] = field(default_factory=dict)  #: p50, p99, max
    send_lag_histogram: Mapping[str, int] = field(default_factory=dict)
    receive_lag_histogram: Mapping[str, int] = field(default_factory=dict)
    loop_lag_ms: Mapping[str, float | None] = field(default_factory=dict)  #: p50, p99, max
    collections: int | None = None  #: garbage collections
    cpu_share: float | None = None  #: of one core


@dataclass(frozen=True)
class SessionResult:
    """One call as it travels, is stored in ``sessions.jsonl``, and appears in a report."""

    call_id: str
    scenario: str
    worker: str
    outcome: Literal["completed", "truncated", "failed", "lost"]
    reason: str
    started_at: float  #: Unix time
    connect_ms: float | None
    clock: str
    timestamps: str
    adapter: Mapping[str, Any]
    metrics: SessionMetrics | None  #: None if the call never connected, or was lost
    health: Health = field(default_factory=Health)
    recording: Mapping[str, str] | None = None  #: paths of the stereo, user and agent file, relative to the run
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scheduled_at: float | None = None  #: Unix time at which the call was to begin; None with closed arrivals

    @property
    def start_lag_ms(self) -> float | None:
        """How long after its scheduled time the call began; None with closed arrivals."""
        return None if self.scheduled_at is None else max(0.0, (self.started_at - self.scheduled_at) * 1000)

    @property
    def setup_ms(self) -> float | None:
        """The caller's wait for the connection, from the scheduled time if there is one; None if never connected."""
        return None if self.connect_ms is None else (self.start_lag_ms or 0.0) + self.connect_ms


@dataclass(frozen=True)
class ProcessHealth:
    """How one process fared over a whole run, while calls were going on in it."""

    loop_lag_ms: Mapping[str, float | None]  #: p50, p99, max
    loop_lag_histogram: Mapping[str, int]  #: so that those of many processes add up
    collections: int  #: garbage collections
    cpu_share: float | None  #: of one core, on average


@dataclass(frozen=True)
class WorkerInfo:
    """One process that ran calls."""

    id: str
    host: str
    started: int
    recorded: int
    lost: int
    process: ProcessHealth | None = None  #: None if it did not tell, and on the virtual clock


@dataclass(frozen=True)
class RunInfo:
    """One run, as stored in ``run.json`` beside ``sessions.jsonl``.

    ``scenarios`` holds, per scenario: name, description, sample_rate, frame_ms, turns (their number), turn_ids,
    expects (per turn), assertions (key to limit).
    """

    id: str
    created_at: str  #: ISO 8601, UTC
    duration_s: float
    command: str
    arrivals: Literal["closed", "open"]  #: open: calls begin on a schedule, whether or not others have ended
    clock: str
    adapter: Mapping[str, Any]
    scenarios: tuple[Mapping[str, Any], ...]
    workers: tuple[WorkerInfo, ...]
    voicebench_version: str
    python: str
    notes: tuple[str, ...] = ()  #: what the reader must know, for example that workers joined
    schedule: str = ""  #: open arrivals in words
    invalid: tuple[str, ...] = ()  #: why the measurement is not valid whatever its figures: a worker vanished, say
    limits: Mapping[str, float] = field(default_factory=dict)  #: built-in assertions, for what no scenario asserts
