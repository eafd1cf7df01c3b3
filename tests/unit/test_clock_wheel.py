"""Who is due when. The wheel under test has 40 slots over 20 ms, 0.5 ms apart, unless a test says otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicebench.clock.wheel import Wheel

MS = 1_000_000


def wheel(origin_ms: float = 0) -> Wheel[str]:
    return Wheel(20 * MS, 40, int(origin_ms * MS))


def due_ms(popped: tuple[int, tuple[str, ...]] | None) -> tuple[float, tuple[str, ...]] | None:
    return None if popped is None else (popped[0] / MS, popped[1])


def test_the_first_members_sit_far_apart() -> None:
    w = wheel()
    assert [w.add(name, 0).offset_ns / MS for name in "abcdefgh"] == [0, 10, 5, 15, 2.5, 12.5, 7.5, 17.5]


def test_forty_members_fill_every_slot_and_the_next_forty_double_them() -> None:
    w = wheel()
    for round_ in range(2):
        assert sorted(w.add(f"{round_}/{i}", 0).index for i in range(40)) == list(range(40))


def test_a_freed_slot_is_filled_next() -> None:
    w = wheel()
    slots = [w.add(str(i), 0) for i in range(40)]
    w.remove("17")
    assert w.add("new", 0).index == slots[17].index


def test_slots_come_in_the_order_of_time_every_period() -> None:
    w = wheel(origin_ms=100)
    for name in "abc":  # at 0, 10 and 5 ms of the period
        w.add(name, 100 * MS)
    assert w.next_due_ns(100 * MS) == 105 * MS  # 'a' joined at 100, so it begins at 120
    assert w.pop_due(104 * MS) is None
    assert due_ms(w.pop_due(111 * MS)) == (105, ("c",))
    assert due_ms(w.pop_due(111 * MS)) == (110, ("b",))
    assert w.pop_due(111 * MS) is None
    assert w.next_due_ns(111 * MS) == 120 * MS
    assert due_ms(w.pop_due(120 * MS)) == (120, ("a",))
    assert w.next_due_ns(120 * MS) == 125 * MS


def test_late_by_less_than_a_period_nothing_is_skipped() -> None:
    w = wheel()
    w.add("a", -1)
    w.add("b", -1)
    assert due_ms(w.pop_due(0)) == (0, ("a",))
    assert due_ms(w.pop_due(19 * MS)) == (10, ("b",))
    assert due_ms(w.pop_due(29 * MS)) == (20, ("a",))


def test_late_by_periods_each_slot_comes_once_with_its_latest_time() -> None:
    w = wheel()
    w.add("a", -1)
    w.add("b", -1)
    assert due_ms(w.pop_due(0)) == (0, ("a",))
    # 95 ms: rounds at 10, 20, ... 90 were missed. 'b' was last due at 90, 'a' at 80.
    assert due_ms(w.pop_due(95 * MS)) == (80, ("a",))
    assert due_ms(w.pop_due(95 * MS)) == (90, ("b",))
    assert w.pop_due(95 * MS) is None
    assert w.next_due_ns(95 * MS) == 100 * MS


def test_a_member_is_never_due_before_it_joined() -> None:
    w = wheel()
    w.add("a", -1)
    for i in range(39):
        w.add(str(i), -1)
    assert due_ms(w.pop_due(0)) == (0, ("a",))
    slot = w.add("late", 30 * MS)  # shares the slot of 'a', which missed its turn at 20 ms
    assert (slot.index, slot.first_due_ns) == (0, 40 * MS)
    seen = []
    while (popped := w.pop_due(31 * MS)) is not None:
        seen += [(popped[0] / MS, name) for name in popped[1]]
    assert (20, "a") in seen
    assert "late" not in [name for _, name in seen]
    while (popped := w.pop_due(40 * MS)) is not None and popped[0] < 40 * MS:
        pass
    assert due_ms(popped) == (40, ("a", "late"))


def test_an_idle_wheel_does_not_owe_the_past() -> None:
    w = wheel()
    w.add("a", 0)
    w.remove("a")
    assert w.next_due_ns(5000 * MS) is None
    assert w.add("b", 5003 * MS).first_due_ns == 5020 * MS
    assert w.pop_due(5004 * MS) is None
    assert due_ms(w.pop_due(5020 * MS)) == (5020, ("b",))


def test_members_that_leave_are_not_due() -> None:
    w = wheel()
    w.add("a", -1)
    w.remove("a")
    w.remove("never there")
    assert w.pop_due(100 * MS) is None
    assert "a" not in w
    assert len(w) == 0


def test_the_same_member_twice_is_a_mistake() -> None:
    w = wheel()
    w.add("a", 0)
    with pytest.raises(ValueError, match="already"):
        w.add("a", 0)


def test_a_period_that_does_not_divide_evenly_keeps_its_phases() -> None:
    w: Wheel[str] = Wheel(10, 3, 0)
    assert sorted(w.add(name, -1).offset_ns for name in "abc") == [0, 3, 6]
    assert [popped[0] for popped in (w.pop_due(26) for _ in range(9)) if popped] == [20, 23, 26]


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "pop"]), st.integers(0, 60)), max_size=80))
def test_due_times_only_rise_and_are_recent_and_on_phase(steps: list[tuple[str, int]]) -> None:
    w: Wheel[int] = Wheel(20, 8, 3)
    now, last, joined = 0, -1000, dict[int, int]()
    offsets = dict[int, int]()
    for number, (action, amount) in enumerate(steps):
        now += amount
        if action == "add":
            slot = w.add(number, now)
            joined[number], offsets[number] = now, slot.offset_ns
            assert now < slot.first_due_ns <= now + 40
        elif action == "remove" and joined:
            name = min(joined)
            w.remove(name)
            del joined[name]
        else:
            while (popped := w.pop_due(now)) is not None:
                due, members = popped
                assert max(last, now - 20) < due <= now
                last = due
                for member in members:
                    assert due > joined[member]
                    assert (due - 3) % 20 == offsets[member]
