"""The caller's player: turns packets in the order of their arrival into what a caller hears.

The player keeps two things in step: the *heard* track (PCM16 at the agent's sample rate) and a table with the
clocks of every packet. A packet sounds at ``max(arrived, end of the audio queued before it)``; what a clear drops,
or what does not fit into a bounded player, never sounds (VB03, VB04).

Times are integer nanoseconds on the session's clock, positions are samples of the agent's rate.
"""

from array import array

import numpy as np

from voicebench.audio.pcm import FLOOR_DB, FULL_SCALE
from voicebench.runner.record import FloatArray, Int16Array, Packets
from voicebench.scenario import JitterBuffer

NANO = 1_000_000_000
_NEVER = -1

Pcm = bytes | bytearray | memoryview


class Player:
    """One call's player, filled while the call runs.

    Memory is bounded by ``max_s``: audio that would sound later than that is counted, not kept.
    """

    def __init__(self, rate: int, playout: str | JitterBuffer, max_s: float) -> None:
        self.rate = rate
        self.track = bytearray()
        self._end = -1 << 62  # samples; where the queued audio ends: before anything that can arrive
        self._limit = int(max_s * rate)
        self._queued = playout != "none"
        self._hold = self._room = 0
        if isinstance(playout, JitterBuffer):
            self._hold = int(playout.jitter_buffer_ms * rate / 1000)
            self._room = max(1, int(playout.max_ms * rate / 1000))
        self._arrived = array("q")
        self._read = array("q")
        self._position = array("q")
        self._samples = array("q")
        self._levels: dict[int, float] = {}  # of packets whose audio the track no longer holds

    @property
    def end(self) -> int:
        """Position at which the queued audio ends."""
        return self._end

    def audio(self, pcm: Pcm, arrived_ns: int, read_ns: int) -> None:
        """Take one packet."""
        arrival = (arrived_ns * self.rate + NANO // 2) // NANO
        end = self._end
        if not self._queued:
            position = max(0, arrival)
            self._overlay(pcm, position)
        elif arrival >= end:
            position = arrival + self._hold
        else:
            position = end
        samples = len(pcm) >> 1
        if position < 0:  # it came, and began to sound, before the session's time 0
            self._levels[len(self._arrived)] = level_db(pcm)
            sounded = min(samples, -position)
            self._end = position + sounded
            pcm, samples, position = pcm[2 * sounded :], samples - sounded, 0
        if position + samples > self._limit or (self._room and position - arrival > self._room):
            self._levels[len(self._arrived)] = level_db(pcm)
            position = _NEVER
        elif self._queued and samples:
            self.track += bytes(2 * position - len(self.track))
            self.track += pcm
            self._end = position + samples
        self._arrived.append(arrived_ns)
        self._read.append(read_ns)
        self._position.append(position)
        self._samples.append(samples)

    def clear(self, at_ns: int) -> None:
        """Drop what has not sounded by ``at_ns`` (VB04)."""
        cut = max(0, (at_ns * self.rate + NANO // 2) // NANO)
        if cut >= self._end:
            return
        for number in range(len(self._position) - 1, -1, -1):
            position, samples = self._position[number], self._samples[number]
            if position == _NEVER:
                continue
            if position + samples <= cut:
                break
            if number not in self._levels:  # else an earlier clear cut it already
                self._levels[number] = level_db(bytes(self.track[2 * position : 2 * (position + samples)]))
            if position >= cut:
                self._position[number] = _NEVER
        del self.track[2 * cut :]
        self._end = cut

    def _overlay(self, pcm: Pcm, position: int) -> None:
        """Without a queue each packet sounds as it arrives, over whatever sounds there already."""
        self._levels[len(self._arrived)] = level_db(pcm)
        start, stop = 2 * position, 2 * position + len(pcm)
        if stop > 2 * self._limit:
            return
        if start > len(self.track):
            self.track += bytes(start - len(self.track))
        self.track[start:stop] = pcm
        self._end = len(self.track) // 2

    def heard(self) -> Int16Array:
        """The track so far, at the agent's rate."""
        return np.frombuffer(bytes(self.track), dtype="<i2").astype(np.int16, copy=False)

    def packets(self) -> Packets:
        """The clocks and levels of all packets."""
        position = np.array(self._position, dtype=np.int64)
        samples = np.array(self._samples, dtype=np.int64)
        heard = np.where(position == _NEVER, np.nan, position / self.rate)
        levels = self._track_levels(position, samples)
        for number, level in self._levels.items():
            levels[number] = level
        return Packets(
            arrived=np.array(self._arrived, dtype=np.int64) / NANO,
            heard=heard,
            duration=samples / self.rate,
            level_db=levels,
            read=np.array(self._read, dtype=np.int64) / NANO,
        )

    def _track_levels(self, position: np.ndarray, samples: np.ndarray) -> FloatArray:
        """Levels of the packets that the track still holds, in one pass over it."""
        levels = np.full(len(position), FLOOR_DB)
        kept = np.flatnonzero((position != _NEVER) & (samples > 0))
        kept = kept[[int(number) not in self._levels for number in kept]] if self._levels else kept
        if not len(kept):
            return levels
        squares = np.square(np.frombuffer(self.track, dtype="<i2").astype(np.int32))
        edges = np.empty(2 * len(kept), dtype=np.int64)
        edges[0::2] = position[kept]
        edges[1::2] = position[kept] + samples[kept]
        squares = np.append(squares, np.int32(0))  # reduceat wants every edge inside
        energy = np.add.reduceat(squares, edges, dtype=np.int64)[0::2]
        levels[kept] = energy_db(energy, samples[kept])
        return levels


def level_db(pcm: Pcm) -> float:
    """RMS level of PCM16 bytes in dBFS (VB05)."""
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.int64)
    if not len(samples):
        return FLOOR_DB
    return float(energy_db(np.array([np.dot(samples, samples)]), np.array([len(samples)]))[0])


def energy_db(energy: np.ndarray, samples: np.ndarray) -> FloatArray:
    """Levels in dBFS of sums of squares over so many samples, floor -120 (VB05)."""
    mean = energy / (samples * float(FULL_SCALE**2))
    floor = 10 ** (FLOOR_DB / 10)
    return np.asarray(10 * np.log10(np.maximum(mean, floor)), dtype=np.float64)
