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
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

EPSILON_S = 1e-9  #: sums of frame durations are compared with this tolerance

_Milliseconds = Annotated[float, Field(ge=0, le=3_600_000, allow_inf_nan=False)]
_Decibels = Annotated[float, Field(ge=-120, le=0, allow_inf_nan=False)]


class OptionError(ValueError):
    """An option of the agent is unknown or has a wrong value. The message is one line for people."""


class ReferenceOptions(BaseModel):
    """What the agent does, and when (VB31). Times in ms, levels in dBFS (RMS)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    endpoint_silence_ms: _Milliseconds = Field(300.0, description="Silence after speech that ends the caller's turn.")
    response_delay_ms: _Milliseconds = Field(400.0, description="From there to the reply.")
    jitter_ms: _Milliseconds = Field(0.0, description="A random extra delay per reply, evenly from 0 to this.")
    response_ms: _Milliseconds = Field(1500.0, description="Length of a reply.")
    greeting_ms: _Milliseconds = Field(0.0, description="Length of a greeting at the call's first frame; 0 for none.")
    level_db: _Decibels = Field(-20.0, description="Level of the agent's voice.")
    voice: Literal["speech", "tone"] = Field(
        "speech",
        description="speech: like speech, faded in and out. tone: a sine whose first and last sample are edges.",
    )
    threshold_db: _Decibels = Field(-45.0, description="A caller's frame at or above this level is speech.")
    interruptible: bool = Field(True, description="Whether the agent stops for a caller who cuts in.")
    barge_in_min_ms: _Milliseconds = Field(
        100.0, description="Unbroken speech over the agent that counts as cutting in."
    )
    interrupt_reaction_ms: _Milliseconds = Field(150.0, description="How long the agent talks on after that.")
    transcripts: tuple[str, ...] = Field((), description="What it claims to have heard, one text a caller's turn.")
    seed: int = Field(0, ge=0, description="Seed of the jitter and of the voice.")

    @field_validator("transcripts", mode="before")
    @classmethod
    def _texts(cls, value: object) -> object:
        """A list of YAML scalars: ``- 42`` is a text too."""
        if isinstance(value, list | tuple) and not any(isinstance(item, list | dict) for item in value):
            return tuple(str(item) for item in value)
        raise ValueError("expected a list of texts")

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """Options as they stand in YAML. Raises OptionError for the first that is wrong."""
        for name in options:
            if name not in cls.model_fields:
                near = get_close_matches(str(name), cls.model_fields, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(cls.model_fields)}"
                raise OptionError(f"reference agent: unknown option '{name}'; {hint}")
        try:
            return cls(**options)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise OptionError(
                f"reference agent: {place}: {first['msg'].removeprefix('Value error, ')}, got {first['input']!r}"
            ) from None


class Audio(NamedTuple):
    """One frame of the agent's voice. ``position`` counts from 0 within the reply, whose ``last`` frame says so."""

    frame: bytes
    position: int
    last: bool
    due: float


class Clear(NamedTuple):
    """The agent stops, and what it sent but has not sounded yet should be dropped."""

    due: float


class HeardText(NamedTuple):
    """What the agent claims to have heard in the turn that just ended."""

    text: str
    due: float


Output = Audio | Clear | HeardText

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
        self._threshold_db = options.threshold_db
        self._endpoint_s = options.endpoint_silence_ms / 1000 - EPSILON_S
        self._barge_in_s = options.barge_in_min_ms / 1000 - EPSILON_S
        self._started = False
        self._silence_s = 0.0
        self._overlap_s = 0.0
        self._respond_at = 0.0
        self._stop_at: float | None = None
        self._frames: Sequence[bytes] = ()
        self._position = 0
        self._frame_at = 0.0
        self._texts: list[Output] = []

    def hear(self, level_db: float, duration_s: float, t: float) -> Noticed | None:
        """Take one frame of the caller that arrived at ``t``, and say what it made the agent notice."""
        if not self._started:
            self._started = True
            if self.options.greeting_ms > 0:
                self._speak(t, self.options.greeting_ms)
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

    def due(self, t: float) -> list[Output]:
        """What is to be sent at ``t``: texts, and then either a clear or at most one frame of audio.

        A driver that comes late by a frame or more finds the rest of the reply moved back by as much: no burst.
        """
        outputs, self._texts = self._texts, []
        self._speak_if_due(t)
        if self.state is not State.SPEAKING:
            return outputs
        if self._stop_at is not None and t + EPSILON_S >= self._stop_at:
            outputs.append(Clear(self._stop_at))
            self._fall_silent()
        elif t + EPSILON_S >= self._frame_at:
            outputs.append(self._next_frame(t))
        return outputs

    def next_due(self) -> float | None:
        """When :meth:`due` will next have something, as far as is known now; None while only listening."""
        if self._texts:
            return self._texts[0].due
        if self.state is State.SPEAKING:
            return self._frame_at if self._stop_at is None else min(self._frame_at, self._stop_at)
        return self._respond_at if self.state is State.WAITING else None

    def _end_turn(self, t: float, duration_s: float) -> None:
        options = self.options
        self.heard_speech = False
        jitter_ms = float(self._random.uniform(0.0, options.jitter_ms)) if options.jitter_ms else 0.0
        self._respond_at = t + duration_s + (options.response_delay_ms + jitter_ms) / 1000
        self.state = State.WAITING
        if self.turns_heard < len(options.transcripts):
            self._texts.append(HeardText(options.transcripts[self.turns_heard], t))
        self.turns_heard += 1

    def _speak_if_due(self, t: float) -> None:
        if self.state is State.WAITING and t + EPSILON_S >= self._respond_at:
            self._speak(self._respond_at, self.options.response_ms)

    def _speak(self, at: float, duration_ms: float) -> None:
        self._frames = self._voice(self.turns_heard, duration_ms)
        self._position = 0
        self._frame_at = at
        self._overlap_s = 0.0
        self._stop_at = None
        self.state = State.SPEAKING

    def _next_frame(self, t: float) -> Audio:
        position, due = self._position, self._frame_at
        self._position = position + 1
        late_by_a_frame = t - due >= self._frame_s - EPSILON_S
        self._frame_at = (t if late_by_a_frame else due) + self._frame_s
        audio = Audio(self._frames[position], position, self._position == len(self._frames), due)
        if audio.last:
            self._fall_silent()
        return audio

    def _fall_silent(self) -> None:
        self.state = State.LISTENING
        self._stop_at = None
        self._frames = ()
