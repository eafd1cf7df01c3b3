"""When a packet reached this machine: the kernel's receive time stamps, on the monotonic clock.

A busy event loop reads a packet milliseconds after it arrived. With SO_TIMESTAMPNS the kernel says when that was,
to about 0.01 ms, but on CLOCK_REALTIME, which is slewed and stepped while a call lasts. A :class:`KernelClock`
measures the distance of the two clocks again and again.
"""

import socket
import ssl
import struct
import sys
import time
from collections.abc import Sequence
from functools import cache

#: SO_TIMESTAMPNS (asm-generic/socket.h); the same number is the type of the control message.
SO_TIMESTAMPNS = 35
#: What ``recvmsg_into(..., ANCILLARY_BYTES)`` needs for one time stamp.
ANCILLARY_BYTES = socket.CMSG_SPACE(16)

Ancillary = Sequence[tuple[int, int, bytes]]

NS = 1_000_000_000  #: nanoseconds in a second
_unpack = struct.Struct("@qq").unpack
_TRIES = 5
_GOOD_BRACKET_NS = 2_000
_WORST_BRACKET_NS = 100_000
_OLDEST_NS = 60 * NS


class KernelClock:
    """Maps the kernel's time stamps to CLOCK_MONOTONIC. Call :meth:`refresh` about once a second."""

    def __init__(self) -> None:
        self.offset_ns = time.time_ns() - time.monotonic_ns()  #: CLOCK_REALTIME minus CLOCK_MONOTONIC
        self.refresh()

    @staticmethod
    def enable(sock: socket.socket) -> bool:
        """Ask for time stamps on a socket's reads. False where there are none: not Linux, or TLS (which hides them).

        What arrived before this call, or in the kernel's first instants after it, has none.
        """
        if sys.platform != "linux" or isinstance(sock, ssl.SSLSocket):
            return False
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return False
        return True

    def refresh(self) -> None:
        """Measure the distance of the clocks anew: 1-2 us. A disturbed measurement does not replace a good one."""
        best_width, best_offset = _WORST_BRACKET_NS, self.offset_ns
        for _ in range(_TRIES):
            before = time.monotonic_ns()
            real = time.time_ns()
            width = time.monotonic_ns() - before
            if width < best_width:
                best_width, best_offset = width, real - before - width // 2
            if width <= _GOOD_BRACKET_NS:
                break
        self.offset_ns = best_offset

    def to_monotonic_ns(self, realtime_ns: int) -> int:
        return realtime_ns - self.offset_ns

    def arrival_ns(self, ancillary: Ancillary, now_ns: int) -> int:
        """When the newest byte of a read arrived, from what ``recvmsg`` returned beside it.

        ``now_ns`` (CLOCK_MONOTONIC, read at wake-up) where there is no stamp or an impossible one, as after a
        step of the realtime clock. Never later than ``now_ns``.
        """
        if not ancillary:
            return now_ns
        stamp = realtime_ns(ancillary)
        arrived = stamp - self.offset_ns
        if arrived > now_ns or arrived < now_ns - _OLDEST_NS:
            return now_ns
        return arrived


def realtime_ns(ancillary: Ancillary) -> int:
    """The time stamp (CLOCK_REALTIME) in what ``recvmsg`` returned beside the data, or 0."""
    for level, kind, data in ancillary:
        if kind == SO_TIMESTAMPNS and level == socket.SOL_SOCKET and len(data) == 16:
            seconds, nanoseconds = _unpack(data)
            return int(seconds * NS + nanoseconds)
    return 0


@cache
def shared_kernel_clock() -> KernelClock:
    """The process's one kernel clock; whoever reads sockets refreshes it."""
    return KernelClock()
