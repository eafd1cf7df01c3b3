"""What to try next, and what the ramp has shown. No I/O.

Conventions
-----------
- A *step* held so many calls at once for a while. Lags are p99, in ms.
- A step *held* if nothing in it broke. The harness breaks if its frames go out later than one frame, if it fills its
  core, or if it skips frames; the agent if its own frames are late, or if calls fail.
- A step that broke although its core was not full may have met a stall of the machine: it is tried once more, and
  the better of the two counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

#: One frame: beyond it a turn is void.
SEND_LAG_LIMIT_MS = 20.0
#: Enough for figures that are exact to a few milliseconds.
COMFORTABLE_LAG_MS = 5.0
FULL_CORE = 0.95
#: Below this a late step is blamed on the machine at first.
BUSY_CORE = 0.85
MAX_SKIPPED_SHARE = 0.01
#: The ramp ends when the largest step that held and the smallest that broke are this close.
CLOSE_SHARE, CLOSE_CALLS = 0.1, 10

Culprit = Literal["harness", "agent"]


@dataclass(frozen=True)
class Step:
    """So many calls at once, and what it was like."""

    calls: int
    cpu_share: float  #: of the harness's core
    send_lag_p50_ms: float
    send_lag_p99_ms: float
    send_lag_max_ms: float
    skipped_share: float  #: of the caller's frames
    failed_calls: int
    failure: str  #: why the first of them failed
    memory_per_call_kib: float
    turns: int
    void_turns: int
    error_p50_ms: float | None  #: of the response latency, absolute, against the agent's log; None without turns
    error_p99_ms: float | None
    agent_cpu_share: float
    agent_late_p99_ms: float

    @property
    def broke(self) -> tuple[Culprit, str] | None:
        """Who could not keep up, and how it shows; None if the step held.

        The harness is looked at first: where it is late, it makes the agent look worse than it is.
        """
        if self.send_lag_p99_ms > SEND_LAG_LIMIT_MS:
            return "harness", f"its send lag was {self.send_lag_p99_ms:.1f} ms at p99"
        if self.skipped_share > MAX_SKIPPED_SHARE:
            return "harness", f"it skipped {self.skipped_share:.1%} of its frames"
        if self.cpu_share > FULL_CORE:
            return "harness", f"it took {self.cpu_share:.0%} of its core"
        if self.failed_calls:
            return "agent", f"{self.failed_calls} calls failed ({self.failure})"
        if self.agent_late_p99_ms > SEND_LAG_LIMIT_MS:
            return "agent", f"its frames were {self.agent_late_p99_ms:.1f} ms late at p99"
        return None

    @property
    def deserves_another_try(self) -> bool:
        """Whether a stall of the machine may have broken it."""
        return self.broke is not None and max(self.cpu_share, self.agent_cpu_share) < BUSY_CORE


@dataclass(frozen=True)
class Verdict:
    """What the ramp has shown."""

    calls: int  #: the largest step that held; 0 if none did
    comfortable_calls: int  #: the largest one with a send lag of at most COMFORTABLE_LAG_MS at p99
    culprit: Culprit | None  #: what broke first; None if nothing did
    reason: str
    best: Step | None  #: the step of ``calls``


def next_calls(steps: Sequence[Step], first: int, most: int) -> int | None:
    """How many calls to try next: twice as many while that holds, then the middle; None when the answer is known."""
    if not steps:
        return min(first, most)
    last = steps[-1]
    if last.deserves_another_try and sum(step.calls == last.calls for step in steps) == 1:
        return last.calls
    good, bad = _bracket(steps)
    if bad is None:
        return None if good >= most else min(2 * good, most)
    if bad - good <= max(CLOSE_CALLS, CLOSE_SHARE * good):
        return None
    middle = (good + bad) // 2
    return middle if middle < 20 else middle // 10 * 10


def judge(steps: Sequence[Step]) -> Verdict:
    """The verdict on all steps so far."""
    good, bad = _bracket(steps)
    held = [step for step in steps if step.broke is None and step.calls <= good]
    best = min((step for step in held if step.calls == good), key=lambda step: step.send_lag_p99_ms, default=None)
    comfortable = [step.calls for step in held if step.send_lag_p99_ms <= COMFORTABLE_LAG_MS]
    culprit, reason = next((step.broke for step in steps if step.calls == bad and step.broke), (None, ""))
    return Verdict(good, max(comfortable, default=0), culprit, reason, best)


def _bracket(steps: Sequence[Step]) -> tuple[int, int | None]:
    """The largest number of calls that held below the smallest that did not (None: all held)."""
    held = {step.calls for step in steps if step.broke is None}
    broken = {step.calls for step in steps} - held
    bad = min(broken, default=None)
    return max((calls for calls in held if bad is None or calls < bad), default=0), bad
