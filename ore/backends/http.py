"""One request below its protocol: how much is read, how long is waited, whom TLS trusts."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from socket import SOCK_STREAM, gaierror, getaddrinfo
from typing import TYPE_CHECKING, Any

from ore.files import read_file
from ore.files.in_time import OutOfTime, in_time
from ore.files.neutral import neutralise
from ore.files.strictjson import holds_more_than
from ore.reasoner.stop import STOP, shut, woken_by

if TYPE_CHECKING:  # loading ssl takes as long as the rest of a turn's imports: only for https
    import ssl

_NO_END = 366 * 24 * 3600.0
"""Seconds: how long a name is looked up where there is no deadline. Meanwhile signals are heard."""

CONNECT_SECONDS = 5.0
"""How long a connection may take to come about."""
LINE_LIMIT = 1 << 20
"""The most bytes of one line, or of one event, of a stream."""
REPLY_LIMIT = 16 << 20
"""The most bytes of a body that is not a stream, and of the text that a stream brings."""
MOST_VALUES = 1 << 21
"""The most values of a body that is not a stream: each takes far more memory than it has bytes."""
REFUSAL_LIMIT = 64 << 10
"""The most bytes that are read of the body of a refusal."""
HEAD_LIMIT = 256 << 10
"""The most bytes before the body of an answer, with what a server says before its head (HTTP's 1xx)."""
_SENT_AT_ONCE = 16 << 10
"""The bytes of a request between two looks at the deadline: a server may read them slowly."""
MOST_SHOWN = 400
"""How many characters of a server's own words go into a message."""

SPENT: ContextVar[float] = ContextVar("SPENT", default=0.0)
"""How many seconds of a turn's deadline are gone before it is asked: for tools, or its model."""

_HEAD: ContextVar[list[int] | None] = ContextVar("HEAD", default=None)
"""How many bytes of the head that is waited for may still come; None where none is."""


class TooLarge(Exception):
    """More bytes than are accepted: ``what`` was larger than ``limit``."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} is larger than {limit:,} bytes")
        self.what = what
        self.limit = limit


HOSTILE = (AttributeError, LookupError, OSError, RecursionError, TooLarge, TypeError, ValueError)
"""What a client's package raises over hostile or missing bytes, besides errors of its own."""


class Deadline:
    """When a request must be over: in so many seconds from now, or with None, never.

    A timeout bounds one read, and a peer that sends a byte now and then never meets it; this bounds
    all of them together.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds: float = seconds or 0.0
        self._end = None if seconds is None else time.monotonic() + seconds

    @classmethod
    def of_turn(cls, seconds: float | None) -> Deadline:
        """Return the deadline of a turn, of which ``SPENT`` is gone."""
        made = cls(seconds)
        if made._end is not None:
            made._end -= SPENT.get()
        return made

    @property
    def passed(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and time.monotonic() >= self._end

    def wait(self, timeout: float | None) -> float | None:
        """Return how long one read may take, at most ``timeout``; ``TimeoutError`` if it is over."""
        if self._end is None:
            return timeout
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError("the time is over")
        return left if timeout is None else min(left, timeout)

    def within(self, seconds: float, more: float = 0.0) -> Deadline:
        """Return a deadline in so many seconds from now, and no later than ``more`` after this one."""
        left = seconds if self._end is None else self._end + more - time.monotonic()
        return Deadline(max(0.0, min(seconds, left)))


def bound(stream: Any, current: Callable[[], Deadline | None]) -> None:
    """Let a connection's reads and writes last no longer than a deadline, and wake up when told to.

    It is that of the request that the thread is about, else, while an answer is read in parts,
    ``stream.deadline``; what an earlier answer has left there counts for no request.
    ``stream.has_heard`` tells whether it was read since it was last written to; while
    ``stream.is_of_proxy``, it is part of connecting, and no longer silent than that. ``stream`` is a
    ``NetworkStream`` (https://www.encode.io/httpcore/network-backends/).
    """
    if stream is None or "read" in vars(stream):
        return
    read, write, start_tls = stream.read, stream.write, stream.start_tls

    def wait(timeout: float | None) -> float | None:
        deadline = current() or stream.deadline
        if stream.is_of_proxy:
            timeout = min(CONNECT_SECONDS, timeout or CONNECT_SECONDS)
        return timeout if deadline is None else deadline.wait(timeout)

    def woken(act: Callable[..., Any], what: Any, timeout: float | None) -> Any:
        timeout = _in_all(stream, wait(timeout))
        if STOP.get() is None:
            return act(what, timeout)
        with woken_by(lambda: shut(stream.get_extra_info("socket"))):
            return act(what, timeout)

    def bounded_read(max_bytes: int, timeout: float | None = None) -> Any:
        stream.has_heard = True
        return _counted(woken(read, max_bytes, timeout))

    def bounded_write(buffer: bytes, timeout: float | None = None) -> None:
        stream.has_heard = False
        for begin in range(0, len(buffer), _SENT_AT_ONCE):
            woken(write, buffer[begin : begin + _SENT_AT_ONCE], timeout)

    def bounded_tls(ssl_context: Any, server_hostname: Any = None, timeout: Any = None) -> Any:
        return start_tls(ssl_context, server_hostname, _in_all(stream, timeout))

    stream.deadline, stream.is_of_proxy = None, False
    stream.read, stream.write, stream.start_tls = bounded_read, bounded_write, bounded_tls


def _in_all(stream: Any, timeout: float | None) -> float | None:
    """Return ``timeout``, and let TLS within TLS, which comes in pieces, take no longer in all."""
    socket, ends = stream.get_extra_info("socket"), Deadline(timeout)

    def recv(size: int) -> Any:
        socket.settimeout(ends.wait(None))
        return type(socket).recv(socket, size)

    if hasattr(socket, "do_handshake"):
        socket.recv = recv
    return timeout


def trace_of(deadline: Callable[[], Deadline | None]) -> Callable[[str, dict[str, Any]], None]:
    """Return what binds a connection when it is new, before the server has said anything on it.

    For the HTTP library's extension ``trace`` (https://www.encode.io/httpcore/extensions/#trace).
    """

    def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith("connect_tcp.started"):  # info is what it is called with
            _share(info, deadline() or Deadline(None))
        if event.endswith("start_tls.started"):
            info["timeout"] = (deadline() or Deadline(None)).wait(info["timeout"])
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            bound(info["return_value"], deadline)
        if "setup_socks5_connection." in event:
            _ask_proxy(info)
        if "receive_response_headers." in event:
            _HEAD.set([HEAD_LIMIT] if event.endswith(".started") else None)

    return trace


def _ask_proxy(info: dict[str, Any]) -> None:
    """Bound what is said to a SOCKS proxy before it lets us through.

    Raises:
        ConnectionError: It said nothing, or what no such proxy says, which its library does not expect.
    """
    if stream := info.get("stream", info.get("return_value")):
        stream.is_of_proxy = "stream" in info  # else it is done
    error = info.get("exception")
    if isinstance(error, Exception) and type(error).__name__ != "ProxyError":
        raise ConnectionError("the proxy does not answer as a SOCKS proxy does") from error


def _counted(data: Any) -> Any:
    """Return bytes that came; ``TooLarge`` is raised where they belong to a head without an end."""
    left = _HEAD.get()
    if left is not None:
        left[0] -= len(data)
        if left[0] < 0:
            raise TooLarge("a head", HEAD_LIMIT)
    return data


def _share(call: dict[str, Any], deadline: Deadline) -> None:
    """Let the addresses of a name, which are tried one after another, take as long as one may.

    Raises:
        TimeoutError: The deadline has passed, or will have before the name is looked up.
    """
    found = _addresses(call["host"], call["port"], deadline.wait(None))
    timeout = deadline.wait(call["timeout"])
    call["timeout"] = timeout if timeout is None else timeout / max(1, found)


def _addresses(host: str, port: int, seconds: float | None) -> int:
    """Return how many addresses a name has; a look-up can't be ended, so it may be left behind.

    Raises:
        TimeoutError: It took longer than ``seconds``; None waits.
        ConnectionError: There is no such name.
    """

    def look_up() -> int:
        try:
            return len(getaddrinfo(host, port, type=SOCK_STREAM))
        except gaierror as exc:
            raise ConnectionError(exc.strerror) from exc
        except (OSError, UnicodeError):  # connecting says what is wrong with it
            return 0

    try:
        return in_time(None if _is_here(host) else seconds or _NO_END, look_up)
    except OutOfTime as exc:
        raise TimeoutError("the name of the server was not found in time") from exc


def _is_here(host: str) -> bool:
    """Whether nobody else is asked for the address of a host: it is one, or this machine's name."""
    try:
        return host == "localhost" or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def whole_body(chunks: Iterable[bytes]) -> bytes:
    """Return a body of JSON in one piece.

    Raises:
        TooLarge: It is larger than ``REPLY_LIMIT``.
        ValueError: It holds more than ``MOST_VALUES``.
    """
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > REPLY_LIMIT:
            raise TooLarge("an answer", REPLY_LIMIT)
    if holds_more_than(body, MOST_VALUES):
        raise ValueError(f"its JSON has more than {MOST_VALUES:,} values")
    return bytes(body)


def first_bytes(chunks: Iterable[bytes]) -> bytes:
    """Return a body's first ``REFUSAL_LIMIT`` bytes and read no more than that needs."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= REFUSAL_LIMIT:
            break
    return bytes(body[:REFUSAL_LIMIT])


def tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities and ``certifi``'s.

    Where ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` is set, what it names is trusted instead.
    """
    import ssl

    files, folder = [os.environ.get("SSL_CERT_FILE")], os.environ.get("SSL_CERT_DIR")
    if not any((*files, folder)):
        system = ssl.get_default_verify_paths()
        files, folder = [system.cafile], system.capath
        with suppress(ImportError):
            import certifi

            files.append(certifi.where())
    # In the place of a folder that is not set, OpenSSL would take the system's own.
    context = ssl.create_default_context(capath=folder or os.devnull)
    for each in filter(None, files):
        with suppress(OSError, ValueError):  # what can't be read vouches for nobody
            data, _ = in_time(CONNECT_SECONDS, lambda: read_file(each, 4 << 20, pipe=True))
            # Not from the file: OpenSSL crashes where the process ends while a thread reads it.
            context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
    return context


def shorten(text: str) -> str:
    """Return others' words on one line, without punctuation at their end, cut to ``MOST_SHOWN``.

    No character in it does anything to a terminal: a program may print a message as it is. What we
    say to do stands between backticks, so that theirs become apostrophes.
    """
    words = " ".join(text[: 2 * MOST_SHOWN].split()).replace("`", "'").rstrip(" .:-")
    line, left = neutralise(words), text[2 * MOST_SHOWN :].strip()
    return f"{line[:MOST_SHOWN]}…" if left or len(line) > MOST_SHOWN else line


def in_words(error: BaseException) -> str:
    """Return what an exception says happened, without the names of things inside Python."""
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    if isinstance(error, RecursionError):
        return "its JSON is nested too deep"
    if isinstance(error, (AttributeError, KeyError, TypeError)):
        return "its JSON is not of the right shape"
    text = re.sub(r"bytearray\(b(.*)\)|^\[Errno -?\d+\] ", r"\1", str(error)[: 3 * MOST_SHOWN])
    if "_SWITCH_UPGRADE" in text:  # h11's words for status 101
        text = "it switches to another protocol"
    elif "int_max_str_digits" in text:  # Python's advice is for programmers
        text = "its JSON has an integer of too many digits"
    text = shorten(text)
    return text[:1].lower() + text[1:] if text else type(error).__name__
