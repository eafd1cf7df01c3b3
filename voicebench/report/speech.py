"""The speech timeline of one call (VB34): who spoke when, and where each figure of a turn was read.

Two lanes, caller above agent. Between them each response latency is a bracket from the caller's last sound to the
agent's first. Where the agent was told to stop, a flag marks the instant at which it did.
"""

from collections.abc import Sequence

from voicebench.metrics.results import SessionMetrics, TurnResult
from voicebench.report.failures import what_failed
from voicebench.report.format import ms
from voicebench.report.svg import Axis, drawing, line, path, rect, tag, text, title

LEFT = 62.0
RIGHT = 14.0
LABELS = (14.0, 28.0)
CALLER = (38.0, 24.0)  # top and height of a lane
AGENT = (88.0, 24.0)
BETWEEN = 75.0
BELOW = 128.0
AXIS = 140.0
HEIGHT = 162.0
LEAST_WIDTH = 1000.0
PIXELS_PER_SECOND = 26.0
MOST_WIDTH = 12000.0

#: Rough width of a character of the labels, to keep them apart.
CHARACTER = 6.3


def speech_timeline(metrics: SessionMetrics, label: str) -> str:
    """The drawing as SVG. Long calls are wider than the page and scroll."""
    ends = [end for _, end in (*metrics.user_segments, *metrics.agent_segments)]
    length = max([metrics.duration_s, *ends, *(turn.end_s for turn in metrics.turns), 0.1])
    width = min(max(LEAST_WIDTH, LEFT + RIGHT + length * PIXELS_PER_SECOND), MOST_WIDTH)
    x = Axis(0.0, length, LEFT, width - RIGHT)
    parts = [
        _grid(x, width),
        text(0, CALLER[0] + 16, "Caller", "lane-name"),
        text(0, AGENT[0] + 16, "Agent", "lane-name"),
        *_segments(x, metrics.user_segments, CALLER, "caller", "Caller"),
        *_segments(x, metrics.agent_segments, AGENT, "agent", "Agent"),
        *_overlaps(x, metrics),
        *_turn_labels(x, metrics.turns, width),
        *(mark for turn in metrics.turns for mark in _marks(x, turn)),
        *(_clear(x, at) for at in metrics.clears_s),
    ]
    return drawing(width, HEIGHT, "".join(parts), label, "speech")


def _grid(x: Axis, width: float) -> str:
    parts = [rect(LEFT, top, width - LEFT - RIGHT, height, "lane", rx=3) for top, height in (CALLER, AGENT)]
    parts.append(line(LEFT, AXIS, width - RIGHT, AXIS, "axis"))
    for tick in x.ticks(about=int((width - LEFT) / 70)):
        parts.append(line(x(tick), AXIS, x(tick), AXIS + 4, "axis"))
        parts.append(text(x(tick), AXIS + 16, f"{tick:g} s", "tick", "middle"))
    return "".join(parts)


def _segments(
    x: Axis, segments: Sequence[tuple[float, float]], lane: tuple[float, float], class_: str, who: str
) -> list[str]:
    top, height = lane
    return [
        rect(x(start), top, x(end) - x(start), height, f"speech-{class_}", f"{who} {start:.2f} to {end:.2f} s", rx=3)
        for start, end in segments
    ]


def _overlaps(x: Axis, metrics: SessionMetrics) -> list[str]:
    """Where both speak; hatched strongly while the agent talks over a turn it should have heard out."""
    shapes = []
    for user_start, user_end in metrics.user_segments:
        turn = next((turn for turn in metrics.turns if turn.start_s - 0.1 <= user_start <= turn.end_s + 0.1), None)
        rude = turn is not None and turn.talk_over
        for agent_start, agent_end in metrics.agent_segments:
            start, end = max(user_start, agent_start), min(user_end, agent_end)
            if end > start:
                hint = f"{'Talk-over' if rude else 'Both speak'} {ms((end - start) * 1000)}"
                class_ = "talk-over" if rude else "overlap"
                shapes.append(
                    rect(x(start), CALLER[0], x(end) - x(start), AGENT[0] + AGENT[1] - CALLER[0], class_, hint)
                )
    return shapes


def _turn_labels(x: Axis, turns: Sequence[TurnResult], width: float) -> list[str]:
    """Each turn's start and name, on two rows so that close turns can both be read."""
    parts = []
    free = [LEFT, LEFT]
    for turn in turns:
        if turn.trigger == "not_played":
            continue
        at = x(turn.start_s)
        sign, class_ = turn_sign(turn)
        name = f"{sign} {turn.id}"
        row = 0 if at >= free[0] else 1 if at >= free[1] else None
        parts.append(line(at, 32, at, AGENT[0] + AGENT[1], "turn-start"))
        if row is None:
            continue
        room = int((width - at) / CHARACTER)
        shown = name if len(name) <= room else name[: max(room - 1, 1)] + "…"
        label = text(at, LABELS[row], shown, f"turn-name {class_}")
        parts.append(label.replace("</text>", title(f"{turn.id}: {turn.expect}") + "</text>"))
        free[row] = at + (len(shown) + 1.5) * CHARACTER
    return parts


def turn_sign(turn: TurnResult) -> tuple[str, str]:
    """A sign and a class for how a turn went: not by colour alone."""
    if not turn.counted:
        return "○", "is-void"
    return ("✓", "is-good") if turn.passed else ("✕", "is-bad")


def _marks(x: Axis, turn: TurnResult) -> list[str]:
    marks = []
    offset, onset = turn.user_offset_s, turn.user_onset_s
    if turn.response_latency_ms is not None and offset is not None:
        marks.append(_bracket(x, offset, turn))
    elif not turn.passed and turn.counted and turn.trigger != "not_played":
        at = offset if offset is not None else turn.end_s
        marks.append(text(min(x(at) + 4, x.end - 90), BETWEEN + 4, what_failed(turn), "mark is-bad"))
    if turn.stop_latency_ms is not None and onset is not None:
        marks.append(_stop(x, onset, turn))
    return marks


def _bracket(x: Axis, offset: float, turn: TurnResult) -> str:
    latency = turn.response_latency_ms or 0.0
    start, end = sorted((x(offset), x(offset + latency / 1000)))
    class_ = "bracket is-warn" if latency < 0 else "bracket"
    label = "mark is-warn" if latency < 0 else "mark"
    hint = f"{turn.id}: response latency {ms(latency)}" + (f", TTFA {ms(turn.ttfa_ms)}" if turn.ttfa_ms else "")
    shape = [
        line(start, BETWEEN - 7, start, BETWEEN + 7, class_),
        line(start, BETWEEN, end, BETWEEN, class_, hint),
        line(end, BETWEEN - 7, end, BETWEEN + 7, class_),
        text(end + 4, BETWEEN + 4, ms(latency), label),
    ]
    return tag("g", title(hint) + "".join(shape))


def _stop(x: Axis, onset: float, turn: TurnResult) -> str:
    latency = turn.stop_latency_ms or 0.0
    start, end = x(onset), x(onset + latency / 1000)
    state = "is-bad" if not turn.passed and turn.counted else "is-good"
    hint = f"{turn.id}: stopped {ms(latency)} after the caller cut in"
    shape = [
        line(start, BELOW - 6, end, BELOW - 6, f"bracket {state}"),
        line(start, BELOW - 10, start, BELOW - 2, f"bracket {state}"),
        line(end, AGENT[0] - 4, end, BELOW - 2, f"stop {state}"),
        text(end + 4, BELOW - 2, f"stop {ms(latency)}", f"mark {state}"),
    ]
    return tag("g", title(hint) + "".join(shape))


def _clear(x: Axis, at: float) -> str:
    foot = AGENT[0] + AGENT[1]
    points = [(x(at) - 4, foot + 7), (x(at) + 4, foot + 7), (x(at), foot)]
    return tag("g", title(f"The agent cleared the player at {at:.2f} s") + path(points, "clear", close=True))
