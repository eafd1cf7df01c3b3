"""AudioSocket, in Asterisk's place (TV01, TV02, TV11).

The adapter connects, sends the UUID of the call, and from then on one audio message per frame, silence included; at
the end a hang-up. From the agent it takes audio of the same rate in messages of any size, and the hang-up: a message
or a closed connection. DTMF from the agent is kept in the record's event log. Everything else ends the call with its
reason: an error message, a second UUID, audio of another rate, and what the codec calls a violation.

The wire has its own sample rate, 8 kHz unless told otherwise: prompts are resampled to it, whatever the scenario's
rate. An agent that expects its calls to be announced gets a POST before the connection is made.
"""

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

import gevent
import gevent.socket

from voicebench.adapters.base import AdapterError, AgentHangup, AgentOther, Sink
from voicebench.adapters.registration import checked_register_url, register
from voicebench.adapters.stream import StreamAdapter, checked_headers, checked_timeout, network_failure, redact_url
from voicebench.wire.audiosocket import (
    HEADER_BYTES,
    KINDS,
    MAX_PAYLOAD_BYTES,
    Audio,
    CallUuid,
    Dtmf,
    Error,
    Kind,
    Message,
    Parser,
    ProtocolError,
    encode,
    whole_audio,
)

SCHEMES = ("audiosocket", "tcp")
DEFAULT_UUID = "{call_id}"
DEFAULT_BODY = {"uuid": "{uuid}", "persona": "{persona}", "caller": "{caller}"}


class AudioSocketAdapter(StreamAdapter):
    """One call over one AudioSocket connection.

    ``uuid``, ``persona``, ``caller`` and the texts in ``register_body`` may hold ``{call_id}``, ``{scenario}``, and
    the keys of the call's metadata; ``register_body`` also ``{uuid}``, ``{persona}`` and ``{caller}``.
    """

    name: ClassVar[str] = "audiosocket"

    def __init__(
        self,
        url: str | None = None,
        host: str | None = None,
        port: int | None = None,
        rate: int = 8000,
        uuid: str = DEFAULT_UUID,
        register_url: str | None = None,
        register_body: Mapping[str, Any] | None = None,
        register_headers: Mapping[str, str] | None = None,
        persona: str = "demo",
        caller: str = "1000",
        connect_timeout_s: float = 10.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if rate not in KINDS:
            raise AdapterError(f"audiosocket: option rate: must be one of {', '.join(map(str, KINDS))}, not {rate!r}")
        self.host, self.port = _address(url, host, port)
        self.rate = int(rate)
        self.connect_timeout_s = checked_timeout(self.name, connect_timeout_s)
        self.register_url = None if register_url is None else checked_register_url(self.name, register_url)
        self._register_body = DEFAULT_BODY if register_body is None else dict(register_body)
        self._register_headers = checked_headers(self.name, "register_headers", register_headers)
        self._templates = {"uuid": str(uuid), "persona": str(persona), "caller": str(caller)}
        self._kind = KINDS[rate]
        self._parser = Parser()

    @property
    def caller_sample_rate(self) -> int:
        return self.rate

    @property
    def agent_sample_rate(self) -> int:
        return self.rate

    @property
    def wire_key(self) -> str:
        return f"audiosocket/{self.rate}"

    def connect(self) -> None:
        """Register, connect, and say which call this is; each within ``connect_timeout_s``. Raises AdapterError."""
        samples = self.session.frame_ms * self.rate / 1000
        if samples != int(samples) or 2 * samples > MAX_PAYLOAD_BYTES:
            raise AdapterError(
                f"audiosocket: option rate: {self.rate} Hz cannot be cut into frames of {self.session.frame_ms:g} ms"
            )
        fields = {
            **{str(key): str(value) for key, value in self.session.metadata.items()},
            "call_id": self.session.call_id,
            "scenario": self.session.scenario_name,
        }
        call_uuid = self._call_uuid(fields)
        if call_uuid.hex != self.session.call_id:
            self.emit(AgentOther("uuid", str(call_uuid)))
        if self.register_url is not None:
            own = {name: _filled(self._templates[name], fields, name) for name in ("persona", "caller")}
            body = _filled(self._register_body, {**fields, **own, "uuid": str(call_uuid)}, "register_body")
            register(self.register_url, json.dumps(body).encode(), self._register_headers, self.connect_timeout_s)
        self._open(encode(Kind.UUID, call_uuid.bytes))

    def _open(self, opening: bytes) -> None:
        timeout = gevent.Timeout(self.connect_timeout_s)
        timeout.start()
        try:
            sock = gevent.socket.create_connection((self.host, self.port))
            sock.setsockopt(gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY, 1)
            sock.sendall(opening)
        except gevent.Timeout as error:
            if error is not timeout:
                raise
            raise AdapterError(f"timeout: no connection within {self.connect_timeout_s:g} s") from None
        except OSError as error:
            raise AdapterError(network_failure(error)) from None
        finally:
            timeout.close()
        self.adopt(sock)

    def _call_uuid(self, fields: Mapping[str, str]) -> uuid.UUID:
        """The call's id itself wherever that is a UUID, as it is unless somebody chose it."""
        text = str(_filled(self._templates["uuid"], fields, "uuid"))
        try:
            return uuid.UUID(text)
        except ValueError:
            if self._templates["uuid"] == DEFAULT_UUID:
                return uuid.uuid5(uuid.NAMESPACE_OID, text)
            raise AdapterError(f"audiosocket: option uuid: {text!r} is not a UUID") from None

    def encode_audio(self, pcm: bytes) -> bytes:
        return encode(self._kind, pcm)

    def take(self, sink: Sink, data: memoryview, arrived_ns: int) -> bool:
        """One whole audio message is the common case; anything else goes through the parser."""
        if self._parser.idle and len(data) > HEADER_BYTES and whole_audio(data, len(data), self._kind):
            sink.audio(data[HEADER_BYTES:], arrived_ns)
            return True
        violation = None
        try:
            messages = self._parser.feed(data)
        except ProtocolError as error:
            messages, violation = error.messages, error
        for message in messages:
            if not self._handle(sink, message, arrived_ns):
                return False
        if violation is not None:
            return self.end(sink, AgentHangup(f"protocol error: {violation}"), arrived_ns)
        return True

    def _handle(self, sink: Sink, message: Message, arrived_ns: int) -> bool:
        match message:
            case Audio(rate, pcm) if rate == self.rate:
                sink.audio(pcm, arrived_ns)
                return True
            case Dtmf(digit):
                sink.event(AgentOther("dtmf", digit), arrived_ns)
                return True
            case Audio(rate, _):
                hangup = AgentHangup(f"wrong rate: the agent sends audio at {rate} Hz, this call has {self.rate} Hz")
            case CallUuid():
                hangup = AgentHangup("protocol error: a second UUID")
            case Error():
                hangup = AgentHangup(f"agent error: {message}")
            case _:
                hangup = AgentHangup("agent hung up: a hang-up message", error=False)
        return self.end(sink, hangup, arrived_ns)

    def closed(self) -> AgentHangup:
        """A closed connection is a hang-up too, but not in the middle of a message."""
        if self._parser.unfinished:
            return AgentHangup(f"connection closed inside a message: {self._parser.unfinished}")
        return AgentHangup("agent hung up: the connection was closed", error=False)

    def say_goodbye(self) -> None:
        self.send_last(encode(Kind.HANGUP))

    def describe(self) -> dict[str, Any]:
        """Without what a registration may hold of secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        about: dict[str, Any] = {
            "type": self.name,
            "url": f"audiosocket://{host}:{self.port}",
            "agent_sample_rate": self.rate,
        }
        if self.register_url is not None:
            about |= {"register_url": redact_url(self.register_url), "persona": self._templates["persona"]}
        if self._register_headers:
            about["register_headers"] = sorted(self._register_headers)
        return about


def _address(url: Any, host: Any, port: Any) -> tuple[str, int]:
    """Host and port from either way of giving them."""
    if url is not None:
        if host is not None or port is not None:
            raise AdapterError("audiosocket: option url: already says host and port; leave those out")
        try:
            parts = urlsplit(url)
            good = parts.scheme in SCHEMES and parts.hostname and not parts.path.strip("/")
            host, port = parts.hostname, parts.port
        except (ValueError, AttributeError, TypeError):
            good = False
        if not good:
            raise AdapterError("audiosocket: option url: must look like audiosocket://host:port or tcp://host:port")
    port = 9092 if port is None else port
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise AdapterError(f"audiosocket: option port: must be between 1 and 65535, not {port!r}")
    return str(host or "127.0.0.1"), port


def _filled(template: Any, fields: Mapping[str, str], option: str) -> Any:
    """``template`` with each ``{name}`` in its texts replaced. Raises AdapterError for a name that is no field."""
    if isinstance(template, Mapping):
        return {key: _filled(value, fields, option) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, fields, option) for value in template]
    if not isinstance(template, str):
        return template

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise AdapterError(f"audiosocket: option {option}: no field {match[0]}; there are {', '.join(fields)}")
        return fields[match[1]]

    return re.sub(r"\{(\w+)\}", value_of, template)
