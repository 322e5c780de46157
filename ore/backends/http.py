"""The bytes below a client: how many are accepted, whom TLS trusts, and a clock for blocked reads.

Knows nothing about HTTP libraries or about what the bytes say.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loading ssl takes as long as the rest of a turn's imports: only for https
    import ssl

CONNECT_SECONDS = 5.0
"""How long a connection may take to come about."""
LINE_LIMIT = 1 << 20
"""The most bytes of one line, or of one event, of a stream."""
REPLY_LIMIT = 16 << 20
"""The most bytes of a body that is not a stream, and of the text that a stream brings."""
REFUSAL_LIMIT = 64 << 10
"""The most bytes that are read of the body of a refusal."""


class TooLarge(Exception):
    """More bytes than are accepted: ``what`` was larger than ``limit``."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit


def tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities and ``certifi``'s.

    Where ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` is set, what it names is trusted instead.

    Raises:
        OSError: A file that the environment names can't be used.
    """
    import ssl

    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        try:
            import certifi
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context


def whole_body(chunks: Iterable[bytes]) -> bytes:
    """Return a body in one piece; bytes that are not UTF-8 become U+FFFD.

    Raises:
        TooLarge: It is larger than ``REPLY_LIMIT``.
    """
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > REPLY_LIMIT:
            raise TooLarge("an answer", REPLY_LIMIT)
    return body.decode("utf-8", "replace").encode("utf-8")


def first_bytes(chunks: Iterable[bytes]) -> bytes:
    """Return a body's first ``REFUSAL_LIMIT`` bytes and read no more than that needs."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= REFUSAL_LIMIT:
            break
    return bytes(body[:REFUSAL_LIMIT])


class Watchdog:
    """Ends what is blocked on a socket once ``seconds`` have passed, from a thread of its own.

    A timeout of a socket bounds one read; a peer that sends a byte now and then never meets it.
    With None nothing is watched and no thread is started.

    Attributes:
        seconds: How long it waits; 0 where nothing is watched.
        fired: Whether the time is over.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self.fired = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._fire)
            self._timer.daemon = True
            self._timer.start()

    def watch(self, connection: socket.socket | None) -> None:
        """Name the socket to end; one that comes too late is ended at once."""
        with self._lock:
            self._socket = connection
            if self.fired:
                self._shut_down()

    def stop(self) -> None:
        """Watch no longer. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._socket = None

    def _fire(self) -> None:
        with self._lock:
            self.fired = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is None:
            return
        try:
            # Not the method of an SSLSocket: that one pulls its state from under the reader.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:  # closed already
            pass
