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

import json
import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast
from urllib.parse import urlsplit

import gevent
import websocket

from voicebench.adapters.base import (
    AdapterError,
    AgentClear,
    AgentEvent,
    AgentHangup,
    AgentOther,
    AgentTranscript,
    Sink,
)
from voicebench.adapters.stream import (
    StreamAdapter,
    checked_headers,
    checked_rate,
    checked_timeout,
    network_failure,
    redact_url,
)
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

MAX_HANDSHAKE_BYTES = 64 * 1024

_mask = os.urandom(4)  # one mask a process: frames are encoded once and shared by all callers


class WebSocketAdapter(StreamAdapter):
    """One call over one websocket."""

    name: ClassVar[str] = "websocket"
    gone: ClassVar[str] = "agent hung up: the connection ended without a close frame"

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
        self.start_message = _checked_message(start_message)
        self.headers = checked_headers(self.name, "headers", headers)
        self.subprotocols = list(subprotocols or [])
        self.connect_timeout_s = checked_timeout(self.name, connect_timeout_s)
        self._agent_sample_rate = checked_rate(self.name, agent_sample_rate)
        self._tls_ca, self._tls_verify = tls_ca, tls_verify
        self._parser = Parser(expect_masked=False, max_message_bytes=int(max_message_bytes))

    @property
    def agent_sample_rate(self) -> int:
        return self._agent_sample_rate or self.session.sample_rate

    @property
    def wire_key(self) -> str:
        return "websocket"

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
                redirect_limit=0,  # it would take the headers, secrets among them, wherever the agent says
                skip_utf8_validation=True,
                enable_multithread=False,
                class_=_Handshake,
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
        self.adopt(cast(_Fair, connection.sock).plain, connection.shutdown)

    def encode_audio(self, pcm: bytes) -> bytes:
        return encode_frame(Opcode.BINARY, pcm, mask=_mask)

    def take(self, sink: Sink, data: memoryview, arrived_ns: int) -> bool:
        """One whole audio message is the common case; anything else goes through the parser."""
        if self._parser.idle:
            start = whole_binary(data, len(data))
            if start:
                return self.binary(sink, data[start:], arrived_ns)
        violation = None
        try:
            messages = self._parser.feed(data)
        except ProtocolError as error:
            messages, violation = error.messages, error
        for message in messages:
            if not self._handle(sink, message, arrived_ns):
                return False
        if violation is not None:
            self.send_last(encode_close(violation.code, "", mask=_mask))
            return self.end(sink, AgentHangup(f"protocol error: {violation.reason}"), arrived_ns)
        return True

    def _handle(self, sink: Sink, message: Message, arrived_ns: int) -> bool:
        if isinstance(message, Binary):
            return self.binary(sink, message.payload, arrived_ns)
        if isinstance(message, Text):
            return self.text(sink, message.payload, arrived_ns)
        if isinstance(message, Ping):
            self.send_encoded(encode_frame(Opcode.PONG, message.payload, mask=_mask))
        elif isinstance(message, Close):
            return self._hung_up(sink, message, arrived_ns)
        return True

    def _hung_up(self, sink: Sink, close: Close, arrived_ns: int) -> bool:
        clean = close.code in (CloseCode.NORMAL, CloseCode.GOING_AWAY, CloseCode.NO_STATUS)
        code = CloseCode.NORMAL if close.code == CloseCode.NO_STATUS else close.code
        self.send_last(encode_close(code, mask=_mask))
        said = f" ({close.reason})" if close.reason else ""
        return self.end(
            sink, AgentHangup(f"agent hung up: close code {close.code}{said}", error=not clean), arrived_ns
        )

    def binary(self, sink: Sink, payload: bytes | memoryview, arrived_ns: int) -> bool:
        """One binary message: audio. Other protocols override this and ``text``."""
        return self.take_audio(sink, payload, arrived_ns)

    def text(self, sink: Sink, payload: str, arrived_ns: int) -> bool:
        """One text message."""
        sink.event(parse_text(payload), arrived_ns)
        return True

    def say_goodbye(self) -> None:
        self.send_last(encode_close(CloseCode.NORMAL, "", mask=_mask))

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


class _Fair:
    """A socket whose reader lets others run now and then.

    The handshake is read byte by byte, and reading what is already there never waits: an agent that sends headers
    without end would stop every other call, and the timeout as well.
    """

    def __init__(self, plain: Any) -> None:
        self.plain = plain
        self._bytes = 0

    def recv(self, size: int) -> bytes:
        self._bytes += size
        if self._bytes > MAX_HANDSHAKE_BYTES:
            raise websocket.WebSocketException("the handshake does not end")
        if self._bytes % 1024 == 0:  # an honest handshake is shorter
            gevent.sleep(0.001)  # sleep(0) would not let timers and sockets have their turn
        return bytes(self.plain.recv(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


class _Handshake(websocket.WebSocket):
    """A connection whose socket is fair."""

    _fair: _Fair | None = None

    @property
    def sock(self) -> Any:
        return self._fair

    @sock.setter
    def sock(self, plain: Any) -> None:
        self._fair = _Fair(plain) if plain else None


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


def _checked_url(url: Any) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("ws", "wss") and parts.hostname and (parts.port or 1) > 0
    except (ValueError, AttributeError, TypeError):
        good = False
    if not good:
        raise AdapterError("websocket: option url: must look like ws://host:port/path or wss://...")
    return str(url)


def _checked_message(message: Any) -> Mapping[str, Any] | None:
    if message is None:
        return None
    if not isinstance(message, Mapping):
        raise AdapterError("websocket: option start_message: must be a block")
    try:
        json.dumps(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise AdapterError(f"websocket: option start_message: cannot be sent as JSON: {error}") from None
    return message


def _why(error: Exception, timeout_s: float) -> str:
    """One line that says what went wrong, without the URL: it may carry secrets."""
    if isinstance(error, websocket.WebSocketBadStatusException):
        return f"HTTP {error.status_code}: the handshake was refused"
    if isinstance(error, TimeoutError | websocket.WebSocketTimeoutException):
        return f"timeout: no handshake within {timeout_s:g} s"
    if isinstance(error, websocket.WebSocketAddressException):
        return "DNS failure: the host name cannot be resolved"
    if isinstance(error, websocket.WebSocketConnectionClosedException):
        return "connection lost: closed during the handshake"
    if isinstance(error, OSError):
        return network_failure(error)
    return "bad handshake: the answer is no websocket upgrade"
