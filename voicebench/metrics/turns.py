"""Metrics of one turn, from what the caller sent and what the caller heard.

Conventions
-----------
- Times are float seconds on the session's clock; values are in ms, rounded to 0.1 ms.
- A segment is a stretch of detected speech. The user's count as *sent* (``validity.as_sent``), the agent's as
  *heard*: a caller's ear decides. TTFA alone looks at arrivals.
- A turn's window runs from its own start to the start of the next turn, or to the end of the session (VB09).
  *Onset* and *offset* are the first and the last boundary of the user's speech in the turn's audio.
- *Playing* is the agent's segment that sounds at the onset. The *reply* is the agent's first segment that starts
  after the onset, at most ``response_timeout_ms`` after the offset, and within the window.

Metrics
-------
response_latency_ms   offset to the start of the reply; negative if the agent did not wait, then the turn is
                      flagged ``talk_over`` (VB10). `respond` needs one; `stop` gets one if there is a reply
ttfa_ms               offset to the arrival of the first packet of the reply above -70 dBFS; none on talk-over (VB11)
stop_latency_ms       onset to the end of what was playing; none if it ran to the end of the call (VB12)
false_barge_in        a noise made the agent stop within ``max_stop_ms`` (VB13)
spurious_response     a noise made a silent agent talk within ``response_timeout_ms`` (VB13)
wer                   word error rate of the final transcripts in the window against the turn's text (VB14)
trigger               anchor, timeout, or not_played (VB16)

Status
------
``ok``              there is a value
``missed``          the agent owed it: no reply, no stop, no transcript; or the agent ended the call, or the call
                    reached ``max_duration_ms``, before the turn could be played
``not_applicable``  nobody asked for it, or the harness ended the call before the turn could be played
``void``            the harness disturbed the turn (``validity``) or ended the call while it was still open: no
                    value of the turn counts
``error``           it cannot be computed: no user speech in the turn's audio, an agent that was silent when it was
                    to be interrupted, a reply whose packets all came before the user had finished
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from voicebench.metrics.results import TURN_METRICS, Status, TurnResult
from voicebench.metrics.validity import EPS, as_sent, disturbance, ended_by_harness, send_lag_s
from voicebench.runner.record import FloatArray, SessionRecord, Transcript, TurnWindow
from voicebench.scenario import Turn
from voicebench.vad import Segment
from voicebench.wer import word_error_rate

#: Packets that are no louder do not count as a reply's first audio.
AUDIBLE_DB = -70.0

_ASKED: dict[str, tuple[str, ...]] = {
    "respond": ("response_latency_ms", "ttfa_ms"),
    "stop": ("stop_latency_ms",),
    "ignore": ("noise",),
    "listen": ("noise",),
}


def measure_turns(record: SessionRecord, user: Sequence[Segment], agent: Sequence[Segment]) -> tuple[TurnResult, ...]:
    """Measure every turn of the scenario, played or not.

    ``user`` and ``agent`` are the segments of the two tracks, in order; the user's by ``due``, as detected.
    """
    sent = as_sent(record, user)
    starts = np.array([window.start for window in record.windows])
    starts += send_lag_s(record, np.floor(starts / record.frame_s + EPS))
    ends = [*starts.tolist()[1:], record.duration]
    audible = record.packets.arrived[record.packets.level_db > AUDIBLE_DB]
    results = []
    before_s = 0.0
    for window, next_s in zip(record.windows, ends, strict=False):
        since_s, before_s = before_s, window.end
        if window.turn.expect == "listen":
            results.append(_listen(record, window, since_s, next_s, agent))
            continue
        inside = segments_in(user, window.start, window.end)
        due, gone = [user[i] for i in inside], [sent[i] for i in inside]
        results.append(_measure(record, window, next_s, due, gone, agent, audible))
    results += [_not_played(record, turn) for turn in record.scenario.turns[len(record.windows) :]]
    return tuple(results)


# The definitions, one function each.


def segments_in(segments: Sequence[Segment], start_s: float, end_s: float) -> list[int]:
    """Indices of the segments that lie at least partly between two times (VB09)."""
    return [i for i, s in enumerate(segments) if s.end_s > start_s + EPS and s.start_s < end_s - EPS]


def playing_at(agent: Sequence[Segment], onset_s: float) -> Segment | None:
    """The agent's segment that sounds at the user's onset (VB12, VB13)."""
    return next((a for a in agent if a.start_s <= onset_s + EPS and a.end_s > onset_s + EPS), None)


def find_reply(agent: Sequence[Segment], onset_s: float, limit_s: float) -> Segment | None:
    """The agent's first segment that starts after the user's onset, and not after ``limit_s`` (VB10)."""
    return next((a for a in agent if onset_s + EPS < a.start_s <= limit_s + EPS), None)


def response_latency_ms(reply: Segment, offset_s: float) -> float:
    """User offset to the start of the reply (VB10)."""
    return to_ms(reply.start_s - offset_s)


def is_talk_over(reply: Segment, offset_s: float) -> bool:
    """Whether the agent replied before the user had finished (VB10)."""
    return reply.start_s < offset_s - EPS


def ttfa_ms(
    audible: FloatArray, agent: Sequence[Segment], reply: Segment, offset_s: float, limit_s: float
) -> float | None:
    """User offset to the arrival of the reply's first audible packet (VB11).

    ``audible`` holds the arrivals of the packets above AUDIBLE_DB, in order. Packets that came while an earlier
    segment still sounded belong to that one. None if no packet is left.
    """
    floor = max([offset_s, *(a.end_s for a in agent if a.end_s <= reply.start_s + EPS)])
    of_reply = audible[(audible >= floor - EPS) & (audible <= limit_s + EPS)]
    return to_ms(float(of_reply[0]) - offset_s) if len(of_reply) else None


def ran_to_the_end(playing: Segment, duration_s: float) -> bool:
    """Whether a segment lasts as long as the session."""
    return playing.end_s >= duration_s - EPS


def stop_latency_ms(playing: Segment, onset_s: float, duration_s: float) -> float | None:
    """User onset to the end of what was playing; None if it never stopped (VB12)."""
    return None if ran_to_the_end(playing, duration_s) else to_ms(playing.end_s - onset_s)


def stopped_in_time(playing: Segment, onset_s: float, max_stop_ms: float) -> bool:
    """Whether what was playing ended at most ``max_stop_ms`` after the onset (VB12, VB13)."""
    return (playing.end_s - onset_s) * 1000 <= max_stop_ms + EPS


def transcript_in(transcripts: Sequence[Transcript], start_s: float, end_s: float) -> str | None:
    """The final user transcripts that came in a turn's window, joined; None if there were none (VB14)."""
    texts = [t.text for t in transcripts if t.role == "user" and t.final and start_s - EPS <= t.time < end_s]
    return " ".join(texts) if texts else None


def to_ms(seconds: float) -> float:
    """Seconds as ms, rounded to 0.1 and never -0.0."""
    return round(seconds * 1000.0, 1) + 0.0


# One turn put together.


@dataclass(frozen=True)
class _Scene:
    """What the metrics of one played turn look at."""

    record: SessionRecord
    turn: Turn
    agent: Sequence[Segment]
    audible: FloatArray
    onset_s: float
    offset_s: float
    next_s: float
    playing: Segment | None
    reply: Segment | None

    @property
    def limit_s(self) -> float:
        """Until when a reply counts."""
        return min(self.next_s, self.offset_s + self.turn.response_timeout_ms / 1000)

    @property
    def patience_s(self) -> float:
        """Until when a stop counts."""
        return self.onset_s + self.turn.max_stop_ms / 1000

    @property
    def waits_for_reply(self) -> bool:
        """Whether the verdict depends on a reply; else on the end of what was playing."""
        return self.turn.expect == "respond" or (self.turn.expect == "ignore" and self.playing is None)

    @property
    def decided_s(self) -> float:
        """When the last instant had passed that the turn's values depend on."""
        if self.waits_for_reply:
            decided = self.reply.start_s if self.reply else self.limit_s
            return max(decided, self.offset_s) if self.turn.expect == "respond" else decided
        if self.playing is None:
            return self.onset_s
        if self.turn.expect == "ignore" or ran_to_the_end(self.playing, self.record.duration):
            return min(self.playing.end_s, self.patience_s)
        return self.playing.end_s

    @property
    def open_at_end(self) -> bool:
        """Whether the call was over before the verdict was."""
        end_s = self.record.duration
        if self.waits_for_reply:
            timeout_s = self.offset_s + self.turn.response_timeout_ms / 1000
            return self.reply is None and self.next_s >= end_s - EPS and timeout_s > end_s + EPS
        return self.playing is not None and ran_to_the_end(self.playing, end_s) and self.patience_s > end_s + EPS


def _measure(
    record: SessionRecord,
    window: TurnWindow,
    next_s: float,
    due: Sequence[Segment],
    sent: Sequence[Segment],
    agent: Sequence[Segment],
    audible: FloatArray,
) -> TurnResult:
    """One played turn; ``due`` and ``sent`` are its user segments on the two clocks."""
    turn = window.turn
    result = TurnResult(turn.id, turn.expect, window.trigger, round(window.start, 4), round(window.end, 4))
    if window.trigger == "timeout":
        result = _noted(result, f"started after timeout_ms, since {turn.start.after} did not happen")
    if ended_by_harness(record) and window.end > record.duration + EPS:
        return _cut_off(result, turn, f"the harness ended the call while the caller spoke: {record.reason}")
    if not sent:
        disturbed = disturbance(record, window.start, window.end)
        return _void(result, turn, disturbed) if disturbed else _unheard(result, turn)
    onset_s, offset_s = sent[0].start_s, sent[-1].end_s
    scene = _Scene(record, turn, agent, audible, onset_s, offset_s, next_s, playing_at(agent, onset_s), None)
    scene = replace(scene, reply=find_reply(agent, onset_s, scene.limit_s))
    result = replace(
        result,
        user_onset_s=round(onset_s, 4),
        user_offset_s=round(offset_s, 4),
        transcript=transcript_in(record.transcripts, window.start, next_s),
    )
    if ended_by_harness(record) and scene.open_at_end:
        return _cut_off(result, turn, f"the harness ended the call before the turn was over: {record.reason}")
    disturbed = disturbance(record, due[0].start_s, scene.decided_s)
    if disturbed:
        return _void(result, turn, disturbed)
    result = {"respond": _respond, "stop": _stop, "ignore": _ignore}[turn.expect](scene, result)
    if record.outcome == "failed" and scene.open_at_end:
        result = _noted(result, f"the call failed before the turn was over: {record.reason}")
    return _with_wer(turn, result)


def _respond(scene: _Scene, result: TurnResult) -> TurnResult:
    if scene.reply is None:
        late = f"no agent speech within {scene.turn.response_timeout_ms:g} ms after the user stopped"
        return _noted(replace(result, responded=False, status=_statuses(scene.turn, "missed")), late)
    result = replace(result, passed=True, status=_statuses(scene.turn, "ok"))
    return _with_reply(scene, scene.reply, result)


def _stop(scene: _Scene, result: TurnResult) -> TurnResult:
    turn, playing = scene.turn, scene.playing
    if playing is None:
        result = _noted(result, "the agent was silent when the barge-in began: nothing to stop")
        result = replace(result, status=_statuses(turn, "error"))
    else:
        value = stop_latency_ms(playing, scene.onset_s, scene.record.duration)
        stopped = value is not None and stopped_in_time(playing, scene.onset_s, turn.max_stop_ms)
        status = _statuses(turn, "missed" if value is None else "ok")
        result = replace(result, stopped=stopped, stop_latency_ms=value, passed=stopped, status=status)
        if not stopped:
            result = _noted(result, f"the agent talked on for more than {turn.max_stop_ms:g} ms")
    if scene.reply is None:
        return replace(result, responded=False)
    disturbed = disturbance(scene.record, scene.onset_s, max(scene.offset_s, scene.reply.start_s))
    if disturbed:  # the stop stands; only what nobody asked for is lost
        return _noted(replace(result, responded=True), f"no response latency: {disturbed}")
    result = replace(result, status={**result.status, "response_latency_ms": "ok", "ttfa_ms": "ok"})
    return _with_reply(scene, scene.reply, result)


def _ignore(scene: _Scene, result: TurnResult) -> TurnResult:
    stopped = scene.playing is not None and stopped_in_time(scene.playing, scene.onset_s, scene.turn.max_stop_ms)
    replied = scene.reply is not None
    spurious = replied and scene.playing is None
    if scene.playing and stopped:
        after = to_ms(scene.playing.end_s - scene.onset_s)
        note = (
            f"false barge-in: the agent fell silent {after:g} ms after the noise (or its speech ended there anyway)"
        )
        result = _noted(result, note)
    if spurious:
        result = _noted(result, "spurious response: a silent agent began to talk after the noise")
    return replace(
        result,
        responded=replied,
        false_barge_in=stopped,
        spurious_response=spurious,
        passed=not stopped and not spurious,
        status=_statuses(scene.turn, "ok"),
    )


def _listen(
    record: SessionRecord, window: TurnWindow, since_s: float, next_s: float, agent: Sequence[Segment]
) -> TurnResult:
    """A turn in which the caller says nothing: the agent should have been heard since the turn before ended."""
    turn = window.turn
    heard = bool(segments_in(agent, since_s, next_s))
    result = TurnResult(turn.id, turn.expect, window.trigger, round(window.start, 4), round(window.end, 4))
    result = replace(result, responded=heard, passed=heard, status=_statuses(turn, "ok"))
    if heard:
        return result
    if ended_by_harness(record):
        return _cut_off(result, turn, f"the harness ended the call before the agent was heard: {record.reason}")
    return _noted(result, "the agent was not heard")


def _with_reply(scene: _Scene, reply: Segment, result: TurnResult) -> TurnResult:
    """Add what a reply gives: latency, talk-over, TTFA, and the status of the TTFA."""
    talk_over = is_talk_over(reply, scene.offset_s)
    ttfa, status = None, dict(result.status)
    if talk_over:
        status["ttfa_ms"] = "not_applicable"
    else:
        ttfa = ttfa_ms(scene.audible, scene.agent, reply, scene.offset_s, scene.limit_s)
        if ttfa is None:
            status["ttfa_ms"] = "error"
            result = _noted(result, "no TTFA: all audible packets of the reply came before the user had finished")
    return replace(
        result,
        responded=True,
        response_latency_ms=response_latency_ms(reply, scene.offset_s),
        talk_over=talk_over,
        ttfa_ms=ttfa,
        status=status,
    )


def _with_wer(turn: Turn, result: TurnResult) -> TurnResult:
    if turn.text is None:
        return result
    if result.transcript is None:
        missed = replace(result, status={**result.status, "wer": "missed"})
        return _noted(missed, "no WER: the agent reported no user transcript in this turn")
    wer = round(word_error_rate(turn.text, result.transcript), 4)
    return replace(result, wer=wer, status={**result.status, "wer": "ok"})


def _unheard(result: TurnResult, turn: Turn) -> TurnResult:
    problem = "no user speech found in the turn's audio: compare its level with vad.user.threshold_db"
    return _noted(replace(result, status=_statuses(turn, "error")), problem)


def _not_played(record: SessionRecord, turn: Turn) -> TurnResult:
    if ended_by_harness(record):
        status, why = _statuses(turn, "not_applicable"), f"the harness ended the call: {record.reason}"
    elif record.outcome == "failed":
        status, why = _statuses(turn, "missed"), f"the call failed: {record.reason}"
    else:
        status, why = _statuses(turn, "missed"), "the call reached max_duration_ms"
    end_s = round(record.duration, 4)
    note = f"never played: {why}"
    return TurnResult(turn.id, turn.expect, "not_played", end_s, end_s, notes=(note,), status=status)


def _void(result: TurnResult, turn: Turn, why: str) -> TurnResult:
    return _noted(replace(result, status=_statuses(turn, "void")), f"void: {why}")


def _cut_off(result: TurnResult, turn: Turn, why: str) -> TurnResult:
    return replace(_void(result, turn, why), cut_off=True)


def _statuses(turn: Turn, asked: Status) -> dict[str, Status]:
    """``asked`` for the metrics that the turn asks for, not_applicable for the others."""
    wanted = _ASKED[turn.expect] + (("wer",) if turn.text is not None else ())
    return {metric: asked if metric in wanted else "not_applicable" for metric in TURN_METRICS}


def _noted(result: TurnResult, note: str) -> TurnResult:
    return replace(result, notes=(*result.notes, note))
