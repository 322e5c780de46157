"""How much is read of a body, and how long a connection is waited for."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest

from ore.backends.http import (
    MOST_VALUES,
    REFUSAL_LIMIT,
    REPLY_LIMIT,
    Deadline,
    TooLarge,
    bound,
    first_bytes,
    whole_body,
)


def test_a_body_is_bounded():
    assert whole_body([b'{"a":', b'"\xff"}']) == b'{"a":"\xff"}'
    with pytest.raises(TooLarge, match="an answer"):
        whole_body(b"x" * 65_536 for _ in range(REPLY_LIMIT))


def test_no_more_of_a_refusal_is_read_than_is_shown():
    chunks = iter([b"x" * 65_000] * 9)
    assert first_bytes(chunks) == b"x" * REFUSAL_LIMIT
    assert len(list(chunks)) == 7


def test_without_a_deadline_a_read_waits_as_long_as_its_own_timeout():
    assert Deadline(None).wait(None) is None
    assert Deadline(None).wait(3.0) == 3.0
    assert not Deadline(None).passed


def test_a_deadline_is_the_most_that_one_read_waits():
    deadline = Deadline(60.0)
    assert deadline.wait(3.0) == 3.0
    assert 50.0 < deadline.wait(None) <= 60.0
    assert 50.0 < deadline.wait(100.0) <= 60.0


def test_after_its_deadline_nothing_is_read():
    deadline = Deadline(0.001)
    time.sleep(0.002)
    assert deadline.passed
    with pytest.raises(TimeoutError):
        deadline.wait(None)


class Stream:
    """A connection's stream, as the HTTP libraries have them."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def read(self, size, timeout=None):
        self.connection.settimeout(timeout)
        return self.connection.recv(size)

    def write(self, data, timeout=None):
        self.connection.settimeout(timeout)
        self.connection.sendall(data)


def test_all_reads_and_writes_of_a_connection_end_at_the_deadline_of_its_request():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, request = Stream(ours), SimpleNamespace(deadline=Deadline(0.3))
        bound(stream, lambda: request.deadline)
        bound(stream, lambda: Deadline(None))  # it is bound already
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            while True:  # a byte now and then, so that no single read is silent for long
                theirs.send(b"x")
                stream.read(1)
        assert time.monotonic() - started > 0.2
        with pytest.raises(TimeoutError):
            stream.write(b"x")
        request.deadline = Deadline(None)  # the next request on the same connection
        theirs.send(b"y")
        assert b"y" in stream.read(100)


def test_what_an_answer_in_parts_has_left_on_a_connection_counts_for_no_request():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, requests = Stream(ours), [None]
        bound(stream, lambda: requests[-1])
        stream.deadline = Deadline(0.0)
        with pytest.raises(TimeoutError):
            stream.write(b"x")
        requests.append(Deadline(None))
        stream.write(b"x")
        assert theirs.recv(1) == b"x"


def test_a_body_of_countless_values_is_refused_before_it_is_parsed():
    assert whole_body([b"[" + b"1," * MOST_VALUES + b"1]"])
    with pytest.raises(ValueError, match="^its JSON has more than 1,048,576 values$"):
        whole_body([b"[" + b"[]," * (MOST_VALUES + 1) + b"1]"])
