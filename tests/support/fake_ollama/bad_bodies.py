"""Bodies that are not an answer: errors, junk lines, other content. A part of the scenarios.

Importing this module adds its rows to the table. Knows nothing about sockets.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace

from tests.support.fake_ollama.replies import BARE_JSON, JSON, NDJSON, TEXT, Reply
from tests.support.fake_ollama.rules import encode, too_long
from tests.support.fake_ollama.scenarios import (
    Chunk,
    Cut,
    Step,
    Whole,
    add,
    changed,
    healthy,
    scenario,
)

KEPT = ("model", "created_at", "message")
HTML = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"
NESTED = too_long(18_000, 4_096)
CRASH = "an error was encountered while running the model: "

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
        BARE_JSON,
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
    # What the runner refuses comes in the place of a stream, if there was to be one.
    flushed = reply.stream and content_type == BARE_JSON
    kind = JSON if content_type == BARE_JSON and not reply.stream else content_type
    yield Whole(status, kind, body, flushed=flushed)


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


# A stream that goes wrong after some lines. The bytes that come then; whether the rest follows.
# A request that is not to be streamed gets these bytes as its whole body.

INTERRUPTIONS = {
    "half-line": (
        "the stream ends in the middle of a line",
        b'{"model":"m","created_at":"20',
        False,
    ),
    "bad-json": ("a line that is not JSON", b"{'model': m}\n", True),
    "blank-line": ("an empty line", b"\n", True),
    "null": ("a line that says null", b"null\n", True),
    "list-line": ("a line that is a list", b"[1]\n", True),
    "no-message": ("a line without message", b'{"model":"m","done":false}\n', True),
    "null-message": (
        "a line whose message is null",
        b'{"model":"m","message":null,"done":false}\n',
        True,
    ),
    "null-content": (
        "a line whose content is null",
        b'{"model":"m","message":{"role":"assistant","content":null},"done":false}\n',
        True,
    ),
    "number-content": (
        "a line whose content is a number",
        b'{"model":"m","message":{"role":"assistant","content":42},"done":false}\n',
        True,
    ),
    "nel": (
        "a line with a raw U+0085 in its content, as Go writes it",
        '{"model":"m","message":{"role":"assistant","content":"a\x85b"},"done":false}\n'.encode(),
        True,
    ),
    "bad-utf8": (
        "a line with bytes that are not UTF-8",
        b'{"model":"m","message":{"role":"assistant","content":"a\xff\xc3b"},"done":false}\n',
        True,
    ),
    "surrogate": (
        "a line with half a surrogate pair, escaped",
        b'{"model":"m","message":{"role":"assistant","content":"a\\ud800b"},"done":false}\n',
        True,
    ),
    "deep-json": ("a line nested 100,000 deep", b"[" * 100_000 + b"]" * 100_000 + b"\n", True),
    "huge-number": (
        "a line with a number of 5,000 digits",
        b'{"model":"m","message":{"role":"assistant","content":""},"done":false,"eval_count":'
        + b"9" * 5_000
        + b"}\n",
        True,
    ),
    "error-line": ("a line that is an error", {"error": CRASH + "unexpected EOF"}, False),
    "error-line-nested": ("a line that is an error whose text is JSON", {"error": NESTED}, False),
    "error-line-number": ("a line that is an error whose text is a number", {"error": "42"}, False),
    "error-line-object": ("a line whose error is an object", {"error": {"code": 500}}, False),
    "error-line-unterminated": (
        "an error line, then no last chunk",
        {"error": CRASH + "EOF"},
        None,
    ),
}


def interrupted(
    reply: Reply, after: int = 1, *, data: bytes, go_on: bool | None, status: int
) -> Iterator[Step]:
    """Send ``after`` lines, then ``data``, then the rest, the end, or (None) no end at all."""
    if not reply.stream:
        yield Whole(status, JSON, data.rstrip() if data.strip() else data)
        return
    lines = iter(reply.lines)
    yield from healthy(replace(reply, lines=itertools.islice(lines, after)))
    yield Chunk(data)
    if go_on is None:
        yield Cut()
    if go_on:
        yield from healthy(replace(reply, lines=lines))


for _name, (_text, _data, _go_on) in INTERRUPTIONS.items():
    _status = 500 if isinstance(_data, dict) else 200
    _bytes = _data if isinstance(_data, bytes) else encode(_data) + b"\n"
    add(
        _name,
        _text,
        functools.partial(interrupted, data=_bytes, go_on=_go_on, status=_status),
    )


@scenario("eof")
def eof(reply: Reply, after: int = 1) -> Iterator[Step]:
    """the stream ends in order after some lines (1), without its last one"""
    if reply.stream:
        yield from interrupted(reply, after, data=b"", go_on=False, status=200)
    else:
        yield from changed(reply, lambda line: {key: line[key] for key in KEPT} | {"done": False})


# Bodies that a test brings along, and others.


@scenario("body")
def body(reply: Reply, body: bytes | list[bytes] = b"") -> Iterator[Step]:
    """the bytes given as body (or a list, for chunks) are the body of a good answer"""
    chunks = [body] if isinstance(body, bytes) else body
    if reply.stream:
        yield from map(Chunk, chunks or [b""])
    else:
        yield Whole(200, JSON, b"".join(chunks))


@scenario("redirect", replaces=True)
def redirect(reply: Reply, to: str = "http://127.0.0.1:1/") -> Iterator[Step]:
    """HTTP 307 to another address"""
    yield Whole(307, TEXT, b"", {"Location": to})


@scenario("bad-gzip", replaces=True)
def bad_gzip(reply: Reply) -> Iterator[Step]:
    """the body is said to be gzip and is not"""
    yield Whole(200, NDJSON, b"not gzip at all", {"Content-Encoding": "gzip"})
