"""What the engine sends, read from a socket: whole, in pieces, cut, damaged, late."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from contextlib import closing, contextmanager

import pytest

from ore.backends.engine_failures import refusal_error, timeout_error, too_large_error
from ore.backends.engine_wire import parsed
from ore.backends.http import Deadline, TooLarge
from ore.backends.turn_errors import TurnRefusedError
from ore.errors import BackendError, ContextTruncatedError, IncompleteAnswerError

ONE = b'data: {"n":1}\n\n'
TWO = 'data: {"n":"é"}\n\n'.encode()
DONE = b"data: [DONE]\n\n"
EVENTS = [{"n": 1}, {"n": "é"}]
TOO_LONG = b'{"error":{"code":400,"message":"x","n_prompt_tokens":5031,"n_ctx":4096}}'


@contextmanager
def answering(*pieces: bytes, ended: bool = True):
    """A response from a server that sends pieces as chunks, and then the end, or nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for piece in pieces:
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                if over.wait(0.01):  # nobody reads on
                    return
            if ended:
                connection.sendall(b"0\r\n\r\n")
            over.wait(10 if ended is None else 0)

    thread = threading.Thread(target=serve)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", listener.getsockname()[1])
    with closing(listener), closing(connection):
        connection.request("GET", "/")
        try:
            yield connection.getresponse(), connection.sock
        finally:
            over.set()
            thread.join()


def events(response, sock, silence=None, end=None):
    deadline = Deadline(None if end is None else end - time.monotonic())
    return list(parsed(response, lambda: sock.settimeout(deadline.wait(silence))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        [ONE + TWO + DONE],
        [ONE, TWO, DONE],
        [bytes([byte]) for byte in ONE + TWO + DONE],
        [b": a comment\n\n", ONE, b"\n\n", TWO, b"id: 5\n", DONE, b"data: never read\n\n"],
    ],
    ids=["at once", "one by one", "byte by byte", "with comments"],
)
def test_events_are_the_same_however_they_arrive(pieces):
    with answering(*pieces) as (response, sock):
        assert events(response, sock) == EVENTS


@pytest.mark.invariant
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "cut"])
def test_a_stream_without_its_end_mark_is_never_complete(ended):
    whole = ONE + TWO + DONE
    for length in range(0, len(whole) - 3, 7):
        with answering(whole[:length] or b": ", ended=ended) as (response, sock):
            with pytest.raises((IncompleteAnswerError, http.client.HTTPException)):
                events(response, sock)


@pytest.mark.parametrize(
    "piece, error, said",
    [
        (b'data: {"error":{"message":"no memory"}}\n\n', BackendError, "no memory"),
        (b'error: {"message":"no memory"}\n\n', BackendError, "no memory"),
        (b"error: {broken\n\n", ValueError, None),
        (b"data: {broken\n\n", ValueError, None),
    ],
)
def test_an_error_in_mid_stream_is_an_error(piece, error, said):
    with answering(ONE, piece, DONE) as (response, sock), pytest.raises(error, match=said):
        events(response, sock)


@pytest.mark.slow
@pytest.mark.parametrize(
    "silence, after, said", [(0.2, None, "silent for 0.2 seconds"), (None, 0.2, "deadline")]
)
def test_a_stream_that_stalls_ends_in_time(silence, after, said):
    with answering(ONE, ended=None) as (response, sock):
        deadline = Deadline(after)
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            list(parsed(response, lambda: sock.settimeout(deadline.wait(silence))))
        assert time.monotonic() - started > 0.1
        assert said in str(timeout_error(silence, deadline))


@pytest.mark.parametrize("pieces", [[], [ONE]], ids=["nothing", "an event"])
def test_a_stream_without_a_mark_that_breaks_off_is_not_whole(pieces):
    last = b'data: {"stop":true}\n\n'
    with answering(*pieces, last) as (response, _):
        assert [*parsed(response, lambda: None, is_marked=False)][-1] == {"stop": True}
    with answering(*pieces, ended=False) as (response, _):
        with pytest.raises(http.client.HTTPException):
            list(parsed(response, lambda: None, is_marked=False))


def test_where_both_bounds_are_set_the_one_that_was_met_is_named():
    assert "deadline" in str(timeout_error(30.0, Deadline(0)))
    assert "silent for 30 seconds" in str(timeout_error(30.0, Deadline(60)))


@pytest.mark.slow
def test_a_drip_that_is_never_silent_still_meets_the_deadline():
    with answering(*[b": drip\n"] * 200) as (response, sock):
        with pytest.raises(TimeoutError):
            events(response, sock, silence=5, end=time.monotonic() + 0.3)


@pytest.mark.parametrize(
    "body, kind, said",
    [
        (TOO_LONG, ContextTruncatedError, "has 5031 tokens and the model's window holds 4096"),
        (TOO_LONG, ContextTruncatedError, "it, or raise the window with `options['num_ctx']`."),
        (
            b'{"error":{"message":"bad template"}}',
            TurnRefusedError,
            "refused the turn: bad template.",
        ),
        (
            b'{"error":{"message":"failed to parse grammar"}}',
            TurnRefusedError,
            "failed to parse grammar. Simplify the schema, or use another model.",
        ),
        (
            b'{"error":{"message":"Failed to initialize samplers: failed to parse grammar"}}',
            TurnRefusedError,
            "failed to parse grammar. Simplify the schema, or use another model.",
        ),
        (
            b'{"error":{"message":"generation failed: JSON schema error at #: unsupported $ref #"}}',
            TurnRefusedError,
            "unsupported $ref #. Simplify the schema, or use another model.",
        ),
        (
            b'{"error":{"message":"At least one of min_value or max_value must be set"}}',
            TurnRefusedError,
            "must be set. Simplify the schema, or use another model.",
        ),
        (
            b'{"error":{"message":"JSON schema conversion failed:\\nInvalid pattern ^\\\\$: trailing backslash"}}',
            TurnRefusedError,
            "trailing backslash. Simplify the schema, or use another model.",
        ),
        (
            b'{"error":{"message":"Field \'top_k\': Value must be less"}}',
            TurnRefusedError,
            "Value must be less. Change the option, or use another model.",
        ),
        (b'{"error":"text"}', TurnRefusedError, "refused the turn."),
        (b"[]", TurnRefusedError, "refused the turn."),
        (b"\xff", TurnRefusedError, "refused the turn."),
        (b"", TurnRefusedError, "refused the turn."),
    ],
)
def test_an_error_reply_becomes_a_sentence(body, kind, said):
    error = refusal_error(body)
    assert type(error) is kind and said in str(error)


def test_a_line_without_an_end_is_read_no_further_than_its_limit():
    with answering(b"data: " + b"x" * (2 << 20)) as (response, sock), pytest.raises(TooLarge):
        events(response, sock)


@pytest.mark.parametrize(
    "what, said",
    [("an answer", "The answer .*ask for less"), ("an event", "token .* another model")],
)
def test_what_is_too_large_is_said_with_a_step_that_helps(what, said):
    with pytest.raises(BackendError, match=said):
        raise too_large_error(TooLarge(what, 1 << 20))
