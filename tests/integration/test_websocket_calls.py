"""Calls over real sockets with agents that behave, misbehave, or are not there at all."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import numpy as np
import pytest

from tests.integration.scripted_agent import Connection, agent
from voicebench.adapters import AdapterError, create_adapter
from voicebench.audio.synth import tone
from voicebench.runner.record import SessionRecord
from voicebench.runner.session import Call
from voicebench.scenario import Scenario, parse_scenario
from voicebench.vad import detect
from voicebench.wire.rfc6455 import Opcode, encode_close

RATE = 16000


def scenario(**keys: Any) -> Scenario:
    """One question of 200 ms after 100 ms, and a tail: a call of 0.7 s."""
    question = {
        "id": "question",
        "audio": {"synth": "tone", "duration_ms": 200},
        "start": {"after": "session_start", "delay_ms": 100},
        "response_timeout_ms": 300,
    }
    return parse_scenario({"name": "short", "tail_ms": 400, "turns": [question], **keys})


def call(url: str, on: Scenario | None = None, **options: Any) -> SessionRecord:
    adapter = create_adapter("websocket", {"url": url, "connect_timeout_s": 2, **options})
    return Call(on or scenario(), adapter).run()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def reply(connection: Connection) -> None:
    connection.hear(0.32)
    connection.speak(tone(200, RATE).tobytes())
    connection.hear_out()


def test_both_tracks_and_all_clocks_of_a_call_are_recorded() -> None:
    with agent(reply) as url:
        record = call(url)
    assert (record.outcome, record.reason) == ("completed", "")
    assert record.connect_ms is not None
    assert len(record.sent) == len(record.user_track) // 320
    assert not np.isnan(record.sent).any()
    assert record.send_lag.min() >= 0
    user = detect(record.user_track, RATE, record.scenario.vad.user)
    assert [(s.start_s, s.end_s) for s in user] == [(0.1, 0.3)]
    (heard,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert 0.3 <= heard.start_s < 0.6
    assert heard.end_s - heard.start_s == pytest.approx(0.2, abs=0.021)
    assert len(record.packets) == 10
    assert record.timestamps == "kernel"
    assert (record.packets.read >= record.packets.arrived).all()


def test_the_agent_gets_one_frame_each_20_ms_and_knows_the_call_id() -> None:
    seen: dict[str, Any] = {}

    def listen(connection: Connection) -> None:
        seen["id"] = connection.request.headers["x-call-id"]
        messages = []
        while more := connection.receive():
            messages += more
        seen["messages"] = messages

    with agent(listen) as url:
        record = call(
            url, start_message={"type": "start", "token": "s3cret"}, headers={"Authorization": "Bearer s3cret"}
        )
    first, *audio = seen["messages"]
    assert seen["id"] == record.call_id
    assert json.loads(first.payload) == {"type": "start", "token": "s3cret", "sample_rate": RATE}
    frames = [m.payload for m in audio if len(getattr(m, "payload", b"")) == 640]
    assert b"".join(frames) == record.user_track.tobytes()
    assert "s3cret" not in repr(record.adapter)
    assert record.adapter["headers"] == ["Authorization"]


def test_secrets_in_the_url_reach_neither_record_nor_error() -> None:
    with agent(reply) as url:
        record = call(url.replace("ws://", "ws://user:s3cret@") + "/path?token=s3cret#s3cret")
    assert record.outcome == "completed"
    assert "s3cret" not in repr(record)
    assert record.adapter["url"].endswith("/path")
    gone = call(f"ws://user:s3cret@127.0.0.1:{free_port()}/?token=s3cret")
    assert "s3cret" not in repr(gone)


def test_an_agent_at_another_rate_is_recorded_at_the_sessions_rate() -> None:
    def speak_24_khz(connection: Connection) -> None:
        connection.hear(0.32)
        pcm = tone(200, 24000).tobytes()
        for start in range(0, len(pcm), 960):
            connection.send(Opcode.BINARY, pcm[start : start + 960])
        connection.hear_out()

    with agent(speak_24_khz) as url:
        record = call(url, agent_sample_rate=24000)
    (heard,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert heard.end_s - heard.start_s == pytest.approx(0.2, abs=0.011)


def test_fragments_pings_and_unknown_messages_do_not_disturb_a_call() -> None:
    pcm = tone(200, RATE).tobytes()

    def chatty(connection: Connection) -> None:
        connection.hear(0.32)
        connection.send(Opcode.PING, b"still there?")
        connection.send(Opcode.BINARY, pcm[:1000], fin=False)
        connection.send(Opcode.PING, b"?")
        connection.send(Opcode.CONTINUATION, pcm[1000:])
        connection.send(Opcode.TEXT, b'{"type": "weather", "sky": "blue"}')
        connection.send(Opcode.TEXT, b'{"broken')
        connection.send(Opcode.TEXT, b'{"type": "transcript", "role": "user", "text": "hello", "final": true}')
        connection.send(Opcode.TEXT, b'{"type": "clear"}')
        connection.hear_out()

    with agent(chatty) as url:
        record = call(url)
    assert record.outcome == "completed"
    assert [event.kind for event in record.events] == ["message weather", "broken JSON"]
    assert [transcript.text for transcript in record.transcripts] == ["hello"]
    assert len(record.clears) == 1
    assert record.packets.duration.tolist() == [0.2]


@pytest.mark.parametrize("status", [401, 403, 503])
def test_a_refused_handshake_is_a_failed_call(status: int) -> None:
    raw = f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    with agent(reply, raw=raw) as url:
        record = call(url)
    assert (record.outcome, record.connect_ms) == ("failed", None)
    assert record.reason.startswith(f"HTTP {status}: ")
    assert len(record.user_track) == 0


def test_a_handshake_that_does_not_end_stops_nobody() -> None:
    ticks: list[float] = []

    def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            gevent.sleep(0.001)

    other = gevent.spawn(tick)
    try:
        with agent(reply, raw=b"HTTP/1.1 101 Yes\r\n" + b"X-More: and more\r\n" * 100_000) as url:
            record = call(url)
    finally:
        other.kill()
    assert record.outcome == "failed"
    assert record.reason.startswith("bad handshake: ")
    assert len(ticks) > 50


def test_a_redirect_is_not_followed_with_the_headers_secrets() -> None:
    met = threading.Event()

    def elsewhere(_: Connection) -> None:
        met.set()

    with agent(elsewhere) as other:
        raw = f"HTTP/1.1 302 Found\r\nLocation: {other}/\r\nContent-Length: 0\r\n\r\n".encode()
        with agent(reply, raw=raw) as url:
            record = call(url, headers={"Authorization": "Bearer s3cret"})
    assert (record.outcome, record.connect_ms) == ("failed", None)
    assert record.reason.startswith("bad handshake: ")
    assert not met.is_set()


def test_a_server_that_speaks_no_websocket_is_a_failed_call() -> None:
    with agent(reply, raw=b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as url:
        record = call(url)
    assert record.outcome == "failed"
    assert record.reason.startswith(("bad handshake: ", "HTTP "))


def test_nobody_listening_is_a_failed_call() -> None:
    record = call(f"ws://127.0.0.1:{free_port()}")
    assert (record.outcome, record.reason) == ("failed", "connection refused: nothing listens there")


def test_an_unknown_host_is_a_failed_call() -> None:
    record = call("ws://no-such-host.invalid:80")
    assert record.reason.startswith("DNS failure: ")


def test_a_handshake_that_is_never_answered_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        record = call(f"ws://127.0.0.1:{listener.getsockname()[1]}", connect_timeout_s=0.3)
    assert record.reason == "timeout: no handshake within 0.3 s"


#: For tests alone: a certificate for 127.0.0.1 and its key, and the certificate by itself.
FIXTURES = Path(__file__).parent.parent / "fixtures"
CERTIFICATE_AND_KEY, CERTIFICATE = FIXTURES / "agent.pem", FIXTURES / "agent.crt"


def test_calls_work_over_tls_with_wake_up_timestamps() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE_AND_KEY)
    with agent(reply, tls=tls) as url:
        record = call(url, tls_ca=str(CERTIFICATE))
        unverified = call(url, tls_verify=False)
        distrusted = call(url)
    assert (record.outcome, record.timestamps) == ("completed", "wakeup")
    (heard,) = detect(record.agent_track, RATE, record.scenario.vad.agent)
    assert 0.3 <= heard.start_s < 0.6
    assert unverified.outcome == "completed"
    assert distrusted.outcome == "failed"
    assert distrusted.reason.startswith("TLS failure: ")


def test_tls_against_a_plain_server_is_a_failed_call() -> None:
    with agent(reply) as url:
        record = call(url.replace("ws://", "wss://"))
    assert record.reason.startswith("TLS failure: ")


def hang_up(connection: Connection) -> None:
    connection.hear(0.2)
    connection.sock.sendall(encode_close(1000, "bye"))
    connection.hear_out()


def vanish(connection: Connection) -> None:
    connection.hear(0.2)


def reset(connection: Connection) -> None:
    connection.hear(0.2)
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.sock.close()


def odd(connection: Connection) -> None:
    connection.hear(0.2)
    connection.send(Opcode.BINARY, b"\0" * 641)
    connection.hear_out()


def no_utf8(connection: Connection) -> None:
    connection.hear(0.2)
    connection.send(Opcode.TEXT, b'{"type": "\xff\xfe"}')
    connection.hear_out()


def ten_megabytes(connection: Connection) -> None:
    connection.hear(0.2)
    connection.send(Opcode.BINARY, b"\0" * 10_000_000)


def masked(connection: Connection) -> None:
    connection.hear(0.2)
    connection.sock.sendall(b"\x82\x82\1\2\3\4ab")
    connection.hear_out()


@pytest.mark.parametrize(
    ("misbehaviour", "reason"),
    [
        (hang_up, "agent hung up: close code 1000 (bye), during turn 'question'"),
        (vanish, "agent hung up: the connection ended without a close frame, during turn 'question'"),
        (reset, "connection lost: "),
        (odd, "odd audio: 641 bytes are no whole number of 16-bit samples"),
        (no_utf8, "protocol error: "),
        (ten_megabytes, "protocol error: "),
        (masked, "protocol error: "),
    ],
)
def test_misbehaviour_ends_that_call_with_a_reason_and_keeps_what_was_recorded(
    misbehaviour: Callable[[Connection], None], reason: str
) -> None:
    with agent(misbehaviour) as url:
        record = call(url)
    assert record.outcome == "failed"
    assert record.reason.startswith(reason)
    assert 9 <= len(record.sent) <= 20  # it heard 0.2 s, and the call ended there
    assert record.windows[0].turn.id == "question"


def test_a_clean_goodbye_after_the_last_turn_completes_the_call() -> None:
    def polite(connection: Connection) -> None:
        connection.hear(0.4)
        connection.sock.sendall(encode_close(1000, ""))
        connection.hear_out()

    with agent(polite) as url:
        record = call(url)
    assert (record.outcome, record.reason) == ("completed", "")
    assert [event.kind for event in record.events] == ["hang-up"]


def test_an_agent_that_says_nothing_leaves_a_complete_record() -> None:
    with agent(Connection.hear_out) as url:
        record = call(url)
    assert record.outcome == "completed"
    assert not record.agent_track.any()


def test_an_agent_that_never_stops_is_cut_off_at_the_maximum_duration() -> None:
    endless = tone(60_000, RATE).tobytes()

    def talk(connection: Connection) -> None:
        threading.Thread(target=connection.hear_out, daemon=True).start()
        connection.speak(endless, pace_s=0)  # a minute of audio as fast as the wire takes it
        connection.hear_out()

    with agent(talk) as url:
        record = call(url, scenario(max_duration_ms=1500))
    assert record.outcome == "truncated"
    assert record.reason.startswith("max_duration_ms: ")
    assert record.duration == 1.5
    assert record.packets.duration[~np.isnan(record.packets.heard)].sum() <= 1.5


def test_a_flood_of_tiny_packets_ends_the_call() -> None:
    def flood(connection: Connection) -> None:
        wire = b"".join(b"\x82\x02ab" for _ in range(5000))
        for _ in range(20):
            connection.sock.sendall(wire)
        connection.hear_out()

    with agent(flood) as url:
        record = call(url)
    assert record.reason.startswith("flood: ")


def test_an_agent_that_does_not_read_fails_its_call_and_not_the_memory() -> None:
    stop = threading.Event()

    def deaf(connection: Connection) -> None:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stop.wait(20)

    long = scenario(frame_ms=1000, max_duration_ms=600_000, sample_rate=96000, tail_ms=500_000)
    with agent(deaf) as url:
        adapter = create_adapter("websocket", {"url": url})
        talk = Call(long, adapter)
        job = gevent.spawn(talk.run)
        # 192 kB a second fill the kernel's buffers and the backlog; feed the rest by hand to save the wait
        with gevent.Timeout(20):
            while talk._conversation is None:
                gevent.sleep(0.01)
            while not talk._ended.is_set():
                with contextlib.suppress(AdapterError):
                    adapter.send_audio(bytes(64 * 1024))
                gevent.sleep(0.005)
        record = job.get(timeout=10)
        stop.set()
    assert record.outcome == "failed"
    assert record.reason.startswith("back-pressure: ")


def test_one_callers_trouble_does_not_touch_the_others() -> None:
    troubles = iter([reply, odd, vanish, reply, ten_megabytes, no_utf8, reply])
    lock = threading.Lock()

    def mixed(connection: Connection) -> None:
        with lock:
            script = next(troubles)
        script(connection)

    with agent(mixed) as url:
        jobs = [gevent.spawn(call, url) for _ in range(7)]
        gevent.joinall(jobs, timeout=20, raise_error=True)
    outcomes = sorted(job.get().outcome for job in jobs)
    assert outcomes == ["completed"] * 3 + ["failed"] * 4


def test_an_interrupted_call_gives_a_truncated_record() -> None:
    with agent(Connection.hear_out) as url:
        talk = Call(scenario(tail_ms=60_000), create_adapter("websocket", {"url": url}))
        job = gevent.spawn(talk.run)
        with gevent.Timeout(10):
            while talk._conversation is None or len(talk.conversation.sent) < 10:
                gevent.sleep(0.01)
        job.kill()
        record = talk.interrupted("run ended: stopped by the user")
    assert (record.outcome, record.reason) == ("truncated", "run ended: stopped by the user")
    assert len(record.sent) >= 10
    assert not record.max_duration_reached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://127.0.0.1"}, "must look like ws://"),
        ({"url": 5}, "must look like ws://"),
        ({"url": "ws://h:notaport"}, "must look like ws://"),
        ({"agent_sample_rate": "fast"}, "agent_sample_rate: must be a rate in Hz, not 'fast'"),
        ({"colour": "red"}, "unknown option(s) colour"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=r"websocket") as caught:
        create_adapter("websocket", options)
    assert message in str(caught.value)
