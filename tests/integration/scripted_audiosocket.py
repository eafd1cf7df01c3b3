"""An AudioSocket agent for tests that does exactly what a test tells it to, and a place to register calls."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from voicebench.wire.audiosocket import Audio, Hangup, Message, Parser, ProtocolError, encode


class Connection:
    """The agent's end of one call, in a thread of its own, blocking."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received: list[Message] = []
        self._parser = Parser()

    def receive(self) -> list[Message]:
        """What came next; empty once the caller is gone, or has said so."""
        try:
            while Hangup() not in self.received and (data := self.sock.recv(65536)):
                messages = self._parser.feed(data)
                self.received += messages
                if messages:
                    return messages
        except (OSError, ProtocolError):
            pass
        return []

    def hear(self, seconds: float) -> None:
        """Take audio until so much of it has come, or the caller is gone."""
        while seconds > 0:
            messages = self.receive()
            if not messages:
                return
            seconds -= sum(len(m.pcm) / (2 * m.rate) for m in messages if isinstance(m, Audio))

    def hear_out(self) -> None:
        """Take what comes until the caller is gone."""
        while self.receive():
            pass

    def speak(self, pcm: bytes, frame_bytes: int = 320, kind: int = 0x10) -> None:
        """Send audio in frames, all at once: however busy the machine, it sounds without a hole."""
        starts = range(0, len(pcm), frame_bytes)
        self.sock.sendall(b"".join(encode(kind, pcm[start : start + frame_bytes]) for start in starts))


@contextlib.contextmanager
def serve(script: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run ``script`` with every connection, each in a thread; gives the port. The socket is closed behind it."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def run(sock: socket.socket) -> None:
        sock.settimeout(20)
        with sock, contextlib.suppress(OSError):
            script(sock)

    def accept() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                sock, _ = listener.accept()
                threads.append(threading.Thread(target=run, args=(sock,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        stopping.set()
        acceptor.join(5)
        listener.close()
        for thread in threads:
            thread.join(5)


@contextlib.contextmanager
def agent(script: Callable[[Connection], None]) -> Iterator[str]:
    """Serve ``script`` to every caller; gives the URL."""
    with serve(lambda sock: script(Connection(sock))) as port:
        yield f"audiosocket://127.0.0.1:{port}"


@contextlib.contextmanager
def registrar(answer: bytes | None, seen: list[bytes]) -> Iterator[str]:
    """Takes each request with one ``recv``, as some agents do, and answers so; with None never."""

    def script(sock: socket.socket) -> None:
        seen.append(sock.recv(65536))
        if answer is None:
            sock.recv(1)  # until the caller gives up
        else:
            sock.sendall(answer)

    with serve(script) as port:
        yield f"http://127.0.0.1:{port}/register"
