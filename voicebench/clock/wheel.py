"""Who is due when: members of one period, spread over its phases.

A thousand calls that all send every 20 ms must not send in the same instant. A wheel of 40 slots over 20 ms gives
each member one of 40 phases, 0.5 ms apart, and hands the slots out in the order of time.
"""

from bisect import bisect_right, insort
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


@dataclass(frozen=True)
class Slot:
    """Where a member sits: it is due at ``first_due_ns`` and every period from then on."""

    index: int
    offset_ns: int  #: phase within the period, counted from the wheel's origin
    first_due_ns: int


class Wheel(Generic[Member]):
    """Times are nanoseconds on one monotonic clock.

    Slot ``i`` is due at ``origin_ns + n * period_ns + i * period_ns // slots`` for every whole ``n``.
    """

    def __init__(self, period_ns: int, slots: int, origin_ns: int = 0) -> None:
        if period_ns < slots or slots < 1:
            raise ValueError(f"a period of {period_ns} ns cannot have {slots} slots")
        self.period_ns = period_ns
        self.origin_ns = origin_ns
        self._offsets = [index * period_ns // slots for index in range(slots)]
        self._slots: list[dict[Member, int]] = [{} for _ in range(slots)]  # member -> its first due time
        self._oldest_ns = [0] * slots  # per slot: before this none of its members is due
        self._newest_ns = [0] * slots  # per slot: from here on all of them are
        self._snapshots: list[tuple[Member, ...]] = [()] * slots
        self._occupied: list[int] = []  # the offsets of the slots that have members, ascending
        self._index_at = {offset: index for index, offset in enumerate(self._offsets)}
        self._index_of: dict[Member, int] = {}
        self._preference = _spread(slots)
        self._last_ns: int | None = None  # the last due time handed out

    def __len__(self) -> int:
        return len(self._index_of)

    def __contains__(self, member: object) -> bool:
        return member in self._index_of

    def add(self, member: Member, now_ns: int) -> Slot:
        """Put a member into the least filled slot; among equals into the one farthest from those filled before.

        It is never handed out with a due time at or before ``now_ns``. Raises ValueError if it is in already.
        """
        if member in self._index_of:
            raise ValueError(f"{member!r} is in the wheel already")
        index = min(self._preference, key=lambda candidate: len(self._slots[candidate]))
        offset = self._offsets[index]
        first_due = self._next_time([offset], now_ns if self._last_ns is None else max(now_ns, self._last_ns))
        if not self._slots[index]:
            insort(self._occupied, offset)
            self._oldest_ns[index] = self._newest_ns[index] = first_due
        self._slots[index][member] = first_due
        self._newest_ns[index] = max(self._newest_ns[index], first_due)
        self._snapshots[index] = tuple(self._slots[index])
        self._index_of[member] = index
        return Slot(index, offset, first_due)

    def remove(self, member: Member) -> None:
        """Take a member out; nothing happens if it is not in."""
        index = self._index_of.pop(member, None)
        if index is None:
            return
        slot = self._slots[index]
        del slot[member]
        self._snapshots[index] = tuple(slot)
        if not slot:
            self._occupied.remove(self._offsets[index])

    def next_due_ns(self, now_ns: int) -> int | None:
        """When the next occupied slot is due, after the last one handed out; None if the wheel is empty.

        The time may have passed, but by less than one period: of a slot that missed several rounds only the latest
        counts. What that means for a member (frames to skip) it can tell from its own last due time.
        """
        found = self._next(now_ns)
        return None if found is None else found[0]

    def pop_due(self, now_ns: int) -> tuple[int, tuple[Member, ...]] | None:
        """The next slot that is due by ``now_ns``: its due time and its members; None if none is.

        Call it until it returns None. The members are a snapshot: one that was removed since may still be in it.
        """
        while (found := self._next(now_ns)) is not None and found[0] <= now_ns:
            due, index = found
            self._last_ns = due
            members = self._snapshots[index]
            if due < self._newest_ns[index]:
                members = tuple(member for member, first_due in self._slots[index].items() if first_due <= due)
            if members:
                return due, members
        return None

    def _next(self, now_ns: int) -> tuple[int, int] | None:
        """The next due time and its slot."""
        if not self._occupied:
            return None
        after = now_ns - self.period_ns
        if self._last_ns is not None and self._last_ns > after:
            after = self._last_ns
        while True:
            after = self._next_time(self._occupied, after)
            index = self._index_at[(after - self.origin_ns) % self.period_ns]
            if after >= self._oldest_ns[index]:
                return after, index

    def _next_time(self, offsets: list[int], after_ns: int) -> int:
        """The earliest time later than ``after_ns`` that has one of these phases (ascending, not empty)."""
        rounds, phase = divmod(after_ns - self.origin_ns, self.period_ns)
        position = bisect_right(offsets, phase)
        if position == len(offsets):
            rounds, position = rounds + 1, 0
        return self.origin_ns + rounds * self.period_ns + offsets[position]


def _spread(count: int) -> list[int]:
    """0..count-1 in an order that fills the largest gaps first (van der Corput): 0, 1/2, 1/4, 3/4, 1/8 ..."""
    bits = max(count - 1, 1).bit_length()
    fractions = (int(f"{number:0{bits}b}"[::-1], 2) / (1 << bits) for number in range(1 << bits))
    return list(dict.fromkeys(int(fraction * count) for fraction in fractions))
