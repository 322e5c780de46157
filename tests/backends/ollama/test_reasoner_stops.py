"""How a turn ends early: left by its caller, interrupted, silent or too slow; the server is told."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from ore.errors import BackendError, BackendTimeoutError
from ore.glass.limits import notices_of
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE, ROOT, until
from tests.test_reasoner import HELLO, STREAMED, WHOLE, answer, both_ways


@pytest.mark.slow
@both_ways
def test_a_timeout_is_about_silence_and_not_about_the_whole_answer(streams):
    with FakeOllama(delay=0.25, reply="one two three four five six seven") as server:
        response = answer(AyaReasoner("llama3.2", server.url, timeout=1.0), HELLO, streams)
    assert response.content == "one two three four five six seven"


@both_ways
@pytest.mark.parametrize(
    "scenario, options",
    [
        ("silent", {}),
        ("stall", {}),
        ("drip", {}),
        ("endless-stream", {}),
        ("slow-start", {"seconds": 5}),
        ("happy", {"delay": 0.05, "reply": "word " * 100}),
    ],
)
def test_a_deadline_ends_a_turn_whatever_the_server_does(scenario, options, streams):
    with FakeOllama(scenario=scenario, **options) as server:
        with pytest.raises(BackendError) as caught:
            answer(AyaReasoner("llama3.2", server.url, deadline=0.1), HELLO, streams)
        if scenario != "endless-stream" or streams:
            assert type(caught.value) is BackendTimeoutError
            assert "was not complete after 0.1 s" in str(caught.value)
        # On a busy machine the time may be over before the turn is sent.
        until(lambda: all(chat.disconnected_at is not None for chat in server.chats))


@pytest.mark.slow
@pytest.mark.parametrize("think", [None, True])
def test_what_is_asked_before_a_turn_counts_for_its_deadline(think):
    messages = [Message("system", "Be brief."), Message("system", "Rhyme."), *HELLO]
    with FakeOllama(wait=1.2, on="*", capabilities=("completion", "thinking")) as server:
        reasoner = AyaReasoner("llama3.2", server.url, deadline=1.4, think=think)
        started = time.monotonic()
        with pytest.raises(BackendTimeoutError):
            reasoner.reason(messages)
        assert (
            time.monotonic() - started < 2.3
        )  # if it did not count, two questions would take 2.4 s


@pytest.mark.slow
def test_a_deadline_that_is_over_before_the_turn_is_named_as_the_turn_s():
    messages = [Message("system", "Be brief."), Message("system", "Rhyme."), *HELLO]
    with FakeOllama(wait=0.5, on="*", capabilities=("completion", "thinking")) as server:
        reasoner = AyaReasoner("llama3.2", server.url, deadline=0.2, think=True)
        with pytest.raises(BackendTimeoutError, match="was not complete after 0.2 s"):
            reasoner.reason(messages)


@pytest.mark.slow
@both_ways
def test_a_drip_of_headers_meets_the_deadline_too(streams):
    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while True:
                connection.sendall(b"x")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(BackendTimeoutError):
            answer(AyaReasoner("llama3.2", host, deadline=0.3, timeout=0.2), HELLO, streams)
        assert time.monotonic() - started > 0.25


@pytest.mark.slow
def test_a_timeout_bounds_silence_and_not_the_turn():
    with FakeOllama(reply="a b c d e f g h", delay=0.1) as server:
        reasoner = AyaReasoner("llama3.2", server.url, timeout=0.6)
        started = time.monotonic()
        assert answer(reasoner, HELLO, STREAMED).content == "a b c d e f g h"
        assert time.monotonic() - started > 0.6


def test_a_turn_within_its_deadline_leaves_no_thread_behind():
    before = threading.active_count()
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url, deadline=60, timeout=30)
        for streams in (STREAMED, WHOLE):
            assert answer(reasoner, HELLO, streams).content == "Paris."
    until(lambda: threading.active_count() <= before)


INTERRUPTED = """
import sys
from ore.reasoner import AyaReasoner
from ore.types import Message

reasoner = AyaReasoner("llama3.2", sys.argv[1])
for way in ("streamed", "whole") * 6:
    try:
        if way == "streamed":
            for chunk in reasoner.stream_reason([Message("user", "Hello?")]):
                pass
        else:
            reasoner.reason([Message("user", "Hello?")])
    except KeyboardInterrupt:
        print(way, flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_in_a_blocked_read_stops_the_server_within_100_ms():
    scenarios = [name for name in ("silent", "stall", "drip") for _ in ("streamed", "whole")] * 2
    taken = []
    with FakeOllama(scenario=scenarios) as server:
        command = [sys.executable, "-W", "error", "-c", INTERRUPTED, server.url]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            try:
                for number in range(len(scenarios)):
                    until(lambda: len(server.chats) > number)
                    time.sleep(0.1)
                    sent = time.monotonic()
                    child.send_signal(signal.SIGINT)
                    assert child.stdout.readline() == ("streamed\n", "whole\n")[number % 2]
                    until(lambda: server.chats[number].disconnected_at is not None)
                    taken.append(server.chats[number].disconnected_at - sent)
                child.wait(PATIENCE)
            finally:
                child.kill()
        assert child.returncode == 0
    # Of the two times of each, one may have met a busy machine.
    assert all(min(pair) < 0.1 for pair in zip(taken[:6], taken[6:]))


@pytest.mark.parametrize("left_by", [None, KeyboardInterrupt, RuntimeError])
def test_leaving_a_stream_stops_the_server_within_100_ms(left_by):
    def leave():
        raise left_by

    taken = []
    with FakeOllama(reply="one two three " * 500, delay=0.02) as server:
        for number in range(3):
            stream = AyaReasoner("llama3.2", server.url).stream_reason(HELLO)
            next(stream)
            left = time.monotonic()
            if left_by is None:
                stream.close()
            else:
                with pytest.raises(left_by), closing(stream):
                    leave()
            until(lambda: server.chats[number].disconnected_at is not None)
            taken.append(server.chats[number].disconnected_at - left)
            assert server.chats[number].answered is False
    assert min(taken) < 0.1  # the others may have met a busy machine


def test_an_exception_thrown_into_a_stream_comes_out_as_it_is():
    with FakeOllama(reply="one two three", delay=0.02) as server:
        stream = AyaReasoner("llama3.2", server.url).stream_reason(HELLO)
        next(stream)
        with pytest.raises(ValueError, match="mine"):
            stream.throw(ValueError("mine"))
        until(lambda: server.chats[0].disconnected_at is not None)


def test_a_stream_that_is_never_begun_sends_nothing():
    with FakeOllama() as server:
        AyaReasoner("llama3.2", server.url).stream_reason(HELLO).close()
        assert server.requests == []


def test_that_the_model_asked_for_tools_is_told():
    for scenario, asks in (("tool-calls", True), ("happy", None)):
        with FakeOllama(scenario=scenario, reply="") as server:
            response = AyaReasoner("llama3.2", server.url).reason(HELLO)
        assert response.content == "" and response.metadata.get("asked_for_tools") is asks
        [said] = notices_of(response)
        assert ("asked for tools" in said) == bool(asks)


def press(frame, event, arg):
    """Press Ctrl-C while pydantic writes a request out, as a profiler of the turn."""
    if event == "call" and frame.f_code.co_name == "serialize_sequence_via_list":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)


@both_ways
def test_ctrl_c_while_the_request_is_written_out_is_ctrl_c_and_nothing_is_sent(streams):
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        answer(reasoner, HELLO, streams)
        sys.setprofile(press)
        try:
            with pytest.raises(KeyboardInterrupt):
                answer(reasoner, HELLO, streams)
        finally:
            sys.setprofile(None)
        assert len(server.chats) == 1


@pytest.mark.filterwarnings("error")
def test_the_connections_of_an_interrupted_turn_are_closed_with_their_reasoner():
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        reasoner.reason(HELLO)
        sys.setprofile(press)
        with pytest.raises(KeyboardInterrupt):
            reasoner.reason(HELLO)
        reasoner.reason(HELLO)
        reasoner.close()
        gc.collect()
