"""Asterisk's AudioSocket protocol without I/O, for both ends of a connection (TV02).

A message is a type byte, a two-byte big-endian length, and so many bytes of payload. Types and rates are those of
Asterisk 20 to 23 (https://docs.asterisk.org/Configuration/Channel-Drivers/AudioSocket/)::

    0x00  hang-up; closing the connection says the same
    0x01  UUID of the call, 16 bytes; the first message from Asterisk
    0x03  one DTMF digit in ASCII
    0x10  audio, PCM16 little-endian mono, at 8 kHz; 0x11 to 0x18 at 12, 16, 24, 32, 44.1, 48, 96 and 192 kHz
    0xff  error; the payload is a code of the application's

What is wrong with a message is decided from its first byte or its header, where that is enough: nobody waits for a
payload that could only be refused. As in Asterisk, audio of no samples is an error, and a hang-up counts from its
header on, whatever its length says. A parser never buffers more than one message, 64 KiB.
"""

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

HEADER_BYTES = 3
MAX_PAYLOAD_BYTES = 0xFFFF

#: Type of an audio message -> sample rate in Hz.
RATES: dict[int, int] = {
    0x10: 8000,
    0x11: 12000,
    0x12: 16000,
    0x13: 24000,
    0x14: 32000,
    0x15: 44100,
    0x16: 48000,
    0x17: 96000,
    0x18: 192000,
}
KINDS: dict[int, int] = {rate: kind for kind, rate in RATES.items()}


class Kind(IntEnum):
    """Types that are not audio."""

    HANGUP = 0x00
    UUID = 0x01
    DTMF = 0x03
    ERROR = 0xFF


#: What Asterisk means by its error codes.
ERRORS: dict[int, str] = {0x01: "caller hung up", 0x02: "frame could not be forwarded", 0x04: "out of memory"}


@dataclass(frozen=True, slots=True)
class Audio:
    """PCM16 little-endian mono at ``rate`` Hz; at least one sample."""

    rate: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class CallUuid:
    value: UUID


@dataclass(frozen=True, slots=True)
class Dtmf:
    digit: str


@dataclass(frozen=True, slots=True)
class Hangup:
    pass


@dataclass(frozen=True, slots=True)
class Error:
    """The other side met an error. ``code`` may be empty."""

    code: bytes = b""

    def __str__(self) -> str:
        """``0x02, frame could not be forwarded``."""
        if not self.code:
            return "no code"
        known = ERRORS.get(self.code[0]) if len(self.code) == 1 else None
        return f"0x{self.code[:8].hex()}" + (f", {known}" if known else "")


Message = Audio | CallUuid | Dtmf | Hangup | Error


class ProtocolError(Exception):
    """The other side broke the protocol; the text says how.

    ``messages`` holds what the same :meth:`Parser.feed` had parsed before the violation.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.messages: list[Message] = []


def encode(kind: int, payload: bytes | bytearray | memoryview = b"") -> bytes:
    """One message. Raises ValueError for a payload over 65,535 bytes."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a message holds at most {MAX_PAYLOAD_BYTES} bytes, got {len(payload)}")
    return bytes((kind,)) + len(payload).to_bytes(2, "big") + bytes(payload)


def whole_audio(buffer: bytearray | memoryview, size: int, kind: int) -> bool:
    """Whether ``buffer[:size]`` is exactly one audio message of that type; its PCM then begins at byte 3.

    ``buffer`` must hold at least three bytes; what lies behind ``size`` may be stale.
    """
    length = size - HEADER_BYTES
    return buffer[0] == kind and length > 0 and not length & 1 and buffer[1] << 8 | buffer[2] == length


class Parser:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()  # a message that is not complete yet
        self._error: ProtocolError | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether a message may begin with the next byte."""
        return not self._buffer and self._error is None and not self._closed

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def unfinished(self) -> str:
        """What is missing if the connection ends now: ``100 of 323 bytes``; empty between two messages."""
        if not self._buffer:
            return ""
        if len(self._buffer) < HEADER_BYTES:
            return f"{len(self._buffer)} of {HEADER_BYTES} bytes of a header"
        size = HEADER_BYTES + int.from_bytes(self._buffer[1:HEADER_BYTES], "big")
        return f"{len(self._buffer)} of {size} bytes"

    def feed(self, data: bytes | bytearray | memoryview) -> list[Message]:
        """Take bytes from the wire and return the messages that they complete.

        Nothing is read behind a hang-up. Raises ProtocolError, with the messages before the violation in its
        ``messages``; from then on every call raises it again, without messages.
        """
        if self._error is not None:
            self._error.messages = []
            raise self._error
        messages: list[Message] = []
        if self._closed:
            return messages
        self._buffer += data
        position = 0
        try:
            while position < len(self._buffer) and not self._closed:
                end = self._parse(position, messages)
                if end == position:
                    break
                position = end
        except ProtocolError as error:
            self._error = error
            error.messages = messages
            position = len(self._buffer)
            raise
        finally:
            del self._buffer[: len(self._buffer) if self._closed else position]
        return messages

    def _parse(self, start: int, messages: list[Message]) -> int:
        """Parse the message at ``start`` and return where it ends; ``start`` itself if it is not all here."""
        buffer = self._buffer
        kind = buffer[start]
        rate = RATES.get(kind)
        if rate is None and kind not in _CONTROL:
            raise ProtocolError(f"unknown message type 0x{kind:02x}")
        begin = start + HEADER_BYTES
        if len(buffer) < begin:
            return start
        if kind == Kind.HANGUP:
            self._closed = True
            messages.append(Hangup())
            return begin
        length = buffer[start + 1] << 8 | buffer[start + 2]
        if rate is not None:
            if not length:
                raise ProtocolError("audio of length 0")
            if length & 1:
                raise ProtocolError(f"odd audio of {length} bytes")
        elif length != _LENGTHS.get(kind, length):
            raise ProtocolError(f"{Kind(kind).name} of {length} bytes, must be {_LENGTHS[kind]}")
        end = begin + length
        if len(buffer) < end:
            return start
        payload = bytes(buffer[begin:end])
        messages.append(Audio(rate, payload) if rate is not None else _control(kind, payload))
        return end


_CONTROL = frozenset(Kind)
_LENGTHS: dict[int, int] = {Kind.UUID: 16, Kind.DTMF: 1}


def _control(kind: int, payload: bytes) -> Message:
    if kind == Kind.UUID:
        return CallUuid(UUID(bytes=payload))
    if kind == Kind.DTMF:
        if not 0x21 <= payload[0] <= 0x7E:
            raise ProtocolError(f"DTMF digit 0x{payload[0]:02x} is not a printable ASCII character")
        return Dtmf(payload.decode("ascii"))
    return Error(payload)
