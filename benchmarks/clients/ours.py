"""voicebench with everything on: conversations, live anchors, both tracks, metrics, as a Locust worker does it.

Every caller holds one call after the other. Calls last up to half a minute, the first ones anything less, so that
calls end, are measured and begin anew all the time.

    python -m benchmarks.clients.ours URL CALLS SECONDS OUT [--ca FILE]
"""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402 - what is patched comes first
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import numpy as np  # noqa: E402
from gevent.threadpool import ThreadPool  # noqa: E402

from benchmarks.clients.common import (  # noqa: E402
    CALLS_PER_S,
    SAMPLES,
    SETTLE_S,
    IntArray,
    Meter,
    raise_file_limit,
    save,
    script,
    stamps_in,
)
from voicebench.adapters import create_adapter  # noqa: E402
from voicebench.metrics import measure  # noqa: E402
from voicebench.metrics.results import SessionResult  # noqa: E402
from voicebench.metrics.serialise import to_dict  # noqa: E402
from voicebench.runner.record import SessionRecord  # noqa: E402
from voicebench.runner.session import Call  # noqa: E402
from voicebench.scenario import parse_scenario  # noqa: E402

LONGEST = 16  #: turns, about 1.8 s each
SCENARIOS = [parse_scenario(script(turns)) for turns in range(1, LONGEST + 1)]


class Callers:
    """All callers of this process."""

    def __init__(self, url: str, ca: str | None) -> None:
        self.meter = Meter()
        self.stamps = "wakeup"
        self.reasons: list[str] = []
        self.sent: list[IntArray] = []
        self.received: list[IntArray] = []
        self.turns: list[IntArray] = []
        self._options = {"url": url} | ({"tls_ca": ca} if ca else {})
        self._analyst = ThreadPool(1)  # as voicebench.load.worker has it
        self._numbers = iter(range(1_000_000))

    def caller(self, first_turns: int) -> None:
        """Hold a call of so many turns, then long ones, until killed."""
        turns = first_turns
        while True:
            number = next(self._numbers)
            call = Call(SCENARIOS[turns - 1], create_adapter("websocket", self._options), call_id=str(number))
            turns = LONGEST
            self.meter.started += 1
            try:
                record = call.run()
            except gevent.GreenletExit:
                record = call.interrupted("the benchmark is over")
                self._keep(number, record)
                return
            self._keep(number, record)
            if record.outcome == "failed":
                self.meter.failed += 1
                self.reasons.append(record.reason)
                gevent.sleep(1)

    def _keep(self, number: int, record: SessionRecord) -> None:
        self.stamps = record.timestamps
        self._analyst.apply(self._measure, (number, record))

    def _measure(self, number: int, record: SessionRecord) -> None:
        """In the analyst's thread: measure the call, and take out of its record what the benchmark compares."""
        result = measure(record)
        to_dict(result)
        due = record.origin_ns + np.round(record.due * 1e9).astype(np.int64)
        skipped = np.isnan(record.sent)
        sent = record.origin_ns + np.round(np.nan_to_num(record.sent) * 1e9).astype(np.int64)
        self.sent.append(np.column_stack((due, np.where(skipped, -1, sent))))
        self.received.append(_received(record))
        self.turns.append(_turns(number, record, result))


def _received(record: SessionRecord) -> IntArray:
    heard = record.packets.heard
    first = np.round(np.nan_to_num(heard, nan=-1) * record.sample_rate).astype(np.int64)
    whole = (first >= 0) & (first + SAMPLES <= len(record.agent_track))
    arrived = record.origin_ns + np.round(record.packets.arrived[whole] * 1e9).astype(np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(record.agent_track, 16) if whole.any() else np.zeros((0, 16))
    return np.column_stack((arrived, stamps_in(windows[first[whole]].astype(np.int16))))


def _turns(number: int, record: SessionRecord, result: SessionResult) -> IntArray:
    rows = []
    for turn in result.metrics.turns if result.metrics else ():
        if turn.user_offset_s is not None:
            latency = -1 if turn.response_latency_ms is None else round(turn.response_latency_ms * 1e6)
            rows.append((number, record.origin_ns + round(turn.user_offset_s * 1e9), latency, int(turn.void)))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("calls", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ca")
    args = parser.parse_args()
    raise_file_limit()
    callers = Callers(args.url, args.ca)
    group = [
        gevent.spawn_later(number / CALLS_PER_S, callers.caller, 1 + (number * 7 + 5) % LONGEST)
        for number in range(args.calls)
    ]
    gevent.sleep(args.calls / CALLS_PER_S + SETTLE_S)
    callers.meter.begin()
    gevent.sleep(args.seconds)
    callers.meter.end()
    gevent.killall(group, timeout=60)
    callers.meter.save(args.out, callers.stamps, callers.reasons)
    save(args.out, "sent", callers.sent, 2)
    save(args.out, "received", callers.received, 2)
    save(args.out, "turns", callers.turns, 4)


if __name__ == "__main__":
    main()
