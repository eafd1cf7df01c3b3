"""The caller's player: turns packets in the order of their arrival into what a caller hears.

The player keeps two things in step: the *heard* track (PCM16 at the agent's sample rate) and a table with the
clocks of every packet. A packet sounds at ``max(arrived, end of the audio queued before it)``; what a clear drops,
or what does not fit into a bounded player, never sounds (VB03, VB04).

Times are integer nanoseconds on the session's clock, positions are samples of the agent's rate.
"""

from array import array

import numpy as np

from voicebench.audio.pcm import FLOOR_DB, FULL_SCALE
from voicebench.runner.record import PIECES_PER_S, FloatArray, Int16Array, IntArray, Packets
from voicebench.scenario import JitterBuffer

NANO = 1_000_000_000
_NEVER = -1 << 62

Pcm = bytes | bytearray | memoryview


class Player:
    """One call's player, filled while the call runs.

    Memory is bounded by ``max_s``: audio that would sound later than that is counted, not kept.
    """

    def __init__(self, rate: int, playout: str | JitterBuffer, max_s: float) -> None:
        self.rate = rate
        self.track = bytearray()
        self._end = _NEVER  # where the queued audio ends: before anything that can arrive
        self._limit = int(max_s * rate)
        self._queued = playout != "none"
        self._hold = self._room = 0
        if isinstance(playout, JitterBuffer):
            self._hold = int(playout.jitter_buffer_ms * rate / 1000)
            self._room = max(1, int(playout.max_ms * rate / 1000))
        self._arrived = array("q")
        self._read = array("q")
        self._position = array("q")  # where the packet was to sound, as its arrival decided; before the call: < 0
        self._samples = array("q")
        self._cleared: dict[int, int] = {}  # the position from which on a clear took back a packet
        self._measured = (
            bytearray()
        )  # per packet: 1 if its energies are in _energies, since the track lacks its audio
        self._energies: list[tuple[list[int], IntArray]] = []  # of some packets, one after the other, see _pieces

    @property
    def end(self) -> int:
        """Position at which the queued audio ends."""
        return self._end

    def audio(self, pcm: Pcm, arrived_ns: int, read_ns: int) -> None:
        """Take one packet."""
        arrival = (arrived_ns * self.rate + NANO // 2) // NANO
        samples = len(pcm) >> 1
        position = arrival
        if self._queued:
            position = arrival + self._hold if arrival >= self._end else self._end
        if position + samples > self._limit or (self._room and position - arrival > self._room):
            position = _NEVER
        elif samples:
            self._sound(pcm, position)
        lacking = position < 0 or not self._queued
        if lacking:
            self._keep_energies(pcm)
        self._measured.append(lacking)
        self._arrived.append(arrived_ns)
        self._read.append(read_ns)
        self._position.append(position)
        self._samples.append(samples)

    def clear(self, at_ns: int) -> None:
        """Drop what has not sounded by ``at_ns`` (VB04)."""
        cut = (at_ns * self.rate + NANO // 2) // NANO
        if cut >= self._end:
            return
        taken_back = []
        for number in range(len(self._position) - 1, -1, -1):
            position = self._position[number]
            if position == _NEVER or number in self._cleared:
                continue
            if position + self._samples[number] <= cut:
                break
            taken_back.append(number)
        self._cleared.update(dict.fromkeys(taken_back, cut))
        unmeasured = [number for number in taken_back if not self._measured[number]]
        if unmeasured:
            self._energies.append((unmeasured, self._track_energies(unmeasured)))
            for number in unmeasured:
                self._measured[number] = 1
        del self.track[2 * max(0, cut) :]
        self._end = cut

    def _sound(self, pcm: Pcm, position: int) -> None:
        """Put a packet into the track, which begins at 0. Without a queue it covers whatever sounds there already."""
        start, end = 2 * position, 2 * position + len(pcm)
        if end > 0:
            if start < 0:
                pcm, start = pcm[-start:], 0
            if start > len(self.track):
                self.track += bytes(start - len(self.track))
            self.track[start : start + len(pcm)] = pcm
        self._end = max(self._end, end // 2)

    def loud_after(self, position: int, amplitude: int) -> bool:
        """Whether a sample at ``position`` or later reaches ``amplitude``."""
        if position >= self._end:
            return False
        rest = np.frombuffer(bytes(self.track[2 * max(0, position) :]), dtype="<i2")
        return bool(len(rest)) and max(int(rest.max()), -int(rest.min())) >= amplitude

    def heard(self) -> Int16Array:
        """The track so far, at the agent's rate."""
        return np.frombuffer(bytes(self.track), dtype="<i2").astype(np.int16, copy=False)

    def packets(self) -> Packets:
        """The clocks and levels of all packets."""
        position = np.array(self._position, dtype=np.int64)
        samples = np.array(self._samples, dtype=np.int64)
        queued = np.where(position == _NEVER, np.nan, position / self.rate)
        cleared = np.full(len(position), np.nan)
        cleared[list(self._cleared)] = np.array(list(self._cleared.values()), dtype=np.float64) / self.rate
        owner, starts, stops = _pieces(samples, self.rate)
        energies = np.zeros(len(owner))
        in_track = np.flatnonzero(np.frombuffer(self._measured, dtype=np.uint8) == 0).tolist()
        for numbers, known in [*self._energies, (in_track, self._track_energies(in_track))]:
            of_packet = _pieces(samples[numbers], self.rate)[0]
            number = np.arange(len(of_packet)) - np.searchsorted(of_packet, of_packet)
            energies[np.searchsorted(owner, numbers)[of_packet] + number] = known
        return Packets(
            arrived=np.array(self._arrived, dtype=np.int64) / NANO,
            heard=np.where(cleared <= queued, np.nan, queued),
            duration=samples / self.rate,
            level_db=energy_db(np.bincount(owner, energies, len(position)), np.maximum(samples, 1)),
            read=np.array(self._read, dtype=np.int64) / NANO,
            queued=queued,
            cleared=cleared,
            pieces_db=energy_db(energies, stops - starts),
        )

    def _keep_energies(self, pcm: Pcm) -> None:
        samples = np.frombuffer(pcm, dtype="<i2")
        _, starts, stops = _pieces(np.array([len(samples)]), self.rate)
        self._energies.append(([len(self._position)], _energies(samples, starts, stops)))

    def _track_energies(self, numbers: list[int]) -> IntArray:
        """Energies of packets that the track holds, in one pass over it."""
        owner, starts, stops = _pieces(
            np.array([self._samples[number] for number in numbers], dtype=np.int64), self.rate
        )
        if not len(owner):
            return np.zeros(0, dtype=np.int64)
        place = np.array([self._position[number] for number in numbers])[owner]
        first = int(place.min())
        track = np.frombuffer(self.track, dtype="<i2", offset=2 * first).copy()  # a view would forbid its growth
        return _energies(track, starts + place - first, stops + place - first)


def _pieces(samples: IntArray, rate: int) -> tuple[IntArray, IntArray, IntArray]:
    """Packets of so many samples, cut into pieces of 20 ms: each piece's packet, first sample, and one past its last.

    The last piece of a packet may be shorter; an empty packet has none.
    """
    counts = -(-samples * PIECES_PER_S // rate)
    owner = np.repeat(np.arange(len(samples)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = number * rate // PIECES_PER_S
    return owner, starts, np.minimum((number + 1) * rate // PIECES_PER_S, samples[owner])


def _energies(samples: Int16Array, starts: IntArray, stops: IntArray) -> IntArray:
    """Sums of squares between so many starts and stops."""
    squares = np.append(np.square(samples.astype(np.int32)), np.int32(0))  # reduceat wants every edge inside
    edges = np.stack([starts, stops], axis=1).ravel()
    return np.add.reduceat(squares, edges, dtype=np.int64)[0::2] if len(edges) else np.zeros(0, dtype=np.int64)


def energy_db(energy: np.ndarray, samples: np.ndarray) -> FloatArray:
    """Levels in dBFS of sums of squares over so many samples, floor -120 (VB05)."""
    mean = energy / (samples * float(FULL_SCALE**2))
    floor = 10 ** (FLOOR_DB / 10)
    return np.asarray(10 * np.log10(np.maximum(mean, floor)), dtype=np.float64)
