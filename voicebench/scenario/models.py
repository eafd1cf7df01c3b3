"""What is to happen in a call: the models behind a scenario file (VB19-VB22)."""

import unicodedata
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from voicebench.scenario.assertions import Assertion, parse_assertion
from voicebench.vad import Refinement, VadConfig

Anchor = Literal["session_start", "previous_turn_end", "agent_speech_start", "agent_speech_end"]
Expectation = Literal["respond", "stop", "ignore", "listen"]
_UNNAMEABLE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of pairs, breaks of lines and paragraphs

SynthKind = Literal["speech", "tone", "noise", "telephone", "silence"]


def _whole(value: Any) -> Any:
    """Let 16000.0 stand for 16000, as YAML writers expect."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _empty(value: Any) -> Any:
    """Let a key that was left empty stand for an empty block."""
    return {} if value is None else value


def _text(value: Any) -> Any:
    return "" if value is None else str(value)


def _named(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    if isinstance(value, str) and any(unicodedata.category(char) in _UNNAMEABLE for char in value):
        raise ValueError("must be one line without control characters")
    return value


Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(_whole), Field(strict=True)]
Name = Annotated[str, BeforeValidator(_named), Field(strict=True)]


class _Block(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AudioSpec(_Block):
    """Where a turn's audio comes from: a file, or a synthetic signal (VB21)."""

    file: Name | None = Field(None, description="Any format that libsndfile reads, relative to the scenario.")
    synth: SynthKind | None = Field(None, description="Kind of synthetic signal.")
    duration_ms: Number = Field(1000.0, ge=1, le=3_600_000, description="Length of the synthetic signal.")
    level_db: Number = Field(-20.0, le=0, description="RMS level of the synthetic signal in dBFS.")
    freq_hz: Number = Field(440.0, ge=1, description="Frequency of a tone.")
    seed: Whole = Field(0, ge=0, description="Seed of a random signal.")

    @model_validator(mode="after")
    def _exactly_one(self) -> "AudioSpec":
        if (self.file is None) == (self.synth is None):
            raise ValueError("set exactly one of 'file' or 'synth'")
        return self


class StartRule(_Block):
    """When a turn starts: ``delay_ms`` after its anchor, or ``timeout_ms`` after it began to wait (VB22)."""

    after: Anchor = Field(
        "agent_speech_end",
        description="What the turn waits for; session_start where the first turn leaves it out. "
        "A turn never starts before the one before it has ended.",
    )
    delay_ms: Number = Field(0.0, description="Time from the anchor on; 500 where the first turn leaves it out.")
    timeout_ms: Number = Field(10000.0, ge=0, description="Start anyway after waiting this long.")


class Turn(_Block):
    """One utterance of the caller and what the agent should make of it (VB20)."""

    id: Name = Field(description="Unique name in reports; turn-1, turn-2, ... where left out.")
    audio: AudioSpec
    start: StartRule
    expect: Expectation = Field(
        "respond",
        description="respond: the agent should answer. stop: it is speaking and should fall silent. "
        "ignore: it should go on as if nothing had been said. listen: the caller says nothing, and should have heard "
        "the agent since the turn before.",
    )
    text: str | None = Field(None, strict=True, description="What the caller says, for the word error rate.")
    response_timeout_ms: Number = Field(5000.0, ge=0, description="A reply that starts later than this is missing.")
    max_stop_ms: Number = Field(1000.0, ge=0, description="An agent that speaks longer than this did not stop.")


class Defaults(_Block):
    """Values for turns that do not set their own."""

    response_timeout_ms: Number = Field(5000.0, ge=0, description="As in a turn.")
    max_stop_ms: Number = Field(1000.0, ge=0, description="As in a turn.")


def _given(block: Any) -> Any:
    """What a detector's block sets itself; nothing where it was left empty."""
    return block.model_dump(exclude_unset=True) if isinstance(block, VadConfig) else _empty(block)


class VadBlocks(_Block):
    """Detector settings for each track (VB07). ``user`` and ``agent`` always hold what applies to them."""

    refine: Refinement = Field("frame", description="For each block that does not set its own.")
    user: Annotated[VadConfig, BeforeValidator(_empty)] = Field(default_factory=VadConfig)
    agent: Annotated[VadConfig, BeforeValidator(_empty)] = Field(default_factory=VadConfig)

    @model_validator(mode="before")
    @classmethod
    def _share_refine(cls, data: Any) -> Any:
        """Give each block the common ``refine`` if it has none of its own."""
        if not isinstance(data, dict) or data.get("refine") not in get_args(Refinement):
            return data
        given = {track: _given(data.get(track)) for track in ("user", "agent")}
        shared = {
            track: {"refine": data["refine"], **block} for track, block in given.items() if isinstance(block, dict)
        }
        return {**data, **shared}


class AdapterSpec(_Block):
    """How to reach the agent: a built-in adapter or ``module:Class``, and its options."""

    type: Name = Field("mock", description="mock, websocket, or module:Class of your own.")
    options: Annotated[dict[str, Any], BeforeValidator(_empty)] = Field(
        default_factory=dict, description="What the adapter understands, see its documentation."
    )


class JitterBuffer(_Block):
    """A bounded player, as in a telephone: what does not fit is dropped."""

    jitter_buffer_ms: Number = Field(60.0, ge=0, description="Audio held back before a talk spurt sounds.")
    max_ms: Number = Field(200.0, gt=0, description="Audio that would wait longer than this is dropped.")


class Direction(_Block):
    """What a network does to the frames of one side."""

    loss: Number = Field(0.0, ge=0, le=1, description="Share of the frames that are lost.")
    delay_ms: Number = Field(0.0, ge=0, le=10_000, description="How long each is under way.")
    jitter_ms: Number = Field(0.0, ge=0, le=10_000, description="And evenly up to this longer; order is kept.")
    reorder: Number = Field(0.0, ge=0, le=1, description="Share of the frames that arrive behind the next one.")

    @property
    def perfect(self) -> bool:
        """Whether it changes nothing."""
        return self == Direction()


class Network(_Block):
    """A telephone network in the path, applied by the harness itself."""

    codec: Literal["none", "pcma", "pcmu"] = Field(
        "none", description="G.711 both ways: 8 kHz, companded by A-law (pcma) or mu-law (pcmu)."
    )
    seed: Whole = Field(0, ge=0, description="Of loss, jitter and order; the same in every call.")
    caller: Annotated[Direction, BeforeValidator(_empty)] = Field(
        default_factory=Direction, description="From the caller to the agent."
    )
    agent: Annotated[Direction, BeforeValidator(_empty)] = Field(
        default_factory=Direction, description="From the agent to the caller."
    )

    @property
    def perfect(self) -> bool:
        """Whether it changes nothing."""
        return self.codec == "none" and self.caller.perfect and self.agent.perfect


class Scenario(_Block):
    """A whole scripted call (VB19)."""

    name: Name = Field(description="Names the scenario in reports and file names.")
    description: Annotated[str, BeforeValidator(_text)] = Field("", description="For the reader.")
    sample_rate: Whole = Field(16000, ge=8000, le=96000, description="Session sample rate in Hz.")
    frame_ms: Number = Field(20.0, ge=5, le=1000, description="Length of one frame on the wire.")
    tail_ms: Number = Field(3000.0, ge=0, description="How long to listen after the last turn.")
    max_duration_ms: Number = Field(
        120000.0, ge=1, le=86_400_000, description="The call is cut off after this long, and counts as truncated."
    )
    vad: Annotated[VadBlocks, BeforeValidator(_empty)] = Field(default_factory=VadBlocks)
    adapter: Annotated[AdapterSpec, BeforeValidator(_empty)] = Field(default_factory=AdapterSpec)
    defaults: Annotated[Defaults, BeforeValidator(_empty)] = Field(default_factory=Defaults)
    turns: list[Turn] = Field(min_length=1)
    assertions: Annotated[dict[str, Number], BeforeValidator(_empty)] = Field(
        default_factory=dict, alias="assert", description="Limits, see the grammar of assertions."
    )
    playout: Literal["ideal", "none"] | JitterBuffer = Field(
        "ideal", description="The caller's player: an unbounded queue, no queue, or a bounded jitter buffer."
    )
    network: Annotated[Network, BeforeValidator(_empty)] = Field(
        default_factory=Network, description="A telephone network between the two."
    )
    runs: Whole = Field(1, ge=1, description="How many calls `voicebench run` makes if not told otherwise.")
    weight: Number = Field(1.0, gt=0, description="Share of the callers in a load run that play this scenario.")
    metadata: Annotated[dict[str, str | int | float | bool], BeforeValidator(_empty)] = Field(
        default_factory=dict, description="Carried into every record and report."
    )

    _source: Path | None = PrivateAttr(None)

    @property
    def source(self) -> Path | None:
        """The file this scenario was read from."""
        return self._source

    @property
    def parsed_assertions(self) -> list[Assertion]:
        """The ``assert`` block as objects, in the order of the file."""
        return [parse_assertion(key, limit) for key, limit in self.assertions.items()]

    @model_validator(mode="before")
    @classmethod
    def _fill_turns(cls, data: Any) -> Any:
        """Give each turn what it leaves out: an id, its start rule, and the block's defaults (VB20, VB22)."""
        if not isinstance(data, dict) or not isinstance(data.get("turns"), list):
            return data
        defaults = data.get("defaults")
        defaults = defaults if isinstance(defaults, dict) else {}
        turns = []
        for number, turn in enumerate(data["turns"]):
            if isinstance(turn, dict):
                first = number == 0
                start = turn.get("start") or {}
                if isinstance(start, dict):
                    usual = {"after": "session_start" if first else "agent_speech_end"}
                    usual["delay_ms"] = 500.0 if first else 0.0  # type: ignore[assignment]
                    start = {**usual, **start}
                known = {key: defaults[key] for key in Defaults.model_fields if key in defaults}
                turn = {"id": f"turn-{number + 1}", **known, **turn, "start": start}
            turns.append(turn)
        return {**data, "turns": turns}
