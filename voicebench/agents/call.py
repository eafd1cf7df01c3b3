"""One caller's connection to the reference agent: bytes in and out, and what is still to be sent.

Nothing here waits. The server reads and writes when the socket is ready; everything that a caller can do wrong ends
as :class:`CallEnded`, which concerns that call alone. How a call opens, what its messages mean and how it closes is
its protocol's: a subclass for each.
"""

import abc
import socket
import ssl
from enum import Enum
from time import monotonic_ns
from typing import ClassVar

from voicebench.agents.reference import HeardText, ReferenceAgent
from voicebench.agents.truth import CallTruth
from voicebench.clock.kernel import ANCILLARY_BYTES, KernelClock

MAX_BACKLOG_BYTES = 1 << 18  #: eight seconds of audio at 16 kHz that the caller has not read


class CallEnded(Exception):  # noqa: N818
    """The connection is over; the argument says why. The usual end of a call, so no error by name."""


class Stage(Enum):
    TLS = "tls"
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"  # our goodbye is out; waiting for the caller's


class Call(abc.ABC):
    """One connection, from ``accept`` on."""

    #: How long a caller may take until the call is open.
    opening_timeout_s: ClassVar[float]
    #: Why a call ended whose connection did, without a goodbye.
    gone: ClassVar[str]
    #: What makes the caller's player drop what has not sounded yet; empty if the protocol has no such message.
    clear: ClassVar[bytes]

    def __init__(self, sock: socket.socket, sample_rate: int) -> None:
        self.sock = sock
        self.sample_rate = sample_rate
        self.fd = sock.fileno()
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.stage = Stage.TLS if self.tls else Stage.OPENING
        self.call_id = ""  #: once it is open
        self.backlog = bytearray()
        self.waits_to_send = False  #: whether the server is to be told when the socket takes more
        self.deadline_s: float | None = None  #: when the opening or the closing has lasted too long
        self.scheduled_s: float | None = None  #: when the server will next ask the agent what is due
        self.reason = ""  #: why it is closing
        self.agent: ReferenceAgent | None = None  # once it is open, as is the truth
        self.truth: CallTruth | None = None
        self.last_arrival_s = float("-inf")
        KernelClock.enable(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    # The protocol

    @staticmethod
    @abc.abstractmethod
    def encode_audio(pcm: bytes, sample_rate: int) -> bytes:
        """One frame of the agent's PCM16LE."""

    @staticmethod
    @abc.abstractmethod
    def encode_text(output: HeardText) -> bytes:
        """What the agent understood; empty if the protocol has no such message."""

    @abc.abstractmethod
    def open(self, data: bytes) -> bytes | None:
        """Take bytes of the opening. Once it is complete: be open, and return what came behind it."""

    @abc.abstractmethod
    def whole_audio(self, buffer: bytearray, size: int) -> tuple[bytes, bytes] | None:
        """The short cut: PCM and its mask, if ``buffer[:size]`` is just one message of audio, else None."""

    @abc.abstractmethod
    def parse(self, data: bytes | memoryview) -> list[bytes]:
        """Take bytes of an open call and return the audio messages in them; the rest is answered here.

        Raises CallEnded when the caller hung up.
        """

    @abc.abstractmethod
    def hang_up(self, reason: str) -> None:
        """Say goodbye, and wait for the caller's."""

    def close(self, goodbye: bytes, reason: str) -> None:
        """Send a goodbye and wait for the caller's; what else it sends is ignored."""
        if self.stage is Stage.OPEN:
            self.stage, self.reason, self.scheduled_s = Stage.CLOSING, reason, None
            self.send(goodbye)

    # The socket

    def continue_tls(self) -> None:
        """Go on with the TLS handshake as far as possible."""
        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise CallEnded(f"TLS handshake: {error}") from None
        self.stage = Stage.OPENING

    def read(self, buffer: bytearray, clock: KernelClock) -> tuple[int, int]:
        """Read once into ``buffer``: how many bytes (0: nothing there yet), and when (CLOCK_MONOTONIC ns).

        The time is the arrival of the newest byte. Raises CallEnded at the end of the stream.
        """
        try:
            if self.tls:
                size, arrived_ns = self.sock.recv_into(buffer), monotonic_ns()
            else:
                size, ancillary, _, _ = self.sock.recvmsg_into((buffer,), ANCILLARY_BYTES)
                arrived_ns = clock.arrival_ns(ancillary, monotonic_ns())
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0, 0
        except OSError as error:
            raise CallEnded(f"connection lost: {error.strerror or error}") from None
        if not size:
            raise CallEnded(self.gone)
        return size, arrived_ns

    @property
    def more_to_read(self) -> bool:
        """Whether TLS holds bytes that the socket will not announce."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def send(self, data: bytes) -> None:
        """Send, or keep for later what the socket does not take. Raises CallEnded if too much is kept."""
        sent = 0
        if not self.backlog:
            sent = self._send_now(data)
            if sent == len(data):
                return
        self.backlog += memoryview(data)[sent:]
        if len(self.backlog) > MAX_BACKLOG_BYTES:
            raise CallEnded(f"caller does not read: {len(self.backlog)} bytes wait for it")

    def flush(self) -> None:
        """Send what was kept, as far as the socket takes it."""
        while self.backlog:
            sent = self._send_now(self.backlog)
            if not sent:
                return
            del self.backlog[:sent]

    def _send_now(self, data: bytes | bytearray) -> int:
        try:
            return self.sock.send(data)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except OSError as error:
            raise CallEnded(f"connection lost: {error.strerror or error}") from None
