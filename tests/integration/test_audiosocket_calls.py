"""Calls over AudioSocket with agents that behave, misbehave, or take no strangers (TV01, TV02, TV11)."""

import json
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from tests.integration.scripted_audiosocket import Connection, agent, registrar
from voicebench.adapters import AdapterError, create_adapter
from voicebench.audio.resample import resample
from voicebench.audio.synth import tone
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario
from voicebench.vad import detect
from voicebench.wire.audiosocket import KINDS, Audio, CallUuid, Hangup, encode

RATE = 16000  # of the scenario: not the wire's
RUN = (sys.executable, "-m", "voicebench", "run", "--no-write")
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"ok": true}'


def scenario(**keys: Any) -> Scenario:
    """One question of 200 ms after 100 ms, and a tail: a call of 0.7 s."""
    question = {
        "id": "question",
        "audio": {"synth": "tone", "duration_ms": 200},
        "start": {"after": "session_start", "delay_ms": 100},
        "response_timeout_ms": 300,
    }
    return parse_scenario({"name": "short", "tail_ms": 400, "turns": [question], **keys})


def call(url: str, on: Scenario | None = None, call_id: str | None = None, **options: Any) -> SessionRecord:
    adapter = create_adapter("audiosocket", {"url": url, "connect_timeout_s": 2, **options})
    return Call(on or scenario(), adapter, call_id=call_id).run()


def reply(connection: Connection) -> None:
    connection.hear(0.32)
    connection.speak(tone(200, 8000).tobytes())
    connection.hear_out()


def test_a_16_khz_scenario_runs_over_an_8_khz_line_unchanged() -> None:
    lines: list[Connection] = []

    def listen_and_reply(connection: Connection) -> None:
        lines.append(connection)
        reply(connection)

    with agent(listen_and_reply) as url:
        record = call(url)
    assert (record.outcome, record.reason, record.timestamps) == ("completed", "", "kernel")
    opening, *audio, last = lines[0].received
    assert opening == CallUuid(UUID(record.call_id))
    assert last == Hangup()
    frames = [message.pcm for message in audio if isinstance(message, Audio) and message.rate == 8000]
    assert {len(frame) for frame in frames} == {320}
    sent = np.flatnonzero(~np.isnan(record.sent))  # all of them, unless the machine was busy
    assert len(frames) == len(audio) == len(sent)
    # what is kept of the caller is what went over the wire, at the scenario's rate
    wire = np.zeros((len(record.sent), 160), dtype=np.int16)
    wire[sent] = [np.frombuffer(frame, dtype="<i2") for frame in frames]
    assert (resample(wire.ravel(), 8000, RATE) == record.user_track).all()
    (user,) = detect(record.user_track, RATE, record.scenario.vad.user)
    assert user.start_s == pytest.approx(0.1, abs=0.011)
    assert user.end_s == pytest.approx(0.3, abs=0.011)
    (said,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert 0.3 <= said.start_s < 0.6
    assert said.end_s - said.start_s == pytest.approx(0.2, abs=0.021)


@pytest.mark.parametrize("rate", sorted(KINDS))
def test_every_rate_of_the_protocol(rate: int) -> None:
    kinds: set[int] = set()

    def reply_at_rate(connection: Connection) -> None:
        connection.hear(0.3)
        kinds.update(message.rate for message in connection.received if isinstance(message, Audio))
        connection.speak(tone(100, rate).tobytes(), rate // 25, KINDS[rate])
        connection.hear_out()

    with agent(reply_at_rate) as url:
        record = call(url, rate=rate)
    assert (record.outcome, record.reason) == ("completed", "")
    assert kinds == {rate}
    (said,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert said.end_s - said.start_s == pytest.approx(0.1, abs=0.021)
    (user,) = detect(record.user_track, RATE, record.scenario.vad.user)
    assert user.end_s - user.start_s == pytest.approx(0.2, abs=0.021)


def test_messages_of_any_size_and_cut_anywhere_make_one_sound() -> None:
    pcm = tone(200, 8000).tobytes()

    def piecemeal(connection: Connection) -> None:
        connection.hear(0.32)
        wire = encode(0x10, pcm[:2]) + encode(0x03, b"7") + encode(0x10, pcm[2:3000]) + encode(0x10, pcm[3000:])
        for start in range(0, len(wire), 701):
            connection.sock.sendall(wire[start : start + 701])
        connection.hear_out()

    with agent(piecemeal) as url:
        record = call(url)
    assert (record.outcome, record.reason) == ("completed", "")
    assert [(event.kind, event.detail) for event in record.events] == [("dtmf", "7")]
    assert record.packets.duration.sum() == pytest.approx(0.2)
    (said,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert said.end_s - said.start_s == pytest.approx(0.2, abs=0.021)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"\x42\x00\x00", "protocol error: unknown message type 0x42"),
        (b"\x10\x00\x00", "protocol error: audio of length 0"),
        (b"\x10\xff\xff", "protocol error: odd audio of 65535 bytes"),
        (b"\x10\x00\x05hello", "protocol error: odd audio of 5 bytes"),
        (b"\x03\x00\x02", "protocol error: DTMF of 2 bytes, must be 1"),
        (b"\x01\x00\x10" + bytes(16), "protocol error: a second UUID"),
        (b"\x01\x00\x0f" + bytes(15), "protocol error: UUID of 15 bytes, must be 16"),
        (encode(0x12, bytes(640)), "wrong rate: the agent sends audio at 16000 Hz, this call has 8000 Hz"),
        (b"\xff\x00\x01\x02", "agent error: 0x02, frame could not be forwarded"),
        (b"\xff\x00\x00", "agent error: no code"),
        (b"\x00\x00\x00", "agent hung up: a hang-up message"),
        (b"", "agent hung up: the connection was closed"),
        (b"\x10\x01", "connection closed inside a message: 2 of 3 bytes of a header"),
        (b"\x10\x01\x40" + bytes(100), "connection closed inside a message: 103 of 323 bytes"),
        (b"\x10\xff\xfe" + bytes(9000), "connection closed inside a message: 9003 of 65537 bytes"),
    ],
)
def test_one_reason_for_whatever_an_agent_does_wrong(wire: bytes, reason: str) -> None:
    def misbehave(connection: Connection) -> None:
        connection.hear(0.2)  # into the question
        connection.sock.sendall(encode(0x10, bytes(320)) + wire)
        connection.sock.shutdown(socket.SHUT_WR)
        connection.hear_out()

    with agent(misbehave) as url:
        record = call(url)
    assert record.outcome == "failed"
    assert record.reason == f"{reason}, during turn 'question'"
    assert len(record.packets) == 1  # what came before it is kept
    assert len(record.sent) < 30


@pytest.mark.parametrize("wire", [b"\x00\x00\x00", b""])
def test_an_agent_may_hang_up_once_everything_is_said(wire: bytes) -> None:
    def leave(connection: Connection) -> None:
        connection.hear(0.4)
        connection.sock.sendall(wire)

    with agent(leave) as url:
        record = call(url)
    assert (record.outcome, record.reason) == ("completed", "")
    assert len(record.sent) < 30


@pytest.mark.parametrize("wire", [b"\x10\x01", b"\x10\xff\xfe" + bytes(500)])
def test_an_agent_that_never_ends_its_message_cannot_hold_the_call(wire: bytes) -> None:
    def stop_short(connection: Connection) -> None:
        connection.sock.sendall(wire)
        connection.hear_out()

    with agent(stop_short) as url:
        record = call(url)
    assert (record.outcome, len(record.packets)) == ("completed", 0)


def test_a_reset_is_a_reason_too() -> None:
    def reset(connection: Connection) -> None:
        connection.hear(0.2)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with agent(reset) as url:
        record = call(url)
    assert record.outcome == "failed"
    assert record.reason.startswith("connection lost: ")


def test_a_frame_that_the_rate_cannot_fill_is_told_at_once() -> None:
    record = call("tcp://127.0.0.1:9", scenario(frame_ms=5), rate=44100)
    assert (record.outcome, record.connect_ms) == ("failed", None)
    assert record.reason == "audiosocket: option rate: 44100 Hz cannot be cut into frames of 5 ms"


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    record = call(f"tcp://127.0.0.1:{port}")
    assert (record.reason, record.connect_ms) == ("connection refused: nothing listens there", None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 11025}, "option rate: must be one of 8000, 12000, 16000"),
        ({"url": "ws://127.0.0.1:9092"}, "must look like audiosocket://host:port"),
        ({"url": "tcp://127.0.0.1:99999"}, "must look like audiosocket://host:port"),
        ({"url": "tcp://a:1", "port": 2}, "already says host and port"),
        ({"port": 0}, "option port: must be between 1 and 65535, not 0"),
        ({"register_url": "ftp://a/b"}, "option register_url: must look like http://"),
        ({"register_headers": {"X": "a\r\nb"}}, "a header is one line"),
        ({"speed": 2}, "unknown option"),
    ],
)
def test_options_are_checked_before_any_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        create_adapter("audiosocket", options)


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({}, "audiosocket://127.0.0.1:9092"),
        ({"host": "agent", "port": 9019}, "audiosocket://agent:9019"),
        ({"url": "tcp://agent:9019"}, "audiosocket://agent:9019"),
        ({"url": "audiosocket://user:s3cret@agent"}, "audiosocket://agent:9092"),
        ({"url": "tcp://[::1]:9019/"}, "audiosocket://[::1]:9019"),
    ],
)
def test_where_the_agent_is_may_be_said_in_two_ways(options: dict[str, Any], url: str) -> None:
    assert create_adapter("audiosocket", options).describe()["url"] == url


# Which call it is.


def uuid_of(**options: Any) -> tuple[SessionRecord, UUID]:
    lines: list[Connection] = []

    def note(connection: Connection) -> None:
        lines.append(connection)
        connection.hear_out()

    with agent(note) as url:
        record = call(url, scenario(metadata={"line": 7}), **options)
    first = lines[0].received[0]
    assert isinstance(first, CallUuid)
    return record, first.value


def test_a_uuid_of_ones_own_is_kept_with_the_call() -> None:
    record, sent = uuid_of(uuid="6a1d6ba3-04a1-4bf5-8a0c-2f8a6d0ea5c{line}")
    assert str(sent) == "6a1d6ba3-04a1-4bf5-8a0c-2f8a6d0ea5c7"
    assert [(event.kind, event.detail) for event in record.events] == [("uuid", str(sent))]


def test_a_call_id_that_is_no_uuid_always_makes_the_same_one() -> None:
    (_, first), (_, again), (_, other) = (uuid_of(call_id=name) for name in ("call-1", "call-1", "call-2"))
    assert first == again != other


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("call-{line}", "audiosocket: option uuid: 'call-7' is not a UUID"),
        ("{number}", "audiosocket: option uuid: no field {number}; there are line, call_id, scenario"),
    ],
)
def test_a_template_that_makes_no_uuid_fails_the_call(template: str, reason: str) -> None:
    record = call("tcp://127.0.0.1:9", scenario(metadata={"line": 7}), uuid=template)
    assert (record.outcome, record.reason) == ("failed", reason)


# Registration.


def test_a_call_is_announced_before_it_is_made_in_one_piece() -> None:
    requests: list[bytes] = []
    known_when_connected: list[int] = []

    def note(connection: Connection) -> None:
        known_when_connected.append(len(requests))
        reply(connection)

    with agent(note) as url, registrar(OK, requests) as register_url:
        record = call(
            url,
            register_url=f"{register_url}?key=s3cret",
            register_headers={"Authorization": "Bearer s3cret"},
            caller="+1{call_id}",
        )
    assert record.outcome == "completed"
    assert known_when_connected == [1]
    head, _, body = requests[0].partition(b"\r\n\r\n")
    assert json.loads(body) == {
        "uuid": str(UUID(record.call_id)),
        "persona": "demo",
        "caller": f"+1{record.call_id}",
    }
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /register?key=s3cret HTTP/1.1"
    assert {"Content-Type: application/json", f"Content-Length: {len(body)}", "Authorization: Bearer s3cret"} <= {
        *lines
    }
    assert "s3cret" not in repr(record.adapter)
    assert record.adapter["register_url"] == register_url


def test_the_announcement_may_have_any_form() -> None:
    requests: list[bytes] = []
    body = {"call": {"id": "{uuid}", "tags": ["{scenario}", 3]}, "who": "{caller}"}
    with agent(reply) as url, registrar(OK, requests) as register_url:
        record = call(url, register_url=register_url, register_body=body, caller="1001")
    assert json.loads(requests[0].partition(b"\r\n\r\n")[2]) == {
        "call": {"id": str(UUID(record.call_id)), "tags": ["short", 3]},
        "who": "1001",
    }


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "registration refused: HTTP 403"),
        (b"HTTP/1.0 500 Internal Server Error\r\n\r\n", "registration refused: HTTP 500"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://a/\r\n\r\n", "registration refused: HTTP 302"),
        (b"SIP/2.0 200 OK\r\n\r\n", "registration failed: the answer is not HTTP"),
        (b"", "registration failed: the answer is not HTTP"),
        (None, "registration timeout: no answer within 0.2 s"),
    ],
)
def test_an_announcement_that_fails_fails_the_call_before_it_is_made(answer: bytes | None, reason: str) -> None:
    connected: list[Connection] = []
    with agent(connected.append) as url, registrar(answer, []) as register_url:
        record = call(url, register_url=register_url, connect_timeout_s=0.2)
    assert (record.outcome, record.reason, record.connect_ms) == ("failed", reason, None)
    assert connected == []


def test_nobody_to_announce_it_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    record = call("tcp://127.0.0.1:9", register_url=f"http://127.0.0.1:{port}/")
    assert record.reason == "registration failed: connection refused: nothing listens there"


def test_a_single_run_that_is_refused_exits_3_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "short.yaml").write_text("name: short\nturns:\n  - audio: {synth: speech}\n")
    with registrar(b"HTTP/1.1 403 Forbidden\r\n\r\n", []) as register_url:
        done = subprocess.run(
            [*RUN, "short.yaml", "--url", "audiosocket://127.0.0.1:9", "-o", f"register_url={register_url}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3, done.stderr
    assert "registration refused: HTTP 403" in done.stdout
