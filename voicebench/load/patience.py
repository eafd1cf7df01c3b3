"""Waiting, as long as there is progress."""

import time
from collections.abc import Callable

import gevent

POLL_S = 0.05


def wait_until(
    done: Callable[[], bool], patience_s: float, progress: Callable[[], object] | None = None, first_s: float = 0.0
) -> bool:
    """Wait until ``done``; False if it was not within ``patience_s`` of the last change of ``progress``.

    ``first_s`` is granted once, before patience begins to count.
    """
    seen = progress() if progress else None
    deadline = time.monotonic() + first_s + patience_s
    while not done():
        now = time.monotonic()
        if now >= deadline:
            return False
        current = progress() if progress else None
        if current != seen:
            seen, deadline = current, max(deadline, now + patience_s)
        gevent.sleep(POLL_S)
    return True
