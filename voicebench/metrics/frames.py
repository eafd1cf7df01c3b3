"""The agent's audio as it arrived, in frames of 20 ms whatever the size of its packets, and the replies it makes up.

Conventions
-----------
- Times are float seconds on the session's clock.
- A *frame* is 20 ms of audio. Packets are taken apart, and put together, into frames in the order of their arrival:
  a packet of 60 ms is three frames that arrive at once, two packets of 10 ms are one frame that arrives with the
  second. So a burst, a gap and a ratio mean the same on every transport; where packets are 20 ms long, frames are
  packets.
- A frame is *audible* if its RMS is at least 0.01 of full scale, -40 dBFS (TV04).
- A *pause* is a time on the wire in which nothing came for 100 ms longer than the packet before it lasts (of which
  at most 1 s counts). What a pause leaves incomplete is a shorter frame.
- A *reply* is what the agent sends between two utterances of the caller. Replies are parted where the agent's
  audible frames pause, or stay silent for more than 100 ms, while the caller's turn is on: from the caller's onset
  to the offset or to the start of the agent's answer, whichever is later. Without an utterance of the caller
  there is one reply, the whole call, as in TV05 and TV06.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from voicebench.runner.record import PIECES_PER_S, FloatArray, IntArray, Packets

FRAME_S = 0.02
FRAME_NS = 20_000_000
#: RMS of full scale from which on a frame is audible.
AUDIBLE_RMS = 0.01
#: Beyond the last packet's own length.
PAUSE_S = 0.1
LONGEST_PACKET_S = 1.0

EPS = 1e-9
_POWER = AUDIBLE_RMS**2 * (1 - 1e-9)

Span = tuple[float, float]


@dataclass(frozen=True)
class Frames:
    """The agent's frames in the order of their arrival; arrays of one length.

    ``arrived`` is when the frame was complete. ``queued`` is when its first sample was to sound, NaN if the player
    had no room for it, and ``heard`` when it did sound, NaN if never. ``pauses`` counts the pauses before the frame.
    """

    arrived: FloatArray
    queued: FloatArray
    heard: FloatArray
    duration: FloatArray
    audible: npt.NDArray[np.bool_]
    pauses: IntArray

    def __len__(self) -> int:
        return len(self.arrived)


@dataclass(frozen=True)
class Reply:
    """The frames from ``first`` up to, not including, ``stop``; the first and the last audible one, -1 without."""

    first: int
    stop: int
    first_audible: int
    last_audible: int


def frames_of(packets: Packets) -> Frames:
    """Take packets apart and put them together into frames."""
    counts = packets.pieces
    owner = np.repeat(np.arange(len(packets)), counts)
    if not len(owner):
        none = np.zeros(0)
        return Frames(none, none, none, none, none.astype(bool), none.astype(np.int64))
    begins_s = (np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)) / PIECES_PER_S
    pieces_ns = np.rint(np.minimum(packets.duration[owner] - begins_s, 1 / PIECES_PER_S) * 1e9).astype(np.int64)
    arrived = np.maximum.accumulate(packets.arrived)[owner]

    # Between pauses, frames follow each other without a break; behind a pause a new one begins.
    allowed = PAUSE_S + np.minimum(packets.duration[owner][:-1], LONGEST_PACKET_S)
    group = np.concatenate([[0], np.cumsum(np.diff(arrived) > allowed + EPS)])
    spurts_ns = np.bincount(group, pieces_ns).astype(np.int64)
    whole = -(-spurts_ns // FRAME_NS)  # frames of each spurt
    spurt_starts = (np.cumsum(whole) - whole) * FRAME_NS
    before = np.cumsum(pieces_ns) - pieces_ns - (np.cumsum(spurts_ns) - spurts_ns)[group]
    piece_starts = spurt_starts[group] + before
    piece_ends = piece_starts + pieces_ns

    of_spurt = np.repeat(np.arange(len(whole)), whole)
    starts = np.arange(len(of_spurt)) * FRAME_NS
    ends = np.minimum(starts + FRAME_NS, (spurt_starts + spurts_ns)[of_spurt])
    head = np.searchsorted(piece_ends, starts, side="right")
    tail = np.searchsorted(piece_ends, ends, side="left")
    into_s = begins_s[head] + (starts - piece_starts[head]) / 1e9
    queued = packets.queued[owner[head]] + into_s
    cleared = packets.cleared[owner[head]]
    return Frames(
        arrived=arrived[tail],
        queued=queued,
        heard=np.where(cleared <= queued + EPS, np.nan, queued),
        duration=(ends - starts) / 1e9,
        audible=_powers(packets.pieces_db, piece_starts, piece_ends, starts, ends) >= _POWER,
        pauses=of_spurt,
    )


def _powers(
    levels_db: FloatArray, piece_starts: IntArray, piece_ends: IntArray, starts: IntArray, ends: IntArray
) -> FloatArray:
    """Mean power of each frame, from the levels of the pieces that it is made of."""
    energy = np.cumsum(10 ** (levels_db / 10) * (piece_ends - piece_starts))
    places = np.stack([piece_starts, piece_ends], axis=1).ravel()
    sums = np.stack([np.concatenate([[0.0], energy[:-1]]), energy], axis=1).ravel()
    power: FloatArray = (np.interp(ends, places, sums) - np.interp(starts, places, sums)) / (ends - starts)
    return power


def replies_of(frames: Frames, turns: Sequence[Span]) -> list[Reply]:
    """Part the frames into replies; ``turns`` are the times in which the caller's turns are on."""
    audible = np.flatnonzero(frames.audible)
    before, after = audible[:-1], audible[1:]
    apart = (frames.pauses[after] > frames.pauses[before]) | ((after - before - 1) * FRAME_S > PAUSE_S + EPS)
    in_turn = np.zeros(len(before), dtype=bool)
    for start_s, end_s in turns:
        in_turn |= (frames.arrived[before] < end_s) & (frames.arrived[after] > start_s)
    cuts = [0]
    for number in np.flatnonzero(apart & in_turn):
        gaps = np.diff(frames.arrived[before[number] : after[number] + 1])
        cuts.append(int(before[number] + 1 + np.argmax(gaps)))
    edges = [*cuts, len(frames)]
    return [_reply(audible, first, stop) for first, stop in pairwise(edges) if stop > first]


def _reply(audible: IntArray, first: int, stop: int) -> Reply:
    inside = audible[np.searchsorted(audible, first) : np.searchsorted(audible, stop)]
    return Reply(first, stop, *((int(inside[0]), int(inside[-1])) if len(inside) else (-1, -1)))
