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
class Opening:
    """How the agent begins (TV04), counted from the moment at which the connection was open."""

    first_frame_ms: float | None = None
    first_audible_ms: float | None = None
    silent_preroll_frames: int | None = None


@dataclass(frozen=True)
class Pacing:
    """How evenly the agent sends (TV05)."""

    frames: int = 0
    median_gap_ms: float | None = None
    p95_gap_ms: float | None = None
    max_gap_ms: float | None = None
    worst_burst_frames: int | None = None
    wall_seconds: float | None = None
    audio_seconds: float | None = None
    realtime_ratio: float | None = None
    replies: int = 0
    void_replies: int = 0  #: replies that the harness disturbed; nothing of them is counted


@dataclass(frozen=True)
class Continuity:
    """Holes inside what the agent says (TV06)."""

    speech_span_s: float | None = None
    worst_gap_ms: float | None = None
    worst_gap_at_s: float | None = None
    interior_silent_frames: int | None = None
    interior_silent_ms: float | None = None


@dataclass(frozen=True)
class Playout:
    """What the caller's player made of what arrived."""

    opening_heard_ms: float | None = None
    dropped_ms: float | None = None
    overflow_ms: float | None = None
    underrun_ms: float | None = None
    backlog_growth_ms: float | None = None


@dataclass(frozen=True)
class BargeIn:
    """How fast the agent stopped sending when the caller cut in (TV07)."""

    turn: str
    status: Status
    cut_ms: float | None = None
    frames_after_barge_in: int | None = None
    audio_wasted_ms: float | None = None
    unheard_backlog_ms: float | None = None
    resumed_after_stop: bool | None = None
    resumed_after_ms: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Delivery:
    """How one call's audio arrived; see ``metrics.delivery``."""

    opening: Opening
    pacing: Pacing
    continuity: Continuity
    playout: Playout
    barge_ins: tuple[BargeIn, ...]  #: one per `stop` turn
    status: Mapping[str, Status]  #: of opening, pacing, continuity and playout

    @property
    def barge_in(self) -> BargeIn | None:
        """The worst one: an agent that never stopped, or the longest cut; None if nobody cut in."""
        known = [barge_in for barge_in in self.barge_ins if barge_in.cut_ms is not None]
        never = [barge_in for barge_in in self.barge_ins if barge_in.status == "missed"]
        longest = sorted(known, key=lambda barge_in: barge_in.cut_ms or 0.0, reverse=True)
        return next(iter([*never, *longest, *self.barge_ins]), None)


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
    delivery: Delivery | None = None  #: None in records of a version that did not measure it


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
    frames: str | None = None  #: path of the raw evidence, relative to the run
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
