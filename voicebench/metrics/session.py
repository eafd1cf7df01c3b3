"""Metrics of one call: its turns, its figures, and how well the harness itself kept time.

Conventions
-----------
- A record is a ``SessionRecord``: two int16 tracks of one length at the session sample rate, the clocks of every
  frame, and the events. Nothing else is looked at (VB01).
- User segments are as sent, agent segments as heard (see ``turns``). Times in s, rounded to 0.1 ms.

Metrics (VB15)
--------------
duration_s       length of the tracks
user_speech_ms   sum of the user's segments
agent_speech_ms  sum of the agent's segments
overlap_ms       time in which both spoke
talk_over_ms     the part of it that falls into the user's speech of `respond` turns, void ones left out
truncated        whether the call was over before its script was: by ``max_duration_ms`` or by the harness
delivery         how the agent's audio arrived, see ``delivery``

Health
------
send_lag_ms      sent minus due, per caller frame. A frame that was skipped counts with the time until the next one
                 went out, so that a stall shows in full, and not only in the first frame after it
receive_lag_ms   read minus arrived, per agent packet; empty where the time stamp was taken at wake-up
loop_lag_ms      how late the process's own ticks were meanwhile; collections and cpu_share are the process's too

Cost
----
A call of two minutes at 16 kHz takes about 10 ms of CPU, nearly all of it inside numpy, which does not hold
the interpreter's lock: it may run in a thread beside the pacer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from voicebench.metrics.delivery import deliver
from voicebench.metrics.histogram import Histogram
from voicebench.metrics.results import Health, SessionMetrics, SessionResult
from voicebench.metrics.stats import percentile
from voicebench.metrics.turns import measure_turns, segments_in, to_ms
from voicebench.metrics.validity import as_sent
from voicebench.runner.record import FloatArray, SessionRecord
from voicebench.vad import Segment, detect


def measure(
    record: SessionRecord, *, worker: str = "local", recording: Mapping[str, str] | None = None
) -> SessionResult:
    """The result of one call as it travels and is stored.

    A call that never connected has no metrics: nothing was said, so nothing was measured. Raises ValueError for
    a record that contradicts itself.
    """
    return SessionResult(
        call_id=record.call_id,
        scenario=record.scenario.name,
        worker=worker,
        outcome=record.outcome,
        reason=record.reason,
        started_at=record.started_at,
        connect_ms=record.connect_ms,
        clock=record.clock,
        timestamps=record.timestamps,
        adapter=record.adapter,
        metrics=None if record.connect_ms is None else analyse(record),
        health=health(record),
        recording=recording,
        metadata=record.metadata,
    )


def analyse(record: SessionRecord) -> SessionMetrics:
    """Everything measured in one call that connected. Raises ValueError for a record that contradicts itself."""
    validate(record)
    vad = record.scenario.vad
    user = detect(record.user_track, record.sample_rate, vad.user)
    agent = detect(record.agent_track, record.sample_rate, vad.agent)
    sent = as_sent(record, user)
    turns = measure_turns(record, user, agent)
    replies = [
        sent[i]
        for window, turn in zip(record.windows, turns, strict=False)
        if turn.expect == "respond" and not turn.void
        for i in segments_in(user, window.start, window.end)
    ]
    return SessionMetrics(
        turns=turns,
        duration_s=round(record.duration, 4),
        user_speech_ms=to_ms(sum(segment.duration for segment in sent)),
        agent_speech_ms=to_ms(sum(segment.duration for segment in agent)),
        overlap_ms=to_ms(overlap_s(sent, agent)),
        talk_over_ms=to_ms(overlap_s(replies, agent)),
        user_segments=_rounded(sent),
        agent_segments=_rounded(agent),
        truncated=record.outcome == "truncated" or record.max_duration_reached,
        clears_s=tuple(round(time, 4) for time in record.clears),
        delivery=deliver(record, turns, user, agent),
    )


def overlap_s(user: Sequence[Segment], agent: Sequence[Segment]) -> float:
    """Seconds in which a segment of either side sounds at the same time (VB15)."""
    mine, theirs = _bounds(user), _bounds(agent)
    starts = np.maximum(mine[:, None, 0], theirs[None, :, 0])
    ends = np.minimum(mine[:, None, 1], theirs[None, :, 1])
    return float(np.maximum(ends - starts, 0.0).sum())


def health(record: SessionRecord) -> Health:
    """How well the harness kept time in one call."""
    lag_ms = lags_with_skipped_s(record.sent, record.frame_s) * 1000
    wait_ms = (record.packets.read - record.packets.arrived) * 1000
    if record.timestamps == "wakeup":
        wait_ms = wait_ms[:0]
    loop = record.loop
    return Health(
        frames=len(record.sent),
        skipped_frames=int(np.count_nonzero(np.isnan(record.sent))),
        send_lag_ms=lag_figures(lag_ms),
        receive_lag_ms=lag_figures(wait_ms),
        send_lag_histogram=Histogram.of(lag_ms).to_dict(),
        receive_lag_histogram=Histogram.of(wait_ms).to_dict(),
        loop_lag_ms={"p50": loop.lag_p50_ms, "p99": loop.lag_p99_ms, "max": loop.lag_max_ms} if loop else {},
        collections=loop.collections if loop else None,
        cpu_share=loop.cpu_share if loop else None,
    )


def lags_with_skipped_s(sent: FloatArray, frame_s: float, first: int = 0) -> FloatArray:
    """How late the frames ``first``, ``first + 1``, ... went out, in s.

    ``sent`` holds when, NaN for a skipped one: that counts as if it had gone out with the next that was sent. Skipped
    frames at the end are left out, since nothing is known of them yet.
    """
    known = np.flatnonzero(~np.isnan(sent))
    if not len(known):
        return np.zeros(0)
    frames = np.arange(known[-1] + 1)
    following = known[np.searchsorted(known, frames)]
    return np.asarray(sent[following] - (frames + first) * frame_s, dtype=np.float64)


def validate(record: SessionRecord) -> None:
    """Raise ValueError if a record contradicts itself, with what and where."""
    where = f"record of call {record.call_id}"
    for name in ("user_track", "agent_track"):
        track = getattr(record, name)
        if track.dtype != np.int16 or track.ndim != 1:
            raise ValueError(f"{where}: {name} must be one-dimensional int16, not {track.ndim}-d {track.dtype}")
    if len(record.user_track) != len(record.agent_track):
        raise ValueError(
            f"{where}: the tracks differ in length: {len(record.user_track)} user and "
            f"{len(record.agent_track)} agent samples"
        )
    packets = record.packets
    lengths = {
        field.name: len(getattr(packets, field.name)) for field in fields(packets) if field.name != "pieces_db"
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{where}: the arrays in packets differ in length: {lengths}")
    if len(record.windows) > len(record.scenario.turns):
        raise ValueError(
            f"{where}: {len(record.windows)} turns played of {len(record.scenario.turns)} in the scenario"
        )
    starts = [window.start for window in record.windows]
    if starts != sorted(starts):
        raise ValueError(f"{where}: the turns' windows are not in the order of time: {starts}")


def _bounds(segments: Sequence[Segment]) -> npt.NDArray[np.float64]:
    return np.array([(s.start_s, s.end_s) for s in segments], dtype=np.float64).reshape(-1, 2)


def _rounded(segments: Sequence[Segment]) -> tuple[tuple[float, float], ...]:
    return tuple((round(s.start_s, 4), round(s.end_s, 4)) for s in segments)


def lag_figures(values_ms: FloatArray) -> dict[str, float | None]:
    """p50, p99 and max of lags in ms, None without any."""
    values = values_ms.tolist()
    figures = {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values, default=None)}
    return {name: None if value is None else round(value, 3) for name, value in figures.items()}
