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

from tests.support.fake_ollama.replies import JSON, Reply
from tests.support.fake_ollama.rules import encode

FOREVER = 86_400.0
CHAT = "/api/chat"


@dataclass(frozen=True)
class Whole:
    """An answer that is not streamed; only its first ``upto`` bytes are sent, if that is set.

    With ``flushed`` its length is not sent.
    """

    status: int
    content_type: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    upto: int | None = None
    flushed: bool = False


@dataclass(frozen=True)
class Chunk:
    """Bytes of a streamed body, in one HTTP chunk; the first brings the head, and may be empty."""

    data: bytes


@dataclass(frozen=True)
class Framed:
    """HTTP chunks that are framed already, in one write."""

    data: bytes


@dataclass(frozen=True)
class Raw:
    """Bytes as they are, with no framing at all."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """Silence, in seconds."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The end of the connection, in order (FIN) or not (RST)."""

    reset: bool = False


Step = Whole | Chunk | Framed | Raw | Pause | Cut


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


def framed(data: bytes) -> bytes:
    """Return bytes as one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def healthy(reply: Reply) -> Iterator[Step]:
    """Send the reply as a healthy server does."""
    if not reply.stream:
        yield Pause(reply.delay)
        yield Whole(reply.status, reply.content_type, reply.body(), flushed=reply.flushed)
        return
    for number, line in enumerate(reply.lines):
        if number:
            yield Pause(reply.delay)
        yield Chunk(encode(line) + b"\n")


def changed(reply: Reply, change: Callable[[dict], dict]) -> Iterator[Step]:
    """Send the reply with every object changed."""
    return healthy(replace(reply, lines=(change(line) for line in reply.lines)))


def line_bytes(reply: Reply) -> list[bytes]:
    """Return the lines of a stream; the body of an answer that is not streamed counts as one."""
    if not reply.stream:
        return [reply.body()]
    return [encode(line) + b"\n" for line in reply.lines]


add("happy", "all goes well", healthy)
add("overflow-native", "a prompt that is too long is refused, HTTP 400", healthy, overflow="native")
add("overflow-old", "a prompt that is too long fills the window", healthy, overflow="old")
add("overflow-rendered", "a prompt that is too long is cut to half the window", healthy)


# Answers that are slow.


@scenario("slow")
def slow(reply: Reply, seconds: float = 0.05) -> Iterator[Step]:
    """seconds (0.05) pass between two lines"""
    return healthy(replace(reply, delay=seconds))


@scenario("slow-start")
def slow_start(reply: Reply, seconds: float = 0.5) -> Iterator[Step]:
    """nothing at all for some seconds (0.5), then all goes well"""
    yield Pause(seconds)
    yield from healthy(reply)


@scenario("loading")
def loading(reply: Reply, seconds: float = 0.5) -> Iterator[Step]:
    """as slow-start, and /api/ps waits for the load"""

    def change(line: dict) -> dict:
        keys = [key for key in ("total_duration", "load_duration") if key in line]
        return line | {key: line[key] + int(seconds * 1e9) for key in keys}

    lines = iter(reply.lines)
    with reply.loading():
        yield Pause(seconds)
        first = next(lines)
    yield from changed(replace(reply, lines=itertools.chain([first], lines)), change)


@scenario("stall")
def stall(reply: Reply, after: int = 1, seconds: float = FOREVER) -> Iterator[Step]:
    """after some lines (1) the server falls silent, for good or for some seconds"""
    lines = iter(reply.lines)
    if reply.stream:
        yield from healthy(replace(reply, lines=itertools.islice(lines, after)))
    yield Pause(seconds)
    yield from healthy(replace(reply, lines=lines))


@scenario("drip")
def drip(reply: Reply, seconds: float = 0.1) -> Iterator[Step]:
    """one byte of the body every 0.1 seconds"""
    for byte in b"".join(line_bytes(reply)):
        yield Chunk(bytes([byte]))
        yield Pause(seconds)


@scenario("silent", replaces=True)
def silent(reply: Reply) -> Iterator[Step]:
    """the connection is accepted and nothing is ever answered"""
    yield Pause(FOREVER)


# Lines that are cut up in another way; what they say is the same.


@scenario("split")
def split(reply: Reply, size: int = 1) -> Iterator[Step]:
    """HTTP chunks of some bytes (1), so lines and characters are split"""
    data = b"".join(line_bytes(reply))
    for start in range(0, len(data), size):
        yield Chunk(data[start : start + size])


@scenario("joined")
def joined(reply: Reply, lines: int = 3) -> Iterator[Step]:
    """several lines (3) in every HTTP chunk"""
    found = line_bytes(reply)
    for start in range(0, len(found), lines):
        yield Chunk(b"".join(found[start : start + lines]))


@scenario("one-write")
def one_write(reply: Reply) -> Iterator[Step]:
    """the whole stream in a single write"""
    yield Framed(b"".join(framed(line) for line in line_bytes(reply)))


@scenario("prerendered")
def prerendered(reply: Reply, prerendered: int = 20_000, text: str = " tok") -> Iterator[Step]:
    """very many lines (20000) from memory, as fast as can be"""
    last = list(reply.lines)[-1]
    if reply.stream:
        yield Framed(render(last["model"], prerendered, text))
        return
    message = last["message"] | {"content": text * prerendered}
    yield Whole(200, JSON, encode(last | {"message": message, "eval_count": prerendered}))


@functools.lru_cache(maxsize=8)
def render(model: str, lines: int, text: str) -> bytes:
    """Return a framed stream of equal lines and its last one."""
    start = {"model": model, "created_at": "2026-08-21T18:48:22.123456789Z"}
    message = {"role": "assistant", "content": text}
    line = encode(start | {"message": message, "done": False}) + b"\n"
    times = {"total_duration": 10**9, "prompt_eval_count": 26, "prompt_eval_duration": 10**8}
    end = {"done": True, "done_reason": "stop"} | times
    end |= {"eval_count": lines, "eval_duration": 9 * 10**8}
    last = encode(start | {"message": message | {"content": ""}} | end) + b"\n"
    return framed(line) * lines + framed(last)
