"""Where speech is: an energy detector with hysteresis and hangover (VB05, VB06)."""

from pydantic import BaseModel, ConfigDict, Field


class VadConfig(BaseModel):
    """Tuning of the detector (VB05). Levels are RMS in dBFS, times in ms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold_db: float = Field(-45.0, description="A frame at or above this level may open a segment.")
    hysteresis_db: float = Field(
        6.0,
        ge=0,
        description="An open segment lasts while the level is at most this far below the threshold.",
    )
    frame_ms: float = Field(10.0, gt=0, description="Length of one analysis frame.")
    min_speech_ms: float = Field(50.0, ge=0, description="A segment opens after this much active audio.")
    min_silence_ms: float = Field(250.0, ge=0, description="A segment closes after this much inactive audio.")
