"""A websocket server for tests that does exactly what a test tells it to, good or bad."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

from voicebench.wire.handshake import UpgradeRequest, parse_upgrade, upgrade_response
from voicebench.wire.rfc6455 import Binary, Close, Message, Opcode, Parser, ProtocolError, encode_close, encode_frame


class Connection:
    """The server's end of one call, in a thread of its own, blocking."""

    def __init__(self, sock: socket.socket, request: UpgradeRequest) -> None:
        self.sock = sock
        self.request = request
        self._closed = False
        self._parser = Parser(expect_masked=True, max_message_bytes=1 << 20)

    def receive(self) -> list[Message]:
        """What came next; empty once the caller is gone. A goodbye is answered."""
        try:
            data = b"" if self._closed else self.sock.recv(65536)
            messages = self._parser.feed(data) if data else []
            if any(isinstance(message, Close) for message in messages):
                self._closed = True
                self.sock.sendall(encode_close(1000, ""))
            return messages
        except (OSError, ProtocolError):
            return []

    def hear(self, seconds: float) -> None:
        """Take audio until so much of it has come (16 kHz), or the caller is gone."""
        left = seconds * 32000
        while left > 0:
            messages = self.receive()
            if not messages:
                return
            left -= sum(len(m.payload) for m in messages if isinstance(m, Binary))

    def hear_out(self) -> None:
        """Take audio until the caller hangs up."""
        while self.receive():
            pass

    def send(self, opcode: Opcode, payload: bytes, fin: bool = True) -> None:
        self.sock.sendall(encode_frame(opcode, payload, mask=None, fin=fin))

    def speak(self, pcm: bytes, pace_s: float = 0.02) -> None:
        """Send audio in frames of 640 bytes, one every ``pace_s``."""
        due = time.monotonic()
        for start in range(0, len(pcm), 640):
            self.send(Opcode.BINARY, pcm[start : start + 640])
            due += pace_s
            if pace_s:
                time.sleep(max(0.0, due - time.monotonic()))


@contextlib.contextmanager
def agent(
    script: Callable[[Connection], None],
    tls: ssl.SSLContext | None = None,
    raw: bytes | None = None,
    at_the_door: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Serve ``script`` to every caller; gives the URL. With ``raw`` the handshake is answered by those bytes.

    ``at_the_door`` is called before that answer, and may take its time.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            if tls is not None:
                sock = tls.wrap_socket(sock, server_side=True)
            sock.settimeout(20)
            data = b""
            while (request := parse_upgrade(data)) is None:
                more = sock.recv(4096)
                if not more:
                    return
                data += more
            at_the_door()
            sock.sendall(upgrade_response(request) if raw is None else raw)
            if raw is None:
                script(Connection(sock, request))
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()

    def accept() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                sock, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(sock,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield f"{'ws' if tls is None else 'wss'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stopping.set()
        acceptor.join(5)
        listener.close()
        for thread in threads:
            thread.join(5)
