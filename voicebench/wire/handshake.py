"""The server's half of the WebSocket opening handshake (RFC 6455, section 4.2), without I/O."""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

MAX_REQUEST_BYTES = 16 * 1024
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class HandshakeError(ValueError):
    """Not a WebSocket request that can be accepted; answer with ``http_error(error.status, str(error))``."""

    def __init__(self, reason: str, status: int = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(reason)
        self.status = int(status)


@dataclass(frozen=True)
class UpgradeRequest:
    """A valid request to open a WebSocket.

    ``headers`` have lower-case names; repeated ones are joined by ", ". ``size`` is the request's length in bytes:
    what lies behind it in the buffer is WebSocket data.
    """

    path: str
    headers: dict[str, str]
    key: str
    subprotocols: tuple[str, ...]
    size: int


def parse_upgrade(data: bytes | bytearray) -> UpgradeRequest | None:
    """Parse an HTTP request from the start of ``data``; None as long as it is not complete.

    Raises HandshakeError (a ValueError) for anything that is not a WebSocket handshake, as early as that is certain.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if not (data.startswith(b"GET ") or b"GET ".startswith(data[:4])):
            raise HandshakeError("not an HTTP GET request", HTTPStatus.METHOD_NOT_ALLOWED)
        if len(data) > MAX_REQUEST_BYTES:
            raise HandshakeError(
                f"request over {MAX_REQUEST_BYTES} bytes", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            )
        return None
    if end > MAX_REQUEST_BYTES:
        raise HandshakeError(f"request over {MAX_REQUEST_BYTES} bytes", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    first, *lines = bytes(data[:end]).decode("latin-1").split("\r\n")
    path = _parse_request_line(first)
    headers = _parse_headers(lines)
    key = _check_headers(headers)
    subprotocols = tuple(_tokens(headers.get("sec-websocket-protocol", "")))
    return UpgradeRequest(path, headers, key, subprotocols, end + 4)


def upgrade_response(
    request: UpgradeRequest, subprotocol: str | None = None, headers: Iterable[tuple[str, str]] = ()
) -> bytes:
    """The 101 response that opens the connection. Raises ValueError for a sub-protocol that was not offered."""
    if subprotocol is not None and subprotocol not in request.subprotocols:
        raise ValueError(f"sub-protocol {subprotocol!r} was not offered; the client offers {request.subprotocols}")
    accept = base64.b64encode(hashlib.sha1(request.key.encode() + _GUID).digest()).decode()
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)]
    if subprotocol is not None:
        fields.append(("Sec-WebSocket-Protocol", subprotocol))
    return _response(HTTPStatus.SWITCHING_PROTOCOLS, [*fields, *headers])


def http_error(status: int, reason: str) -> bytes:
    """A complete response that refuses the request and closes the connection; ``reason`` is its body."""
    body = f"{reason}\n".encode()
    fields = [
        ("Connection", "close"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
    ]
    if status == HTTPStatus.UPGRADE_REQUIRED:
        fields += [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
    return _response(HTTPStatus(status), fields) + body


def _response(status: HTTPStatus, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    for name, value in headers:
        if not name or not _TOKEN.issuperset(name) or "\r" in value or "\n" in value:
            raise ValueError(f"header {name!r}: {value!r} cannot be sent")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _parse_request_line(line: str) -> str:
    method, _, rest = line.partition(" ")
    path, _, version = rest.partition(" ")
    if method != "GET":
        raise HandshakeError("not an HTTP GET request", HTTPStatus.METHOD_NOT_ALLOWED)
    if version != "HTTP/1.1":
        raise HandshakeError("not HTTP/1.1", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if not path or any(not "!" <= char <= "~" for char in path):
        raise HandshakeError("bad request target")
    return path


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not name or not _TOKEN.issuperset(name) or any(char in value for char in "\r\n\0"):
            raise HandshakeError("bad header line")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _check_headers(headers: dict[str, str]) -> str:
    """Check what section 4.2.1 demands and return the key."""
    if "websocket" not in [token.lower() for token in _tokens(headers.get("upgrade", ""))]:
        raise HandshakeError("this server speaks only WebSocket", HTTPStatus.UPGRADE_REQUIRED)
    if "upgrade" not in [token.lower() for token in _tokens(headers.get("connection", ""))]:
        raise HandshakeError("header Connection lacks 'Upgrade'")
    if "host" not in headers:
        raise HandshakeError("header Host is missing")
    if headers.get("sec-websocket-version") != "13":
        raise HandshakeError("only WebSocket version 13 is spoken here", HTTPStatus.UPGRADE_REQUIRED)
    key = headers.get("sec-websocket-key", "")
    try:
        nonce = base64.b64decode(key, validate=True)
    except binascii.Error:
        nonce = b""
    if len(nonce) != 16:
        raise HandshakeError("header Sec-WebSocket-Key is not 16 bytes in base64")
    return key


def _tokens(value: str) -> list[str]:
    return [token for token in (part.strip() for part in value.split(",")) if token]
