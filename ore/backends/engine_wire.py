"""The way to the engine's process: a connection to its socket, and the events that it sends there."""

from __future__ import annotations

import errno
import json
import socket
import sys
from collections.abc import Callable, Generator
from http.client import HTTPConnection, HTTPException, HTTPResponse
from struct import unpack
from typing import Any

from ore.backends.engine_failures import refusal_error
from ore.backends.http import LINE_LIMIT, TooLarge

_CHAIN = ("penalties", "top_k", "typ_p", "top_p", "min_p", "temperature")
DRAWN: dict[str, Any] = {"samplers": list(_CHAIN), "mirostat": 0}
"""How tokens are drawn, whatever a model's file says of it: at a temperature of 0 nothing is random."""


class Connection(HTTPConnection):
    """A connection to the engine's Unix socket."""

    def __init__(self, path: str, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._socket_path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)

    def connect(self) -> None:
        """Connect; raises ``OSError``, also where it is another user who listens there.

        A folder of temporary files that is everybody's, without a sticky bit, lets others put a
        folder of theirs in the place of a private one.
        """
        self.sock.connect(self._socket_path)
        if sys.platform == "linux" and _user_at_the_end_of(self.sock) != _this_user():
            raise PermissionError(errno.EPERM, "another user listens there", self._socket_path)


def _this_user() -> int:
    """Return who this process is to the system; what ``fakeroot`` preloads says another user."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        return _user_at_the_end_of(one)


def _user_at_the_end_of(connection: socket.socket) -> int:
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(unpack("iII", said)[1])


def parsed(
    response: HTTPResponse,
    before_read: Callable[[], None],
    longest: int = LINE_LIMIT,
    is_marked: bool = True,
) -> Generator[dict[str, Any]]:
    """Yield the events of a stream of server-sent events, up to its end mark.

    One without a mark ends with an event that says so (``stop``).
    """
    has_stopped = False
    while True:
        before_read()
        line = response.readline(longest)
        if len(line) >= longest:  # the file has a token as long as that
            raise TooLarge("an event", longest)
        if not line and has_stopped and not is_marked:
            return
        if not line.endswith(b"\n"):
            raise HTTPException("the stream has no end")
        field, _, value = line.rstrip(b"\n").partition(b": ")
        if value == b"[DONE]":
            return
        if field in (b"data", b"error"):
            event = json.loads(value)
            if field == b"error" or "error" in event:
                raise refusal_error(value)
            has_stopped = bool(event.get("stop"))
            yield event
