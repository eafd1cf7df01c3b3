"""A small run made by hand: two scenarios on two workers, and every way in which a call or a turn can end.

Its figures can be checked by eye: the latencies of ``booking/ask`` are -300, 600, 700, 700, 800 and 1,900 ms.
"""

from collections.abc import Mapping
from typing import Any, Literal

from voicebench.metrics.results import (
    BargeIn,
    Continuity,
    Delivery,
    Health,
    Opening,
    Pacing,
    Playout,
    ProcessHealth,
    RunInfo,
    SessionMetrics,
    SessionResult,
    Status,
    TurnResult,
    WorkerInfo,
)

START = 1_760_000_000.0
Outcome = Literal["completed", "truncated", "failed", "lost"]

HEALTH = Health(
    frames=900,
    skipped_frames=0,
    send_lag_ms={"p50": 0.2, "p99": 1.0, "max": 2.5},
    receive_lag_ms={"p50": 0.4, "p99": 3.0, "max": 6.0},
    send_lag_histogram={"533": 890, "695": 10},
    receive_lag_histogram={"603": 300, "805": 5},
    loop_lag_ms={"p50": 0.1, "p99": 0.8, "max": 2.0},
    collections=1,
    cpu_share=0.2,
)
#: 1,000 ticks that were about 0.1 ms late, and 10 that were about 1 ms late.
PROCESS = ProcessHealth({"p50": 0.1, "p99": 0.1, "max": 2.0}, {"463": 1000, "695": 10}, collections=4, cpu_share=0.25)


def statuses(**known: Status) -> dict[str, Status]:
    """A status for every metric; those not named do not apply."""
    names = ("response_latency_ms", "ttfa_ms", "stop_latency_ms", "noise", "wer")
    return {name: known.get(name, "not_applicable") for name in names}


def answered(name: str, start: float, end: float, latency_ms: float, **more: Any) -> TurnResult:
    """A turn that the agent answered."""
    return TurnResult(
        id=name,
        expect="respond",
        trigger="anchor",
        start_s=start,
        end_s=end,
        user_onset_s=start,
        user_offset_s=end,
        responded=True,
        response_latency_ms=latency_ms,
        ttfa_ms=None if latency_ms < 0 else latency_ms,
        passed=True,
        **{"talk_over": latency_ms < 0, "status": statuses(response_latency_ms="ok", ttfa_ms="ok"), **more},
    )


def missed(name: str, start: float, end: float, note: str = "no response within 5000 ms") -> TurnResult:
    """A turn that the agent did not answer."""
    status = statuses(response_latency_ms="missed", ttfa_ms="missed")
    return TurnResult(
        name, "respond", "anchor", start, end, start, end, responded=False, notes=(note,), status=status
    )


def void(name: str, start: float, end: float) -> TurnResult:
    """A turn that the harness disturbed."""
    note = "void: 4 frames were sent late"
    status = statuses(response_latency_ms="void", ttfa_ms="void")
    return TurnResult(name, "respond", "anchor", start, end, start, end, notes=(note,), status=status)


def cut_in(start: float, stop_ms: float | None, passed: bool) -> TurnResult:
    """A barge-in that stopped the agent after ``stop_ms``, or never."""
    status = statuses(stop_latency_ms="missed" if stop_ms is None else "ok")
    return TurnResult(
        id="cut-in",
        expect="stop",
        trigger="anchor",
        start_s=start,
        end_s=start + 1.0,
        user_onset_s=start,
        user_offset_s=start + 1.0,
        stopped=passed,
        stop_latency_ms=stop_ms,
        passed=passed,
        notes=() if passed else ("the agent went on speaking",),
        status=status,
    )


def cough(start: float, stopped: bool) -> TurnResult:
    """A noise that the agent should ignore."""
    return TurnResult(
        id="cough",
        expect="ignore",
        trigger="anchor",
        start_s=start,
        end_s=start + 0.2,
        user_onset_s=start,
        user_offset_s=start + 0.2,
        false_barge_in=stopped,
        spurious_response=False,
        passed=not stopped,
        status=statuses(noise="ok"),
    )


def measured(turns: tuple[TurnResult, ...], agent: tuple[tuple[float, float], ...], **more: Any) -> SessionMetrics:
    """A call's metrics; the caller's segments are those of its turns."""
    user = tuple((turn.start_s, turn.end_s) for turn in turns if turn.trigger != "not_played")
    overlap = sum(
        max(0.0, min(user_end, agent_end) - max(user_start, agent_start))
        for user_start, user_end in user
        for agent_start, agent_end in agent
    )
    return SessionMetrics(
        turns=turns,
        duration_s=18.0,
        user_speech_ms=round(sum(end - start for start, end in user) * 1000, 1),
        agent_speech_ms=round(sum(end - start for start, end in agent) * 1000, 1),
        overlap_ms=round(overlap * 1000, 1),
        talk_over_ms=round(sum(-min(turn.response_latency_ms or 0.0, 0.0) for turn in turns), 1),
        user_segments=user,
        agent_segments=agent,
        truncated=False,
        **more,
    )


def call(
    call_id: str,
    scenario: str,
    metrics: SessionMetrics | None,
    outcome: Outcome = "completed",
    reason: str = "",
    worker: str = "worker-1",
    started: float = 0.0,
    recording: Mapping[str, str] | None = None,
) -> SessionResult:
    """One call that began ``started`` seconds into the run."""
    return SessionResult(
        call_id=call_id,
        scenario=scenario,
        worker=worker,
        outcome=outcome,
        reason=reason,
        started_at=START + started,
        connect_ms=None if metrics is None else 12.0,
        clock="real",
        timestamps="kernel",
        adapter={"type": "websocket", "url": "ws://127.0.0.1:8765"},
        metrics=metrics,
        health=Health() if metrics is None else HEALTH,
        recording=recording,
    )


def delivered(first_ms: float, burst: int = 2, ratio: float = 1.003, cut_ms: float | None = None) -> Delivery:
    """How a call's audio arrived; with ``cut_ms`` the agent was cut into, and stopped."""
    cut = BargeIn("cut-in", "ok", cut_ms, 8, 160.0, 15.0, resumed_after_stop=False)
    return Delivery(
        opening=Opening(first_ms, first_ms, 0),
        pacing=Pacing(300, 20.0, 20.4, 23.1, burst, 5.98, 6.0, ratio, 2, 0),
        continuity=Continuity(5.96, 23.1, 4.2, 3, 60.0),
        playout=Playout(first_ms, 0.0, 0.0, None, 4.0),
        barge_ins=() if cut_ms is None else (cut,),
        status=dict.fromkeys(("opening", "pacing", "continuity", "playout"), "ok"),
    )


def booking(call_id: str, latency_ms: float, **more: Any) -> SessionResult:
    """A call of ``booking`` that went well but for what ``more`` says: ask, then confirm."""
    heard = {"transcript": "i want to change my booking", "wer": 0.1667}
    ask = answered("ask", 0.5, 2.5, latency_ms, **heard)
    reply = (2.5 + latency_ms / 1000, 6.0)
    turns = (ask, answered("confirm", 7.0, 8.0, 500.0))
    delivery = delivered(2500.0 + latency_ms, *((40, 5.2) if latency_ms > 1000 else ()))
    return call(call_id, "booking", measured(turns, (reply, (8.5, 11.0)), delivery=delivery), **more)


def interrupted(call_id: str, stop_ms: float | None, passed: bool, coughs: bool, **more: Any) -> SessionResult:
    """A call of ``barge-in``: the caller asks, cuts in at 4 s, and coughs at 9 s."""
    end = 6.5 if stop_ms is None else 4.0 + stop_ms / 1000
    turns = (answered("ask", 0.5, 2.0, 650.0), cut_in(4.0, stop_ms, passed), cough(9.0, coughs))
    agent = ((2.65, end), (8.0, 9.3 if coughs else 12.0))
    clears = (4.0 + stop_ms / 1000,) if stop_ms is not None else ()
    delivery = delivered(2650.0, cut_ms=None if stop_ms is None else stop_ms - 70)
    return call(call_id, "barge-in", measured(turns, agent, clears_s=clears, delivery=delivery), **more)


def handmade_calls() -> list[SessionResult]:
    """Thirteen calls: 9 completed, 1 truncated, 2 failed, 1 lost."""
    talk_over = (answered("ask", 0.5, 2.5, -300.0), answered("confirm", 7.0, 8.0, 520.0))
    silent = (missed("ask", 0.5, 2.5), answered("confirm", 12.0, 13.0, 480.0))
    disturbed = (void("ask", 0.5, 2.5), answered("confirm", 7.0, 8.0, 510.0))
    unplayed = TurnResult(
        "confirm",
        "respond",
        "not_played",
        3.0,
        3.0,
        notes=("the harness ended the call: the run ended",),
        status=statuses(),
    )
    cut_off = (void("ask", 0.5, 2.5), unplayed)
    hung_up = (
        answered("ask", 0.5, 2.5, 700.0),
        missed("confirm", 7.0, 8.0, "the call failed: the agent hung up (code 1011)"),
    )
    recording = {name: f"recordings/call-01.{name}.wav" for name in ("stereo", "user", "agent")}
    return [
        booking("call-01", 600.0, recording=recording),
        booking("call-02", 700.0, started=1.0, worker="worker-2"),
        booking("call-03", 800.0, started=2.0),
        booking("call-04", 1900.0, started=3.0, worker="worker-2"),
        call("call-05", "booking", measured(talk_over, ((2.2, 5.0), (8.52, 10.0))), started=4.0),
        call("call-06", "booking", measured(silent, ((13.48, 15.0),)), started=5.0, worker="worker-2"),
        call("call-07", "booking", measured(disturbed, ((3.2, 6.0), (8.51, 10.0))), started=6.0),
        call("call-08", "booking", measured(cut_off, ((3.2, 6.0),)), "truncated", "the run ended", started=7.0),
        call(
            "call-09",
            "booking",
            measured(hung_up, ((3.2, 6.0),)),
            "failed",
            "the agent hung up (code 1011)",
            started=8.0,
        ),
        call("call-10", "booking", None, "failed", "cannot connect to ws://127.0.0.1:8765: refused", started=9.0),
        interrupted("call-11", 380.0, True, False, started=10.0, worker="worker-2"),
        interrupted("call-12", None, False, True, started=11.0, worker="worker-2"),
        call("call-13", "barge-in", None, "lost", "worker-2 died", started=12.0, worker="worker-2"),
    ]


def handmade_run(**more: Any) -> RunInfo:
    """The run that the handmade calls belong to."""
    booking_limits = {"p90_response_latency_ms": 1200.0, "max_missed_responses": 5.0, "max_wer": 0.2}
    barge_in_limits = {
        "max_barge_in_stop_ms": 500.0,
        "min_barge_in_success_rate": 1.0,
        "p50_response_latency_ms": 900.0,
    }
    known: dict[str, Any] = {
        "id": "20251009-085320",
        "created_at": "2025-10-09T08:53:20+00:00",
        "duration_s": 30.0,
        "command": "locust -f locustfiles/voice.py --headless -u 4 --host ws://me:pw@127.0.0.1:8765/?token=abc",
        "arrivals": "closed",
        "clock": "real",
        "adapter": {"type": "websocket", "url": "ws://me:pw@127.0.0.1:8765/?token=abc"},
        "scenarios": (
            scenario("booking", ["ask", "confirm"], ["respond", "respond"], booking_limits),
            scenario("barge-in", ["ask", "cut-in", "cough"], ["respond", "stop", "ignore"], barge_in_limits),
        ),
        "workers": (
            WorkerInfo("worker-1", "host-a", started=7, recorded=7, lost=0, process=PROCESS),
            WorkerInfo("worker-2", "host-b", started=6, recorded=5, lost=1),
        ),
        "voicebench_version": "0.1.0",
        "python": "3.11.2",
        "notes": ("worker-2 was lost 24 s into the run",),
        "limits": {"max_void_turn_share": 0.05, "max_send_lag_p99_ms": 20.0},
    }
    return RunInfo(**{**known, **more})


def scenario(name: str, turns: list[str], expects: list[str], limits: Mapping[str, float]) -> dict[str, Any]:
    """A scenario as a run describes it."""
    return {
        "name": name,
        "description": f"The {name} scenario.",
        "sample_rate": 16000,
        "frame_ms": 20.0,
        "turns": len(turns),
        "turn_ids": turns,
        "expects": expects,
        "assertions": dict(limits),
    }
