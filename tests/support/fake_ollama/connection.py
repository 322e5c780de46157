"""One TCP connection of the stand-in server: reads requests, records them, plays steps.

Bytes are written as Go's HTTP server writes them. Knows nothing about what the steps are for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, BinaryIO

from tests.support.fake_ollama.replies import NDJSON
from tests.support.fake_ollama.scenarios import Chunk, Cut, Framed, Pause, Raw, Step, Whole
from tests.support.listening import Listening

LONGEST_LINE = 65_536
LONGEST_SHORT_BODY = 2_048
STREAM_END = b"0\r\n\r\n"
CHUNKED = {"Transfer-Encoding": "chunked"}


@dataclass
class Recorded:
    """One request as it came in, and what became of it.

    Attributes:
        headers: By lower-case name.
        json: The body, parsed, or None.
        connection: The number of the TCP connection, from 1; the same for one that is reused.
        received_at: When the request was complete, by ``time.monotonic()``.
        answered: Whether every byte of the reply was handed to the network.
        disconnected_at: When it was noticed that the client had gone before the end of the reply,
            by ``time.monotonic()``, or None.
        kept: For a chat, the messages that were left after truncation, or None.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    json: Any
    connection: int
    received_at: float = field(default_factory=time.monotonic)
    answered: bool = False
    disconnected_at: float | None = None
    kept: list[dict] | None = None


class Gone(Exception):
    """The other side of the connection is not there any more, or the server was stopped."""


class Hangup(Exception):
    """The connection is to be dropped now."""


def read_request(file: BinaryIO, connection: int) -> Recorded | None:
    """Return the next request of a connection, or None at its end.

    Raises:
        ValueError: What came is no HTTP request.
        OSError: The connection broke.
    """
    first = file.readline(LONGEST_LINE)
    if not first:
        return None
    method, path, version = first.decode("latin-1").split()
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    try:
        fields = http.client.parse_headers(file)
    except http.client.HTTPException as exc:
        raise ValueError(str(exc)) from exc
    headers: dict[str, str] = {}
    for name, value in fields.items():
        known = headers.get(name.lower())
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = read_chunks(file)
    else:
        body = file.read(int(headers.get("content-length", "0")))
    try:
        parsed = json.loads(body) if body else None
    except ValueError:
        parsed = None
    return Recorded(method, path, headers, body, parsed, connection)


def read_chunks(file: BinaryIO) -> bytes:
    """Return a request's chunked body."""
    body = b""
    while size := int(file.readline(LONGEST_LINE).split(b";")[0], 16):
        body += file.read(size)
        file.readline(LONGEST_LINE)
    while file.readline(LONGEST_LINE) not in (b"\r\n", b"\n", b""):
        pass
    return body


def head(status: int, content_type: str, more: dict[str, str]) -> bytes:
    """Return the status line and the headers, in Go's order."""
    reason = HTTPStatus(status).phrase if status in set(HTTPStatus) else f"status code {status}"
    rows = [f"HTTP/1.1 {status} {reason}"]
    rows += [f"Content-Type: {content_type}"] if content_type else []
    rows += [f"Date: {formatdate(usegmt=True)}"]
    rows += [f"{name}: {value}" for name, value in more.items()]
    return ("\r\n".join(rows) + "\r\n\r\n").encode("latin-1")


class Connection(socketserver.BaseRequestHandler):
    """A client's connection, in a thread of its own; ``server.fake`` decides what happens."""

    request: socket.socket

    def handle(self) -> None:
        self.fake = self.server.fake
        self.number = self.fake.next_connection()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.request.makefile("rb") as file, contextlib.suppress(OSError, Gone, Hangup):
            while self.serve_one(file):
                pass

    def serve_one(self, file: BinaryIO) -> bool:
        """Answer the next request; whether the connection can be used again."""
        try:
            seen = read_request(file, self.number)
        except ValueError:
            text = b"400 Bad Request"
            more = {"Connection": "close"}
            self.request.sendall(head(400, "text/plain; charset=utf-8", more) + text)
            return False
        if seen is None:
            return False
        steps, self.limit, self.reset = self.fake.steps_for(seen)
        self.seen, self.sent, self.begun = seen, 0, False
        last = seen.headers.get("connection", "").lower() == "close"
        self.closing = {"Connection": "close"} if last else {}
        with contextlib.closing(steps):
            self.play(steps)
        return not last

    def play(self, steps: Iterable[Step]) -> None:
        """Do what a scenario says; a stream that was begun is ended when the steps are over."""
        for step in steps:
            if isinstance(step, Pause):
                self.watch(step.seconds)
            elif isinstance(step, Whole):
                self.send_whole(step)
            elif isinstance(step, Chunk):
                self.send_chunk(step.data)
            elif isinstance(step, Framed):
                self.send((b"" if self.begun else self.stream_head()) + step.data)
            elif isinstance(step, Raw):
                self.send(step.data)
            elif isinstance(step, Cut):
                self.hang_up(step.reset or self.reset)
        self.finish_stream()

    def stream_head(self) -> bytes:
        self.begun = True
        return head(200, NDJSON, CHUNKED | self.closing)

    def send_chunk(self, data: bytes) -> None:
        start = b"" if self.begun else self.stream_head()
        if data:
            self.send_body(start + b"%x\r\n" % len(data), data, b"\r\n")
        else:
            self.send(start)

    def send_whole(self, step: Whole) -> None:
        # Go knows the length of what fits its buffer; a longer body goes out as one chunk.
        short = len(step.body) <= LONGEST_SHORT_BODY and not step.flushed
        frame = {"Content-Length": str(len(step.body))} if short else dict(CHUNKED)
        before = head(step.status, step.content_type, step.headers | frame | self.closing)
        after = b"" if short else b"\r\n" + STREAM_END
        self.seen.answered = True
        if self.seen.method == "HEAD":
            return self.send(before)
        if not short:
            before += b"%x\r\n" % len(step.body)
        if step.upto is not None:
            return self.send(before + step.body[: step.upto])
        return self.send_body(before, step.body, after)

    def finish_stream(self) -> None:
        # A client that has read the last line may go without waiting for the last chunk.
        self.seen.answered = True
        if self.begun:
            self.request.sendall(STREAM_END)

    def send_body(self, before: bytes, data: bytes, after: bytes) -> None:
        """Write a part of the body, or only its beginning where the connection is to be cut."""
        if self.limit is not None and self.sent + len(data) >= self.limit:
            self.send(before + data[: self.limit - self.sent])
            self.hang_up(self.reset)
        self.send(before + data + after)
        self.sent += len(data)

    def send(self, data: bytes) -> None:
        self.watch(0)
        try:
            self.request.sendall(data)
        except OSError as exc:
            raise self.gone() from exc

    def hang_up(self, reset: bool) -> None:
        self.seen.answered = False
        if reset:
            linger = struct.pack("ii", 1, 0)
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        raise Hangup

    def watch(self, seconds: float) -> None:
        """Wait for so long, and notice at once when the client goes.

        Raises:
            Gone: It went, or the server was stopped.
        """
        end = time.monotonic() + seconds
        while True:
            left = max(end - time.monotonic(), 0.0)
            self.request.settimeout(left)
            try:
                data = self.request.recv(1, socket.MSG_PEEK)
            except (BlockingIOError, TimeoutError):
                return
            except OSError:
                data = b""
            finally:
                self.request.settimeout(None)
            if not data:
                raise self.gone()
            if not left:
                return
            time.sleep(min(left, 0.005))

    def gone(self) -> Gone:
        if not self.fake.stopping:
            self.seen.disconnected_at = self.seen.disconnected_at or time.monotonic()
            self.seen.answered = False
        return Gone()


class Server(Listening):
    """The listening socket and the connections that are open."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, fake: Any) -> None:
        self.fake = fake
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Connection)

    def process_request(self, request: socket.socket, address: Any) -> None:
        self.open.add(request)
        super().process_request(request, address)

    def shutdown_request(self, request: socket.socket) -> None:
        # No shutdown before the close: a reset has to be the only thing that goes out.
        self.close_request(request)
        self.open.discard(request)

    def drop_connections(self) -> None:
        """Break every open connection and wait until their threads have let go of them."""
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + 5.0
        while self.open and time.monotonic() < end:
            time.sleep(0.001)
