"""Calls made by hand: tones placed into tracks, so that every expected number can be worked out on paper."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from voicebench.runner.player import Player
from voicebench.runner.record import Outcome, Packets, SessionRecord, Timestamps, Transcript, TurnWindow
from voicebench.scenario import JitterBuffer, Scenario, parse_scenario

RATE = 16000
FRAME_S = 0.02
Span = tuple[float, float]


def tone(duration_s: float, level_db: float, rate: int = RATE) -> npt.NDArray[np.int16]:
    """A signal whose every stretch has the RMS level ``level_db``: plus and minus one amplitude in turns."""
    amplitude = round(32768 * 10 ** (level_db / 20))
    return np.where(np.arange(round(duration_s * rate)) % 2, -amplitude, amplitude).astype(np.int16)


def track(spans: Sequence[Sequence[float]], duration_s: float, rate: int = RATE) -> npt.NDArray[np.int16]:
    """Silence with a tone from ``span[0]`` to ``span[1]`` s, at ``span[2]`` dBFS (-20)."""
    samples = np.zeros(round(duration_s * rate), dtype=np.int16)
    for start, end, *level in spans:
        sound = tone(end - start, level[0] if level else -20.0, rate)
        first = round(start * rate)
        samples[first : first + len(sound)] = sound[: len(samples) - first]
    return samples


def packets(
    arrived: Sequence[float], level_db: float | Sequence[float] = -20.0, read: Sequence[float] | None = None
) -> Packets:
    """Packets of 20 ms that sound as they arrive, and are read then too unless said otherwise."""
    times = np.array(arrived, dtype=np.float64)
    levels = np.broadcast_to(np.asarray(level_db, dtype=np.float64), times.shape)
    never = np.full(len(times), np.nan)
    seen = times if read is None else np.array(read)
    return Packets(times, times, np.full(len(times), FRAME_S), levels, seen, times, never, levels)


def played(
    sent: Sequence[tuple[float, float, float]],
    clears: Sequence[float] = (),
    playout: str | JitterBuffer = "ideal",
    duration_s: float = 10.0,
) -> tuple[Packets, npt.NDArray[np.int16]]:
    """What a caller's player makes of packets of (arrival in s, length in s, level in dBFS) and of clears."""
    player = Player(RATE, playout, duration_s)
    times = [(at_s, False, 0.0, 0.0) for at_s in clears]
    times += [(at_s, True, length_s, level_db) for at_s, length_s, level_db in sent]
    for at_s, is_audio, length_s, level_db in sorted(times):
        at_ns = round(at_s * 1e9)
        if is_audio:
            player.audio(tone(length_s, level_db).tobytes(), at_ns, at_ns)
        else:
            player.clear(at_ns)
    heard = np.zeros(round(duration_s * RATE), dtype=np.int16)
    heard[: len(player.heard())] = player.heard()
    return player.packets(), heard


def stream(start_s: float, stop_s: float, level_db: float = -20.0, every_s: float = FRAME_S) -> list[Any]:
    """Packets of 20 ms that arrive from ``start_s`` on, one ``every_s``, until ``stop_s``."""
    return [(start_s + k * every_s, FRAME_S, level_db) for k in range(round((stop_s - start_s) / every_s))]


def agent_call(
    sent: Sequence[tuple[float, float, float]],
    user: Sequence[Sequence[float]] = (),
    turns: Sequence[Mapping[str, Any]] = ({"expect": "respond"},),
    duration_s: float = 10.0,
    *,
    clears: Sequence[float] = (),
    playout: str | Mapping[str, float] = "ideal",
    connected_s: float = 0.0,
    **keys: Any,
) -> SessionRecord:
    """A record of a call whose agent sent these packets and clears, heard through the scenario's player."""
    record = call(turns, user, (), duration_s, playout=playout, clears=clears, **keys)
    arrivals, heard = played(sent, clears, record.scenario.playout, duration_s)
    return replace(record, packets=arrivals, agent_track=heard, connected_s=connected_s)


def paced(spans: Sequence[Sequence[float]]) -> list[float]:
    """When the packets of these spans arrive, one every 20 ms."""
    return [start + k * FRAME_S for start, end, *_ in spans for k in range(round((end - start) / FRAME_S))]


def scenario(turns: Sequence[Mapping[str, Any]], **keys: Any) -> Scenario:
    """A scenario with these turns; their audio does not matter, since the tracks are given."""
    audio = {"synth": "tone"}
    return parse_scenario({"name": "demo", **keys, "turns": [{"audio": audio, **turn} for turn in turns]})


def call(
    turns: Sequence[Mapping[str, Any]],
    user: Sequence[Sequence[float]],
    agent: Sequence[Sequence[float]] = (),
    duration_s: float = 10.0,
    *,
    windows: Sequence[Span] | None = None,
    triggers: Mapping[int, Any] | None = None,
    lag_s: Mapping[int, float] | None = None,
    arrivals: Packets | None = None,
    transcripts: Sequence[Transcript] = (),
    outcome: Outcome = "completed",
    reason: str = "",
    timestamps: Timestamps = "kernel",
    connect_ms: float | None = 12.5,
    max_duration_reached: bool = False,
    call_id: str = "call-1",
    clears: Sequence[float] = (),
    **keys: Any,
) -> SessionRecord:
    """A record of one call.

    Without ``windows``, turn k plays from ``user[k][0]`` to ``user[k][1]``. ``lag_s`` maps caller frames to their
    send lag (NaN: skipped); all others went out when due. Packets follow ``agent`` unless ``arrivals`` is given.
    """
    script = scenario(turns, **keys)
    spans: Sequence[Sequence[float]] = user if windows is None else windows
    sent = np.arange(round(duration_s / FRAME_S), dtype=np.float64) * FRAME_S
    for frame, lag in (lag_s or {}).items():
        sent[frame] += lag
    return SessionRecord(
        call_id=call_id,
        scenario=script,
        adapter={"type": "test"},
        clock="real",
        timestamps=timestamps,
        outcome=outcome,
        reason=reason,
        started_at=1_700_000_000.25,
        origin_ns=0,
        connect_ms=connect_ms,
        user_track=track(user, duration_s, script.sample_rate),
        agent_track=track(agent, duration_s, script.sample_rate),
        sent=sent,
        packets=packets(paced(agent)) if arrivals is None else arrivals,
        windows=tuple(
            TurnWindow(turn, span[0], span[1], (triggers or {}).get(k, "anchor"))
            for k, (turn, span) in enumerate(zip(script.turns, spans, strict=False))
        ),
        clears=tuple(clears),
        transcripts=tuple(transcripts),
        max_duration_reached=max_duration_reached,
    )


def heard(text: str, time: float, *, final: bool = True) -> Transcript:
    """What the agent reported to have heard."""
    return Transcript("user", text, time, final)
