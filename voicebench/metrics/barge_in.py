"""How fast the agent stops sending when the caller cuts in (TV07).

Conventions
-----------
- Frames and pauses are those of ``metrics.frames``. The caller cuts in when the frame that holds the onset of its
  speech is *sent*.
- The agent's *answer* is its first segment that the caller hears begin after the onset (``turns.find_reply``). What
  arrives from there on is not what was to be cut.

Metrics, per `stop` turn
------------------------
cut_ms                 to the arrival of the last audible frame before the agent paused, or before its answer if that
                       came first. None if nothing was on its way: the agent was silent, or had sent everything before
                       (a burst), which is not the same as a cut of 0
frames_after_barge_in  audible frames from the onset until the answer, those after a pause too; audio_wasted_ms: their
                       audio
unheard_backlog_ms     audio that had arrived when the caller cut in, and was still to be heard
resumed_after_stop     whether audible frames came again after that pause, and before anything that the caller could
                       take for an answer; resumed_after_ms: how long after the last one

Status
------
missed: the agent went on until the call ended, or the turn was never played. void: as the turn's. error: there was
nothing to cut; ``note`` says why.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from voicebench.metrics.frames import EPS, PAUSE_S, Frames, Span
from voicebench.metrics.results import BargeIn, TurnResult
from voicebench.metrics.turns import find_reply, playing_at, segments_in, to_ms
from voicebench.runner.record import IntArray, Packets, SessionRecord, TurnWindow
from voicebench.vad import Segment

#: A frame that sounds so long before a segment starts still belongs to it. Between segments there is more silence.
EARLY_S = 0.1

_SILENT = "the agent was silent when the caller cut in: nothing to cut"
_ALL_SENT = "the agent had sent all of its audio before the caller cut in: nothing was left to cut on the wire"
_NEVER = "the agent went on sending until the call ended"


def barge_in(
    record: SessionRecord,
    frames: Frames,
    window: TurnWindow,
    turn: TurnResult,
    user: Sequence[Segment],
    agent: Sequence[Segment],
) -> BargeIn:
    """Measure one `stop` turn that was played. ``user`` are the caller's segments by ``due``."""
    if turn.void:
        return BargeIn(turn.id, "void", note=next((note for note in turn.notes if note.startswith("void")), ""))
    cut_in_s = _cut_in_s(record, window, user)
    if cut_in_s is None or turn.user_onset_s is None:
        return BargeIn(turn.id, "error", note="no user speech found in the turn's audio")
    before, after = _around(frames, cut_in_s, answer(turn, agent))
    found = BargeIn(
        turn=turn.id,
        status="ok",
        frames_after_barge_in=len(after),
        audio_wasted_ms=to_ms(float(frames.duration[after].sum())),
        unheard_backlog_ms=to_ms(unheard_backlog_s(record.packets, cut_in_s)),
    )
    playing = playing_at(agent, turn.user_onset_s) is not None
    quiet_s = record.scenario.vad.agent.min_silence_ms / 1000
    going_on = after[:0]
    if len(before) and (playing or cut_in_s - frames.arrived[before[-1]] <= quiet_s):
        going_on = after[frames.pauses[after] == frames.pauses[before[-1]]]
    if not len(going_on):
        return replace(found, status="error", note=_ALL_SENT if playing else _SILENT)
    last_s = float(frames.arrived[going_on[-1]])
    resumed = after[len(going_on) :]
    if not len(resumed) and last_s >= record.duration - PAUSE_S:
        return replace(found, status="missed", note=_NEVER)
    return replace(
        found,
        cut_ms=to_ms(last_s - cut_in_s),
        resumed_after_stop=len(resumed) > 0,
        resumed_after_ms=to_ms(float(frames.arrived[resumed[0]]) - last_s) if len(resumed) else None,
    )


def answer(turn: TurnResult, agent: Sequence[Segment]) -> Segment | None:
    """What the agent says next after it was spoken to, however late."""
    return None if turn.user_onset_s is None else find_reply(agent, turn.user_onset_s, float("inf"))


def while_on(window: TurnWindow, turn: TurnResult, agent: Sequence[Segment]) -> Span | None:
    """When a turn is on: from the caller's onset to the offset, or to the agent's answer if that comes later.

    None if the caller says nothing in it.
    """
    if turn.user_onset_s is None or turn.user_offset_s is None:
        return (window.start, window.end) if turn.void else None
    said = answer(turn, agent)
    return turn.user_onset_s, max(turn.user_offset_s, said.start_s if said else 0.0)


def unheard_backlog_s(packets: Packets, at_s: float) -> float:
    """Audio that had arrived by ``at_s`` and was still to be heard."""
    ends = packets.queued + packets.duration
    ends = np.where(packets.cleared <= at_s, np.minimum(ends, packets.cleared), ends)
    waiting = np.clip(ends - np.maximum(packets.queued, at_s), 0.0, None)
    return float(np.nansum(waiting[packets.arrived <= at_s]))


def _cut_in_s(record: SessionRecord, window: TurnWindow, user: Sequence[Segment]) -> float | None:
    """When the frame with the caller's onset was sent."""
    inside = segments_in(user, window.start, window.end)
    if not inside:
        return None
    sent_s = float(record.sent[int(np.floor(user[inside[0]].start_s / record.frame_s + EPS))])
    return None if np.isnan(sent_s) else sent_s


def _around(frames: Frames, at_s: float, said: Segment | None) -> tuple[IntArray, IntArray]:
    """Audible frames before an instant, and from there on until the answer."""
    audible = np.flatnonzero(frames.audible)
    begin = int(np.searchsorted(frames.arrived[audible], at_s - EPS))
    before, after = audible[:begin], audible[begin:]
    if said is not None:
        of_answer = np.flatnonzero(frames.heard[after] >= said.start_s - EARLY_S)
        after = after[: of_answer[0]] if len(of_answer) else after
    return before, after
