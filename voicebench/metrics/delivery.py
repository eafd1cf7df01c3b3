"""How the agent's audio arrived: from the wire alone, whatever the agent says of itself (TV03).

Conventions
-----------
- Frames, pauses and replies are those of ``metrics.frames``: a frame is 20 ms of audio on every transport.
- Times are in s on the session's clock; an *opening* counts from the moment at which the connection was open.
- The definitions of TV04-TV06 are kept; barge-ins (TV07) are in ``metrics.barge_in``. Where the agent speaks once,
  the values are those of TV; of several replies each group says how they add up.

Opening (TV04)
--------------
first_frame_ms         the arrival of the first frame
first_audible_ms       the arrival of the first audible frame, whoever spoke first
silent_preroll_frames  frames before that one

Pacing (TV05), over all replies that are not void
-------------------------------------------------
frames, audio_seconds  frames, and the audio they hold
median_, p95_, max_    between the arrivals of one frame and the next within a reply
  gap_ms
worst_burst_frames     the most frames that arrived within 20 ms, both ends included: an agent that keeps time has 2
wall_seconds           from the first frame to the last, with the replies put end to end, 20 ms between them
realtime_ratio         audio_seconds / wall_seconds; a wall time below 1 ms counts as 1 ms (a reply in one packet)

Continuity (TV06), per reply from its first to its last audible frame
---------------------------------------------------------------------
speech_span_s          sum of these times
worst_gap_ms           the longest time between the arrivals of one frame, audible or not, and the next; _at_s: when
                       it began
interior_silent_       frames that are not audible
  frames, _ms

Playout (heard plane)
---------------------
opening_heard_ms       the first audible frame, when the caller's player sounds it
dropped_ms             audio that never sounded: taken back by a clear, or lost because the player had no room
overflow_ms            the second part of that
underrun_ms            with a bounded player: silence inside a reply, since the player had nothing left to sound
backlog_growth_ms      the most by which a frame waited longer for its turn than the first one had: a sender that is
                       too fast makes it grow

Status
------
missed: the agent was never audible, or never stopped. void: the harness read packets late, so that their arrivals are
not known (of a whole reply), disturbed the turn, or ended the call. error: nothing to measure in what there is.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from voicebench.metrics.barge_in import barge_in, while_on
from voicebench.metrics.frames import EPS, FRAME_S, Frames, Reply, frames_of, replies_of
from voicebench.metrics.results import (
    BargeIn,
    Continuity,
    Delivery,
    Opening,
    Pacing,
    Playout,
    Status,
    TurnResult,
)
from voicebench.metrics.stats import percentile
from voicebench.metrics.turns import to_ms
from voicebench.metrics.validity import ended_by_harness, unread
from voicebench.runner.record import FloatArray, Packets, SessionRecord
from voicebench.scenario import JitterBuffer
from voicebench.vad import Segment

#: Limits of the verdicts (TV08).
PACED_FRAMES, MILD_FRAMES = 2, 10
FAST_RATIO = 1.5
HOLE_MS = 150.0
CUT_MS = 250.0

BARGE_IN_FIGURES = (
    "cut_ms",
    "frames_after_barge_in",
    "audio_wasted_ms",
    "unheard_backlog_ms",
    "resumed_after_ms",
)
_GROUPS: tuple[tuple[str, type[Any]], ...] = (
    ("opening", Opening),
    ("pacing", Pacing),
    ("continuity", Continuity),
    ("playout", Playout),
)
#: Every figure as ``group.field``.
FIGURES: tuple[str, ...] = (
    *(f"{group}.{field.name}" for group, kind in _GROUPS for field in fields(kind)),
    *(f"barge_in.{name}" for name in BARGE_IN_FIGURES),
)

#: Fewer frames say nothing of their pacing (TV05).
FEWEST_FRAMES = 3
SHORTEST_WALL_S = 0.001


def deliver(
    record: SessionRecord, turns: Sequence[TurnResult], user: Sequence[Segment], agent: Sequence[Segment]
) -> Delivery:
    """Measure one call. ``user`` and ``agent`` are the segments of its tracks, the user's by ``due``."""
    validate(record.packets)
    frames = frames_of(record.packets)
    played = list(zip(record.windows, turns, strict=False))
    spans = [while_on(window, turn, agent) for window, turn in played if turn.expect != "listen"]
    replies = replies_of(frames, [span for span in spans if span is not None])
    kept = [
        reply
        for reply in replies
        if not unread(record, float(frames.arrived[reply.first]), float(frames.arrived[reply.stop - 1]))
    ]
    barge_ins = [barge_in(record, frames, *turn, user, agent) for turn in played if turn[1].expect == "stop"]
    barge_ins += [
        BargeIn(turn.id, turn.status["stop_latency_ms"], note="; ".join(turn.notes))
        for turn in turns[len(played) :]
        if turn.expect == "stop"
    ]
    return Delivery(
        opening=opening(record, frames),
        pacing=pacing(frames, kept, len(replies)),
        continuity=continuity(frames, kept),
        playout=playout(record, frames, kept),
        barge_ins=tuple(barge_ins),
        status=_statuses(record, frames, kept),
    )


def validate(packets: Packets) -> None:
    """Raise ValueError unless there is a level for every 20 ms of every packet."""
    if len(packets.pieces_db) != packets.pieces.sum():
        raise ValueError(
            f"packets: {len(packets.pieces_db)} levels in pieces_db for {packets.pieces.sum()} pieces of 20 ms"
        )


# The definitions, one function each.


def opening(record: SessionRecord, frames: Frames) -> Opening:
    """How long the caller waited for the first frame, and for the first sound (TV04)."""
    if not len(frames):
        return Opening()
    audible = np.flatnonzero(frames.audible)
    sound = int(audible[0]) if len(audible) else None
    open_s = record.connected_s or 0.0
    if unread(record, open_s, float(frames.arrived[sound if sound is not None else -1])):
        return Opening()
    return Opening(
        first_frame_ms=to_ms(float(frames.arrived[0]) - open_s),
        first_audible_ms=None if sound is None else to_ms(float(frames.arrived[sound]) - open_s),
        silent_preroll_frames=sound,
    )


def pacing(frames: Frames, replies: Sequence[Reply], total: int) -> Pacing:
    """How evenly frames came within replies (TV05). ``total`` counts the void replies too."""
    inside = np.concatenate(
        [np.arange(reply.first, reply.stop) for reply in replies] or [np.zeros(0, dtype=np.int64)]
    )
    counts = {"frames": len(inside), "replies": len(replies), "void_replies": total - len(replies)}
    if len(inside) < FEWEST_FRAMES:
        return Pacing(**counts)
    gaps_ms = np.concatenate([np.diff(frames.arrived[reply.first : reply.stop]) for reply in replies]) * 1000
    spans_s = [float(frames.arrived[reply.stop - 1] - frames.arrived[reply.first]) for reply in replies]
    wall_s = sum(spans_s) + FRAME_S * (len(spans_s) - 1)
    audio_s = float(frames.duration[inside].sum())
    return Pacing(
        **counts,
        median_gap_ms=_rounded(percentile(gaps_ms.tolist(), 50), 2),
        p95_gap_ms=_rounded(percentile(gaps_ms.tolist(), 95), 2),
        max_gap_ms=_rounded(max(gaps_ms.tolist(), default=None), 2),
        worst_burst_frames=worst_burst_frames(frames.arrived[inside]),
        wall_seconds=round(wall_s, 3),
        audio_seconds=round(audio_s, 3),
        realtime_ratio=round(audio_s / max(wall_s, SHORTEST_WALL_S), 3),
    )


def worst_burst_frames(arrived: FloatArray) -> int:
    """The most frames in any 20 ms, both ends included (TV05)."""
    earliest = np.searchsorted(arrived, arrived - FRAME_S - EPS, side="left")
    return int((np.arange(len(arrived)) - earliest + 1).max())


def continuity(frames: Frames, replies: Sequence[Reply]) -> Continuity:
    """The longest hole between the first and the last audible frame of a reply (TV06)."""
    spoken = [reply for reply in replies if reply.last_audible > reply.first_audible]
    if not spoken:
        return Continuity()
    worst_s, at_s, span_s, silent = -1.0, 0.0, 0.0, 0
    for reply in spoken:
        arrived = frames.arrived[reply.first_audible : reply.last_audible + 1]
        gaps = np.diff(arrived)
        longest = int(np.argmax(np.round(gaps, 6)))  # of equal ones the first
        if gaps[longest] > worst_s + 1e-6:
            worst_s, at_s = float(gaps[longest]), float(arrived[longest])
        span_s += float(arrived[-1] - arrived[0])
        silent += int(np.count_nonzero(~frames.audible[reply.first_audible : reply.last_audible]))
    return Continuity(
        speech_span_s=round(span_s, 3),
        worst_gap_ms=to_ms(worst_s),
        worst_gap_at_s=round(at_s, 3),
        interior_silent_frames=silent,
        interior_silent_ms=to_ms(silent * FRAME_S),
    )


def playout(record: SessionRecord, frames: Frames, replies: Sequence[Reply]) -> Playout:
    """What the caller's player made of it."""
    if not len(frames):
        return Playout()
    packets = record.packets
    lost_s = packets.duration[np.isnan(packets.queued)].sum()
    taken_s = np.clip(packets.queued + packets.duration - packets.cleared, 0.0, packets.duration)
    sound = np.flatnonzero(frames.audible & ~np.isnan(frames.heard))
    bounded = isinstance(record.scenario.playout, JitterBuffer)
    return Playout(
        opening_heard_ms=to_ms(float(frames.heard[sound[0]]) - (record.connected_s or 0.0)) if len(sound) else None,
        dropped_ms=to_ms(float(lost_s + np.nansum(taken_s))),
        overflow_ms=to_ms(float(lost_s)),
        underrun_ms=to_ms(underrun_s(frames, replies)) if bounded and replies else None,
        backlog_growth_ms=to_ms(backlog_growth_s(frames, replies)) if replies else None,
    )


def underrun_s(frames: Frames, replies: Sequence[Reply]) -> float:
    """Silence in the player between the first and the last audible frame of a reply."""
    total = 0.0
    for reply in replies:
        if reply.first_audible < 0:
            continue
        heard = frames.heard[reply.first_audible : reply.last_audible + 1]
        ends = heard + frames.duration[reply.first_audible : reply.last_audible + 1]
        sounded = ~np.isnan(heard)
        dry = heard[sounded][1:] - ends[sounded][:-1]
        total += float(dry[dry > EPS].sum())
    return total


def backlog_growth_s(frames: Frames, replies: Sequence[Reply]) -> float:
    """By how much frames came to wait longer in the player than the first one did."""
    waits = np.concatenate([(frames.queued - frames.arrived)[reply.first : reply.stop] for reply in replies])
    waits = waits[~np.isnan(waits)]
    return float(waits.max() - waits[0]) if len(waits) else 0.0


def _statuses(record: SessionRecord, frames: Frames, replies: Sequence[Reply]) -> dict[str, Status]:
    """Why there are values, or none."""
    audible = np.flatnonzero(frames.audible)
    if not len(audible):
        absent: Status = "void" if ended_by_harness(record) else "missed"
        paced: Status = absent if not len(frames) else "ok" if _enough(replies) else "error" if replies else "void"
        return {"opening": absent, "pacing": paced, "continuity": absent, "playout": "ok" if len(frames) else absent}
    open_s = record.connected_s or 0.0
    spoken = any(reply.last_audible > reply.first_audible for reply in replies)
    return {
        "opening": "void" if unread(record, open_s, float(frames.arrived[audible[0]])) else "ok",
        "pacing": "ok" if _enough(replies) else "error" if replies else "void",
        "continuity": "ok" if spoken else "error" if replies else "void",
        "playout": "ok" if replies else "void",
    }


def _enough(replies: Sequence[Reply]) -> bool:
    return sum(reply.stop - reply.first for reply in replies) >= FEWEST_FRAMES


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits) + 0.0


# Many calls.


def values(delivery: Delivery) -> Iterator[tuple[str, float | None, Status]]:
    """Every figure of a call as ``group.field``, its value, and why there is one or none."""
    for group in ("opening", "pacing", "continuity", "playout"):
        for name, value in vars(getattr(delivery, group)).items():
            status = delivery.status[group]
            if value is None and status == "ok":  # what of a group does not rest on its frames alone
                status = "not_applicable" if name == "underrun_ms" else delivery.status["opening"]
            yield f"{group}.{name}", value, status
    for barge_in_ in delivery.barge_ins:
        for name in BARGE_IN_FIGURES:
            yield f"barge_in.{name}", getattr(barge_in_, name), barge_in_.status


def medians(deliveries: Iterable[Delivery]) -> dict[str, dict[str, float | int | None]]:
    """Median, min, max and n of every figure over many calls, by ``group.field`` (TV15); None without any value."""
    found: dict[str, array[float]] = {name: array("d") for name in FIGURES}
    for delivery in deliveries:
        for name, value, _ in values(delivery):
            if value is not None:
                found[name].append(value)
    return {
        name: {
            "median": _rounded(percentile(known, 50), 3),
            "min": min(known, default=None),
            "max": max(known, default=None),
            "n": len(known),
        }
        for name, known in found.items()
    }
