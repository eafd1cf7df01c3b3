"""The timer descriptor and the kernel's time stamps."""

import select
import socket
import struct
import sys
import time

import pytest

from voicebench.clock.kernel import ANCILLARY_BYTES, SO_TIMESTAMPNS, KernelClock, realtime_ns
from voicebench.clock.timer import TimerFd

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="timerfd and SO_TIMESTAMPNS are Linux's")

MS = 1_000_000


def readable(timer: TimerFd, timeout_s: float) -> bool:
    return bool(select.select([timer], [], [], timeout_s)[0])


def test_it_fires_at_the_deadline_and_not_before() -> None:
    with TimerFd() as timer:
        deadline = time.monotonic_ns() + 20 * MS
        timer.arm_at(deadline)
        assert not timer.clear()
        assert readable(timer, 5)
        assert time.monotonic_ns() >= deadline
        assert timer.clear()
        assert not readable(timer, 0)


def test_a_deadline_that_has_passed_fires_at_once() -> None:
    with TimerFd() as timer:
        for deadline in (time.monotonic_ns() - 5 * MS, 0, -1):
            timer.arm_at(deadline)
            assert readable(timer, 5)
            timer.clear()


def test_a_new_deadline_replaces_the_old_and_disarm_forgets_it() -> None:
    with TimerFd() as timer:
        timer.arm_at(time.monotonic_ns())
        timer.arm_at(time.monotonic_ns() + 3_600_000 * MS)
        assert not readable(timer, 0)
        timer.arm_at(1)
        timer.disarm()
        assert not readable(timer, 0)


def test_closing_twice_is_fine() -> None:
    timer = TimerFd()
    timer.close()
    timer.close()
    assert timer.fileno() == -1


def test_elsewhere_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(OSError, match="needs Linux; this is darwin"):
        TimerFd()


def stamp(realtime: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@qq", *divmod(realtime, 1_000_000_000)))]


def test_a_stamp_is_moved_to_the_monotonic_clock() -> None:
    clock = KernelClock()
    clock.offset_ns = 1_700_000_000_000_000_000
    arrived = 5_000_000_123
    assert realtime_ns(stamp(arrived + clock.offset_ns)) == 1_700_000_005_000_000_123
    assert clock.to_monotonic_ns(1_700_000_005_000_000_123) == arrived
    assert clock.arrival_ns(stamp(arrived + clock.offset_ns), arrived + 7) == arrived


def test_no_stamp_or_an_impossible_one_means_now() -> None:
    clock = KernelClock()
    now = time.monotonic_ns()
    assert clock.arrival_ns([], now) == now
    assert clock.arrival_ns([(socket.SOL_SOCKET, 99, bytes(16))], now) == now
    assert clock.arrival_ns(stamp(now + clock.offset_ns + 1), now) == now
    assert clock.arrival_ns(stamp(now + clock.offset_ns - 61_000 * MS), now) == now


def test_the_offset_is_the_distance_of_the_clocks() -> None:
    clock = KernelClock()
    before = time.time_ns() - time.monotonic_ns()
    clock.refresh()
    after = time.time_ns() - time.monotonic_ns()
    assert min(before, after) - MS <= clock.offset_ns <= max(before, after) + MS


def test_a_late_read_still_tells_the_arrival() -> None:
    clock = KernelClock()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
    ):
        receiver, _ = listener.accept()
        with receiver:
            assert KernelClock.enable(receiver)
            buffer = bytearray(100)
            for _ in range(50):  # the kernel switches time stamping on a little later
                before = time.monotonic_ns()
                sender.sendall(b"x")
                assert select.select([receiver], [], [], 5)[0]
                after = time.monotonic_ns()
                select.select([], [], [], 0.002)
                _, ancillary, _, _ = receiver.recvmsg_into([buffer], ANCILLARY_BYTES)
                now = time.monotonic_ns()
                if ancillary:
                    assert before - MS // 10 <= clock.arrival_ns(ancillary, now) <= after + MS // 10
                    return
            pytest.fail("no time stamp within 50 reads")
