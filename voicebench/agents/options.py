"""Options of the reference agent: what it does, when, and what is wrong with it (VB31, TV12).

Its *defects* are options whose defaults are harmless. Each is a switch of its own, they combine, and ``defect_share``
puts them on a share of the calls. The reference agent of TV12 maps onto them like this:

    --mode paced                 the defaults
    --mode burst                 burst: true
    --mode gappy, --gap 0.5      gap_ms: 500 (the longest hole is that and a frame)
    --mode deaf                  interruptible: false
    --think 0.4                  greeting_delay_ms: 400 before a greeting, response_delay_ms: 400 before a reply
    --speak 6                    greeting_ms: 6000, response_ms: 6000
    --react 0.06                 interrupt_reaction_ms: 60
    --preroll 0                  leading_silence_ms: 0
    interrupt after six frames   barge_in_min_ms: 120
"""

import random
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

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
    greeting_delay_ms: _Milliseconds = Field(0.0, description="From the call's first frame to the greeting.")
    level_db: _Decibels = Field(-20.0, description="Level of the agent's voice.")
    voice: Literal["speech", "tone"] = Field(
        "speech",
        description="speech: like speech, faded in and out. tone: a sine whose first and last sample are edges.",
    )
    threshold_db: _Decibels = Field(-45.0, description="A caller's frame at or above this level is speech.")
    interruptible: bool = Field(
        True, description="Whether the agent stops for a caller who cuts in; one that does not is deaf."
    )
    barge_in_min_ms: _Milliseconds = Field(
        100.0, description="Unbroken speech over the agent that counts as cutting in."
    )
    interrupt_reaction_ms: _Milliseconds = Field(150.0, description="How long the agent talks on after that.")
    transcripts: tuple[str, ...] = Field((), description="What it claims to have heard, one text a caller's turn.")
    seed: int = Field(0, ge=0, description="Seed of the jitter, of the voice, and of which calls have defects.")
    burst: bool = Field(False, description="Defect: a reply is sent all at once.")
    gap_ms: _Milliseconds = Field(0.0, description="Defect: a hole after every 2 s of a reply, as between sentences.")
    stall_ms: _Milliseconds = Field(
        0.0, description="Defect: 500 ms into a reply nothing is sent for so long, and then all that was missed."
    )
    frame_interval_ms: float | None = Field(
        None, gt=0, le=1000, description="Defect: a frame is sent every so often; null for a frame's own length."
    )
    leading_silence_ms: _Milliseconds = Field(0.0, description="Defect: a reply begins with so much silence.")
    no_clear: bool = Field(False, description="Defect: stops without telling the player to drop what is queued.")
    clear_delay_ms: _Milliseconds = Field(0.0, description="Defect: tells it so long after it stopped.")
    restart_ms: _Milliseconds = Field(
        0.0, description="Defect: goes on with the reply so long after it stopped, once."
    )
    answers_twice_ms: _Milliseconds = Field(
        0.0, description="Defect: says a reply again so long after its end, and is not listening in between."
    )
    one_way: bool = Field(False, description="Defect: no audio is sent.")
    echo_ms: _Milliseconds = Field(
        0.0, description="Defect: the caller's own audio comes back so much later, while the agent itself is silent."
    )
    hangs_up_after_ms: _Milliseconds = Field(0.0, description="Defect: hangs up so long after the first frame.")
    quiet_db: Annotated[float, Field(ge=0, le=120)] = Field(0.0, description="Defect: the voice is so much quieter.")
    clip_gain_db: Annotated[float, Field(ge=0, le=60)] = Field(
        0.0, description="Defect: the voice is so much louder, and clipped at full scale."
    )
    crackle_per_s: Annotated[float, Field(ge=0, le=1000)] = Field(0.0, description="Defect: clicks a second in it.")
    dc_offset: Annotated[float, Field(ge=-0.9, le=0.9)] = Field(
        0.0, description="Defect: a constant in it, as a share of full scale."
    )
    defect_share: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="Share of the calls that have the defects, picked by seed and number of the call."
    )

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

    @property
    def defects(self) -> tuple[str, ...]:
        """Names of the defects that are switched on."""
        return tuple(name for name in DEFECTS if getattr(self, name) != type(self).model_fields[name].default)

    def for_call(self, key: int | str) -> Self:
        """The options of one call: these, or without the defects if it is not among their share.

        ``key`` is the number of the call, or its id; equal seeds and keys give equal choices.
        """
        if self.defect_share >= 1 or random.Random(f"{self.seed} {key}").random() < self.defect_share:
            return self
        return self.sound()

    def sound(self) -> Self:
        """The same agent without its defects."""
        return self.model_copy(update={name: type(self).model_fields[name].default for name in DEFECTS})


#: The options that are defects, in the order in which they are documented.
DEFECTS: tuple[str, ...] = (
    "interruptible",
    *(
        name
        for name, field in ReferenceOptions.model_fields.items()
        if (field.description or "").startswith("Defect: ")
    ),
)
