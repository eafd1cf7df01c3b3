"""One caller's connection to the reference agent: handshake, messages, and what is still to be sent.

Nothing here waits. The server reads and writes when the socket is ready; everything that a caller can do wrong ends
as :class:`CallEnded`, which concerns that call alone.
"""

import json
import socket
import ssl
import uuid
from enum import Enum
from time import monotonic_ns

from voicebench.agents.reference import HeardText, ReferenceAgent
from voicebench.agents.truth import CallTruth
from voicebench.clock.kernel import ANCILLARY_BYTES, KernelClock
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
)

MAX_MESSAGE_BYTES = 1 << 20
MAX_BACKLOG_BYTES = 1 << 18  #: eight seconds of audio at 16 kHz that the caller has not read
MAX_CALL_ID_CHARS = 200

CLEAR = encode_frame(Opcode.TEXT, b'{"type": "clear"}')


class CallEnded(Exception):  # noqa: N818
    """The connection is over; the argument says why. The usual end of a call, so no error by name."""


class Stage(Enum):
    TLS = "tls"
    HTTP = "http"
    OPEN = "open"
    CLOSING = "closing"  # our close frame is out; waiting for the caller's


class Call:
    """One connection, from ``accept`` on."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.stage = Stage.TLS if self.tls else Stage.HTTP
        self.parser = Parser(expect_masked=True, max_message_bytes=MAX_MESSAGE_BYTES)
        self.backlog = bytearray()
        self.waits_to_send = False  #: whether the server is to be told when the socket takes more
        self.deadline_s: float | None = None  #: when the handshake or the closing has lasted too long
        self.scheduled_s: float | None = None  #: when the server will next ask the agent what is due
        self.reason = ""  #: why it is closing
        self.agent: ReferenceAgent | None = None  # from the handshake on, as is the truth
        self.truth: CallTruth | None = None
        self.last_arrival_s = float("-inf")
        self._request = bytearray()
        KernelClock.enable(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def continue_tls(self) -> None:
        """Go on with the TLS handshake as far as possible."""
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise CallEnded(f"TLS handshake: {error}") from None
        self.stage = Stage.HTTP

    def read(self, buffer: bytearray, clock: KernelClock) -> tuple[int, int]:
        """Read once into ``buffer``: how many bytes (0: nothing there yet), and when (CLOCK_MONOTONIC ns).

        The time is the arrival of the newest byte. Raises CallEnded at the end of the stream.
        """
        try:
            if self.tls:
                size, arrived_ns = self.sock.recv_into(buffer), monotonic_ns()
            else:
                size, ancillary, _, _ = self.sock.recvmsg_into((buffer,), ANCILLARY_BYTES)
                arrived_ns = clock.arrival_ns(ancillary, monotonic_ns())
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0, 0
        except OSError as error:
            raise CallEnded(f"connection lost: {error.strerror or error}") from None
        if not size:
            raise CallEnded("caller hung up without a close frame")
        return size, arrived_ns

    @property
    def more_to_read(self) -> bool:
        """Whether TLS holds bytes that the socket will not announce."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def upgrade(self, data: bytes) -> tuple[UpgradeRequest, bytes] | None:
        """Take bytes of the HTTP request. Once it is complete, accept it; return it and what came behind it."""
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
        self.stage = Stage.OPEN
        rest = bytes(self._request[request.size :])
        self._request.clear()
        return request, rest

    def parse(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take WebSocket bytes and return the audio messages in them; the rest is answered here.

        Raises CallEnded when the caller closed. A caller who breaks the protocol is sent a close frame, and what
        else it sends is ignored.
        """
        broken: ProtocolError | None = None
        try:
            messages = self.parser.feed(data)
        except ProtocolError as error:
            messages, broken = error.messages, error
        audio: list[bytes] = []
        for message in messages:
            if self.stage is Stage.OPEN or isinstance(message, Close):
                self._take(message, audio)
        if broken is not None:
            self.close(broken.code, broken.reason, f"protocol error: {broken.reason}")
        return audio

    def _take(self, message: Message, audio: list[bytes]) -> None:
        match message:
            case Binary(payload):
                if len(payload) % 2:
                    text = f"PCM16 audio of {len(payload)} bytes"
                    self.close(CloseCode.INVALID_DATA, text, f"protocol error: {text}")
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

    def close(self, code: int, text: str, reason: str) -> None:
        """Send a close frame and wait for the caller's."""
        if self.stage is Stage.OPEN:
            self.stage, self.reason, self.scheduled_s = Stage.CLOSING, reason, None
            self.send(encode_close(code, text))

    def send(self, data: bytes) -> None:
        """Send, or keep for later what the socket does not take. Raises CallEnded if too much is kept."""
        sent = 0
        if not self.backlog:
            sent = self._send_now(data)
            if sent == len(data):
                return
        self.backlog += memoryview(data)[sent:]
        if len(self.backlog) > MAX_BACKLOG_BYTES:
            raise CallEnded(f"caller does not read: {len(self.backlog)} bytes wait for it")

    def flush(self) -> None:
        """Send what was kept, as far as the socket takes it."""
        while self.backlog:
            sent = self._send_now(self.backlog)
            if not sent:
                return
            del self.backlog[:sent]

    def _send_now(self, data: bytes | bytearray) -> int:
        try:
            return self.sock.send(data)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise CallEnded(f"connection lost: {error.strerror or error}") from None


def call_id(request: UpgradeRequest) -> str:
    """What the caller calls this call, or a name of our own."""
    return request.headers.get("x-call-id", "")[:MAX_CALL_ID_CHARS] or uuid.uuid4().hex


def encode_text(output: HeardText) -> bytes:
    """The transcript message (VB29)."""
    message = {"type": "transcript", "role": "user", "text": output.text, "final": True}
    return encode_frame(Opcode.TEXT, json.dumps(message).encode())
