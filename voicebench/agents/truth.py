"""What the reference agent did, and when: the truth that measurements are checked against.

One JSON object a line, one line a call, written when the call ends; at the end of the process one line more with
``calls``, ``refused`` and ``late_ms`` over all. Times are CLOCK_MONOTONIC nanoseconds (``_ns``), so they compare
with those of a caller on the same machine.

    call_id             from the caller's header X-Call-Id, or made up; over AudioSocket the hexadecimal UUID
    opened_ns, closed_ns, reason
    defects             names of the options that were wrong in this call on purpose
    greeting            a reply as below, or null
    turns[]             one per turn of the caller that the agent heard to its end:
      speech_start_ns, speech_end_ns   first and last sample at or above the threshold (see ``Loudness``)
      endpoint_ns       when the silence behind it was long enough
      reply_due_ns      when the first frame of the reply was due
      reply_start_ns    when it was sent; null if there was no reply
      reply_end_ns      when its audio ends for a caller who hears each frame as it was sent, behind those before it
      frames_sent       frames of the reply
      barge_in_start_ns first such sample of the speech that cut in, or null
      cut, stop_ns      whether and when the agent stopped for it
      clear_ns          when it told the caller's player to drop what is queued; null if it did not
      restart_ns        when it went on with a reply after all, or null
    late_ms             sent minus due over all frames and clears of the call: p50, p99, max; null without any
    texts               text messages from the caller; start_keys: the keys of the first, if it was a JSON object
    dtmf                the digits that the caller pressed
"""

import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from voicebench.agents.hearing import Loudness
from voicebench.agents.reference import Audio, Clear, Noticed, ReferenceAgent, ReferenceOptions, Stopped
from voicebench.clock.kernel import NS

_REPLY: dict[str, Any] = {
    "reply_due_ns": None,
    "reply_start_ns": None,
    "reply_end_ns": None,
    "frames_sent": 0,
    "cut": False,
    "stop_ns": None,
    "clear_ns": None,
    "restart_ns": None,
    "barge_in_start_ns": None,
}


class CallTruth:
    """Follows one call. Times come in as seconds since ``origin_ns``, as the agent has them."""

    def __init__(
        self, call_id: str, opened_s: float, origin_ns: int, options: ReferenceOptions, frame_s: float
    ) -> None:
        self.call_id = call_id
        self.late_s = array("d")
        self.texts = 0
        self.start_keys: list[str] | None = None
        self.dtmf = ""
        self._defects = options.defects
        self._opened_s = opened_s
        self._origin_ns = origin_ns
        self._threshold_db = options.threshold_db
        self._frame_s = frame_s
        self._turns: list[dict[str, Any]] = []
        self._greeting: dict[str, Any] | None = None
        self._reply: dict[str, Any] = {}
        self._turn_start: float | None = None  # of the speech that will be the next turn
        self._speech_end = 0.0
        self._stretch_start: float | None = None  # of the unbroken speech that is going on
        self._faint_start: float | None = None  # of speech in the frame before, too short to make that frame active

    def heard(
        self, agent: ReferenceAgent, loudness: Loudness, duration_s: float, t: float, noticed: Noticed | None
    ) -> None:
        """After the agent heard a frame that arrived at ``t``."""
        if loudness.last_s:
            self._follow_speech(agent, loudness, t)
        elif self._stretch_start is not None or self._faint_start is not None:
            self._stretch_start = self._faint_start = None
        if noticed is Noticed.ENDPOINT:
            start = self._stretch_start if self._turn_start is None else self._turn_start
            self._turns.append(
                {
                    "speech_start_ns": self._ns(start),
                    "speech_end_ns": self._ns(self._speech_end),
                    "endpoint_ns": self._ns(t + duration_s),
                    **_REPLY,
                }
            )
            self._turn_start = None
        elif noticed is Noticed.BARGE_IN and self._reply:
            self._reply["barge_in_start_ns"] = self._ns(self._stretch_start)

    def sent(self, agent: ReferenceAgent, output: Audio | Clear | Stopped, now_s: float) -> None:
        """After a frame or a clear was handed to the socket, or the agent stopped without one, at ``now_s``."""
        self.late_s.append(now_s - output.due)
        reply = self._reply
        if not isinstance(output, Audio):
            if not reply.get("cut"):
                reply["cut"], reply["stop_ns"] = True, self._ns(now_s)
            if isinstance(output, Clear):
                reply["clear_ns"] = self._ns(now_s)
            return
        if output.position == 0:
            self._begin_reply(agent, output, now_s)
            reply = self._reply
        elif reply.get("cut") and reply["restart_ns"] is None:
            reply["restart_ns"] = self._ns(now_s)
        reply["frames_sent"] = output.position + 1
        begins_ns = self._origin_ns + round(now_s * NS)
        reply["reply_end_ns"] = max(begins_ns, reply["reply_end_ns"] or 0) + round(self._frame_s * NS)

    def text(self, text: str) -> None:
        """A text message. Its values may be secret: only the keys are kept."""
        self.texts += 1
        if self.texts == 1:
            try:
                message = json.loads(text)
            except (ValueError, RecursionError):
                return
            self.start_keys = sorted(message)[:50] if isinstance(message, dict) else None

    def line(self, closed_s: float, reason: str) -> dict[str, Any]:
        """The call's line."""
        return {
            "call_id": self.call_id,
            "opened_ns": self._ns(self._opened_s),
            "closed_ns": self._ns(closed_s),
            "reason": reason,
            "defects": list(self._defects),
            "greeting": self._greeting,
            "turns": self._turns,
            "late_ms": summarise(np.asarray(self.late_s) * 1000),
            "texts": self.texts,
            "start_keys": self.start_keys,
            "dtmf": self.dtmf,
        }

    def _follow_speech(self, agent: ReferenceAgent, loudness: Loudness, t: float) -> None:
        start, end = t + loudness.first_s, t + loudness.last_s
        if loudness.level_db >= self._threshold_db:
            if self._stretch_start is None:
                self._stretch_start = start if self._faint_start is None else self._faint_start
            if self._turn_start is None and agent.heard_speech:
                self._turn_start = self._stretch_start
            self._faint_start = None
            self._speech_end = end
            return
        if self._stretch_start is not None or self._faint_start is not None:
            self._speech_end = end  # speech that dies away within this frame
        self._stretch_start = None
        self._faint_start = start

    def _begin_reply(self, agent: ReferenceAgent, output: Audio, now_s: float) -> None:
        if agent.turns_heard == 0:
            self._greeting = dict(_REPLY)
            self._reply = self._greeting
        else:
            self._reply = self._turns[-1]
        self._reply["reply_due_ns"] = self._ns(output.due)
        self._reply["reply_start_ns"] = self._ns(now_s)

    def _ns(self, t: float | None) -> int | None:
        return None if t is None else self._origin_ns + round(t * NS)


class Lateness:
    """How late everything was, over all calls, in bins of 0.01 ms: an hour takes no more memory than a minute."""

    _BIN_MS = 0.01
    _BINS = 100_000  # up to one second; later counts as that

    def __init__(self) -> None:
        self._counts = np.zeros(self._BINS, dtype=np.int64)
        self._max_ms = 0.0

    def add(self, late_s: Sequence[float]) -> None:
        late_ms = np.asarray(late_s) * 1000
        if late_ms.size:
            bins = np.clip(late_ms / self._BIN_MS, 0, self._BINS - 1).astype(np.int64)
            np.add.at(self._counts, bins, 1)
            self._max_ms = max(self._max_ms, float(late_ms.max()))

    def summary(self) -> dict[str, float] | None:
        """p50, p99 and max in ms; None without values."""
        total = int(self._counts.sum())
        if not total:
            return None
        at = np.searchsorted(np.cumsum(self._counts), [total * 0.5, total * 0.99])
        p50, p99 = (round((float(index) + 0.5) * self._BIN_MS, 3) for index in at)
        return {"p50": p50, "p99": p99, "max": round(self._max_ms, 3)}


class TruthLog:
    """Writes the lines as calls end. Without a path it only counts."""

    def __init__(self, path: Path | None) -> None:
        """Raises OSError if the file cannot be written."""
        self.calls = 0
        self.refused = 0
        self.lateness = Lateness()
        self.error: OSError | None = None  #: the first failure to write; the server goes on without the log
        self._file = (
            None if path is None else path.open("ab", buffering=0)
        )  # so that a line is out at once, and whole

    def call(self, truth: CallTruth, closed_s: float, reason: str) -> None:
        self.calls += 1
        self.lateness.add(truth.late_s)
        if self._file is not None:
            self._write(truth.line(closed_s, reason))

    def close(self) -> None:
        """Write the last line."""
        self._write({"calls": self.calls, "refused": self.refused, "late_ms": self.lateness.summary()})
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        torn = b"\n" if self.error else b""
        try:
            self._file.write(torn + json.dumps(line).encode() + b"\n")
        except OSError as error:  # a full disk must not end the calls
            self.error = self.error or error


def summarise(values_ms: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float] | None:
    """p50, p99 (linear interpolation) and max in ms, to a microsecond; None without values."""
    if not values_ms.size:
        return None
    p50, p99 = np.percentile(values_ms, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(values_ms.max()), 3)}
