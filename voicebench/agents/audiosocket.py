"""One caller over AudioSocket (TV02): Asterisk, or whoever takes its place.

The caller's first message is the UUID of the call. The protocol has no message that takes audio back: an agent that
is interrupted just stops, and what it sent before sounds. It has none for transcripts either.
"""

import socket
from typing import ClassVar
from uuid import UUID

from voicebench.agents.call import Call, CallEnded, Stage
from voicebench.agents.hearing import NO_MASK
from voicebench.agents.reference import HeardText
from voicebench.wire.audiosocket import (
    HEADER_BYTES,
    KINDS,
    Audio,
    CallUuid,
    Dtmf,
    Error,
    Hangup,
    Kind,
    Message,
    Parser,
    ProtocolError,
    encode,
    whole_audio,
)

_UUID_HEADER = encode(Kind.UUID, bytes(16))[:HEADER_BYTES]
_UUID_END = HEADER_BYTES + 16


class AudioSocketCall(Call):
    """PCM in audio messages of the agent's own rate. The call's id is the UUID, as 32 hexadecimal digits."""

    opening_timeout_s: ClassVar[float] = 5.0
    gone: ClassVar[str] = "caller hung up without a hang-up message"
    clear: ClassVar[bytes] = b""

    def __init__(self, sock: socket.socket, sample_rate: int) -> None:
        super().__init__(sock, sample_rate)
        self._kind = KINDS[sample_rate]
        self._parser = Parser()
        self._opening = bytearray()

    @staticmethod
    def encode_audio(pcm: bytes, sample_rate: int) -> bytes:
        return encode(KINDS[sample_rate], pcm)

    @staticmethod
    def encode_text(output: HeardText) -> bytes:
        return b""

    def open(self, data: bytes) -> bytes | None:
        opening = self._opening
        opening += data
        if opening[:HEADER_BYTES] != _UUID_HEADER[: len(opening)]:
            raise CallEnded("opening: the first message is not a UUID")
        if len(opening) < _UUID_END:
            return None
        self.stage, self.call_id = Stage.OPEN, UUID(bytes=bytes(opening[HEADER_BYTES:_UUID_END])).hex
        rest = bytes(opening[_UUID_END:])
        opening.clear()
        return rest

    def whole_audio(self, buffer: bytearray, size: int) -> tuple[bytes, bytes] | None:
        if self._parser.idle and whole_audio(buffer, size, self._kind):
            return bytes(buffer[HEADER_BYTES:size]), NO_MASK
        return None

    def parse(self, data: bytes | memoryview) -> list[bytes]:
        """A caller who breaks the protocol is sent an error, and what else it sends is ignored."""
        broken: ProtocolError | None = None
        try:
            messages = self._parser.feed(data)
        except ProtocolError as error:
            messages, broken = error.messages, error
        audio: list[bytes] = []
        for message in messages:
            if self.stage is Stage.OPEN or isinstance(message, Hangup):
                self._take(message, audio)
        if broken is not None:
            self._refuse(f"protocol error: {broken}")
        return audio

    def _take(self, message: Message, audio: list[bytes]) -> None:
        match message:
            case Audio(rate, pcm):
                if rate == self.sample_rate:
                    audio.append(pcm)
                else:
                    self._refuse(f"wrong rate: audio at {rate} Hz, not {self.sample_rate}")
            case Dtmf(digit):
                if self.truth is not None:
                    self.truth.dtmf += digit
            case CallUuid():
                self._refuse("protocol error: a second UUID")
            case Error():
                raise CallEnded(f"caller reported an error: {message}")
            case Hangup():
                raise CallEnded(self.reason or "caller hung up")

    def hang_up(self, reason: str) -> None:
        self.close(encode(Kind.HANGUP), reason)

    def _refuse(self, reason: str) -> None:
        self.close(encode(Kind.ERROR) + encode(Kind.HANGUP), reason)
