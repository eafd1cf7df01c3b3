"""The worker's side of the way to the master: spool first, then send, then keep until acknowledged.

Pure but for the ``send`` function, the clock and the spool it is handed. The worker calls ``tick`` every 50 ms.

- A call that starts is announced at once, at most 20 messages a second.
- Results are spooled, then sent as numbered chunks of at most 64 KB, at most four a second, at most eight of them
  unacknowledged; what is above that waits in the spool, so that memory stays bounded while the link is down.
- A chunk that stays unacknowledged for five seconds is sent again.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from voicebench.load.ledger import lost_result
from voicebench.load.messages import BATCH_BYTES, CHUNK, DRAINED, STARTED, Chunk, Drained, Sender, Started, pack
from voicebench.load.spool import Ref, Spool
from voicebench.metrics.serialise import to_dict
from voicebench.report.store import without_secrets

Send = Callable[[str, Any], None]

ANNOUNCE_EVERY_S = 0.05
CHUNK_EVERY_S = 0.25
RESEND_AFTER_S = 5.0
WINDOW = 8


class Courier:
    """Carries one run's calls from one worker to the master."""

    def __init__(
        self, run: str, worker: str, host: str, send: Send, clock: Callable[[], float], spool: Spool
    ) -> None:
        self._sender: Sender = {"run": run, "worker": worker, "host": host}
        self._send, self._now, self._spool = send, clock, spool
        self._announcing: list[tuple[str, str, float, float | None]] = []
        self._announced_at = self._chunk_at = float("-inf")
        self._waiting: deque[Ref] = deque()  # spooled, not yet packed
        self._packed: deque[Chunk] = deque()  # packed, not yet sent
        self._unacknowledged: dict[int, tuple[Chunk, float]] = {}
        self._numbers = itertools.count()
        self._chunks = 0
        self._started = self._recorded = 0
        self._unreadable = 0

    @property
    def started_count(self) -> int:
        return self._started

    @property
    def recorded_count(self) -> int:
        return self._recorded

    @property
    def is_idle(self) -> bool:
        """Whether the master has acknowledged everything."""
        return not (self._announcing or self._waiting or self._packed or self._unacknowledged)

    @property
    def in_hand(self) -> int:
        """Results and chunks that the master has not acknowledged."""
        return len(self._waiting) + len(self._packed) + len(self._unacknowledged)

    def started(self, call_id: str, scenario: str, started_at: float, scheduled_at: float | None = None) -> None:
        """A call begins at Unix time ``started_at``."""
        self._started += 1
        lost = lost_result(
            call_id,
            self._sender["worker"],
            "the worker ended before the call did",
            scenario,
            started_at,
            scheduled_at,
        )
        self._spool.append(without_secrets(to_dict(lost)))  # until its result comes
        self._announcing.append((call_id, scenario, started_at, scheduled_at))
        self._announce(self._now())

    def recorded(self, result: Mapping[str, Any]) -> None:
        """A call ended; ``result`` is the object for its line of ``sessions.jsonl``."""
        self._recorded += 1
        self._waiting.append(self._spool.append(without_secrets(result)))

    def acknowledged(self, seq: int) -> None:
        """The master has chunk ``seq``."""
        self._unacknowledged.pop(seq, None)

    def tick(self) -> None:
        """Send what is due."""
        now = self._now()
        self._announce(now)
        self._resend(now, RESEND_AFTER_S)
        if now - self._chunk_at >= CHUNK_EVERY_S and self._send_chunk(now):
            self._chunk_at = now

    def flush(self) -> None:
        """Send all that the window allows, now; call it until ``is_idle``."""
        now = self._now()
        self._announce(now, at_once=True)
        self._resend(now, 1.0)
        while self._send_chunk(now):
            pass

    def abandon(self) -> None:
        """Send all there is, whatever the window: the last chance, when nobody will acknowledge any more."""
        now = self._now()
        self._announce(now, at_once=True)
        while self._send_chunk(now, window=False):
            pass

    def drained(self) -> None:
        """Tell the master that this was all, and how much there was."""
        message: Drained = {
            **self._sender,
            "started": self._started,
            "recorded": self._recorded - self._unreadable,
            "chunks": self._chunks,
        }
        self._send(DRAINED, message)

    def close(self, delete_spool: bool) -> None:
        """Close the spool."""
        self._spool.close(delete_spool)

    def _announce(self, now: float, at_once: bool = False) -> None:
        if self._announcing and (at_once or now - self._announced_at >= ANNOUNCE_EVERY_S):
            calls, self._announcing, self._announced_at = self._announcing, [], now
            message: Started = {**self._sender, "calls": calls}
            self._send(STARTED, message)

    def _send_chunk(self, now: float, window: bool = True) -> bool:
        if window and len(self._unacknowledged) >= WINDOW:
            return False
        if not self._packed:
            self._pack()
        if not self._packed:
            return False
        chunk = self._packed.popleft()
        self._unacknowledged[chunk["seq"]] = (chunk, now)  # first: a local master acknowledges within the call
        self._send(CHUNK, chunk)
        return True

    def _pack(self) -> None:
        """Read the next batch from the spool."""
        lines: list[bytes] = []
        size = 0
        while self._waiting and size < BATCH_BYTES:
            try:
                line = self._spool.read(self._waiting.popleft())
            except OSError:
                self._unreadable += 1
                continue
            lines.append(line)
            size += len(line)
        if not lines:
            return
        pieces = pack(lines)
        seqs = [next(self._numbers) for _ in pieces]
        self._chunks += len(seqs)
        for seq, data in zip(seqs, pieces, strict=True):
            self._packed.append({**self._sender, "seq": seq, "batch": seqs[0], "parts": len(seqs), "data": data})

    def _resend(self, now: float, after_s: float) -> None:
        for seq, (chunk, sent_at) in list(self._unacknowledged.items()):
            if now - sent_at >= after_s:
                self._unacknowledged[seq] = (chunk, now)
                self._send(CHUNK, chunk)
