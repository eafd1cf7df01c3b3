"""One caller over a websocket (VB29): handshake, messages, close."""

import json
import socket
import uuid
from typing import ClassVar

from voicebench.agents.call import Call, CallEnded, Stage
from voicebench.agents.reference import HeardText
from voicebench.wire.handshake import HandshakeError, UpgradeRequest, http_error, parse_upgrade, upgrade_response
from voicebench.wire.rfc6455 import (
    Binary,
    Close,
    CloseCode,
    Message,
    Opcode,
    Parser,
    Ping,
    ProtocolError,
    Text,
    encode_close,
    encode_frame,
    whole_masked_binary,
)

MAX_MESSAGE_BYTES = 1 << 20
MAX_CALL_ID_CHARS = 200


class WebSocketCall(Call):
    """PCM in binary messages, everything else in JSON text."""

    opening_timeout_s: ClassVar[float] = 10.0
    gone: ClassVar[str] = "caller hung up without a close frame"
    clear: ClassVar[bytes] = encode_frame(Opcode.TEXT, b'{"type": "clear"}')

    def __init__(self, sock: socket.socket, sample_rate: int) -> None:
        super().__init__(sock, sample_rate)
        self._parser = Parser(expect_masked=True, max_message_bytes=MAX_MESSAGE_BYTES)
        self._request = bytearray()

    @staticmethod
    def encode_audio(pcm: bytes, sample_rate: int) -> bytes:
        return encode_frame(Opcode.BINARY, pcm)

    @staticmethod
    def encode_text(output: HeardText) -> bytes:
        message = {"type": "transcript", "role": "user", "text": output.text, "final": True}
        return encode_frame(Opcode.TEXT, json.dumps(message).encode())

    def open(self, data: bytes) -> bytes | None:
        self._request += data
        try:
            request = parse_upgrade(self._request)
        except HandshakeError as error:
            self.send(http_error(error.status, str(error)))
            raise CallEnded(f"handshake: {error}") from None
        if request is None:
            return None
        # Some clients give up if none of the sub-protocols that they offer is chosen.
        self.send(upgrade_response(request, request.subprotocols[0] if request.subprotocols else None))
        self.stage, self.call_id = Stage.OPEN, _call_id(request)
        rest = bytes(self._request[request.size :])
        self._request.clear()
        return rest

    def whole_audio(self, buffer: bytearray, size: int) -> tuple[bytes, bytes] | None:
        start = whole_masked_binary(buffer, size) if self._parser.idle else 0
        if not start or (size - start) % 4:
            return None
        return bytes(buffer[start:size]), bytes(buffer[start - 4 : start])

    def parse(self, data: bytes | memoryview) -> list[bytes]:
        """A caller who breaks the protocol is sent a close frame, and what else it sends is ignored."""
        broken: ProtocolError | None = None
        try:
            messages = self._parser.feed(data)
        except ProtocolError as error:
            messages, broken = error.messages, error
        audio: list[bytes] = []
        for message in messages:
            if self.stage is Stage.OPEN or isinstance(message, Close):
                self._take(message, audio)
        if broken is not None:
            self._close(broken.code, broken.reason, f"protocol error: {broken.reason}")
        return audio

    def _take(self, message: Message, audio: list[bytes]) -> None:
        match message:
            case Binary(payload):
                if len(payload) % 2:
                    text = f"PCM16 audio of {len(payload)} bytes"
                    self._close(CloseCode.INVALID_DATA, text, f"protocol error: {text}")
                else:
                    audio.append(payload)
            case Text(text):
                if self.truth is not None:
                    self.truth.text(text)
            case Ping(payload):
                self.send(encode_frame(Opcode.PONG, payload))
            case Close(code, reason):
                if self.stage is Stage.CLOSING:
                    raise CallEnded(self.reason)
                self.send(encode_close(code))
                raise CallEnded(f"caller closed ({code:d}{': ' + reason if reason else ''})")

    def hang_up(self, reason: str) -> None:
        self._close(CloseCode.GOING_AWAY, reason, reason)

    def _close(self, code: int, text: str, reason: str) -> None:
        self.close(encode_close(code, text), reason)


def _call_id(request: UpgradeRequest) -> str:
    """What the caller calls this call, or a name of our own."""
    return request.headers.get("x-call-id", "")[:MAX_CALL_ID_CHARS] or uuid.uuid4().hex
