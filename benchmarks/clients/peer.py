"""PyPI's voicebench 0.2.0: so many of its sessions at once on one asyncio loop, each analysed when it ends.

Runs in an environment of its own (see ``peer.py`` beside this package), where nothing of ours is installed.

    python -m benchmarks.clients.peer URL CALLS SECONDS OUT
"""

import argparse
import asyncio
import time
from array import array
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.clients.common import (
    CALLS_PER_S,
    FRAME_NS,
    RATE_HZ,
    SETTLE_S,
    Meter,
    raise_file_limit,
    save,
    script,
    stamps_in,
)

TURNS = 40

# Not ours, though the names are alike: this runs where only theirs is installed.
WebSocketAdapter: Any = import_module("voicebench.adapters.websocket").WebSocketAdapter
analyze: Any = import_module("voicebench.metrics").analyze
run: Any = import_module("voicebench.runner").run
parse_scenario: Any = import_module("voicebench.scenario").parse_scenario


class Noted(WebSocketAdapter):  # type: ignore[misc]
    """Their adapter; notes when it is called, on the machine's clock."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.origin_ns = 0
        self.sent, self.arrived = array("q"), array("q")
        self.heads: list[bytes] = []

    async def connect(self) -> None:
        await super().connect()
        # Session time 0, exactly: their clock is the machine's, minus its origin.
        self.origin_ns = time.monotonic_ns() - round(self.session.clock.now() * 1e9)

    async def send_audio(self, pcm: Any) -> None:
        await super().send_audio(pcm)
        self.sent.append(time.monotonic_ns())

    def handle_binary(self, message: bytes, now: float, src_rate: int) -> None:
        super().handle_binary(message, now, src_rate)
        self.arrived.append(self.origin_ns + round(now * 1e9))
        self.heads.append(message[:32])


async def hold(url: str, number: int, length_ms: float, calls: list[Noted], turns: "array[int]") -> None:
    """One session from its start to its analysis."""
    await asyncio.sleep(number / CALLS_PER_S)
    adapter = Noted(url=url, headers={"X-Call-Id": str(number)})
    calls.append(adapter)
    record = await run(parse_scenario(script(TURNS, length_ms)), adapter, realtime=True)
    for turn in analyze(record).turns:
        offset, latency = turn.user_offset_s, turn.response_latency_ms
        if offset is not None:
            turns.extend(
                (number, adapter.origin_ns + round(offset * 1e9), -1 if latency is None else round(latency * 1e6), 0)
            )


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("calls", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    raise_file_limit()
    meter = Meter()
    calls: list[Noted] = []
    turns = array("q")
    ramp_s = args.calls / CALLS_PER_S + SETTLE_S
    length_ms = (ramp_s + args.seconds + 0.5) * 1000
    jobs = [asyncio.create_task(hold(args.url, number, length_ms, calls, turns)) for number in range(args.calls)]
    await asyncio.sleep(ramp_s)
    meter.begin()
    await asyncio.sleep(args.seconds)
    meter.end()
    _, hanging = await asyncio.wait(jobs, timeout=30)
    for job in hanging:
        job.cancel()
    reasons = [repr(job.exception()) for job in jobs if job.done() and not job.cancelled() and job.exception()]
    meter.started, meter.failed = len(jobs), len(reasons) + len(hanging)
    meter.save(args.out, "wakeup", reasons)
    sent, received = [], []
    for call in calls:
        due = call.origin_ns + FRAME_NS * np.arange(len(call.sent), dtype=np.int64)
        sent.append(np.column_stack((due, np.array(call.sent, dtype=np.int64))))
        heads = np.frombuffer(b"".join(call.heads), dtype="<i2").reshape(-1, 16)
        received.append(np.column_stack((np.array(call.arrived, dtype=np.int64), stamps_in(heads))))
    save(args.out, "sent", sent, 2)
    save(args.out, "received", received, 2)
    save(args.out, "turns", [turns], 4)


if __name__ == "__main__":
    assert RATE_HZ == 16_000
    asyncio.run(main())
