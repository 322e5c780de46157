"""Connections that break, answers that are unusual, old servers. A part of the scenarios.

Importing this module adds its rows to the table. Knows nothing about sockets.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

from tests.support.fake_ollama.replies import BARE_JSON, JSON, Reply
from tests.support.fake_ollama.rules import encode
from tests.support.fake_ollama.scenarios import (
    Chunk,
    Cut,
    Raw,
    Step,
    Whole,
    add,
    changed,
    healthy,
    scenario,
)

MISSING_MANIFEST = "pull model manifest: file does not exist"


# Connections that break.


@scenario("cut")
def cut(reply: Reply, after: int = 1, by_reset: bool = False) -> Iterator[Step]:
    """the connection is closed after some lines (1), without a last chunk"""
    if reply.stream:
        yield from healthy(replace(reply, lines=itertools.islice(reply.lines, after)))
    else:
        body = reply.body()
        yield Whole(reply.status, reply.content_type, body, upto=len(body) // 2)
    yield Cut(by_reset)


add("rst", "as cut, by a reset", functools.partial(cut, by_reset=True))


@scenario("closed", replaces=True)
def closed(reply: Reply) -> Iterator[Step]:
    """the connection is closed before anything is answered"""
    yield Cut()


@scenario("closed-rst", replaces=True)
def closed_by_reset(reply: Reply) -> Iterator[Step]:
    """as closed, by a reset"""
    yield Cut(reset=True)


@scenario("half-head", replaces=True)
def half_head(reply: Reply) -> Iterator[Step]:
    """the connection is closed within the headers"""
    yield Raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    yield Cut()


@scenario("not-http", replaces=True)
def not_http(reply: Reply) -> Iterator[Step]:
    """another kind of server: it greets like an SSH server"""
    yield Raw(b"SSH-2.0-OpenSSH_9.6\r\n")
    yield Cut()


@scenario("endless-head", replaces=True)
def endless_head(reply: Reply, limit: int = 64 << 20) -> Iterator[Step]:
    """headers without an end (or 64 MiB of them)"""
    yield Raw(b"HTTP/1.1 200 OK\r\n")
    row = b"X-Row: " + b"x" * 1000 + b"\r\n"
    for _ in range(limit // (len(row) * 64)):
        yield Raw(row * 64)
    yield Cut()


@scenario("endless-line")
def endless_line(reply: Reply, limit: int = 256 << 20) -> Iterator[Step]:
    """a line without an end (or 256 MiB of it)"""
    yield Chunk(b'{"model":"m","message":{"role":"assistant","content":"')
    for _ in range(limit >> 16):
        yield Chunk(b"a" * (1 << 16))


@scenario("endless-stream")
def endless_stream(reply: Reply, limit: int = 1_000_000_000) -> Iterator[Step]:
    """the same word over and over (or a billion times), and no last line"""
    line = next(iter(reply.lines))
    data = encode(line) + b"\n"
    for _ in range(limit):
        yield Chunk(data)


@scenario("raw", replaces=True)
def raw(reply: Reply, raw: bytes = b"") -> Iterator[Step]:
    """the bytes given as raw are all that comes, head included; then the connection is closed"""
    yield Raw(raw)
    yield Cut()


# Answers that are unusual, and right.


@scenario("final-content")
def final_content(reply: Reply, text: str = " Indeed.") -> Iterator[Step]:
    """the last line has content too"""

    def change(line: dict) -> dict:
        if not line.get("done"):
            return line
        message = line["message"]
        return line | {"message": message | {"content": message["content"] + text}}

    return changed(reply, change)


@scenario("no-metrics")
def no_metrics(reply: Reply) -> Iterator[Step]:
    """the last line has no counts, no durations and no reason"""
    kept = ("model", "created_at", "message", "done")
    return changed(reply, lambda line: {key: line[key] for key in kept})


@scenario("odd-metrics")
def odd_metrics(reply: Reply) -> Iterator[Step]:
    """the last line's counts and durations are texts, negative, fractions, null"""
    odd = {"prompt_eval_count": "26", "prompt_eval_duration": None}
    odd |= {"eval_count": -7, "eval_duration": 0.5}
    return changed(reply, lambda line: line | odd if line.get("done") else line)


@scenario("huge-metrics")
def huge_metrics(reply: Reply) -> Iterator[Step]:
    """the last line has an integer beyond 2^53"""
    huge = {"load_duration": 2**60}
    return changed(reply, lambda line: line | huge if line.get("done") else line)


@scenario("tool-calls")
def tool_calls(reply: Reply) -> Iterator[Step]:
    """the last line carries a tool call"""
    function = {"index": 0, "name": "get_weather", "arguments": {"city": "Paris"}}
    calls = [{"id": "call_ab12cd34", "function": function}]

    def change(line: dict) -> dict:
        return line | {"message": line["message"] | {"tool_calls": calls}} if line["done"] else line

    return changed(reply, change)


@scenario("thinking")
def thinking(reply: Reply, text: str = "Let me see.") -> Iterator[Step]:
    """the first line is a thought, asked for or not"""

    def change(line: dict, number: int) -> list[dict]:
        thought = {"role": "assistant", "content": "", "thinking": text}
        if not reply.stream:
            return [line | {"message": line["message"] | {"thinking": text}}]
        first = {"model": line["model"], "created_at": line["created_at"]}
        before = [first | {"message": thought, "done": False}] if number == 0 else []
        return [*before, line]

    lines = (new for number, line in enumerate(reply.lines) for new in change(line, number))
    return healthy(replace(reply, lines=lines))


@scenario("after-done")
def after_done(reply: Reply) -> Iterator[Step]:
    """a line follows the last one"""
    last = {}
    for line in reply.lines:
        last = line
        if reply.stream:
            yield Chunk(encode(line) + b"\n")
    message = {"role": "assistant", "content": " And more."}
    if reply.stream:
        yield Chunk(encode(last | {"message": message, "done": False}) + b"\n")
    else:
        yield Whole(200, JSON, encode(last) + b"\n" + encode(last))


# Other endpoints.


@scenario("tags-empty", path="/api/tags")
def tags_empty(reply: Reply) -> Iterator[Step]:
    """no model is installed, to judge by /api/tags"""
    yield Whole(200, JSON, b'{"models":[]}')


@scenario("tags-null", path="/api/tags")
def tags_null(reply: Reply) -> Iterator[Step]:
    """/api/tags has null for a list"""
    yield Whole(200, JSON, b'{"models":null}')


@scenario("show-old", path="/api/show")
def show_old(reply: Reply) -> Iterator[Step]:
    """/api/show of an old server: no capabilities"""
    return changed(reply, lambda body: {key: body[key] for key in body if key != "capabilities"})


@scenario("show-bare", path="/api/show")
def show_bare(reply: Reply) -> Iterator[Step]:
    """/api/show of a very old server: no model_info either"""
    left_out = ("capabilities", "model_info")
    return changed(reply, lambda body: {key: body[key] for key in body if key not in left_out})


@scenario("pull-missing", path="/api/pull", replaces=True)
def pull_missing(reply: Reply) -> Iterator[Step]:
    """there is no such model to pull: HTTP 200 and an error line"""
    error = {"error": MISSING_MANIFEST}
    if not reply.stream:
        yield Whole(500, BARE_JSON, encode(error))
        return
    yield Chunk(encode({"status": "pulling manifest"}) + b"\n")
    yield Chunk(encode(error) + b"\n")
