"""What the Python clients share: the calls' script, the agent's stamps, and what they leave behind."""

import json
import os
import resource
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

RATE_HZ = 16_000
FRAME_NS = 20_000_000
SAMPLES = 320
SPEECH_MS = 600
PAUSE_MS = 300  #: from the end of the agent's reply to the caller's next turn
THRESHOLD_DB = -45.0
CALLS_PER_S = 200  #: how fast calls are begun
SETTLE_S = 0.5  #: behind the last call's beginning, before anything counts

_SHIFTS = np.arange(0, 64, 4, dtype=np.uint64)


def script(turns: int, max_duration_ms: float = 120_000.0) -> dict[str, Any]:
    """The scenario: the caller speaks, waits until the reply is over, pauses, and speaks again."""
    audio = {"synth": "tone", "duration_ms": SPEECH_MS, "freq_hz": 400}
    first = {"audio": audio, "start": {"after": "session_start", "delay_ms": 300}}
    later = {"audio": audio, "start": {"after": "agent_speech_end", "delay_ms": PAUSE_MS, "timeout_ms": 3000}}
    return {
        "name": f"density-{turns}",
        "sample_rate": RATE_HZ,
        "frame_ms": 20,
        "tail_ms": 800,
        "max_duration_ms": max_duration_ms,
        "turns": [first, *[later] * (turns - 1)],
    }


def stamps_in(frames: npt.NDArray[np.int16]) -> IntArray:
    """The agent's stamps (see c/common.h) in an array of frames, one a row; 0 in what the C agent did not send."""
    nibbles = (frames[:, :16] & 15).astype(np.uint64)
    return np.asarray(np.bitwise_or.reduce(nibbles << _SHIFTS, axis=1), dtype=np.int64)


def raise_file_limit() -> None:
    """A call is a socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def rss_kib() -> int:
    """The memory that this process occupies now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * (os.sysconf("SC_PAGE_SIZE") // 1024)


def waited_s() -> float:
    """How long this thread, ready to run, had to wait for its core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


class Meter:
    """Marks the stretch of a run that counts."""

    def __init__(self) -> None:
        self.rss_before_kib = rss_kib()
        self.started = self.failed = 0
        self._start_ns = self._end_ns = 0
        self._cpu_s = self._waited_s = 0.0
        self._rss_after_kib = 0

    def begin(self) -> None:
        self._start_ns = time.monotonic_ns()
        self._cpu_s, self._waited_s = -time.process_time(), -waited_s()

    def end(self) -> None:
        self._end_ns = time.monotonic_ns()
        self._cpu_s += time.process_time()
        self._waited_s += waited_s()
        self._rss_after_kib = rss_kib()

    def save(self, out: Path, stamps: str, reasons: Sequence[str] = ()) -> None:
        """Write OUT.json. ``reasons``: why calls failed."""
        about = {
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
            "cpu_s": round(self._cpu_s, 4),
            "waited_s": round(self._waited_s, 4),
            "rss_before_kib": self.rss_before_kib,
            "rss_after_kib": self._rss_after_kib,
            "started": self.started,
            "failed": self.failed,
            "stamps": stamps,
            "reasons": sorted(set(reasons))[:5],
        }
        out.with_name(f"{out.name}.json").write_text(json.dumps(about))


def save(out: Path, name: str, parts: Sequence["IntArray | array[int]"], columns: int) -> None:
    """Write OUT.name: the parts one behind the other, each flat or with so many columns."""
    with out.with_name(f"{out.name}.{name}").open("wb") as file:
        for part in parts:
            flat = np.ascontiguousarray(part, dtype=np.int64).reshape(-1)
            assert len(flat) % columns == 0
            file.write(flat.tobytes())
