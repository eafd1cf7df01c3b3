"""What master and workers say to each other, and the form in which results travel.

Every message names its run and its worker, since a master also hears workers of an earlier run. Results are JSON
lines, the lines of ``sessions.jsonl``. A batch of lines is compressed, then cut into numbered chunks of at most
64 KB: as bytes, Locust's master passes them on in microseconds, where dictionaries would stall it.
"""

import json
import zlib
from collections.abc import Sequence
from typing import Any, TypedDict

STARTED = "voicebench.started"  #: worker to master: calls that begin
CHUNK = "voicebench.chunk"  #: worker to master: results
ACK = "voicebench.ack"  #: master to worker: a chunk has arrived
DRAIN = "voicebench.drain"  #: master to worker: begin no call, end those that run, then report
HEALTH = "voicebench.health"  #: worker to master: how well this worker keeps time
DRAINED = "voicebench.drained"  #: worker to master: that was all
SETTLED = "voicebench.settled"  #: master to worker: everything of yours is stored
THROUGH = "voicebench.through"  #: worker to master: my share of the schedule is through, and all its calls ended
PROBLEM = "voicebench.problem"  #: worker to master: this worker cannot play the run

CHUNK_BYTES = 64 * 1024
#: Lines are gathered up to here before they are compressed (which then takes under 2 ms).
BATCH_BYTES = 128 * 1024
_COMPRESSION = 3


class Sender(TypedDict):
    """Whose message it is."""

    run: str
    worker: str
    host: str


class Started(Sender):
    """``calls`` holds of each call that begins: its id, scenario, Unix time, and for when it was scheduled."""

    calls: list[tuple[str, str, float, float | None]]


class Chunk(Sender):
    """Part of a batch: the chunks ``batch`` to ``batch + parts - 1`` together are one compressed batch."""

    seq: int
    batch: int
    parts: int
    data: bytes


class Drained(Sender):
    """The worker's own count of what it started, recorded and sent."""

    started: int
    recorded: int
    chunks: int


class Health(Sender):
    """Send lag p99 of the last seconds, and the fields of a ``ProcessHealth`` for the run so far."""

    send_lag_p99_ms: float | None
    process: dict[str, Any] | None


def pack(lines: Sequence[bytes]) -> list[bytes]:
    """One batch of JSON lines as pieces of at most ``CHUNK_BYTES``."""
    blob = zlib.compress(b"\n".join(lines), _COMPRESSION)
    return [blob[at : at + CHUNK_BYTES] for at in range(0, len(blob), CHUNK_BYTES)]


def unpack(blob: bytes) -> list[dict[str, Any]]:
    """The objects in a whole batch. Raises ValueError if it is damaged."""
    try:
        return [json.loads(line) for line in zlib.decompress(blob).split(b"\n")]
    except zlib.error as error:
        raise ValueError(f"not a batch of results: {error}") from None


def json_line(value: Any) -> bytes:
    """One line of JSON without its end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
