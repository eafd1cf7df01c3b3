"""What anyone would write: a Locust user's pair of greenlets per call, on websocket-client.

One greenlet sends a frame and sleeps until the next is due; the other waits in ``recv()``, takes the level of each
frame with numpy, keeps the audio, and decides when the caller speaks again. The work is that of the other clients.

    python -m benchmarks.clients.naive URL CALLS SECONDS OUT
"""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402 - what is patched comes first
import time  # noqa: E402
from array import array  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import numpy as np  # noqa: E402
import websocket  # noqa: E402

from benchmarks.clients.common import (  # noqa: E402
    CALLS_PER_S,
    FRAME_NS,
    PAUSE_MS,
    RATE_HZ,
    SAMPLES,
    SETTLE_S,
    SPEECH_MS,
    THRESHOLD_DB,
    Meter,
    raise_file_limit,
    save,
    stamps_in,
)

SILENCE = bytes(2 * SAMPLES)
TIMES = np.arange(SPEECH_MS * RATE_HZ // 1000) / RATE_HZ
SPEECH = np.round(4634 * np.sin(2 * np.pi * 400 * TIMES)).astype("<i2").tobytes()
FRAMES = [SPEECH[start : start + 2 * SAMPLES] for start in range(0, len(SPEECH), 2 * SAMPLES)]
QUIET_FRAMES = 13


class NaiveCall:
    """One call, until the benchmark ends."""

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        self.sent, self.arrived, self.turns = array("q"), array("q"), array("q")
        self.recording = bytearray()
        self.speak_at_ns = 0
        self.speech_end_ns = 0  # while a reply is awaited
        self.socket = websocket.create_connection(url, timeout=30, header={"X-Call-Id": str(number)})
        self.greenlets = (gevent.spawn(self.send), gevent.spawn(self.receive))

    def send(self) -> None:
        due = time.monotonic_ns()
        self.speak_at_ns = due + 300_000_000
        playing: list[bytes] = []
        while True:
            if self.speak_at_ns and due >= self.speak_at_ns:
                playing, self.speak_at_ns = FRAMES[:], 0
            speaking = bool(playing)
            self.socket.send_binary(playing.pop(0) if playing else SILENCE)
            now = time.monotonic_ns()
            self.sent.extend((due, now))
            if speaking and not playing:
                self.speech_end_ns = now + FRAME_NS
            due += FRAME_NS
            gevent.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))

    def receive(self) -> None:
        quiet, replying = 0, False
        while True:
            frame: bytes = self.socket.recv()  # type: ignore[assignment]
            now = time.monotonic_ns()
            self.arrived.append(now)
            self.recording += frame
            samples = np.frombuffer(frame, dtype="<i2").astype(np.float32) / 32768
            level_db = 20 * np.log10(max(float(np.sqrt(np.mean(samples**2))), 1e-6))
            if level_db >= THRESHOLD_DB:
                if self.speech_end_ns:
                    self.turns.extend((self.number, self.speech_end_ns, now - self.speech_end_ns, 0))
                    self.speech_end_ns = 0
                quiet, replying = 0, True
            elif replying:
                quiet += 1
                if quiet == QUIET_FRAMES:
                    replying = False
                    self.speak_at_ns = now + PAUSE_MS * 1_000_000 - QUIET_FRAMES * FRAME_NS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("calls", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    raise_file_limit()
    meter = Meter()
    jobs = [gevent.spawn_later(number / CALLS_PER_S, NaiveCall, args.url, number) for number in range(args.calls)]
    gevent.sleep(args.calls / CALLS_PER_S + SETTLE_S)
    meter.begin()
    gevent.sleep(args.seconds)
    meter.end()
    reasons = [repr(job.exception) for job in jobs if job.exception]
    calls: list[NaiveCall] = [job.get() for job in jobs if job.ready() and not job.exception]
    meter.started, meter.failed = len(jobs), len(jobs) - len(calls)
    if meter.failed > len(reasons):
        reasons.append("still connecting at the end")
    gevent.killall([greenlet for call in calls for greenlet in call.greenlets])
    received = []
    for call in calls:
        frames = np.frombuffer(call.recording, dtype="<i2").reshape(-1, SAMPLES)
        received.append(np.column_stack((np.array(call.arrived)[: len(frames)], stamps_in(frames))))
    meter.save(args.out, "wakeup", reasons)
    save(args.out, "sent", [call.sent for call in calls], 2)
    save(args.out, "received", received, 2)
    save(args.out, "turns", [call.turns for call in calls], 4)


if __name__ == "__main__":
    main()
