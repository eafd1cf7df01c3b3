"""The conversation of one call, without I/O: what to send when, and what was heard (VB09, VB16, VB22).

Drive it once per frame of the caller, in this order::

    samples = conversation.unheard(i)          # what the live detector still has to hear, or None
    if samples is not None:
        conversation.hear(energies(samples))   # the driver may do this for many calls in one go
    wire = conversation.tick(i)                # what to send now
    if conversation.finished: ...

and feed it with ``audio``, ``clear``, ``transcript`` and ``note`` as they come. ``i`` counts the frames that were
due; a driver that was late leaves some out, and the conversation goes on where the clock stands.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from voicebench.audio.pcm import FULL_SCALE, db_to_amplitude
from voicebench.runner.player import NANO, Pcm, Player
from voicebench.runner.record import CallEvent, Transcript, Trigger, TurnWindow
from voicebench.scenario import Scenario, Turn
from voicebench.vad import StreamingVad

_EPS = 1e-9
_NOT_SENT = -1

#: A call keeps at most so many events; more of them are counted.
MAX_EVENTS = 1000
#: An agent may send so many packets at once, and so many a second in the long run, before the call fails.
BURST_PACKETS, PACKETS_PER_S = 20_000, 1_000
#: Likewise for the length of its audio, in seconds at once, and seconds a second.
BURST_AUDIO_S, AUDIO_S_PER_S = 600, 20


class Conversation:
    """State of one call.

    ``frames[turn][k]`` and ``silence`` are what ``tick`` returns: ready wire bytes, which nobody looks into here.
    ``lengths`` are the prompts' lengths in samples at the session's rate.
    """

    def __init__(
        self,
        scenario: Scenario,
        frames: Sequence[Sequence[bytes]],
        silence: bytes,
        lengths: Sequence[int],
        agent_rate: int,
    ) -> None:
        self.scenario = scenario
        self.finished = False
        self.max_duration_reached = False
        self.windows: list[TurnWindow] = []
        self.first_frames: list[int] = []  # per window: the frame number at which its audio begins
        self.clears: list[float] = []
        self.transcripts: list[Transcript] = []
        self.events: list[CallEvent] = []
        self.flooded = False
        self.sent = array("q")  # per frame due: when it was sent in ns, or _NOT_SENT
        self._uncounted_events = 0
        self._frames, self._silence, self._lengths = frames, silence, lengths
        self._frame_ms = scenario.frame_ms
        self._tail_s = scenario.tail_ms / 1000
        self._max_frames = int(np.ceil(scenario.max_duration_ms / scenario.frame_ms - _EPS))
        self.player = Player(agent_rate, scenario.playout, scenario.max_duration_ms / 1000)
        self._vad = StreamingVad(agent_rate, scenario.vad.agent)
        self._threshold = round(db_to_amplitude(scenario.vad.agent.threshold_db) * FULL_SCALE)
        self._vad_bytes = 2 * self._vad.frame_length
        self._vad_frames = 0  # frames heard by the live detector
        self._onsets: list[float] = []
        self._offsets: list[float] = []
        self._packets = self._samples = 0
        self._next = 0  # the turn to play next
        self._waiting: Turn | None = scenario.turns[0]
        self._listening = self._waits_for_agent()
        self._free_at = 0.0  # when the previous turn's audio ends
        self._playing: Sequence[bytes] = ()
        self._playing_from = 0

    # What the agent does.

    def audio(self, pcm: Pcm, arrived_ns: int, read_ns: int) -> None:
        """One packet of the agent's audio at its own rate; times on the session's clock."""
        self._packets += 1
        self._samples += len(pcm) >> 1
        since_ns = max(0, arrived_ns)
        if (
            self._packets > BURST_PACKETS + PACKETS_PER_S * since_ns // NANO
            or self._samples > (BURST_AUDIO_S + AUDIO_S_PER_S * since_ns // NANO) * self.player.rate
        ):
            self.flooded = True
            return
        self.player.audio(pcm, arrived_ns, read_ns)

    def clear(self, at_ns: int) -> None:
        """The agent takes back what has not sounded yet."""
        self.player.clear(at_ns)
        if len(self.clears) < MAX_EVENTS:
            self.clears.append(at_ns / NANO)

    def transcript(self, role: Literal["user", "agent"], text: str, final: bool, at_ns: int) -> None:
        """Text that the agent reported."""
        if len(self.transcripts) < MAX_EVENTS:
            self.transcripts.append(Transcript(role, text[:10_000], at_ns / NANO, final))
        else:
            self._uncounted_events += 1

    def note(self, kind: str, detail: str, at_ns: int) -> None:
        """Anything else worth keeping."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(CallEvent(at_ns / NANO, kind, detail[:500]))
        else:
            self._uncounted_events += 1

    # What the caller does.

    def unheard(self, i: int) -> memoryview | None:
        """The heard audio up to frame ``i`` that the live detector needs, in whole detector frames.

        None if nothing waits for what the agent does: then the detector is left behind, and catches up later.
        """
        if not self._listening:
            return None
        due = i * self._frame_ms / 1000
        if due + _EPS < self._free_at:
            return None
        if self._waiting is None and due + _EPS < self._free_at + self._tail_s:
            return None
        upto = int(due * self.player.rate * 2 + 0.5) // self._vad_bytes
        count = upto - self._vad_frames
        if count <= 0:
            return None
        start = self._vad_frames * self._vad_bytes
        self._vad_frames = upto
        missing = upto * self._vad_bytes - len(self.player.track)
        if missing <= 0:
            return memoryview(bytes(self.player.track[start : upto * self._vad_bytes]))
        return memoryview(bytes(self.player.track[start:]).ljust(count * self._vad_bytes, b"\0"))

    @property
    def all_played(self) -> bool:
        """Whether every turn's audio has been sent to its end."""
        return self._waiting is None and len(self.sent) * self._frame_ms / 1000 + _EPS >= self._free_at

    @property
    def whereabouts(self) -> str:
        """Where the call stands, for messages."""
        if not self.windows:
            return "before the first turn"
        last = self.windows[-1].turn.id
        if len(self.sent) * self._frame_ms / 1000 + _EPS < self._free_at:
            return f"during turn {last!r}"
        return f"after turn {last!r}"

    @property
    def detector_frame(self) -> int:
        """Length of the live detector's frame in samples."""
        return self._vad.frame_length

    def hear(self, energies: Iterable[float]) -> None:
        """Energies (sums of squares) of the detector frames that ``unheard`` gave."""
        for event in self._vad.push_energies(energies):
            (self._onsets if event.kind == "onset" else self._offsets).append(event.time_s)

    def tick(self, i: int) -> bytes:
        """The wire bytes of frame ``i``."""
        due = i * self._frame_ms / 1000
        if i >= self._max_frames:
            self.max_duration_reached = self.finished = True
        elif self._waiting is not None:
            if due + _EPS >= self._free_at:
                self._consider(self._waiting, i, due)
        elif due + _EPS >= self._free_at + self._tail_s and not self._agent_audible(due):
            self.finished = True
        k = i - self._playing_from
        return self._playing[k] if k < len(self._playing) else self._silence

    def mark_sent(self, i: int, at_ns: int) -> None:
        """Frame ``i`` went out at ``at_ns``; frames before it that did not are marked as skipped."""
        missing = i - len(self.sent)
        if missing > 0:
            self.sent.extend([_NOT_SENT] * missing)
        self.sent.append(at_ns)

    def _agent_audible(self, due: float) -> bool:
        """Whether the agent speaks, or speech that it sent ahead is still to be heard.

        Agents on a telephone line send silence without an end: that alone keeps no call open.
        """
        return self._vad.speaking or self.player.loud_after(int(due * self.player.rate), self._threshold)

    def _consider(self, turn: Turn, i: int, due: float) -> None:
        """Start ``turn`` if its anchor was seen, or its patience is over (VB22)."""
        anchor = self._anchor(turn)
        trigger: Trigger
        if anchor is not None and due + _EPS >= anchor + turn.start.delay_ms / 1000:
            trigger = "anchor"
        elif due + _EPS >= self._free_at + turn.start.timeout_ms / 1000:
            trigger = "timeout"
        else:
            return
        end = due + self._lengths[self._next] / self.scenario.sample_rate
        self.windows.append(TurnWindow(turn, due, end, trigger))
        self.first_frames.append(i)
        self._playing, self._playing_from = self._frames[self._next], i
        self._free_at = end
        self._next += 1
        self._waiting = self.scenario.turns[self._next] if self._next < len(self.scenario.turns) else None
        self._listening = self._waits_for_agent()

    def _waits_for_agent(self) -> bool:
        """Whether the next decision depends on what the agent says."""
        return self._waiting is None or self._waiting.start.after.startswith("agent_")

    def _anchor(self, turn: Turn) -> float | None:
        after = turn.start.after
        if after == "session_start":
            return 0.0
        if after == "previous_turn_end":
            return self._free_at
        times = self._onsets if after == "agent_speech_start" else self._offsets
        return next((time for time in times if time + _EPS >= self._free_at), None)

    def closing_notes(self) -> list[CallEvent]:
        """Events, and how many more there were than were kept."""
        if self._uncounted_events:
            more = CallEvent(
                len(self.sent) * self._frame_ms / 1000, "more events", f"{self._uncounted_events} not kept"
            )
            return [*self.events, more]
        return self.events
