"""What is measured, of which agents, and what each of their defects moves (TV12-TV14)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NEAR_SHARE = 0.25

#: The agent of TV12 in mode paced.
PACED: Mapping[str, Any] = {
    "greeting_delay_ms": 400,
    "greeting_ms": 6000,
    "response_ms": 1500,
    "barge_in_min_ms": 120,
    "interrupt_reaction_ms": 60,
}


@dataclass(frozen=True)
class Metric:
    """A column. ``near`` is how far a row may lie from its base in a metric that is not its own.

    ``NEAR_SHARE`` of the base's value is near as well.
    """

    name: str
    unit: str
    near: float
    digits: int = 0

    def is_near(self, value: float | None, usual: float | None) -> bool:
        if value is None or usual is None:
            return value is usual
        return abs(value - usual) <= max(self.near, NEAR_SHARE * abs(usual))


METRICS: dict[str, Metric] = {
    "opening": Metric("opening", "ms", 150),
    "preroll": Metric("preroll", "frames", 2),
    "burst": Metric("worst burst", "frames", 4),
    "ratio": Metric("ratio", "x", 0.1, 2),
    "hole": Metric("longest hole", "ms", 180),
    "backlog": Metric("backlog", "ms", 150),
    "audio": Metric("audio", "s", 0.3, 2),
    "call": Metric("call", "s", 1.0, 1),
    "cut": Metric("cut", "ms", 150),
    "resumed": Metric("resumed", "ms", 0),
    "stop": Metric("stop", "ms", 150),
    "level": Metric("level", "dBFS", 1.0, 1),
    "clipped": Metric("clipped", "share", 0.001, 3),
    "clicks": Metric("clicks", "per s", 8.0, 1),
    "dc": Metric("DC", "share", 0.005, 3),
}


@dataclass(frozen=True)
class Limit:
    """What a metric has to be: within bounds, which may be multiples of the base's value; or absent."""

    low: float | None = None
    high: float | None = None
    times_base: float | None = None  #: at least so many times the base's value
    absent: bool = False

    def holds(self, value: float | None, base: float | None) -> bool:
        if self.absent or value is None:
            return self.absent and value is None
        if self.times_base is not None and (base is None or value <= self.times_base * base):
            return False
        return (self.low is None or value > self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        parts = [] if self.low is None else [f"over {self.low:g}"]
        parts += [] if self.high is None else [f"at most {self.high:g}"]
        parts += [] if self.times_base is None else [f"over {self.times_base:g} times its base"]
        return "absent" if self.absent else " and ".join(parts)


def over(low: float, times_base: float | None = None) -> Limit:
    return Limit(low=low, times_base=times_base)


@dataclass(frozen=True)
class Row:
    """An agent: its options besides those of ``PACED``, what they move, and what they move besides."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Limit] = field(default_factory=dict)
    besides: frozenset[str] = frozenset()
    base: str = "paced"
    needs_clear: bool = False  #: the defect is one of the clear, which AudioSocket does not have


def _row(name: str, options: dict[str, Any], own: dict[str, Limit], besides: str = "", **more: Any) -> Row:
    return Row(name, options, own, frozenset(besides.split()), **more)


_EVERYTHING = " ".join(METRICS)

ROWS: tuple[Row, ...] = (
    _row("paced", {}, {"burst": Limit(0, 4), "hole": Limit(0, 200), "cut": Limit(0, 700), "ratio": Limit(0.9, 1.1)}),
    _row("burst", {"burst": True}, {"burst": over(20), "ratio": over(5)}, "hole backlog cut stop"),
    _row("gappy", {"gap_ms": 500}, {"hole": over(300)}, "ratio call"),
    _row("deaf", {"interruptible": False}, {"cut": over(1500, times_base=3)}, "stop"),
    _row("stall", {"stall_ms": 400}, {"hole": over(300), "burst": over(10)}, "backlog stop call"),
    _row("fast", {"frame_interval_ms": 19}, {"backlog": over(200)}),
    _row("leading silence", {"leading_silence_ms": 500}, {"opening": over(800), "preroll": over(20)}, "audio call"),
    _row(
        "late clear",
        {"burst": True, "clear_delay_ms": 400},
        {"stop": over(450)},
        "ratio",
        base="burst",
        needs_clear=True,
    ),
    _row(
        "no clear", {"burst": True, "no_clear": True}, {"stop": over(1500)}, "ratio", base="burst", needs_clear=True
    ),
    _row("restart", {"restart_ms": 150}, {"resumed": Limit(100, 300)}, "stop"),
    _row("answers twice", {"answers_twice_ms": 400}, {"audio": over(10)}, "hole ratio call"),
    _row("speaks first", {"greeting_delay_ms": 0}, {"opening": Limit(-1, 100)}),
    _row("one way", {"one_way": True}, {"opening": Limit(absent=True)}, _EVERYTHING),
    _row("echo", {"echo_ms": 100}, {"cut": over(1000)}, "preroll hole ratio audio call stop"),
    _row("hangs up", {"hangs_up_after_ms": 1200}, {"call": Limit(0, 2)}, "audio cut stop"),
    _row("quiet", {"quiet_db": 15}, {"level": Limit(high=-32)}),
    _row("clipping", {"clip_gain_db": 24}, {"clipped": over(0.01)}, "level clicks dc"),
    _row("crackle", {"crackle_per_s": 20}, {"clicks": over(12)}, "level"),
    _row("DC offset", {"dc_offset": 0.05}, {"dc": over(0.04)}),
)


def shown(key: str, value: float | None) -> str:
    """A value of a metric for people."""
    return "-" if value is None else f"{value:,.{METRICS[key].digits}f}"
