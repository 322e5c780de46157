"""The bytes below a client: whole lines, bounded, mended; and a clock that ends a blocked read.

Knows nothing about HTTP libraries or about what the lines say.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator

CONNECT_SECONDS = 5.0
"""How long a connection may take to come about."""
LINE_LIMIT = 1 << 20
"""The most bytes of one line of a stream."""
REPLY_LIMIT = 16 << 20
"""The most bytes of a body that is not a stream, and of the text that a stream brings."""
REFUSAL_LIMIT = 64 << 10
"""The most bytes that are read of the body of a refusal."""

# U+0085, U+2028 and U+2029 may stand unescaped in JSON, and text splitters take them for line ends.
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


class TooLarge(Exception):
    """More bytes than are accepted: ``what`` was larger than ``limit``."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit


class Lines:
    """Cuts a stream of bytes where its lines end, so that each piece is one or more whole lines.

    Blank lines are dropped, and characters that end a line for a text splitter, but not in JSON,
    are escaped.

    Attributes:
        piece: The lines that came last; evidence when the reader chokes on them.
        whole: Whether ``piece`` ended with a line end; False only for a stream's torn end.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.piece = b""
        self.whole = True

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces.

        Raises:
            TooLarge: A line is larger than ``LINE_LIMIT``.
        """
        begun = bytearray()
        for chunk in self._chunks:
            if not begun and _is_plain_line(chunk):
                self.piece = chunk
                yield chunk
                continue
            head, found, tail = chunk.rpartition(b"\n")
            if not found:
                begun += chunk
                if len(begun) > LINE_LIMIT:
                    raise TooLarge("a line", LINE_LIMIT)
                continue
            self.piece, begun = b"%b%b\n" % (begun, head), bytearray(tail)
            yield mended(self.piece)
        if begun:
            self.piece, self.whole = bytes(begun), False
            yield mended(self.piece)


def _is_plain_line(chunk: bytes) -> bool:
    """Tell whether a chunk is what a server usually sends: one line, with nothing to mend."""
    return chunk.find(b"\n") == len(chunk) - 1 and chunk.isascii() and chunk.startswith(b"{")


def mended(lines: bytes) -> bytes:
    """Return lines of JSON without blank ones and without unescaped Unicode line ends."""
    if not lines.isascii():
        lines = _LINE_ENDS.sub(_escaped, lines)
    if lines.count(b"\n{") + lines.startswith(b"{") != lines.count(b"\n"):
        lines = b"".join([line for line in lines.splitlines(keepends=True) if line.strip()])
    return lines


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode("utf-8"))


def tls_context():
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
        fired: Whether the time is over.
    """

    def __init__(self, seconds: float | None) -> None:
        self.fired = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = None
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
