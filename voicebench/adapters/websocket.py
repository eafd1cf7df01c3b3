"""Raw PCM over a websocket (VB29, VB30).

To the agent: one binary message per frame, mono PCM16 little-endian at the session's rate, silence included; before
it, if ``start_message`` is set, that object as JSON text with ``sample_rate`` filled in.

From the agent: binary messages of PCM16 in any size at ``agent_sample_rate``, and JSON text::

    {"type": "clear"}                                              drop what has not sounded yet
    {"type": "transcript", "role": "user", "text": "...", "final": true}

Other text is kept in the record's event log and otherwise ignored. An odd number of bytes ends the call.

websocket-client opens the connection (handshake, TLS, proxies); from then on the socket is non-blocking and is read
at each tick of the pacer, with the kernel's receive timestamps where the socket has them.
"""

import contextlib
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import gevent
import websocket
from gevent.socket import wait_read

from voicebench.adapters.base import (
    AdapterError,
    AgentClear,
    AgentEvent,
    AgentHangup,
    AgentOther,
    AgentTranscript,
    Sink,
    SocketAdapter,
)
from voicebench.clock.kernel import ANCILLARY_BYTES, KernelClock, shared_kernel_clock
from voicebench.version import __version__
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
    whole_binary,
)

READ_BYTES = 16 * 1024  # bounds the work that one call can cause in one turn of the loop
BACKLOG_BYTES = 256 * 1024  # caller's audio that a slow agent may leave unread, beyond the kernel's buffers

_buffer = bytearray(READ_BYTES)  # shared by all calls: what is read is consumed before the next read
_view = memoryview(_buffer)
_mask = os.urandom(4)  # one mask a process: frames are encoded once and shared by all callers


class WebSocketAdapter(SocketAdapter):
    """One call over one websocket."""

    name: ClassVar[str] = "websocket"

    def __init__(
        self,
        url: str = "ws://127.0.0.1:8765",
        agent_sample_rate: int | None = None,
        start_message: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        subprotocols: list[str] | None = None,
        connect_timeout_s: float = 10.0,
        tls_ca: str | None = None,
        tls_verify: bool = True,
        max_message_bytes: int = 4 * 1024 * 1024,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.url = _checked_url(url)
        self.start_message = start_message
        self.headers = {str(key): str(value) for key, value in (headers or {}).items()}
        self.subprotocols = list(subprotocols or [])
        self.connect_timeout_s = float(connect_timeout_s)
        self.close_timeout_s = 1.0
        self._agent_sample_rate = _checked_rate(agent_sample_rate)
        self._tls_ca, self._tls_verify = tls_ca, tls_verify
        self._parser = Parser(expect_masked=False, max_message_bytes=int(max_message_bytes))
        self._socket: Any = None
        self._clock: KernelClock | None = None
        self._backlog = bytearray()
        self._ended = False

    @property
    def agent_sample_rate(self) -> int:
        return self._agent_sample_rate or self.session.sample_rate

    @property
    def has_kernel_timestamps(self) -> bool:
        return self._clock is not None

    @property
    def wire_key(self) -> str:
        return "websocket"

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def connect(self) -> None:
        """Handshake within ``connect_timeout_s``. Raises AdapterError; its text before ``:`` is the kind."""
        timeout = gevent.Timeout(self.connect_timeout_s)
        timeout.start()
        try:
            connection = websocket.create_connection(
                self.url,
                timeout=self.connect_timeout_s,
                header={"User-Agent": f"voicebench/{__version__}", "X-Call-Id": self.session.call_id} | self.headers,
                subprotocols=self.subprotocols or None,
                sslopt=self._tls_options(),
                sockopt=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
                redirect_limit=3,
                skip_utf8_validation=True,
                enable_multithread=False,
            )
            if self.start_message is not None:
                message = {"sample_rate": self.session.sample_rate, **self.start_message}
                connection.send(json.dumps(message))
        except gevent.Timeout as error:
            if error is not timeout:
                raise
            raise AdapterError(f"timeout: no handshake within {self.connect_timeout_s:g} s") from None
        except (OSError, ValueError, websocket.WebSocketException) as error:
            raise AdapterError(_why(error, self.connect_timeout_s)) from None
        finally:
            timeout.close()
        self._adopt(connection)

    def _adopt(self, connection: Any) -> None:
        """Take over the connected socket."""
        sock = connection.sock
        sock.settimeout(0)
        # gevent wraps plain sockets; what it wraps never waits, which is what the pacer wants.
        self._socket = sock if isinstance(sock, ssl.SSLSocket) else getattr(sock, "_sock", sock)
        self._keep = connection  # owns the socket: it must live as long as we read from it
        if not isinstance(sock, ssl.SSLSocket):
            clock = shared_kernel_clock()
            self._clock = clock if clock.enable(self._socket) else None

    def encode_audio(self, pcm: bytes) -> bytes:
        return encode_frame(Opcode.BINARY, pcm, mask=_mask)

    def send_audio(self, pcm: bytes) -> None:
        self.send_encoded(self.encode_audio(pcm))

    def send_encoded(self, wire: bytes) -> None:
        """Send without waiting. What the kernel does not take is kept, up to a bound. Raises AdapterError."""
        if self._socket is None or self._ended:
            return
        if self._backlog:
            self._backlog += wire
            wire = bytes(self._backlog)
        try:
            sent = self._socket.send(wire)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as error:
            raise AdapterError(f"connection lost: {error.strerror or error}") from None
        if sent == len(wire):
            if self._backlog:
                self._backlog = bytearray()
            return
        self._backlog = bytearray(wire[sent:])
        if len(self._backlog) > BACKLOG_BYTES:
            raise AdapterError(f"back-pressure: the agent left over {BACKLOG_BYTES >> 10} KiB unread")

    def read(self, sink: Sink) -> bool:
        if self._ended:
            return False
        try:
            if self._clock is not None:
                n, ancillary, _, _ = self._socket.recvmsg_into([_buffer], ANCILLARY_BYTES)
                arrived_ns = self._clock.arrival_ns(ancillary, time.monotonic_ns())
            else:
                n = self._socket.recv_into(_buffer)
                arrived_ns = time.monotonic_ns()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            lost = AgentHangup(f"connection lost: {error.strerror or error}")
            return self._end(sink, lost, time.monotonic_ns())
        if n == 0:
            gone = AgentHangup("agent hung up: the connection ended without a close frame")
            return self._end(sink, gone, arrived_ns)
        if self._parser.idle:
            start = whole_binary(_buffer, n)
            if start:
                return self._audio(sink, _view[start:n], arrived_ns)
        return self._feed(sink, n, arrived_ns)

    def _feed(self, sink: Sink, n: int, arrived_ns: int) -> bool:
        """Parse what is no single whole audio message."""
        violation = None
        try:
            messages = self._parser.feed(_view[:n])
        except ProtocolError as error:
            messages, violation = error.messages, error
        for message in messages:
            if not self._handle(sink, message, arrived_ns):
                return False
        if violation is not None:
            self._send_close(violation.code)
            return self._end(sink, AgentHangup(f"protocol error: {violation.reason}"), arrived_ns)
        return True

    def _handle(self, sink: Sink, message: Message, arrived_ns: int) -> bool:
        if isinstance(message, Binary):
            return self._audio(sink, message.payload, arrived_ns)
        if isinstance(message, Text):
            sink.event(parse_text(message.payload), arrived_ns)
        elif isinstance(message, Ping):
            self.send_encoded(encode_frame(Opcode.PONG, message.payload, mask=_mask))
        elif isinstance(message, Close):
            return self._hung_up(sink, message, arrived_ns)
        return True

    def _hung_up(self, sink: Sink, close: Close, arrived_ns: int) -> bool:
        clean = close.code in (CloseCode.NORMAL, CloseCode.GOING_AWAY, CloseCode.NO_STATUS)
        self._send_close(CloseCode.NORMAL if close.code == CloseCode.NO_STATUS else close.code)
        said = f" ({close.reason})" if close.reason else ""
        return self._end(
            sink, AgentHangup(f"agent hung up: close code {close.code}{said}", error=not clean), arrived_ns
        )

    def _audio(self, sink: Sink, pcm: bytes | memoryview, arrived_ns: int) -> bool:
        if len(pcm) & 1:
            self._send_close(1003)
            odd = AgentHangup(f"odd audio: {len(pcm)} bytes are no whole number of 16-bit samples")
            return self._end(sink, odd, arrived_ns)
        sink.audio(pcm, arrived_ns)
        return True

    def _end(self, sink: Sink, hangup: AgentHangup, arrived_ns: int) -> Literal[False]:
        self._ended = True
        sink.event(hangup, arrived_ns)
        return False

    def _send_close(self, code: int) -> None:
        if not self._backlog:  # else there is half a frame on the wire, and nobody who reads
            with contextlib.suppress(AdapterError):
                self.send_encoded(encode_close(code, "", mask=_mask))

    def close(self) -> None:
        """Say goodbye, wait a moment for the answer, and let the socket go."""
        if self._socket is None:
            return
        try:
            if not self._ended:
                self._send_close(1000)
                self._await_close()
        finally:
            self._socket = None
            self._keep.shutdown()

    def _await_close(self) -> None:
        deadline = time.monotonic() + self.close_timeout_s
        ears = _Deaf()
        while not self._ended and (left := deadline - time.monotonic()) > 0:
            if not self.read(ears):
                return
            try:
                wait_read(self._socket.fileno(), left)
            except OSError:  # its timeout is one
                return

    def _tls_options(self) -> dict[str, Any]:
        if not self._tls_verify:
            return {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
        return {"ca_certs": self._tls_ca} if self._tls_ca else {}

    def describe(self) -> dict[str, Any]:
        """Neither the query and credentials of the URL nor the values of headers (VB30)."""
        about: dict[str, Any] = {
            "type": self.name,
            "url": redact_url(self.url),
            "agent_sample_rate": self._agent_sample_rate,
        }
        if self.headers:
            about["headers"] = sorted(self.headers)
        if self.subprotocols:
            about["subprotocols"] = self.subprotocols
        return about


class _Deaf:
    """Takes what still comes while a call is being closed."""

    def audio(self, pcm: bytes | bytearray | memoryview, arrived_ns: int) -> None:
        pass

    def event(self, event: AgentEvent, arrived_ns: int) -> None:
        pass


def parse_text(text: str) -> AgentEvent:
    """The meaning of one text message."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return AgentOther("broken JSON", text)
    kind = data.get("type") if isinstance(data, dict) else None
    if kind == "clear":
        return AgentClear()
    if kind == "transcript" and isinstance(data.get("text"), str):
        role: Literal["user", "agent"] = "agent" if data.get("role") == "agent" else "user"
        return AgentTranscript(role, data["text"], bool(data.get("final", True)))
    return AgentOther(f"message {kind}" if isinstance(kind, str) else "message", text)


def redact_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _checked_url(url: Any) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("ws", "wss") and parts.hostname and (parts.port or 1) > 0
    except (ValueError, AttributeError, TypeError):
        good = False
    if not good:
        raise AdapterError("websocket: option url: must look like ws://host:port/path or wss://...")
    return str(url)


def _checked_rate(rate: Any) -> int | None:
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or rate != int(rate) or not 4000 <= rate <= 192000:
        raise AdapterError(f"websocket: option agent_sample_rate: must be a rate in Hz, not {rate!r}")
    return int(rate)


def _why(error: Exception, timeout_s: float) -> str:
    """One line that says what went wrong, without the URL: it may carry secrets."""
    if isinstance(error, websocket.WebSocketBadStatusException):
        return f"HTTP {error.status_code}: the handshake was refused"
    if isinstance(error, TimeoutError | websocket.WebSocketTimeoutException):
        return f"timeout: no handshake within {timeout_s:g} s"
    if isinstance(error, ssl.SSLError):
        return f"TLS failure: {getattr(error, 'verify_message', '') or error.reason or error}"
    if isinstance(error, websocket.WebSocketAddressException | socket.gaierror):
        return "DNS failure: the host name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, ConnectionError):
        return f"connection lost: {error.strerror or 'during the handshake'}"
    if isinstance(error, websocket.WebSocketConnectionClosedException):
        return "connection lost: closed during the handshake"
    if isinstance(error, websocket.WebSocketException):
        return "bad handshake: the answer is no websocket upgrade"
    if isinstance(error, OSError):
        return f"connection failed: {error.strerror or type(error).__name__}"
    return "bad handshake: the answer is no websocket upgrade"
