"""The reference agent in this process, without a network (VB31).

It runs on the virtual clock: deterministic, and as fast as the processor allows. With ``--realtime`` it keeps the
wall clock instead.
"""

from functools import cache
from typing import Any, ClassVar

from voicebench.adapters.base import Adapter, AdapterError, AgentAudio, AgentClear, AgentHangup, AgentTranscript
from voicebench.agents.reference import (
    EPSILON_S,
    Audio,
    Clear,
    Echoed,
    HangUp,
    HeardText,
    OptionError,
    Output,
    ReferenceAgent,
    ReferenceOptions,
)
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
        options = self.agent_options.for_call(session.call_id)
        voice = _voice(options, session.sample_rate, session.frame_ms)
        self._agent = ReferenceAgent(options, voice, session.frame_ms / 1000)

    def send_audio(self, pcm: bytes) -> None:
        """The agent hears the frame as it is spoken, and answers at once with what is due.

        What fell due since the last frame carries the time at which it was due.
        """
        agent = self._agent
        if agent is None:
            return
        now = self.session.clock.now()
        agent.overhear(pcm, now)
        agent.hear(_level(pcm), self.session.frame_ms / 1000, now)
        for output in agent.due(now):
            self._emit(output, now)
        while (due := agent.next_due()) is not None and due <= now + EPSILON_S and self._agent is not None:
            for output in agent.due(now):
                self._emit(output, now)

    def _emit(self, output: Output, now: float) -> None:
        if isinstance(output, Audio):
            self.emit(AgentAudio(output.frame, now))
        elif isinstance(output, Echoed):
            self.emit(AgentAudio(output.pcm, now))
        elif isinstance(output, Clear):
            self.emit(AgentClear(now))
        elif isinstance(output, HeardText):
            self.emit(AgentTranscript("user", output.text, True, now))
        elif isinstance(output, HangUp):
            self.emit(AgentHangup("agent hung up", error=False, time=now))
            self._agent = None

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
