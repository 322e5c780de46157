"""Whole, bounded, mended lines; and the clock that ends a blocked read."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.ollama.wire import (
    LINE_LIMIT,
    REFUSAL_LIMIT,
    REPLY_LIMIT,
    Lines,
    TooLarge,
    Watchdog,
    first_bytes,
    whole_body,
)


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:])]


def read_as_httpx_does(chunks) -> list[str]:
    """What the client's own line splitting makes of it."""
    text = b"".join(Lines(chunks)).decode("utf-8")
    return text.splitlines()


CONTENTS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\x85\u2028\u2029\u201c"))
)


@given(CONTENTS, st.lists(st.integers(min_value=0)), st.booleans())
def test_lines_split_anywhere_come_whole_and_verbatim(contents, cuts, ends):
    lines = [json.dumps({"content": text}, ensure_ascii=False) for text in contents]
    data = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    seen = [json.loads(line)["content"] for line in read_as_httpx_does(split_at(data, cuts))]
    assert seen == contents


@given(CONTENTS, st.lists(st.integers(min_value=0)))
def test_every_piece_but_a_torn_end_is_whole_lines(contents, cuts):
    data = "".join(f"{json.dumps(text)}\n" for text in contents).encode() + b'{"torn'
    lines = Lines(split_at(data, cuts))
    pieces = list(lines)
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert pieces[-1] == lines.piece == b'{"torn'
    assert lines.whole is False


@pytest.mark.parametrize(
    "sent, come",
    [
        (b'{"a":1}\n\n{"b":2}\n', b'{"a":1}\n{"b":2}\n'),
        (b'\n{"a":1}\n', b'{"a":1}\n'),
        (b'{"a":1}\r\n\r\n', b'{"a":1}\r\n'),
        (b'{"a":1}\n \t\n', b'{"a":1}\n'),
        (b"\n\n\n", b""),
        (b'[1]\n{"a":1}\n', b'[1]\n{"a":1}\n'),
        ('{"a":"\x85"}\n'.encode(), b'{"a":"\\u0085"}\n'),
        ('{"a":"\u2028\u2029"}\n'.encode(), b'{"a":"\\u2028\\u2029"}\n'),
        ('{"a":"\u201cé€"}\n'.encode(), '{"a":"\u201cé€"}\n'.encode()),
        (b'{"a":"\xc2"}\n', b'{"a":"\xc2"}\n'),
    ],
)
def test_what_a_line_splitter_trips_over_is_mended(sent, come):
    assert b"".join(Lines([sent])) == come
    assert b"".join(Lines([sent[i : i + 1] for i in range(len(sent))])) == come


def test_a_line_ends_the_stream_when_it_is_larger_than_the_limit():
    longest = b'"' + b"x" * (LINE_LIMIT - 2) + b'"'
    assert list(Lines([longest, b"\n"])) == [longest + b"\n"]

    def endless():
        for _ in range(1_000):
            yield b"x" * 65_536
        raise AssertionError("it was read on")

    with pytest.raises(TooLarge) as caught:
        list(Lines(endless()))
    assert (caught.value.what, caught.value.limit) == ("a line", LINE_LIMIT)


def test_a_body_is_bounded_and_always_utf_8():
    assert whole_body([b'{"a":', b'"\xff"}']) == '{"a":"\ufffd"}'.encode()
    with pytest.raises(TooLarge, match="an answer"):
        whole_body(b"x" * 65_536 for _ in range(REPLY_LIMIT))


def test_no_more_of_a_refusal_is_read_than_is_shown():
    chunks = iter([b"x" * 65_000] * 9)
    assert first_bytes(chunks) == b"x" * REFUSAL_LIMIT
    assert len(list(chunks)) == 7


def test_the_watchdog_wakes_a_blocked_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchdog = Watchdog(0.1)
        watchdog.watch(ours)
        started = time.monotonic()
        assert ours.recv(1) == b""
        assert 0.05 < time.monotonic() - started < 1
        assert watchdog.fired


def test_a_socket_that_comes_too_late_is_ended_at_once():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchdog = Watchdog(0.01)
        wait_for(lambda: watchdog.fired)
        watchdog.watch(ours)
        assert ours.recv(1) == b""


def test_a_stopped_watchdog_touches_nothing_and_leaves_no_thread():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = threading.active_count()
        watchdog = Watchdog(0.05)
        watchdog.watch(ours)
        watchdog.stop()
        watchdog.stop()
        time.sleep(0.1)
        theirs.send(b"x")
        assert ours.recv(1) == b"x"
        assert threading.active_count() == before


def test_a_closed_socket_does_not_trouble_the_watchdog():
    ours, theirs = socket.socketpair()
    theirs.close()
    watchdog = Watchdog(0.01)
    watchdog.watch(ours)
    ours.close()
    wait_for(lambda: watchdog.fired)


def test_without_a_limit_there_is_no_thread():
    before = threading.active_count()
    Watchdog(None).stop()
    assert threading.active_count() == before


def wait_for(condition, seconds: float = 2.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
