"""What adapters over one stream socket have in common: sending without waiting, reading with time stamps, hanging up.

A subclass connects, hands its socket to :meth:`StreamAdapter.adopt`, and makes sense of what was read in
:meth:`StreamAdapter.take`.
"""

import abc
import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from gevent.socket import wait_read

from voicebench.adapters.base import AdapterError, AgentEvent, AgentHangup, Sink, SocketAdapter
from voicebench.clock.kernel import ANCILLARY_BYTES, KernelClock, shared_kernel_clock

READ_BYTES = 16 * 1024  # bounds the work that one call can cause in one turn of the loop
BACKLOG_BYTES = 256 * 1024  # caller's audio that a slow agent may leave unread, beyond the kernel's buffers

_buffer = bytearray(READ_BYTES)  # shared by all calls: what is read is consumed before the next read
_view = memoryview(_buffer)


class StreamAdapter(SocketAdapter):
    """One call over one TCP or TLS connection."""

    #: What the record says if the connection ends without a goodbye.
    gone: ClassVar[str] = "agent hung up: the connection ended"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.close_timeout_s = 1.0
        self._socket: Any = None
        self._release: Callable[[], object] = bool
        self._kernel_clock: KernelClock | None = None
        self._backlog = bytearray()
        self._ended = False

    @property
    def has_kernel_timestamps(self) -> bool:
        return self._kernel_clock is not None

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def adopt(self, sock: Any, release: Callable[[], object] | None = None) -> None:
        """Take over a connected socket. ``release`` lets it go at the end; by default it is closed."""
        sock.settimeout(0)
        self._release = release or sock.close  # bound to what owns the socket, which must live as long
        if isinstance(sock, ssl.SSLSocket):  # TLS hides the kernel's time stamps
            self._socket = sock
            return
        # gevent wraps plain sockets; what it wraps never waits, which is what the pacer wants.
        self._socket = getattr(sock, "_sock", sock)
        clock = shared_kernel_clock()
        self._kernel_clock = clock if clock.enable(self._socket) else None

    @abc.abstractmethod
    def take(self, sink: Sink, data: memoryview, arrived_ns: int) -> bool:
        """Make sense of what was read; ``data`` is only valid during the call. False if the call has ended."""

    def closed(self) -> AgentHangup:
        """What it means that the agent closed the connection."""
        return AgentHangup(self.gone)

    def say_goodbye(self) -> None:
        """Tell the agent that the caller hangs up, if the protocol can."""

    def send_audio(self, pcm: bytes) -> None:
        self.send_encoded(self.encode_audio(pcm))

    def send_encoded(self, wire: bytes) -> None:
        """Send without waiting. What the kernel does not take is kept, up to a bound. Raises AdapterError."""
        if self._socket is None or self._ended:
            return
        if self._backlog:
            self._backlog += wire
            wire = bytes(self._backlog)
        try:
            sent = self._socket.send(wire)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except OSError as error:
            raise AdapterError(f"connection lost: {error.strerror or error}") from None
        if sent == len(wire):
            if self._backlog:
                self._backlog = bytearray()
            return
        self._backlog = bytearray(wire[sent:])
        if len(self._backlog) > BACKLOG_BYTES:
            raise AdapterError(f"back-pressure: the agent left over {BACKLOG_BYTES >> 10} KiB unread")

    def send_last(self, wire: bytes) -> None:
        """Send a goodbye, unless half a frame is on the wire, and nobody who reads."""
        if not self._backlog:
            with contextlib.suppress(AdapterError):
                self.send_encoded(wire)

    def read(self, sink: Sink) -> bool:
        if self._ended:
            return False
        try:
            if self._kernel_clock is not None:
                n, ancillary, _, _ = self._socket.recvmsg_into([_buffer], ANCILLARY_BYTES)
                arrived_ns = self._kernel_clock.arrival_ns(ancillary, time.monotonic_ns())
            else:
                n = self._socket.recv_into(_buffer)
                arrived_ns = time.monotonic_ns()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            lost = AgentHangup(f"connection lost: {error.strerror or error}")
            return self.end(sink, lost, time.monotonic_ns())
        if n == 0:
            return self.end(sink, self.closed(), arrived_ns)
        return self.take(sink, _view[:n], arrived_ns)

    def take_audio(self, sink: Sink, pcm: bytes | memoryview, arrived_ns: int) -> bool:
        """One packet of 16-bit samples; an odd number of bytes ends the call."""
        if len(pcm) & 1:
            odd = AgentHangup(f"odd audio: {len(pcm)} bytes are no whole number of 16-bit samples")
            return self.end(sink, odd, arrived_ns)
        sink.audio(pcm, arrived_ns)
        return True

    def end(self, sink: Sink, hangup: AgentHangup, arrived_ns: int) -> Literal[False]:
        """The connection is over."""
        self._ended = True
        sink.event(hangup, arrived_ns)
        return False

    def close(self) -> None:
        """Say goodbye, wait a moment for the answer, and let the socket go."""
        if self._socket is None:
            return
        try:
            if not self._ended:
                self.say_goodbye()
                self._await_end()
        finally:
            self._socket = None
            self._release()

    def _await_end(self) -> None:
        deadline = time.monotonic() + self.close_timeout_s
        ears = _Deaf()
        while not self._ended and (left := deadline - time.monotonic()) > 0:
            if not self.read(ears):
                return
            try:
                wait_read(self._socket.fileno(), left)
            except OSError:  # its timeout is one
                return


class _Deaf:
    """Takes what still comes while a call is being closed."""

    def audio(self, pcm: bytes | bytearray | memoryview, arrived_ns: int) -> None:
        pass

    def event(self, event: AgentEvent, arrived_ns: int) -> None:
        pass


def network_failure(error: OSError) -> str:
    """One line that says why there is no connection, "kind: detail", without the address: it may carry secrets."""
    if isinstance(error, ssl.SSLError):
        return f"TLS failure: {getattr(error, 'verify_message', '') or error.reason or error}"
    if isinstance(error, socket.gaierror):
        return "DNS failure: the host name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, ConnectionError):
        return f"connection lost: {error.strerror or 'during the handshake'}"
    return f"connection failed: {error.strerror or type(error).__name__}"


def redact_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def checked_headers(adapter: str, option: str, headers: Any) -> dict[str, str]:
    """Headers of a request. Raises AdapterError, without their values: they may be secrets."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise AdapterError(f"{adapter}: option {option}: must be a block of names and values")
    texts = {str(name): str(value) for name, value in headers.items()}
    if any(char in text for pair in texts.items() for text in pair for char in "\r\n"):
        raise AdapterError(f"{adapter}: option {option}: a header is one line")
    return texts


def checked_timeout(adapter: str, timeout_s: Any) -> float:
    """The option ``connect_timeout_s``. Raises AdapterError."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 3600:
        raise AdapterError(
            f"{adapter}: option connect_timeout_s: must be above 0 and at most 3600, not {timeout_s!r}"
        )
    return float(timeout_s)


def checked_rate(adapter: str, rate: Any) -> int | None:
    """The option ``agent_sample_rate``. Raises AdapterError."""
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 4000 <= rate <= 192000 or rate % 1:
        raise AdapterError(f"{adapter}: option agent_sample_rate: must be a rate in Hz, not {rate!r}")
    return int(rate)
