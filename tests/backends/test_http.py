"""How much is read of a body, and the clock that ends a blocked read."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from ore.backends.http import (
    REFUSAL_LIMIT,
    REPLY_LIMIT,
    TooLarge,
    Watchdog,
    first_bytes,
    whole_body,
)
from tests.support.process import until


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
        assert time.monotonic() - started > 0.05
        assert watchdog.fired


def test_a_socket_that_comes_too_late_is_ended_at_once():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watchdog = Watchdog(0.01)
        until(lambda: watchdog.fired)
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
    until(lambda: watchdog.fired)


def test_without_a_limit_there_is_no_thread():
    before = threading.active_count()
    Watchdog(None).stop()
    assert threading.active_count() == before
