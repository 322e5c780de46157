"""How much is read of a body, and how long a connection is waited for."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from ore.backends import http
from ore.backends.http import (
    HEAD_LIMIT,
    MOST_VALUES,
    REFUSAL_LIMIT,
    REPLY_LIMIT,
    SPENT,
    Deadline,
    TooLarge,
    bound,
    first_bytes,
    trace_of,
    whole_body,
)
from ore.reasoner.stop import STOP, Stop


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

    def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        raise NotImplementedError  # no test here speaks TLS: those of TLS have a real socket

    def get_extra_info(self, info):
        return self.connection

    def read(self, size, timeout=None):
        self.connection.settimeout(timeout)
        return self.connection.recv(size)

    def write(self, data, timeout=None):
        self.connection.settimeout(timeout)
        self.connection.sendall(data)


class PieceByPiece(Stream):
    """Waits anew for each piece that the other side takes, as the HTTP libraries do."""

    def write(self, data, timeout=None):
        while data:
            self.connection.settimeout(timeout)
            data = data[self.connection.send(data) :]


def read_slowly(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed
        while connection.recv(16_384):
            time.sleep(0.01)


@pytest.mark.slow
def test_a_request_that_is_read_slowly_is_sent_no_longer_than_its_deadline():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=read_slowly, args=(theirs,), daemon=True).start()
        stream, deadline = PieceByPiece(ours), Deadline(0.5)
        bound(stream, lambda: deadline)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            stream.write(bytes(16 << 20), None)
        assert time.monotonic() - began < 3.0


@pytest.mark.slow
def test_a_request_that_nobody_reads_is_given_up_when_the_turn_is_stopped():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours, theirs = socket.create_connection(server.getsockname()), server.accept()[0]
    stop, stream = Stop(), Stream(ours)
    with ours, theirs:
        bound(stream, lambda: None)
        before = STOP.set(stop)
        try:
            threading.Timer(0.2, stop.ask).start()
            with pytest.raises(OSError):
                stream.write(bytes(16 << 20))
        finally:
            STOP.reset(before)


def test_a_bound_connection_is_called_as_any_other_is():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = Stream(ours)
        bound(stream, lambda: None)
        stream.write(buffer=b"here", timeout=1.0)  # the libraries name them so, for a SOCKS proxy
        theirs.sendall(b"there")
        assert (theirs.recv(9), stream.read(max_bytes=9)) == (b"here", b"there")


@pytest.mark.slow
def test_a_socks_proxy_that_says_nothing_is_waited_for_as_long_as_a_connection(monkeypatch):
    monkeypatch.setattr(http, "CONNECT_SECONDS", 0.1)
    trace, name = trace_of(lambda: None), "socks.setup_socks5_connection"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = Stream(ours)
        trace("connection.connect_tcp.complete", {"return_value": stream})
        trace(f"{name}.started", {"stream": stream, "host": "else.example"})
        with pytest.raises(TimeoutError):
            stream.read(9)
        trace(f"{name}.complete", {"return_value": stream})
        threading.Timer(0.3, theirs.sendall, [b"there"]).start()
        assert stream.read(9) == b"there"  # a model may take its time


@pytest.mark.parametrize("odd", [AssertionError(), IndexError(), OSError(), Exception("malformed")])
def test_what_the_library_of_socks_does_not_expect_is_a_proxy_that_fails(odd):
    trace = trace_of(lambda: None)
    with pytest.raises(ConnectionError, match="does not answer as a SOCKS proxy does"):
        trace("socks.setup_socks5_connection.failed", {"exception": odd})
    trace("socks.setup_socks5_connection.failed", {"exception": KeyboardInterrupt()})


@pytest.mark.slow
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
    assert whole_body([b"[" + b"1," * (MOST_VALUES - 1) + b"1]"])
    assert whole_body([b'["' + b"[1,{" * MOST_VALUES + b'"]'])
    for part in (b"1," * 60, b"[" * 61 + b"]" * 61 + b","):
        with pytest.raises(ValueError, match="^its JSON has more than 2,097,152 values$"):
            whole_body([b"[" + part * (MOST_VALUES // 60 + 1) + b"1]"])


def connecting(monkeypatch, look_up, deadline, **more):
    """Return with which timeout a connection would be tried, given what looks a name up."""
    monkeypatch.setattr("ore.backends.http.getaddrinfo", look_up)
    call = {"host": "host.test", "port": 80, "timeout": 5.0, **more}
    trace_of(lambda: deadline)("connection.connect_tcp.started", call)
    return call["timeout"]


@pytest.mark.parametrize("addresses, seconds", [(0, 5.0), (1, 5.0), (2, 2.5), (4, 1.25)])
@pytest.mark.parametrize("is_bound, within", [(False, None), (True, None), (True, 600.0)])
def test_all_addresses_of_a_name_take_together_what_a_connection_may(
    monkeypatch, addresses, seconds, is_bound, within
):
    deadline = Deadline(within) if is_bound else None
    assert connecting(monkeypatch, lambda *a, **k: [()] * addresses, deadline) == seconds


def test_all_addresses_of_a_name_end_with_the_deadline(monkeypatch):
    assert connecting(monkeypatch, lambda *a, **k: [(), ()], Deadline(3.0)) <= 1.5
    with pytest.raises(TimeoutError):
        connecting(monkeypatch, lambda *a, **k: [()], Deadline(0.0))


def test_a_name_that_is_not_found_in_time_is_not_waited_for(monkeypatch):
    over = threading.Event()
    with pytest.raises(TimeoutError, match="not found in time"):
        connecting(monkeypatch, lambda *a, **k: [over.wait()], Deadline(0.05))
    over.set()


def test_a_name_of_hexadecimal_letters_is_a_name(monkeypatch):
    over = threading.Event()
    with pytest.raises(TimeoutError, match="not found in time"):
        connecting(monkeypatch, lambda *a, **k: [over.wait(9)], Deadline(0.05), host="cafe.de")
    over.set()


@pytest.mark.parametrize(
    "host, is_here", [("host.test", False), ("::1", True), ("localhost", True)]
)
def test_a_signal_is_heard_while_a_name_is_looked_up(monkeypatch, host, is_here):
    threads = []

    def look_up(*_, **__):
        threads.append(threading.current_thread())
        return [()]

    connecting(monkeypatch, look_up, None, host=host)
    assert (threads == [threading.current_thread()]) is is_here


def test_a_name_that_nobody_knows_is_looked_up_once(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(ConnectionError, match="^Name or service not known$"):
        connecting(monkeypatch, unknown, None)


def test_a_name_that_there_is_not_is_left_to_the_connection(monkeypatch):
    def unknown(*_, **__):
        raise OSError("Name or service not known")

    assert connecting(monkeypatch, unknown, None) == 5.0


def test_a_handshake_ends_with_the_deadline():
    call = {"timeout": 5.0}
    trace_of(lambda: Deadline(3.0))("connection.start_tls.started", call)
    assert call["timeout"] <= 3.0


@pytest.mark.parametrize("whole, part, left", [(None, 1.0, 1.0), (0.0, 1.0, 0.0), (9.0, 1.0, 1.0)])
def test_a_part_of_a_turn_ends_with_the_turn(whole, part, left):
    within = Deadline(whole).within(part)
    assert within.seconds == left and within.passed is (left == 0.0)


def test_what_comes_before_an_answer_is_bounded_and_the_answer_is_not():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream, trace = Stream(ours), trace_of(lambda: None)
        bound(stream, lambda: None)

        def come(size):
            theirs.sendall(b"x" * size)
            stream.read(size)

        trace("http11.receive_response_headers.started", {})
        for _ in range(HEAD_LIMIT >> 12):
            come(1 << 12)
        with pytest.raises(TooLarge, match="a head is larger than 262,144 bytes"):
            come(1)
        trace("http11.receive_response_headers.failed", {})
        for _ in range((HEAD_LIMIT >> 12) + 1):
            come(1 << 12)


def test_the_deadline_of_a_turn_begins_with_its_tools():
    spent = SPENT.set(50.0)
    try:
        assert Deadline.of_turn(60.0).wait(None) <= 10.0 and Deadline.of_turn(60.0).seconds == 60.0
        assert Deadline.of_turn(50.0).passed and not Deadline.of_turn(None).passed
    finally:
        SPENT.reset(spent)
