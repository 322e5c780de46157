"""What can happen to an answer on its way: a table of named scenarios.

A scenario turns the reply of a healthy server into steps that a connection plays. Knows nothing
about sockets, nor about what a healthy server says.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fake_ollama_replies import BARE_JSON, JSON, NDJSON, TEXT, Reply
from tests.fake_ollama_rules import encode, too_long

FOREVER = 86_400.0
HTML = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
NESTED = too_long(18_000, 4_096)
CHAT = "/api/chat"


@dataclass(frozen=True)
class Whole:
    """A complete answer that is not streamed."""

    status: int
    content_type: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """Bytes of a streamed body, in one HTTP chunk; the first brings the head of the answer."""

    data: bytes


@dataclass(frozen=True)
class Chunks:
    """Several HTTP chunks in one write."""

    data: tuple[bytes, ...]


@dataclass(frozen=True)
class Raw:
    """Bytes as they are, with no framing at all."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """Silence, in seconds; a ``loading`` one makes /api/ps wait too."""

    seconds: float
    loading: bool = False


@dataclass(frozen=True)
class Cut:
    """The end of the connection, in order (FIN) or not (RST)."""

    reset: bool = False


Step = Whole | Chunk | Chunks | Raw | Pause | Cut


@dataclass(frozen=True)
class Scenario:
    """One row: its name, what happens, how (``play``), and to which path (``"*"``: to all)."""

    name: str
    text: str
    play: Callable[..., Iterable[Step]]
    path: str = CHAT
    overflow: str = "rendered"
    replaces: bool = False


SCENARIOS: dict[str, Scenario] = {}


def add(name: str, text: str, play: Callable[..., Iterable[Step]], **rest: Any) -> None:
    """Add a row; a scenario that ``replaces`` also takes the place of refusals."""
    assert name not in SCENARIOS, name
    SCENARIOS[name] = Scenario(name, text, play, **rest)


def scenario(name: str, **rest: Any) -> Callable:
    """Add the decorated function as a row; its docstring says what happens."""

    def decorate(play: Callable[..., Iterable[Step]]) -> Callable[..., Iterable[Step]]:
        add(name, inspect.getdoc(play).splitlines()[0], play, **rest)
        return play

    return decorate


def healthy(reply: Reply) -> Iterator[Step]:
    """Send the reply as a healthy server does."""
    if not reply.stream:
        yield Pause(reply.delay)
        yield Whole(reply.status, reply.content_type, reply.body())
        return
    for number, line in enumerate(reply.lines):
        if number:
            yield Pause(reply.delay)
        yield Chunk(encode(line) + b"\n")


def changed(reply: Reply, change: Callable[[dict], dict]) -> Iterator[Step]:
    """Send the reply with every object changed."""
    return healthy(replace(reply, lines=(change(line) for line in reply.lines)))


def interrupted(reply: Reply, after: int, steps: Iterable[Step], go_on: bool) -> Iterator[Step]:
    """Send ``after`` lines, then other steps, then the rest if the stream is to ``go_on``."""
    lines = iter(reply.lines)
    yield from healthy(replace(reply, lines=itertools.islice(lines, after)))
    yield from steps
    if go_on:
        yield from healthy(replace(reply, lines=lines))


add("happy", "all goes well", healthy)
add("overflow-native", "a prompt that is too long is refused, HTTP 400", healthy, overflow="native")
add("overflow-old", "a prompt that is too long fills the window", healthy, overflow="old")
add("overflow-rendered", "a prompt that is too long is cut to half the window", healthy)


# Replies that are sent instead of an answer: status, content type, body, what it stands for.

FIXED = {
    "busy": (503, JSON, "server busy, please try again.  maximum pending requests exceeded"),
    "canceled": (499, JSON, "request canceled"),
    "cloud-disabled": (403, JSON, "ollama cloud is disabled: remote inference is unavailable"),
    "context-exceeded": (400, BARE_JSON, NESTED),
    "load-crash": (500, JSON, "llama-server process has terminated: signal: killed: out of memory"),
    "load-memory": (
        500,
        JSON,
        "model requires more system memory (41.3 GiB) than is available (7.6 GiB)",
    ),
    "load-stalled": (500, JSON, "timed out waiting for llama-server to start - "),
    "load-missing": (404, JSON, 'model "llama3.2" not found, try pulling it first'),
    "rate-limited": (429, JSON, "you have reached your hourly usage limit"),
    "runner-dead": (
        500,
        JSON,
        "model runner has unexpectedly stopped, this may be due to resource limitations or an "
        "internal error, check ollama server logs for details",
    ),
    "unauthorized": (
        401,
        JSON,
        {"error": "unauthorized", "signin_url": "https://ollama.com/connect?name=a&key=b"},
    ),
    "bad-gateway": (502, TEXT, b"dial tcp: lookup ollama.com: no such host"),
    "empty-200": (200, NDJSON, b""),
    "empty-500": (500, "", b""),
    "error-list": (500, JSON, b'["no","object"]'),
    "error-number": (500, JSON, b"42"),
    "error-string": (500, JSON, b'"no object"'),
    "forbidden": (403, "", b""),
    "html-200": (200, "text/html", HTML),
    "html-502": (502, "text/html", HTML),
    "not-found-text": (404, TEXT, b"404 page not found"),
}


def fixed(reply: Reply, *, status: int, content_type: str, body: bytes) -> Iterator[Step]:
    yield Whole(status, content_type, body)


for _name, (_status, _type, _body) in FIXED.items():
    if not isinstance(_body, bytes):
        _body = encode(_body if isinstance(_body, dict) else {"error": _body})
    _shown = _body[:60].decode() or "nothing"
    add(
        _name,
        f"HTTP {_status}: {' '.join(_shown.split())}",
        functools.partial(fixed, status=_status, content_type=_type, body=_body),
        replaces=True,
    )
