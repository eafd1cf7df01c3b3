"""Whether the harness kept out of the way of a measurement.

Conventions
-----------
- Times are float seconds on the session's clock.
- Caller frame ``i`` was due at ``i * frame_s``. It is *late* if it went out more than one frame after that, and
  *skipped* if it never did (``SessionRecord.sent`` is NaN).
- An agent packet is *read late* if more than one frame passed between its arrival and its reading: TCP joins
  what waits, and all of it then carries one time stamp. That is only known where the kernel stamped the arrival;
  a time stamp taken at wake-up hides it, but the caller's frames are late at the same moments.

Rules
-----
as_sent           moves the caller's speech from when it was due to when it went out
disturbance       a measurement is void if the harness skipped or delayed a frame, or read a packet late, while
                  it ran
unread            whether packets may have waited, so that their arrivals are not known
ended_by_harness  whether the run was over before the call was: what the agent then still owed is void, not missed
"""

from collections.abc import Sequence

import numpy as np

from voicebench.runner.record import FloatArray, SessionRecord
from voicebench.vad import Segment

EPS = 1e-9


def send_lag_s(record: SessionRecord, frames: FloatArray) -> FloatArray:
    """How late each of the frames went out, in seconds; 0 for skipped ones, the nearest one's outside the call."""
    if not len(record.sent):
        return np.zeros(len(frames))
    index = np.clip(frames.astype(np.int64), 0, len(record.sent) - 1)
    lag: FloatArray = np.nan_to_num(record.send_lag[index])
    return lag


def as_sent(record: SessionRecord, segments: Sequence[Segment]) -> list[Segment]:
    """The caller's segments as they went out: each boundary moves by the lag of the frame that holds it.

    The frame that holds an end is that of the last sample before it.
    """
    starts = np.array([segment.start_s for segment in segments])
    ends = np.array([segment.end_s for segment in segments])
    starts += send_lag_s(record, np.floor(starts / record.frame_s + EPS))
    ends += send_lag_s(record, np.ceil(ends / record.frame_s - EPS) - 1)
    ends = np.maximum(starts, ends)
    return [Segment(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def disturbance(record: SessionRecord, start_s: float, end_s: float) -> str:
    """What the harness did to a measurement that ran from ``start_s`` to ``end_s``; empty if nothing.

    Both times are the caller's by ``due``; one frame more is looked at on either side.
    """
    frame_s, bound_s = record.frame_s, record.frame_s + EPS
    first = max(0, int(np.floor(start_s / frame_s + EPS)) - 1)
    last = int(np.floor(end_s / frame_s + EPS)) + 1
    lag = record.send_lag[first : last + 1]
    skipped = int(np.count_nonzero(np.isnan(lag)))
    late = int(np.count_nonzero(lag > bound_s))
    read_late = _read_late(record, start_s, end_s)
    parts = [
        f"{count} {what}"
        for count, what in (
            (skipped, f"caller frame{'s' * (skipped > 1)} skipped"),
            (late, f"sent more than {frame_s * 1000:g} ms late"),
            (read_late, f"agent packet{'s' * (read_late > 1)} read more than {frame_s * 1000:g} ms late"),
        )
        if count
    ]
    return f"the harness was late between {start_s:.2f} s and {end_s:.2f} s: {', '.join(parts)}" if parts else ""


def unread(record: SessionRecord, start_s: float, end_s: float) -> bool:
    """Whether the arrivals between two times are not to be trusted, since the harness was not there to read.

    Without the kernel's time stamps that shows in the caller's frames alone.
    """
    if record.timestamps == "wakeup":
        return bool(disturbance(record, start_s, end_s))
    return _read_late(record, start_s, end_s) > 0


def _read_late(record: SessionRecord, start_s: float, end_s: float) -> int:
    """Packets that the kernel had for more than a frame before the harness read them."""
    if record.timestamps != "kernel":
        return 0
    bound_s, arrived = record.frame_s + EPS, record.packets.arrived
    inside = (arrived >= start_s - bound_s) & (arrived <= end_s + bound_s)
    return int(np.count_nonzero((record.packets.read - arrived)[inside] > bound_s))


def ended_by_harness(record: SessionRecord) -> bool:
    """Whether the harness ended the call for reasons of its own. Reaching ``max_duration_ms`` is the scenario's."""
    return record.outcome == "truncated" and not record.max_duration_reached
