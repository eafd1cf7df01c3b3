"""The reference agent over WebSocket (VB29)."""

import gc
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from voicebench.agents.loop import AgentLoop
from voicebench.agents.reference import ReferenceOptions
from voicebench.agents.truth import TruthLog


def serve(
    host: str,
    port: int,
    sample_rate: int,
    options: ReferenceOptions,
    log: Path | None = None,
    tls: ssl.SSLContext | None = None,
    ready: Callable[[str], None] | None = None,
    frame_ms: float = 20.0,
) -> None:
    """Serve the reference agent until SIGTERM or SIGINT; then close all calls (1001) and return.

    ``ready`` is called with the URL once callers can connect. ``log`` is where the truth is written
    (``voicebench.agents.truth``). Call it in the main thread. Raises OSError if the address or the log cannot be
    used, and where there is no timerfd (elsewhere than on Linux).
    """
    truth = TruthLog(log)
    _raise_file_limit()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    loop = AgentLoop(listener, sample_rate, options, truth, tls, frame_ms)
    name = f"[{host}]" if ":" in host else host
    url = f"{'ws' if tls is None else 'wss'}://{name}:{listener.getsockname()[1]}"
    gc.collect()
    gc.freeze()
    with _signals_to(loop.wake_write):
        if ready is not None:
            ready(url)
        loop.run()
    truth.close()
    if truth.error is not None:
        print(f"{log}: the log is incomplete: {truth.error}", file=sys.stderr)


@contextmanager
def _signals_to(wake: socket.socket) -> Iterator[None]:
    """SIGTERM and SIGINT write to ``wake`` instead of ending the process."""

    def ignore(_signal: int, _frame: FrameType | None) -> None:
        """The byte that Python writes to the wake-up descriptor is all that is needed."""

    previous = {number: signal.signal(number, ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    descriptor = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
