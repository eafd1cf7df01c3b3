"""The reference agent's server over AudioSocket, called by plain sockets (TV02)."""

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from voicebench.agents.background import BackgroundServer
from voicebench.audio.synth import speech
from voicebench.wire.audiosocket import Audio, Error, Hangup, Kind, Message, Parser, encode

SILENCE = encode(0x10, bytes(320))
SPEECH = encode(0x10, speech(1000, 8000)[4000:4160].astype("<i2").tobytes())  # no fades
PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def agent() -> Iterator[BackgroundServer]:
    with BackgroundServer(
        protocol="audiosocket",
        endpoint_silence_ms=100,
        response_delay_ms=100,
        response_ms=400,
        barge_in_min_ms=40,
        interrupt_reaction_ms=60,
        transcripts=["never sent: the protocol has no message for it"],
    ) as server:
        yield server


def connect(agent: BackgroundServer, wire: bytes = b"") -> socket.socket:
    host, port = agent.url.removeprefix("audiosocket://").split(":")
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    sock.sendall(wire)
    return sock


def opening(call: UUID) -> bytes:
    return encode(Kind.UUID, call.bytes)


def play(sock: socket.socket, *stretches: tuple[bytes, int]) -> None:
    """Send frames, each so many times, one every 20 ms and never in a burst."""
    due = time.monotonic()
    for frame, count in stretches:
        for _ in range(count):
            time.sleep(max(0.0, due - time.monotonic()))
            sock.sendall(frame)
            due = max(due, time.monotonic() - 0.02) + 0.02


def read_to_the_end(sock: socket.socket) -> list[Message]:
    parser = Parser()
    got: list[Message] = []
    with contextlib.suppress(ConnectionError):
        while data := sock.recv(65536):
            got += parser.feed(data)
            if Hangup() in got:
                sock.close()
                return got
    return got


def read_audio(sock: socket.socket, frames: int) -> list[Message]:
    parser = Parser()
    got: list[Message] = []
    while len(got) < frames:
        data = sock.recv(65536)
        assert data, f"the agent hung up after {len(got)} frames"
        got += parser.feed(data)
    return got


def test_a_reply_and_the_truth_about_it(agent: BackgroundServer) -> None:
    call = uuid4()
    with connect(agent, opening(call)) as sock:
        play(sock, (SILENCE, 10), (SPEECH, 10), (encode(Kind.DTMF, b"4"), 1), (encode(Kind.DTMF, b"#"), 1))
        play(sock, (SILENCE, 20))
        replied = read_audio(sock, 20)
        sock.sendall(encode(Kind.HANGUP))
        line = agent.call(call.hex)
    assert {(type(message), message.rate, len(message.pcm)) for message in replied if isinstance(message, Audio)} == {
        (Audio, 8000, 320)
    }
    (turn,) = line["turns"]
    assert (line["reason"], line["dtmf"], line["texts"]) == ("caller hung up", "4#", 0)
    assert (turn["frames_sent"], turn["cut"]) == (20, False)
    assert 180 <= (turn["speech_end_ns"] - turn["speech_start_ns"]) / 1e6 < 600
    assert turn["reply_due_ns"] - turn["endpoint_ns"] == pytest.approx(100e6, abs=1e4)


def test_cutting_in_stops_the_agent_without_a_word(agent: BackgroundServer) -> None:
    call = uuid4()
    with connect(agent, opening(call)) as sock:
        play(sock, (SPEECH, 5), (SILENCE, 14), (SPEECH, 20), (SILENCE, 20))
        sock.sendall(encode(Kind.HANGUP))
        line = agent.call(call.hex)
        messages = read_to_the_end(sock)
    first, second = line["turns"]
    assert first["cut"]
    assert first["frames_sent"] < 20
    assert 80 <= (first["stop_ns"] - first["barge_in_start_ns"]) / 1e6 < 500
    assert all(isinstance(message, Audio) for message in messages)
    assert len(messages) == first["frames_sent"] + second["frames_sent"]


@pytest.mark.parametrize("cut", [1, 2, 3, 10, 18, 19, 20, 100])
def test_the_opening_may_arrive_in_two_parts_and_audio_with_it(agent: BackgroundServer, cut: int) -> None:
    call = uuid4()
    wire = opening(call) + SILENCE + SPEECH
    with connect(agent, wire[:cut]) as sock:
        time.sleep(0.01)
        sock.sendall(wire[cut:])
    line = agent.call(call.hex)
    assert line["reason"] == "caller hung up without a hang-up message"


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"\x42", "protocol error: unknown message type 0x42"),
        (b"\x10\x00\x00", "protocol error: audio of length 0"),
        (b"\x10\xff\xff", "protocol error: odd audio of 65535 bytes"),
        (opening(UUID(int=7)), "protocol error: a second UUID"),
        (encode(0x12, bytes(640)), "wrong rate: audio at 16000 Hz, not 8000"),
    ],
)
def test_a_caller_who_breaks_the_protocol_is_told_so(agent: BackgroundServer, wire: bytes, reason: str) -> None:
    call = uuid4()
    with connect(agent, opening(call) + wire) as sock:
        assert read_to_the_end(sock) == [Error(), Hangup()]
    assert agent.call(call.hex)["reason"] == reason


def test_an_error_of_the_caller_ends_the_call(agent: BackgroundServer) -> None:
    call = uuid4()
    with connect(agent, opening(call) + encode(Kind.ERROR, b"\x02")) as sock:
        assert read_to_the_end(sock) == []
    assert agent.call(call.hex)["reason"] == "caller reported an error: 0x02, frame could not be forwarded"


@pytest.mark.parametrize(
    "wire", [SILENCE, encode(Kind.HANGUP), b"\x01\x00\x0f" + bytes(15), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_whoever_does_not_begin_with_a_uuid_is_left(agent: BackgroundServer, wire: bytes) -> None:
    before = len(agent.log())
    with connect(agent, wire) as sock:
        assert read_to_the_end(sock) == []
    assert len(agent.log()) == before


def test_whoever_says_nothing_is_left_after_some_seconds(agent: BackgroundServer) -> None:
    with connect(agent, b"\x01\x00") as sock:
        began = time.monotonic()
        assert sock.recv(1) == b""
        assert 4.5 <= time.monotonic() - began < 8


def test_at_its_end_the_agent_hangs_up(agent: BackgroundServer) -> None:
    call = uuid4()
    with BackgroundServer(protocol="audiosocket", greeting_ms=60_000) as server:
        with connect(server, opening(call) + SILENCE) as sock:
            read_audio(sock, 3)
            server.stop()
            assert read_to_the_end(sock)[-1] == Hangup()
        line, summary = server.log()
    assert (line["call_id"], line["reason"]) == (call.hex, "agent shut down")
    assert (summary["calls"], summary["refused"]) == (1, 0)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"sample_rate": 11025}, "AudioSocket has no audio at 11025 Hz; use one of 8000, 12000"),
        ({"extra": ("--host", "203.0.113.1")}, "assign requested address"),
    ],
)
def test_it_says_why_it_cannot_start(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message), BackgroundServer(protocol="audiosocket", **keys):
        pass
