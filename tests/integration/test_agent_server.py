"""The reference agent's server, called over real sockets by websocket-client."""

import json
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

from voicebench.agents.background import BackgroundServer
from voicebench.agents.call import MAX_BACKLOG_BYTES, CallEnded
from voicebench.agents.websocket import WebSocketCall
from voicebench.audio.synth import speech
from voicebench.clock.kernel import KernelClock

FRAME_S = 0.02
SILENCE = bytes(640)
SPEECH = speech(1000, 16000)[8000:8320].astype("<i2").tobytes()  # no fades
PATIENCE_S = 10.0


class Caller:
    """One call: a thread notes what arrives, ``play`` sends in real time."""

    def __init__(self, url: str, call_id: str, **options: Any) -> None:
        self.call_id = call_id
        self.received: list[tuple[int, str, Any]] = []  # CLOCK_MONOTONIC ns, kind, payload
        self.ws = websocket.create_connection(url, timeout=PATIENCE_S, header={"X-Call-Id": call_id}, **options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                opcode, data = self.ws.recv_data(control_frame=True)
            except (OSError, websocket.WebSocketException):
                return
            now = time.monotonic_ns()
            if opcode == websocket.ABNF.OPCODE_BINARY:
                self.received.append((now, "audio", data))
            elif opcode == websocket.ABNF.OPCODE_TEXT:
                message = json.loads(data)
                self.received.append((now, message["type"], message.get("text")))
            elif opcode == websocket.ABNF.OPCODE_CLOSE:
                self.received.append((now, "close", int.from_bytes(data[:2], "big")))
                return
            else:
                self.received.append((now, "pong", data))

    def play(self, *stretches: tuple[bytes, int]) -> None:
        """Send frames, each so many times, one every 20 ms and never in a burst."""
        due = time.monotonic()
        for frame, count in stretches:
            for _ in range(count):
                time.sleep(max(0.0, due - time.monotonic()))
                self.ws.send_binary(frame)
                due = max(due, time.monotonic() - FRAME_S) + FRAME_S

    def count(self, kind: str) -> int:
        return sum(what == kind for _, what, _ in self.received)

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"only got {[(kind, len(str(x))) for _, kind, x in self.received]}"
            time.sleep(0.005)

    def hang_up(self) -> None:
        self.ws.send_close(1000)
        self._reader.join(PATIENCE_S)
        self.ws.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def agent() -> Iterator[BackgroundServer]:
    with BackgroundServer(
        endpoint_silence_ms=100,
        response_delay_ms=100,
        response_ms=400,
        greeting_ms=60,
        barge_in_min_ms=40,
        interrupt_reaction_ms=60,
        transcripts=["one", "zwei é"],
    ) as server:
        yield server


def test_greeting_reply_transcript_and_the_truth_about_them(agent: BackgroundServer) -> None:
    caller = Caller(agent.url, "plain")
    caller.play((SILENCE, 10), (SPEECH, 10), (SILENCE, 20))
    caller.wait(lambda: caller.count("audio") == 3 + 20)
    caller.hang_up()
    line = agent.call("plain")
    (turn,) = line["turns"]
    audio = [(at, data) for at, kind, data in caller.received if kind == "audio"]
    assert {len(data) for _, data in audio} == {640}
    assert [text for _, kind, text in caller.received if kind == "transcript"] == ["one"]
    assert line["reason"] == "caller closed (1000)"
    assert (
        line["opened_ns"] < turn["speech_start_ns"] < turn["speech_end_ns"] < turn["endpoint_ns"] < line["closed_ns"]
    )
    # 200 ms of speech, 100 of silence, 100 of delay; this caller may be late with a frame, the first one too
    assert 180 <= (turn["speech_end_ns"] - turn["speech_start_ns"]) / 1e6 < 600
    assert 80 <= (turn["endpoint_ns"] - turn["speech_end_ns"]) / 1e6 < 500
    assert turn["reply_due_ns"] - turn["endpoint_ns"] == pytest.approx(100e6, abs=1e4)
    assert turn["reply_start_ns"] >= turn["reply_due_ns"] - 1e4
    assert (line["greeting"]["frames_sent"], turn["frames_sent"], turn["cut"]) == (3, 20, False)
    assert turn["reply_end_ns"] - turn["reply_start_ns"] >= 380e6
    # the caller's ear agrees: nothing is heard before it was sent, and the reader is not half a second late
    assert -1e6 <= audio[3][0] - turn["reply_start_ns"] < 500e6
    assert line["late_ms"]["max"] >= line["late_ms"]["p50"] >= 0


def test_the_agent_paces_its_frames(agent: BackgroundServer) -> None:
    caller = Caller(agent.url, "paced")
    caller.play((SILENCE, 1), (SPEECH, 10), (SILENCE, 20))
    caller.wait(lambda: caller.count("audio") == 23)
    caller.hang_up()
    times = [at for at, kind, _ in caller.received if kind == "audio"][3:]
    assert times[-1] - times[0] >= 19 * 20e6 - 20e6


def test_cutting_in_stops_the_agent_and_is_answered(agent: BackgroundServer) -> None:
    caller = Caller(agent.url, "barge-in")
    caller.play((SPEECH, 5), (SILENCE, 14), (SPEECH, 20), (SILENCE, 20))
    caller.wait(lambda: caller.count("transcript") == 2)
    caller.wait(lambda: len(agent_kinds(caller)) > 5 and agent_kinds(caller)[-1] == "audio")
    caller.hang_up()
    first, second = agent.call("barge-in")["turns"]
    assert first["cut"]
    assert first["frames_sent"] < 20
    # 40 ms of speech and 60 of reaction after the first of it was heard
    assert 80 <= (first["stop_ns"] - first["barge_in_start_ns"]) / 1e6 < 500
    assert second["speech_start_ns"] == first["barge_in_start_ns"]
    kinds = agent_kinds(caller)
    stop = kinds.index("clear")
    assert kinds[stop + 1 : stop + 3] == ["transcript", "audio"]  # silent between the clear and the next reply
    assert [text for _, kind, text in caller.received if kind == "transcript"] == ["one", "zwei é"]


def agent_kinds(caller: Caller) -> list[str]:
    return [kind for _, kind, _ in caller.received]


@pytest.mark.parametrize("length_ms", [10, 30, 100])
def test_callers_may_send_frames_of_any_length(agent: BackgroundServer, length_ms: int) -> None:
    caller = Caller(agent.url, f"length-{length_ms}")
    pcm = speech(200, 16000).astype("<i2").tobytes() + bytes(32 * 200)
    size = 32 * length_ms
    due = time.monotonic()
    for start in range(0, len(pcm), size):
        time.sleep(max(0.0, due - time.monotonic()))
        caller.ws.send_binary(pcm[start : start + size])
        due += length_ms / 1000
    caller.wait(lambda: caller.count("audio") == 23)
    caller.hang_up()
    (turn,) = agent.call(caller.call_id)["turns"]
    assert 100 <= (turn["speech_end_ns"] - turn["speech_start_ns"]) / 1e6 < 600


def test_one_long_message_is_heard_like_its_frames(agent: BackgroundServer) -> None:
    caller = Caller(agent.url, "long")
    caller.play((SILENCE, 1))
    caller.wait(lambda: caller.count("audio") == 3)  # the greeting
    caller.ws.send_binary(SPEECH * 10 + SILENCE * 10)
    caller.wait(lambda: caller.count("audio") == 23)
    caller.hang_up()
    (turn,) = agent.call("long")["turns"]
    assert turn["speech_end_ns"] - turn["speech_start_ns"] == pytest.approx(200e6, abs=1e3)
    assert turn["endpoint_ns"] - turn["speech_end_ns"] == pytest.approx(100e6, abs=1e3)


def test_text_is_ignored_and_pings_are_answered(agent: BackgroundServer) -> None:
    caller = Caller(agent.url, "chatty", subprotocols=["audio", "other"])
    assert caller.ws.subprotocol == "audio"
    caller.ws.send(json.dumps({"type": "start", "token": "s3cret"}))
    caller.ws.send("{ broken")
    caller.ws.ping(b"there?")
    caller.wait(lambda: caller.count("pong") == 1)
    assert caller.received[0][2] == b"there?"
    caller.hang_up()
    line = agent.call("chatty")
    assert (line["texts"], line["start_keys"]) == (2, ["token", "type"])
    assert "s3cret" not in agent.log_path.read_text()


def test_a_call_without_an_id_gets_one(agent: BackgroundServer) -> None:
    before = {line["call_id"] for line in agent.log()}
    ws = websocket.create_connection(agent.url, timeout=PATIENCE_S)
    ws.close()
    deadline = time.monotonic() + PATIENCE_S
    while not (new := {line["call_id"] for line in agent.log()} - before):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert len(new.pop()) == 32


def address(agent: BackgroundServer) -> tuple[str, int]:
    host, port = agent.url.removeprefix("ws://").split(":")
    return host, int(port)


def upgraded(agent: BackgroundServer, call_id: str) -> socket.socket:
    """A connection whose handshake is done, to write anything to."""
    sock = socket.create_connection(address(agent), PATIENCE_S)
    sock.sendall(
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Call-Id: " + call_id.encode() + b"\r\n\r\n"
    )
    assert read_until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    return sock


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end) and (piece := sock.recv(1)):
        data += piece
    return data


@pytest.mark.parametrize(
    ("name", "wire", "code", "reason"),
    [
        ("unmasked", b"\x82\x02ab", 1002, "protocol error: unmasked frame"),
        ("opcode", b"\x83\x80mask", 1002, "protocol error: unknown opcode 0x3"),
        ("odd", b"\x82\x83\0\0\0\0abc", 1007, "protocol error: PCM16 audio of 3 bytes"),
        ("utf8", b"\x81\x82\0\0\0\0\xc3\x28", 1007, "protocol error: text message is not UTF-8"),
        ("huge", b"\x82\xff" + (10 << 20).to_bytes(8, "big"), 1009, "protocol error: message over 1048576 bytes"),
    ],
)
def test_a_caller_who_breaks_the_protocol_is_told_so(
    agent: BackgroundServer, name: str, wire: bytes, code: int, reason: str
) -> None:
    with upgraded(agent, name) as sock:
        sock.sendall(wire)
        header = sock.recv(4)
        assert header[0] == 0x88
        assert int.from_bytes(header[2:], "big") == code
        sock.sendall(b"what comes now is ignored")
    assert agent.call(name)["reason"] == reason


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"426"),
        (b"POST / HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\x01\x00", b"405"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000, b"431"),
    ],
)
def test_a_handshake_that_makes_no_sense_gets_an_answer(
    agent: BackgroundServer, request_: bytes, status: bytes
) -> None:
    with socket.create_connection(address(agent), PATIENCE_S) as sock:
        sock.sendall(request_)
        assert read_until(sock, b"\r\n\r\n").split()[1] == status


def test_bad_callers_do_not_disturb_another_call(agent: BackgroundServer) -> None:
    good = Caller(agent.url, "good")
    stop = threading.Event()

    def pester() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            with upgraded(agent, f"bad-{number}") as sock:
                sock.sendall([b"\xff" * 100, b"\x82\xff", b"\x82\x83\0\0\0\0abc"][number % 3])
                if number % 2:  # a reset instead of an orderly end
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with socket.create_connection(address(agent), PATIENCE_S) as sock:
                sock.sendall(b"\r\n\r\n" * number)

    thread = threading.Thread(target=pester)
    thread.start()
    try:
        good.play((SILENCE, 5), (SPEECH, 10), (SILENCE, 20))
        good.wait(lambda: good.count("audio") == 23)
    finally:
        stop.set()
        thread.join()
    good.hang_up()
    (turn,) = agent.call("good")["turns"]
    assert turn["frames_sent"] == 20
    assert agent.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_every_call_in_order(number: int) -> None:
    with BackgroundServer(greeting_ms=60_000) as server:
        caller = Caller(server.url, "last")
        with socket.create_connection(address(server)) as idle:  # has not even shaken hands
            caller.play((SILENCE, 3))
            caller.wait(lambda: caller.count("audio") > 0)
            assert server.stop(number) == 0
            assert idle.recv(1) == b""
        caller.wait(lambda: caller.count("close") == 1)
        assert caller.received[-1][1:] == ("close", 1001)
        line, summary = server.log()
        assert line["reason"] == "agent shut down"
        assert line["greeting"]["frames_sent"] == caller.count("audio")
        assert (summary["calls"], summary["refused"]) == (1, 1)
        assert summary["late_ms"]["max"] == line["late_ms"]["max"]


def test_a_caller_that_never_answers_the_close_cannot_hold_the_agent() -> None:
    with BackgroundServer() as server, upgraded(server, "stubborn"):
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 5
        assert server.log()[0]["reason"] == "agent shut down"


def test_it_serves_tls() -> None:
    certificate = Path(__file__).parent.parent / "fixtures" / "agent.pem"
    extra = ("--tls-cert", str(certificate), "--tls-key", str(certificate))
    with BackgroundServer(extra=extra, greeting_ms=100, endpoint_silence_ms=100, response_ms=100) as server:
        assert server.url.startswith("wss://")
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")  # not TLS: concerns nobody else
            caller = Caller(server.url, "tls", sslopt={"cert_reqs": ssl.CERT_NONE})
            caller.play((SPEECH, 10), (SILENCE, 10))
            caller.wait(lambda: caller.count("audio") == 10)
            caller.hang_up()
        assert server.call("tls")["turns"][0]["frames_sent"] == 5


def test_what_a_caller_does_not_read_is_bounded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        sock, _ = listener.accept()
        sock.setblocking(False)
        call = WebSocketCall(sock, 16000)

        def talk_on() -> None:
            for _ in range(100_000):
                call.send(bytes(640))

        with pytest.raises(CallEnded, match="does not read"):
            talk_on()
        assert MAX_BACKLOG_BYTES < len(call.backlog) <= MAX_BACKLOG_BYTES + 640
        sock.close()


def test_what_the_socket_did_not_take_goes_out_later_in_order() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as peer:
        sock, _ = listener.accept()
        sock.setblocking(False)
        call = WebSocketCall(sock, 16000)
        sent = bytearray()
        number = 0
        while len(call.backlog) < 10_000:
            part = number.to_bytes(4, "big") * 160
            call.send(part)
            sent += part
            number += 1
        got = bytearray()
        while len(got) < len(sent):
            got += peer.recv(1 << 16)
            call.flush()
        assert got == sent
        sock.close()


def test_the_end_of_a_stream_is_an_end_of_the_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        sock, _ = listener.accept()
        sock.setblocking(False)
        call = WebSocketCall(sock, 16000)
        assert call.read(bytearray(100), KernelClock()) == (0, 0)
        peer.close()
        sock.settimeout(PATIENCE_S)
        with pytest.raises(CallEnded, match="without a close frame"):
            call.read(bytearray(100), KernelClock())
        sock.close()


@pytest.mark.parametrize(
    ("options", "extra", "message"),
    [
        ({"reponse_ms": 1}, (), "did you mean 'response_ms'"),
        ({}, ("--host", "203.0.113.1"), "assign requested address"),
        ({}, ("--log", "/nowhere/agent.jsonl"), "No such file"),
        ({}, ("--tls-cert", "/nowhere/cert.pem"), "No such file"),
    ],
)
def test_it_says_why_it_cannot_start(options: dict[str, Any], extra: tuple[str, ...], message: str) -> None:
    with pytest.raises(RuntimeError, match=message), BackgroundServer(extra=extra, **options):
        pass
