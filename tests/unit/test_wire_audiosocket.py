"""The AudioSocket codec: the protocol's own examples, every violation, and anything that may come (TV02)."""

import itertools
from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.wire.audiosocket import (
    HEADER_BYTES,
    KINDS,
    MAX_PAYLOAD_BYTES,
    RATES,
    Audio,
    CallUuid,
    Dtmf,
    Error,
    Hangup,
    Kind,
    Message,
    Parser,
    ProtocolError,
    encode,
    whole_audio,
)

CALL = UUID("6a1d6ba3-04a1-4bf5-8a0c-2f8a6d0ea5c8")


def on_the_wire(message: Message) -> bytes:
    match message:
        case Audio(rate, pcm):
            return encode(KINDS[rate], pcm)
        case CallUuid(value):
            return encode(Kind.UUID, value.bytes)
        case Dtmf(digit):
            return encode(Kind.DTMF, digit.encode())
        case Error(code):
            return encode(Kind.ERROR, code)
        case _:
            return encode(Kind.HANGUP)


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        ("000000", Hangup()),
        ("0100106a1d6ba304a14bf58a0c2f8a6d0ea5c8", CallUuid(CALL)),
        ("03000137", Dtmf("7")),
        ("03000123", Dtmf("#")),
        ("10000401ff0200", Audio(8000, b"\x01\xff\x02\x00")),
        ("12000201ff", Audio(16000, b"\x01\xff")),
        ("ff000102", Error(b"\x02")),
        ("ff0000", Error()),
    ],
)
def test_each_type_of_message(wire: str, message: Message) -> None:
    assert Parser().feed(bytes.fromhex(wire)) == [message]
    assert on_the_wire(message) == bytes.fromhex(wire)


def test_the_rates_of_the_audio_types() -> None:
    rates = {0x10: 8, 0x11: 12, 0x12: 16, 0x13: 24, 0x14: 32, 0x15: 44.1, 0x16: 48, 0x17: 96, 0x18: 192}
    assert {kind: rate / 1000 for kind, rate in RATES.items()} == rates


def test_20_ms_at_8_khz_are_320_bytes_behind_the_header() -> None:
    assert encode(0x10, bytes(320)) == b"\x10\x01\x40" + bytes(320)


def test_the_longest_audio() -> None:
    (message,) = Parser().feed(encode(0x10, bytes(MAX_PAYLOAD_BYTES - 1)))
    assert message == Audio(8000, bytes(65534))
    with pytest.raises(ValueError, match="65535 bytes, got 65536"):
        encode(0x10, bytes(65536))


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("42", "unknown message type 0x42"),
        ("02", "unknown message type 0x02"),
        ("19", "unknown message type 0x19"),
        ("fe", "unknown message type 0xfe"),
        ("100000", "audio of length 0"),
        ("100003", "odd audio of 3 bytes"),
        ("10ffff", "odd audio of 65535 bytes"),
        ("01000f", "UUID of 15 bytes, must be 16"),
        ("010000", "UUID of 0 bytes, must be 16"),
        ("030002", "DTMF of 2 bytes, must be 1"),
        ("030000", "DTMF of 0 bytes, must be 1"),
        ("030001c3", "DTMF digit 0xc3 is not a printable ASCII character"),
        ("0300010a", "DTMF digit 0x0a is not a printable ASCII character"),
    ],
)
def test_a_violation_is_told_as_soon_as_it_is_certain_and_again(wire: str, reason: str) -> None:
    parser = Parser()
    data = bytes.fromhex(wire)
    assert parser.feed(data[:-1]) == []
    for _ in range(2):
        with pytest.raises(ProtocolError, match=f"^{reason}$"):
            parser.feed(data[-1:])
    assert not parser.idle
    assert parser.buffered_bytes == 0


def test_what_came_before_a_violation_is_not_lost() -> None:
    with pytest.raises(ProtocolError) as caught:
        Parser().feed(encode(0x10, b"ab") + encode(Kind.DTMF, b"1") + b"\x42")
    assert caught.value.messages == [Audio(8000, b"ab"), Dtmf("1")]


def test_a_hang_up_counts_from_its_header_and_nothing_is_read_behind_it() -> None:
    parser = Parser()
    assert parser.feed(b"\x00\x00\x05" + b"\x42" * 9) == [Hangup()]
    assert parser.feed(b"\x42" * 9) == []
    assert (parser.idle, parser.buffered_bytes) == (False, 0)


@pytest.mark.parametrize(
    ("held", "unfinished"),
    [
        ("", ""),
        ("10", "1 of 3 bytes of a header"),
        ("1001", "2 of 3 bytes of a header"),
        ("100140", "3 of 323 bytes"),
        ("100140" + "00" * 97, "100 of 323 bytes"),
        ("100140" + "00" * 320, ""),
    ],
)
def test_it_knows_what_is_missing(held: str, unfinished: str) -> None:
    parser = Parser()
    parser.feed(bytes.fromhex(held))
    assert parser.unfinished == unfinished
    assert parser.idle == (not unfinished)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (b"", "no code"),
        (b"\x02", "0x02, frame could not be forwarded"),
        (b"\x7f", "0x7f"),
        (b"\x02\x01", "0x0201"),
        (bytes(1000), "0x" + "00" * 8),
    ],
)
def test_an_error_says_what_it_knows(code: bytes, text: str) -> None:
    assert str(Error(code)) == text


messages = st.lists(
    st.one_of(
        st.builds(
            Audio,
            st.sampled_from(sorted(KINDS)),
            st.binary(min_size=1, max_size=40).map(lambda b: b + b),
        ),
        st.builds(CallUuid, st.uuids()),
        st.builds(Dtmf, st.sampled_from("0123456789*#ABCD")),
        st.builds(Error, st.binary(max_size=4)),
    ),
    max_size=8,
)


@given(messages, st.lists(st.integers(0, 400)))
def test_messages_survive_the_wire_however_it_cuts_them(sent: list[Message], cuts: list[int]) -> None:
    wire = b"".join(map(on_the_wire, [*sent, Hangup()]))
    edges = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]
    parser = Parser()
    got = [message for start, end in itertools.pairwise(edges) for message in parser.feed(wire[start:end])]
    assert got == [*sent, Hangup()]


@given(st.lists(st.binary(max_size=200)))
def test_whatever_comes_memory_is_bounded_and_only_protocol_errors_are_raised(pieces: list[bytes]) -> None:
    parser = Parser()
    for piece in pieces:
        with suppress(ProtocolError):
            parser.feed(piece)
        assert parser.buffered_bytes <= HEADER_BYTES + MAX_PAYLOAD_BYTES


@given(st.binary(max_size=400))
def test_garbage_means_the_same_in_one_piece_and_byte_by_byte(data: bytes) -> None:
    def parsed(pieces: list[bytes]) -> tuple[list[Message], str]:
        parser, got = Parser(), []
        for piece in pieces:
            try:
                got += parser.feed(piece)
            except ProtocolError as error:
                return got + error.messages, str(error)
        return got, parser.unfinished

    assert parsed([data]) == parsed([data[i : i + 1] for i in range(len(data))])


audio_or_nearly = st.one_of(
    st.binary(min_size=3, max_size=60),
    st.builds(
        lambda kind, length, body: bytes((kind,)) + length.to_bytes(2, "big") + body,
        st.sampled_from([0x10, 0x12]),
        st.integers(0, 12),
        st.binary(max_size=12),
    ),
)


@given(audio_or_nearly, st.binary(max_size=8))
def test_the_short_cut_agrees_with_the_parser(data: bytes, stale: bytes) -> None:
    buffer = bytearray(data + stale)
    parser = Parser()
    try:
        slow = parser.feed(data)
    except ProtocolError:
        slow = []
    alone = slow if len(slow) == 1 and parser.idle and data[0] == 0x10 else []
    assert whole_audio(buffer, len(data), 0x10) == (alone != [])
    if alone:
        assert alone == [Audio(8000, bytes(buffer[HEADER_BYTES : len(data)]))]
