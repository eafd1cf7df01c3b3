"""The reference agent in this process, without a network (VB31).

It runs on the virtual clock: deterministic, and as fast as the processor allows. With ``--realtime`` it keeps the
wall clock instead.
"""

from functools import cache
from typing import Any, ClassVar

from voicebench.adapters.base import Adapter, AdapterError, AgentAudio, AgentClear, AgentTranscript
from voicebench.agents.reference import Audio, Clear, HeardText, OptionError, ReferenceAgent, ReferenceOptions
from voicebench.agents.voice import FramedVoice
from voicebench.audio.pcm import from_bytes, rms_db


class MockAdapter(Adapter):
    """One call to an agent of its own. Options are those of the reference agent."""

    name: ClassVar[str] = "mock"
    supports_virtual_clock: ClassVar[bool] = True

    def __init__(self, **options: Any) -> None:
        super().__init__()
        try:
            self.agent_options = ReferenceOptions.parse(options)
        except OptionError as error:
            raise AdapterError(f"mock: {error}") from None
        self._agent: ReferenceAgent | None = None

    def connect(self) -> None:
        session = self.session
        voice = _voice(self.agent_options, session.sample_rate, session.frame_ms)
        self._agent = ReferenceAgent(self.agent_options, voice, session.frame_ms / 1000)

    def send_audio(self, pcm: bytes) -> None:
        """The agent hears the frame as it is spoken, and answers at once with what is due."""
        if self._agent is None:
            return
        now = self.session.clock.now()
        self._agent.hear(_level(pcm), self.session.frame_ms / 1000, now)
        for output in self._agent.due(now):
            if isinstance(output, Audio):
                self.emit(AgentAudio(output.frame, now))
            elif isinstance(output, Clear):
                self.emit(AgentClear(now))
            elif isinstance(output, HeardText):
                self.emit(AgentTranscript("user", output.text, True, now))

    def close(self) -> None:
        self._agent = None

    def describe(self) -> dict[str, Any]:
        return {"type": self.name, "config": self.agent_options.model_dump(mode="json")}


@cache
def _voice(options: ReferenceOptions, sample_rate: int, frame_ms: float) -> FramedVoice:
    """All calls of a process share the agent's voice."""
    return FramedVoice(options, sample_rate, frame_ms)


def _level(pcm: bytes) -> float:
    return rms_db(from_bytes(pcm))
