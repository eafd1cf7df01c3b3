"""The server's half of the opening handshake (RFC 6455, section 4.2)."""

import pytest

from voicebench.wire.handshake import HandshakeError, http_error, parse_upgrade, upgrade_response

REQUEST = (
    b"GET /chat?room=1 HTTP/1.1\r\n"
    b"Host: server.example.com\r\n"
    b"Upgrade: websocket\r\n"
    b"Connection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: chat, superchat\r\n"
    b"Sec-WebSocket-Version: 13\r\n"
    b"X-Call-Id: abc\r\n\r\n"
)


def test_the_rfcs_example() -> None:
    request = parse_upgrade(REQUEST + b"\x82\x01")
    assert request is not None
    assert request.path == "/chat?room=1"
    assert request.headers["x-call-id"] == "abc"
    assert request.subprotocols == ("chat", "superchat")
    assert request.size == len(REQUEST)
    assert upgrade_response(request, "chat") == (
        b"HTTP/1.1 101 Switching Protocols\r\n"
        b"Upgrade: websocket\r\n"
        b"Connection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
        b"Sec-WebSocket-Protocol: chat\r\n\r\n"
    )


def test_every_proper_prefix_is_incomplete() -> None:
    assert all(parse_upgrade(REQUEST[:n]) is None for n in range(len(REQUEST)))


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"GET", b"POST", 405),
        (b"HTTP/1.1", b"HTTP/1.0", 505),
        (b" /chat?room=1 ", b"  ", 400),
        (b"Upgrade: websocket", b"Upgrade: h2c", 426),
        (b"keep-alive, Upgrade", b"close", 400),
        (b"Version: 13", b"Version: 8", 426),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"dGhlIHNhbXBsZSBub25jZQ", 400),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ=", 400),
        (b"Host: server.example.com\r\n", b"", 400),
        (b"X-Call-Id: abc", b"X-Call-Id abc", 400),
        (b"X-Call-Id: abc", b" folded: abc", 400),
    ],
)
def test_what_is_refused(old: bytes, new: bytes, status: int) -> None:
    with pytest.raises(HandshakeError) as caught:
        parse_upgrade(REQUEST.replace(old, new))
    assert caught.value.status == status


def test_garbage_is_refused_at_its_first_bytes_and_endless_headers_at_16_kib() -> None:
    with pytest.raises(HandshakeError, match="GET"):
        parse_upgrade(b"\x16\x03\x01")  # a TLS hello
    with pytest.raises(HandshakeError, match="16384"):
        parse_upgrade(b"GET / HTTP/1.1\r\nX: " + b"a" * 16384)


def test_a_subprotocol_must_have_been_offered() -> None:
    request = parse_upgrade(REQUEST)
    assert request is not None
    with pytest.raises(ValueError, match="was not offered"):
        upgrade_response(request, "soap")
    with pytest.raises(ValueError, match="cannot be sent"):
        upgrade_response(request, headers=[("X-Injected", "a\r\nSet-Cookie: b")])


def test_an_error_says_why_in_its_body() -> None:
    wire = http_error(426, "only WebSocket")
    assert wire.startswith(b"HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\n")
    assert b"Sec-WebSocket-Version: 13\r\n" in wire
    assert wire.endswith(
        b"Content-Length: 15\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\nonly WebSocket\n"
    )
