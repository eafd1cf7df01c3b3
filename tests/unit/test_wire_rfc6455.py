"""The WebSocket codec, rule by rule (RFC 6455, sections 5 and 7), and against another implementation."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol
from wsproto.frame_protocol import Opcode as TheirOpcode

from voicebench.wire.rfc6455 import (
    MAX_HEADER_BYTES,
    Binary,
    Close,
    Message,
    Opcode,
    Parser,
    Ping,
    Pong,
    ProtocolError,
    Text,
    apply_mask,
    encode_close,
    encode_frame,
    whole_binary,
    whole_masked_binary,
)

MASK = bytes.fromhex("37fa213d")
LIMIT = 1000


def client() -> Parser:
    return Parser(expect_masked=False, max_message_bytes=LIMIT)


def server() -> Parser:
    return Parser(expect_masked=True, max_message_bytes=LIMIT)


# The RFC's own examples, section 5.7.


def test_an_unmasked_text_frame() -> None:
    assert client().feed(b"\x81\x05Hello") == [Text("Hello")]
    assert encode_frame(Opcode.TEXT, b"Hello") == b"\x81\x05Hello"


def test_a_masked_text_frame() -> None:
    wire = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"
    assert server().feed(wire) == [Text("Hello")]
    assert encode_frame(Opcode.TEXT, b"Hello", mask=MASK) == wire


def test_a_fragmented_text() -> None:
    assert client().feed(b"\x01\x03Hel\x80\x02lo") == [Text("Hello")]


def test_ping_and_pong() -> None:
    assert client().feed(b"\x89\x05Hello\x8a\x05Hello") == [Ping(b"Hello"), Pong(b"Hello")]


@pytest.mark.parametrize(
    ("size", "header"), [(125, "827d"), (126, "827e007e"), (256, "827e0100"), (65535, "827effff")]
)
def test_lengths_of_up_to_16_bits(size: int, header: str) -> None:
    wire = encode_frame(Opcode.BINARY, bytes(size))
    assert wire == bytes.fromhex(header) + bytes(size)
    parser = Parser(expect_masked=False, max_message_bytes=1 << 20)
    assert parser.feed(wire) == [Binary(bytes(size))]


def test_a_length_of_64_bits() -> None:
    wire = encode_frame(Opcode.BINARY, bytes(65536))
    assert wire[:10] == bytes.fromhex("827f0000000000010000")
    assert Parser(expect_masked=False, max_message_bytes=65536).feed(wire) == [Binary(bytes(65536))]


def test_control_frames_may_stand_between_fragments() -> None:
    parser = client()
    assert parser.feed(b"\x02\x01a\x89\x01p\x00\x01b") == [Ping(b"p")]
    assert not parser.idle
    assert parser.feed(b"\x80\x01c") == [Binary(b"abc")]
    assert parser.idle


@pytest.mark.parametrize(
    ("wire", "code", "reason"),
    [
        (b"\xc2\x01a", 1002, "reserved bit"),
        (b"\xa2\x01a", 1002, "reserved bit"),
        (b"\x92\x01a", 1002, "reserved bit"),
        (b"\x83\x01a", 1002, "unknown opcode 0x3"),
        (b"\x8f\x01a", 1002, "unknown opcode 0xf"),
        (b"\x82\x81aaaaa", 1002, "masked frame"),
        (b"\x09\x01a", 1002, "fragmented control"),
        (b"\x89\x7e\x00\x7e", 1002, "over 125"),
        (b"\x80\x01a", 1002, "continuation without"),
        (b"\x02\x01a\x82\x01b", 1002, "new message inside"),
        (b"\x88\x01\x03", 1002, "half a code"),
        (b"\x88\x02\x03\xed", 1002, "1005"),
        (b"\x88\x02\x03\xe7", 1002, "999"),
        (b"\x88\x02\x07\xd0", 1002, "2000"),
        (b"\x88\x02\x13\x88", 1002, "5000"),
        (b"\x88\x03\x03\xe8\xff", 1007, "close reason"),
        (b"\x81\x02\xc3\x28", 1007, "not UTF-8"),
        (b"\x01\x01\xc3\x80\x01\x28", 1007, "not UTF-8"),
        (b"\x82\x7e\x00\x7d", 1002, "shortest form"),
        (b"\x82\x7f" + (65535).to_bytes(8, "big"), 1002, "shortest form"),
        (b"\x82\x7f" + (1 << 63).to_bytes(8, "big"), 1002, "63 bits"),
        (b"\x82\x7e" + (LIMIT + 1).to_bytes(2, "big"), 1009, "over 1000 bytes"),
        (b"\x02\x01a\x00\x7e" + LIMIT.to_bytes(2, "big"), 1009, "over 1000 bytes"),
    ],
)
def test_violations(wire: bytes, code: int, reason: str) -> None:
    parser = client()
    with pytest.raises(ProtocolError, match=reason) as caught:
        parser.feed(wire)
    assert caught.value.code == code
    assert parser.buffered_bytes == 0


def test_a_server_refuses_unmasked_frames() -> None:
    with pytest.raises(ProtocolError, match="unmasked frame"):
        server().feed(b"\x82\x01")


def test_what_came_before_a_violation_is_delivered_and_the_error_stays() -> None:
    parser = client()
    with pytest.raises(ProtocolError) as caught:
        parser.feed(b"\x82\x01a\x89\x00\x83")
    assert caught.value.messages == [Binary(b"a"), Ping(b"")]
    with pytest.raises(ProtocolError, match="unknown opcode") as again:
        parser.feed(b"\x82\x01a")
    assert again.value.messages == []


def test_a_message_of_exactly_the_limit_passes() -> None:
    assert client().feed(encode_frame(Opcode.BINARY, bytes(LIMIT))) == [Binary(bytes(LIMIT))]


def test_close_frames() -> None:
    assert client().feed(b"\x88\x00") == [Close(1005)]
    assert client().feed(b"\x88\x05\x03\xe8bye") == [Close(1000, "bye")]
    assert encode_close(1000, "bye") == b"\x88\x05\x03\xe8bye"
    assert encode_close(1005) == b"\x88\x00"


def test_nothing_is_read_behind_a_close() -> None:
    parser = client()
    assert parser.feed(b"\x88\x00\x82\x01a") == [Close(1005)]
    assert parser.feed(b"\xff\xff") == []


def test_a_long_close_reason_is_cut_at_a_character() -> None:
    assert client().feed(encode_close(1011, "é" * 100)) == [Close(1011, "é" * 61)]  # 2 * 61 of 123 bytes


def test_a_control_frame_that_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="125"):
        encode_frame(Opcode.PING, bytes(126))


@given(st.binary(max_size=5000), st.binary(min_size=4, max_size=4))
def test_masking_is_the_rfcs_octet_rule(payload: bytes, mask: bytes) -> None:
    assert apply_mask(payload, mask) == bytes(octet ^ mask[i % 4] for i, octet in enumerate(payload))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 640, 65535])
def test_whole_binary_knows_one_whole_frame(size: int) -> None:
    stale = b"stale bytes of an earlier read"
    for mask, whole in ((None, whole_binary), (MASK, whole_masked_binary)):
        wire = encode_frame(Opcode.BINARY, bytes(size), mask=mask)
        buffer = bytearray(wire + stale)
        assert whole(buffer, len(wire)) == len(wire) - size
        assert whole(buffer, len(wire) + 1) == 0
        assert whole(buffer, len(wire) - 1) == 0


@pytest.mark.parametrize(
    "wire", [b"\x81\x01aa", b"\x02\x01aa", b"\x82\x7e\x00\x03abc", b"\xc2\x01aa", b"\x82\xfe\x00\x01aaaaa"]
)
def test_whole_binary_leaves_everything_else_to_the_parser(wire: bytes) -> None:
    assert whole_binary(bytearray(wire), len(wire)) == 0


@pytest.mark.parametrize("payload", [b"", b"a", b"abc", bytes(125), bytes(126), bytes(640)])
def test_a_frame_that_has_come_in_part_is_no_whole_one(payload: bytes) -> None:
    wire = encode_frame(Opcode.BINARY, payload, mask=None)
    for size in range(1, len(wire)):
        assert whole_binary(memoryview(wire)[:size], size) == 0
    assert whole_masked_binary(bytearray(wire), len(wire)) == 0


# Any conversation, cut anywhere.

_data_messages = st.one_of(st.binary(max_size=300).map(Binary), st.text(max_size=80).map(Text))
_control_messages = st.one_of(st.binary(max_size=125).map(Ping), st.binary(max_size=125).map(Pong))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Message], list[tuple[int, bytes, bool]]]:
    """Messages in the order in which they complete, and frames that carry them."""
    messages: list[Message] = []
    frames: list[tuple[int, bytes, bool]] = []
    for message in draw(st.lists(_data_messages, max_size=6)):
        data = message.payload.encode() if isinstance(message, Text) else message.payload
        cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
        parts = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
        for i, part in enumerate(parts):
            for control in draw(st.lists(_control_messages, max_size=1)):
                opcode = Opcode.PING if isinstance(control, Ping) else Opcode.PONG
                messages.append(control)
                frames.append((opcode, control.payload, True))
            start = Opcode.TEXT if isinstance(message, Text) else Opcode.BINARY
            frames.append((Opcode.CONTINUATION if i else start, part, i == len(parts) - 1))
        messages.append(message)
    return messages, frames


@given(conversations(), st.booleans(), st.lists(st.integers(1, 40), min_size=1, max_size=10))
@settings(max_examples=200, deadline=None)
def test_any_conversation_in_any_pieces_parses_back(
    conversation: tuple[list[Message], list[tuple[int, bytes, bool]]], masked: bool, sizes: list[int]
) -> None:
    messages, frames = conversation
    mask = MASK if masked else None
    wire = b"".join(encode_frame(opcode, data, mask=mask, fin=fin) for opcode, data, fin in frames)
    parser = Parser(expect_masked=masked, max_message_bytes=LIMIT)
    parsed: list[Message] = []
    position = 0
    for size in itertools.cycle(sizes):
        if position >= len(wire):
            break
        parsed += parser.feed(wire[position : position + size])
        position += size
    assert parsed == messages
    assert parser.idle


@given(st.booleans(), st.lists(st.binary(max_size=60), max_size=30))
@settings(max_examples=300, deadline=None)
def test_noise_raises_only_protocol_errors_and_is_never_hoarded(masked: bool, chunks: list[bytes]) -> None:
    parser = Parser(expect_masked=masked, max_message_bytes=64)
    for chunk in chunks:
        with suppress(ProtocolError):
            parser.feed(chunk)
        # fragments and an unfinished control frame may be held at the same time
        assert parser.buffered_bytes <= 64 + MAX_HEADER_BYTES + 125


@given(st.sampled_from([TheirOpcode.BINARY, TheirOpcode.PING]), st.binary(max_size=125), st.booleans())
def test_frames_equal_those_of_wsproto(opcode: TheirOpcode, payload: bytes, masked: bool) -> None:
    theirs = FrameProtocol(client=masked, extensions=[])
    wire = bytes(theirs.ping(payload) if opcode == TheirOpcode.PING else theirs.send_data(payload, fin=True))
    mask = wire[2:6] if masked else None
    assert encode_frame(int(opcode), payload, mask=mask) == wire


def test_wsproto_reads_our_close() -> None:
    theirs = FrameProtocol(client=True, extensions=[])
    theirs.receive_bytes(encode_close(1001, "restart"))
    frame = next(iter(theirs.received_frames()))
    assert frame.opcode == TheirOpcode.CLOSE
    assert tuple(frame.payload) == (CloseReason.GOING_AWAY, "restart")
