"""What c/sentinel.c does, where there is no compiler, at a few percent of the core: ``sentinel.py CORE > FILE``."""

import os
import signal
import struct
import sys
import time

MS = 1_000_000


def main() -> None:
    """Note when a sleep of a millisecond lasted longer, until SIGTERM."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    os.sched_setaffinity(0, {int(sys.argv[1])})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        how = "SCHED_FIFO"
    except OSError:
        how = "normal"
    print(how, file=sys.stderr, flush=True)
    due = time.monotonic_ns() + MS
    while not stopped:
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        woke = time.monotonic_ns()
        if woke - due > MS // 2:
            sys.stdout.buffer.write(struct.pack("=qq", due, woke))
        due = max(due, woke) + MS


if __name__ == "__main__":
    main()
