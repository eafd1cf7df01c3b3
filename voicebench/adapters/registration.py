"""Announces a call to an agent that takes no strangers, before the call is made (TV11)."""

import contextlib
import http.client
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

import gevent
import gevent.socket
import gevent.ssl

from voicebench.adapters.base import AdapterError
from voicebench.adapters.stream import network_failure
from voicebench.version import __version__


def checked_register_url(adapter: str, url: object) -> str:
    """The option ``register_url``. Raises AdapterError."""
    try:
        parts = urlsplit(str(url))
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise AdapterError(f"{adapter}: option register_url: must look like http://host:port/path or https://...")
    return str(url)


def register(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> None:
    """POST ``body``, and wait for an answer of 2xx. Raises AdapterError, its text begins with "registration ".

    Head and body leave in one piece: some agents take a request with a single read.
    """
    timeout = gevent.Timeout(timeout_s)
    timeout.start()
    try:
        status = _post(urlsplit(url), body, headers)
    except gevent.Timeout as error:
        if error is not timeout:
            raise
        raise AdapterError(f"registration timeout: no answer within {timeout_s:g} s") from None
    except http.client.HTTPException:
        raise AdapterError("registration failed: the answer is not HTTP") from None
    except OSError as error:
        raise AdapterError(f"registration failed: {network_failure(error)}") from None
    finally:
        timeout.close()
    if not 200 <= status < 300:
        raise AdapterError(f"registration refused: HTTP {status}")


def _post(url: SplitResult, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of the answer."""
    assert url.hostname is not None
    secure = url.scheme == "https"
    fields = {
        "Host": url.netloc.rpartition("@")[2],
        "User-Agent": f"voicebench/{__version__}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    head = f"POST {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    sock = gevent.socket.create_connection((url.hostname, url.port or (443 if secure else 80)))
    try:
        if secure:
            sock = gevent.ssl.create_default_context().wrap_socket(sock, server_hostname=url.hostname)
        sock.sendall(head.encode("latin-1") + b"\r\n" + body)
        with contextlib.closing(http.client.HTTPResponse(sock, method="POST")) as answer:  # or it holds the socket
            answer.begin()
            return answer.status
    finally:
        sock.close()
