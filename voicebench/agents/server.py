"""The reference agent behind a listening socket, for callers over websockets (VB29) or AudioSocket (TV02)."""

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
from typing import NamedTuple

from voicebench.agents.audiosocket import AudioSocketCall
from voicebench.agents.call import Call
from voicebench.agents.loop import AgentLoop
from voicebench.agents.reference import OptionError, ReferenceOptions
from voicebench.agents.truth import TruthLog
from voicebench.agents.websocket import WebSocketCall
from voicebench.wire.audiosocket import KINDS


class Protocol(NamedTuple):
    """How callers may reach the agent, and what holds if nothing else is said."""

    call: type[Call]
    scheme: str
    port: int
    sample_rate: int


PROTOCOLS: dict[str, Protocol] = {
    "websocket": Protocol(WebSocketCall, "ws", 8765, 16000),
    "audiosocket": Protocol(AudioSocketCall, "audiosocket", 9092, 8000),
}


def serve(
    host: str,
    port: int | None,
    sample_rate: int | None,
    options: ReferenceOptions,
    log: Path | None = None,
    tls: ssl.SSLContext | None = None,
    ready: Callable[[str], None] | None = None,
    frame_ms: float = 20.0,
    protocol: str = "websocket",
) -> None:
    """Serve the reference agent until SIGTERM or SIGINT; then hang up all calls and return.

    ``protocol`` is a key of PROTOCOLS, which has the port and the sample rate that stand for None. ``ready`` is
    called with the URL once callers can connect. ``log`` is where the truth is written (``voicebench.agents.truth``).
    Call it in the main thread. Raises OSError if the address or the log cannot be used, and where there is no timerfd
    (elsewhere than on Linux), and OptionError for what the protocol lacks.
    """
    spoken = PROTOCOLS[protocol]
    port = spoken.port if port is None else port
    sample_rate = spoken.sample_rate if sample_rate is None else sample_rate
    if spoken.call is AudioSocketCall:
        if tls is not None:
            raise OptionError("AudioSocket has no TLS: leave the certificate out")
        if sample_rate not in KINDS:
            raise OptionError(
                f"AudioSocket has no audio at {sample_rate} Hz; use one of {', '.join(map(str, KINDS))}"
            )
    truth = TruthLog(log)
    _raise_file_limit()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=1024)
    loop = AgentLoop(listener, spoken.call, sample_rate, options, truth, tls, frame_ms)
    name = f"[{host}]" if ":" in host else host
    url = f"{spoken.scheme if tls is None else 'wss'}://{name}:{listener.getsockname()[1]}"
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
