"""The reference agent: a voice agent without intelligence, whose every delay is known (VB31).

It listens by level alone, waits, answers with a speech-like sound, and yields when it is interrupted. Its figures are
whatever its options say, so they say nothing of any product: they are what a measurement is checked against.

Conventions
-----------
The agent is a state machine without I/O. Times are float seconds on the clock of whoever drives it. A caller's frame
that arrived at ``t`` holds the audio from ``t`` to ``t + duration_s``. The driver calls :meth:`ReferenceAgent.hear`
for every frame, and :meth:`ReferenceAgent.due` either at every frame (the virtual clock: what fell due since the last
frame goes out with this one) or exactly at :meth:`ReferenceAgent.next_due` (a real-time server).

    listening --speech, then endpoint_silence_ms of silence--> waiting
    waiting   --response_delay_ms + jitter--> speaking
    speaking  --said everything, or interrupt_reaction_ms after an interruption--> listening

What can be switched on that is wrong with it stands in ``voicebench.agents.options``.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from voicebench.agents.defects import Echo, shaped
from voicebench.agents.options import OptionError, ReferenceOptions

__all__ = [
    "Audio",
    "Clear",
    "Echoed",
    "HangUp",
    "HeardText",
    "Noticed",
    "OptionError",
    "Output",
    "ReferenceAgent",
    "ReferenceOptions",
    "State",
    "Stopped",
    "Voice",
]

EPSILON_S = 1e-9  #: sums of frame durations are compared with this tolerance


class Audio(NamedTuple):
    """One frame of the agent's voice. ``position`` counts from 0 within the reply, whose ``last`` frame says so."""

    frame: bytes
    position: int
    last: bool
    due: float


class Clear(NamedTuple):
    """What the agent sent but has not sounded yet should be dropped; it has stopped by now."""

    due: float


class Stopped(NamedTuple):
    """The agent stops without saying so: an agent with ``no_clear`` or ``clear_delay_ms``."""

    due: float


class Echoed(NamedTuple):
    """A frame of the caller's own audio that comes back, as PCM16LE."""

    pcm: bytes
    due: float


class HangUp(NamedTuple):
    """The agent ends the call."""

    due: float


class HeardText(NamedTuple):
    """What the agent claims to have heard in the turn that just ended."""

    text: str
    due: float


Output = Audio | Clear | Stopped | Echoed | HangUp | HeardText

#: ``voice(turn, duration_ms)``: the frames, ready to send, of the reply to the ``turn``-th turn (0: the greeting).
Voice = Callable[[int, float], Sequence[bytes]]


class Noticed(Enum):
    """What a caller's frame made the agent notice."""

    ENDPOINT = "endpoint"
    BARGE_IN = "barge_in"


class State(Enum):
    LISTENING = "listening"
    WAITING = "waiting"
    SPEAKING = "speaking"


class ReferenceAgent:
    """One call's agent. ``frame_s`` is the length in seconds of the frames that ``voice`` gives."""

    def __init__(self, options: ReferenceOptions, voice: Voice, frame_s: float = 0.02) -> None:
        self.options = options
        self.state = State.LISTENING
        self.turns_heard = 0
        self.heard_speech = False  #: whether the caller has begun a turn that has not ended yet
        self._voice = voice
        self._frame_s = frame_s
        self._random = np.random.default_rng(options.seed)
        self._faultless = not options.defects
        self._threshold_db = options.threshold_db
        self._endpoint_s = options.endpoint_silence_ms / 1000 - EPSILON_S
        self._barge_in_s = options.barge_in_min_ms / 1000 - EPSILON_S
        self._started = False
        self._silence_s = 0.0
        self._overlap_s = 0.0
        self._respond_at = 0.0
        self._stop_at: float | None = None
        self._frames: Sequence[bytes] = ()
        self._gaps: Sequence[float] = ()  # per frame: the time until the next is due
        self._position = 0
        self._frame_at = 0.0
        self._reply_ms = options.response_ms  # what is said at ``_respond_at``
        self._texts: list[Output] = []
        self._resume_at: float | None = None
        self._resumed = False
        self._clear_at: float | None = None
        self._hang_up_at: float | None = None
        self._echo = Echo(options.echo_ms / 1000) if options.echo_ms else None

    def hear(self, level_db: float, duration_s: float, t: float) -> Noticed | None:
        """Take one frame of the caller that arrived at ``t``, and say what it made the agent notice."""
        if not self._started:
            self._begin(t)
        noticed: Noticed | None = None
        if level_db >= self._threshold_db:
            # Speech over the agent's voice is a turn only if it qualifies as cutting in: a cough is none.
            if self.state is not State.SPEAKING:
                self.heard_speech = True
            self._silence_s = 0.0
        else:
            self._silence_s += duration_s
        if self.heard_speech and self.state is State.LISTENING and self._silence_s >= self._endpoint_s:
            self._end_turn(t, duration_s)
            noticed = Noticed.ENDPOINT
        self._speak_if_due(t)
        if self.state is State.SPEAKING:
            self._overlap_s = self._overlap_s + duration_s if level_db >= self._threshold_db else 0.0
            if self._overlap_s >= self._barge_in_s and self._stop_at is None and self.options.interruptible:
                self._stop_at = t + duration_s + self.options.interrupt_reaction_ms / 1000
                self.heard_speech = True
                noticed = Noticed.BARGE_IN
        return noticed

    def overhear(self, pcm: bytes, t: float) -> None:
        """The samples (PCM16LE) of a frame that :meth:`hear` takes too; only an agent with ``echo_ms`` needs them."""
        if self._echo is not None:
            self._echo.hear(pcm, t)

    def due(self, t: float) -> list[Output]:
        """What is to be sent at ``t``: texts and the like, and then either a stop or at most one frame of audio.

        A driver asks again as long as :meth:`next_due` is not after ``t``. One that comes late by a frame or more
        finds the rest of the reply moved back by as much: no burst.
        """
        outputs, self._texts = self._texts, []
        self._speak_if_due(t)
        if self._clear_at is not None and t + EPSILON_S >= self._clear_at:
            outputs.append(Clear(self._clear_at))
            self._clear_at = None
        if self._echo is not None:
            back = self._echo.due(t)
            if self.state is not State.SPEAKING and not self.options.one_way:
                outputs += [Echoed(pcm, due) for due, pcm in back]
        if self._hang_up_at is not None and t + EPSILON_S >= self._hang_up_at:
            outputs.append(HangUp(self._hang_up_at))
            self._hang_up_at = None
        if self.state is not State.SPEAKING:
            return outputs
        if self._stop_at is not None and t + EPSILON_S >= self._stop_at:
            outputs.append(self._stop(self._stop_at))
        elif t + EPSILON_S >= self._frame_at:
            audio = self._next_frame(t)
            if audio is not None and not self.options.one_way:
                outputs.append(audio)
        return outputs

    def next_due(self) -> float | None:
        """When :meth:`due` will next have something, as far as is known now; None while only listening."""
        if self._texts:
            return self._texts[0].due
        due: float | None = None
        if self.state is State.SPEAKING:
            due = self._frame_at if self._stop_at is None else min(self._frame_at, self._stop_at)
        elif self.state is State.WAITING:
            due = self._respond_at
        return due if self._faultless else self._sooner(due)

    def _sooner(self, due: float | None) -> float | None:
        """The first of ``due`` and what only an agent with defects waits for."""
        echo = self._echo.next_due() if self._echo is not None else None
        times = (due, self._resume_at, self._clear_at, self._hang_up_at, echo)
        return min((time for time in times if time is not None), default=None)

    def _begin(self, t: float) -> None:
        """The call's first frame has come."""
        options = self.options
        self._started = True
        if options.hangs_up_after_ms:
            self._hang_up_at = t + options.hangs_up_after_ms / 1000
        if options.greeting_ms and options.greeting_delay_ms:
            self._respond_at, self._reply_ms = t + options.greeting_delay_ms / 1000, options.greeting_ms
            self.state = State.WAITING
        elif options.greeting_ms:
            self._speak(t, options.greeting_ms)

    def _end_turn(self, t: float, duration_s: float) -> None:
        options = self.options
        self.heard_speech = False
        jitter_ms = float(self._random.uniform(0.0, options.jitter_ms)) if options.jitter_ms else 0.0
        self._respond_at = t + duration_s + (options.response_delay_ms + jitter_ms) / 1000
        self._reply_ms = options.response_ms
        self._resume_at = None
        self.state = State.WAITING
        if self.turns_heard < len(options.transcripts):
            self._texts.append(HeardText(options.transcripts[self.turns_heard], t))
        self.turns_heard += 1

    def _speak_if_due(self, t: float) -> None:
        if self.state is State.WAITING and t + EPSILON_S >= self._respond_at:
            self._speak(self._respond_at, self._reply_ms)
        elif self._resume_at is not None and t + EPSILON_S >= self._resume_at:
            self._frame_at, self._resume_at = self._resume_at, None
            self._overlap_s = 0.0
            self.state = State.SPEAKING

    def _speak(self, at: float, duration_ms: float) -> None:
        self._frames, self._gaps = shaped(self.options, self._voice(self.turns_heard, duration_ms), self._frame_s)
        self._position = 0
        self._frame_at = at
        self._overlap_s = 0.0
        self._stop_at = None
        self._resumed = False
        self.state = State.SPEAKING

    def _next_frame(self, t: float) -> Audio | None:
        """The frame that is due; None once what was sent ahead has sounded."""
        position, due = self._position, self._frame_at
        if position == len(self._frames):
            self._fall_silent()
            return None
        self._position = position + 1
        late_by_a_frame = t - due >= self._frame_s - EPSILON_S
        gap = self._gaps[position]
        self._frame_at = (t if late_by_a_frame else due) + gap
        audio = Audio(self._frames[position], position, self._position == len(self._frames), due)
        if audio.last and gap < EPSILON_S:
            self._fall_silent()
        return audio

    def _stop(self, at: float) -> Clear | Stopped:
        """Give way to the caller."""
        options = self.options
        unsaid = self._position < len(self._frames)
        if options.restart_ms and unsaid and not self._resumed:
            self._resume_at, self._resumed = at + options.restart_ms / 1000, True
            self.state, self._stop_at = State.LISTENING, None
        else:
            self._fall_silent()
        if options.no_clear:
            return Stopped(at)
        if options.clear_delay_ms:
            self._clear_at = at + options.clear_delay_ms / 1000
            return Stopped(at)
        return Clear(at)

    def _fall_silent(self) -> None:
        self.state = State.LISTENING
        self._stop_at = None
        self._frames = self._gaps = ()
