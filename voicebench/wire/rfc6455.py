"""The WebSocket protocol (RFC 6455) without I/O, for both ends of a connection.

Strict on purpose: whatever the RFC calls a failure raises :class:`ProtocolError` with the close code that the
other side should be told. Extensions are not negotiated, so reserved bits are always an error. What a message
may cost is decided from its header: a parser never buffers more than ``max_message_bytes`` and one header.

Most frames of a call are alike: one whole binary frame a read. :func:`whole_binary` and :func:`whole_masked_binary`
recognise that case in a few operations, so that a hot loop needs the parser only for the rest.
"""

from dataclasses import dataclass
from enum import IntEnum

MAX_HEADER_BYTES = 14  #: two bytes, an eight-byte length, a four-byte mask
MAX_CONTROL_BYTES = 125


class Opcode(IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


class CloseCode(IntEnum):
    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    NO_STATUS = 1005  #: never on the wire: the close frame was empty
    INVALID_DATA = 1007
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL_ERROR = 1011


@dataclass(frozen=True, slots=True)
class Binary:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Text:
    payload: str


@dataclass(frozen=True, slots=True)
class Ping:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """The other side closes. ``code`` is 1005 if it gave none."""

    code: int
    reason: str = ""


Message = Binary | Text | Ping | Pong | Close


class ProtocolError(Exception):
    """The other side broke the protocol: close with ``code`` and ``reason``.

    ``messages`` holds what the same :meth:`Parser.feed` had parsed before the violation.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} ({code:d})")
        self.code = int(code)
        self.reason = reason
        self.messages: list[Message] = []


def apply_mask(payload: bytes | bytearray | memoryview, mask: bytes) -> bytes:
    """Mask or unmask: XOR with the four bytes of ``mask``, repeated."""
    size = len(payload)
    pattern = (mask * (size // 4 + 1))[:size]
    number = int.from_bytes(payload, "little") ^ int.from_bytes(pattern, "little")
    return number.to_bytes(size, "little")


def encode_frame(
    opcode: int, payload: bytes | bytearray | memoryview, *, mask: bytes | None = None, fin: bool = True
) -> bytes:
    """One frame. ``mask`` is four bytes for a client's frame, None for a server's.

    Raises ValueError for a control frame that is fragmented or holds more than 125 bytes.
    """
    size = len(payload)
    if opcode & 0x8 and (size > MAX_CONTROL_BYTES or not fin):
        raise ValueError(f"a control frame holds at most {MAX_CONTROL_BYTES} bytes in one fragment, got {size}")
    masked = 0 if mask is None else 0x80
    first = (0x80 if fin else 0) | opcode
    if size < 126:
        header = bytes((first, masked | size))
    elif size < 0x10000:
        header = bytes((first, masked | 126)) + size.to_bytes(2, "big")
    else:
        header = bytes((first, masked | 127)) + size.to_bytes(8, "big")
    if mask is None:
        return header + bytes(payload)
    if len(mask) != 4:
        raise ValueError(f"a mask has 4 bytes, got {len(mask)}")
    return header + mask + apply_mask(payload, mask)


def encode_close(code: int = CloseCode.NORMAL, reason: str = "", mask: bytes | None = None) -> bytes:
    """A close frame. Code 1005 gives an empty one; a reason that does not fit is cut at a character."""
    if code == CloseCode.NO_STATUS:
        return encode_frame(Opcode.CLOSE, b"", mask=mask)
    text = reason.encode()[: MAX_CONTROL_BYTES - 2].decode(errors="ignore").encode()
    return encode_frame(Opcode.CLOSE, int(code).to_bytes(2, "big") + text, mask=mask)


def whole_binary(buffer: bytearray | memoryview, size: int) -> int:
    """Offset of the payload if ``buffer[:size]`` is exactly one unmasked, final binary frame, else 0.

    What lies behind ``size`` may be stale. Frames from 64 KiB on give 0 (the parser takes them), and so does a header
    of which only a part is there.
    """
    if size < 2 or buffer[0] != 0x82:
        return 0
    length = buffer[1]
    if length < 126:
        return 2 if size == length + 2 else 0
    if length == 126 and size >= 4:
        length = buffer[2] << 8 | buffer[3]
        return 4 if size == length + 4 and length > 125 else 0
    return 0


def whole_masked_binary(buffer: bytearray | memoryview, size: int) -> int:
    """As :func:`whole_binary` for a client's frame: the mask is the four bytes before the offset."""
    if buffer[0] != 0x82:
        return 0
    length = buffer[1]
    if length == 254:
        length = buffer[2] << 8 | buffer[3]
        return 8 if size == length + 8 and length > 125 else 0
    if 128 <= length < 254:
        return 6 if size == length - 122 else 0
    return 0


class Parser:
    """Bytes in, messages out. ``expect_masked`` is True at the server, which reads from clients."""

    def __init__(self, *, expect_masked: bool, max_message_bytes: int) -> None:
        self._expect_masked = expect_masked
        self._max_message_bytes = max_message_bytes
        self._buffer = bytearray()  # a frame that is not complete yet
        self._fragments = bytearray()  # the data of the message that is not complete yet
        self._fragmented: Opcode | None = None
        self._error: ProtocolError | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether a message may begin with the next byte: no part of a frame or message is held."""
        return not self._buffer and self._fragmented is None and self._error is None and not self._closed

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer) + len(self._fragments)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Message]:
        """Take bytes from the wire and return the messages that they complete.

        Nothing is read behind a close frame. Raises ProtocolError, with the messages before the violation in its
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
            while not self._closed:
                end = self._parse_frame(position, messages)
                if end == position:
                    break
                position = end
        except ProtocolError as error:
            self._error = error
            error.messages = messages
            position = len(self._buffer)
            raise
        finally:
            del self._buffer[:position]
            if self._closed or self._error is not None:
                self._buffer.clear()
                self._fragments.clear()
        return messages

    def _parse_frame(self, start: int, messages: list[Message]) -> int:
        """Parse the frame at ``start`` and return where it ends; ``start`` itself if it is not all here."""
        buffer = self._buffer
        available = len(buffer) - start
        if available < 2:
            if available == 1:
                self._check_first_byte(buffer[start])
            return start
        opcode, fin = self._check_first_byte(buffer[start])
        second = buffer[start + 1]
        masked = second >= 0x80
        if masked != self._expect_masked:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "masked frame" if masked else "unmasked frame")
        size = second & 0x7F
        if opcode & 0x8 and size > MAX_CONTROL_BYTES:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"control frame over {MAX_CONTROL_BYTES} bytes")
        position = start + 2
        if size > 125:
            extended = 2 if size == 126 else 8
            if len(buffer) < position + extended:
                return start
            size = int.from_bytes(buffer[position : position + extended], "big")
            position += extended
            self._check_extended(size, extended)
        if not opcode & 0x8 and size + len(self._fragments) > self._max_message_bytes:
            raise ProtocolError(CloseCode.TOO_BIG, f"message over {self._max_message_bytes} bytes")
        mask_at, position = position, position + (4 if masked else 0)
        end = position + size
        if len(buffer) < end:
            return start
        with memoryview(buffer) as view, view[position:end] as part:
            payload = apply_mask(part, bytes(view[mask_at:position])) if masked else bytes(part)
        message = self._control(opcode, payload) if opcode & 0x8 else self._data(opcode, fin, payload)
        if message is not None:
            messages.append(message)
        return end

    def _check_first_byte(self, first: int) -> tuple[Opcode, bool]:
        if first & 0x70:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "reserved bit set")
        fin = first >= 0x80
        try:
            opcode = Opcode(first & 0xF)
        except ValueError:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"unknown opcode {first & 0xF:#x}") from None
        if opcode & 0x8:
            if not fin:
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, "fragmented control frame")
        elif opcode == Opcode.CONTINUATION:
            if self._fragmented is None:
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, "continuation without a start")
        elif self._fragmented is not None:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "new message inside a fragmented one")
        return opcode, fin

    @staticmethod
    def _check_extended(size: int, extended: int) -> None:
        if size < (126 if extended == 2 else 0x10000):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "length not in its shortest form")
        if size >> 63:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "length over 63 bits")

    def _data(self, opcode: Opcode, fin: bool, payload: bytes) -> Message | None:
        if not fin:
            self._fragments += payload
            if opcode != Opcode.CONTINUATION:
                self._fragmented = opcode
            return None
        if opcode == Opcode.CONTINUATION:
            assert self._fragmented is not None  # _check_first_byte saw to it
            opcode = self._fragmented
            payload = bytes(self._fragments) + payload
            self._fragmented = None
            self._fragments.clear()
        return Binary(payload) if opcode == Opcode.BINARY else Text(_decode(payload, "text message"))

    def _control(self, opcode: Opcode, payload: bytes) -> Message:
        if opcode == Opcode.PING:
            return Ping(payload)
        if opcode == Opcode.PONG:
            return Pong(payload)
        close = _parse_close(payload)
        self._closed = True
        return close


def _decode(payload: bytes, what: str) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        raise ProtocolError(CloseCode.INVALID_DATA, f"{what} is not UTF-8") from None


def _parse_close(payload: bytes) -> Close:
    if not payload:
        return Close(CloseCode.NO_STATUS)
    if len(payload) == 1:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, "close frame with half a code")
    code = int.from_bytes(payload[:2], "big")
    # 1004-1006 and 1015 are reserved, 1016-2999 are for the protocol's future.
    if not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"close code {code} is not allowed")
    return Close(code, _decode(payload[2:], "close reason"))
