"""One connection to a server: what is asked over it, and when it is left."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from ore.backends.address import Host
from ore.backends.choice import open_backend
from ore.backends.ollama import OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.backends.settings import Settings
from ore.errors import BackendError, BackendTimeoutError
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.backends.ollama.test_ollama_client import REQUEST
from tests.backends.ollama.test_ollama_questions import http, one_answer
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.process import PATIENCE, until


def connections(server: FakeOllama) -> set[int]:
    return {seen.connection for seen in server.requests}


def test_every_question_goes_over_one_connection():
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        for _ in range(2):
            client.names()
            client.version()
            client.show("llama3.2")
            list(client.chat_parts(REQUEST))
            client.ps()
        assert len(server.requests) == 10 and len(connections(server)) == 1
        client.close()
        assert client.names() and len(connections(server)) == 2


@pytest.mark.parametrize("flags, turns", [(["hi"], 1), (["-s", "hi"], 1), (["-c"], 3)])
def test_a_process_has_one_connection_to_the_server(flags, turns):
    with FakeOllama() as server:
        result = run_ore(*flags, "--host", server.url, stdin="a\nb\nc\n", open_backend=open_backend)
        assert result.code == 0 and len(server.chats) == turns
        assert len(connections(server)) == 1


def leads_to(port, thing):
    """Whether a thing is a connection to the port."""
    with suppress(OSError, IndexError):  # one of a pair has an empty name
        return type(thing) is socket.socket and thing.getpeername()[1] == port
    return False


class First:
    """Garbage of a program, whose end is heard before that of what was made later."""

    def __init__(self, ended):
        self.ended, self.sockets = ended, []

    def __del__(self):
        self.ended += [each.fileno() for each in self.sockets]


def test_a_connection_is_closed_before_any_other_garbage_ends():
    """A socket that ends by itself warns of it, which fails the tests of a program."""
    ended = []
    with FakeOllama() as server:
        first, client = First(ended), OllamaClient(Host(server.url))
        client.tags()
        first.sockets += [each for each in gc.get_objects() if leads_to(server.port, each)]
        assert len(first.sockets) == 1
        first.client, client.first = (
            client,
            first,
        )  # as an error's traceback holds what it came from
        del first, client
        gc.collect()
    assert ended == [-1]


AT_ITS_END = """
import atexit, sys
atexit.register(lambda: print(client.version()))
from ore.backends.address import Host
from ore.backends.ollama_client import OllamaClient
client = OllamaClient(Host(sys.argv[1]))
client.version()
"""


@pytest.mark.slow
def test_a_program_may_ask_at_its_end_and_no_connection_is_left_open():
    with FakeOllama() as server:
        command = [sys.executable, "-W", "error::ResourceWarning", "-c", AT_ITS_END, server.url]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.stderr, done.stdout) == ("", f"{OllamaClient(Host(server.url)).version()}\n")


@pytest.mark.parametrize("line", range(7))
def test_what_a_signals_handler_opens_while_a_client_is_closed_is_closed_by_the_next_time(line):
    code, seen = OllamaClient.close.__code__, []

    def trace(frame, event, _):
        if frame.f_code is not code:
            return None
        seen.append(event)
        if event == "line" and seen.count("line") == line:
            sys.settrace(None)  # in a handler's call nothing is traced
            with suppress(BackendError):  # the connection may be closed under it
                client.version()
        return trace

    with FakeOllama() as server:
        client = OllamaClient(Host(server.url))
        client.version()
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            client.close()
        finally:
            sys.settrace(before)
        client.close()
        assert not [each for each in gc.get_objects() if leads_to(server.port, each)]
        assert client.version()
        client.close()


@pytest.mark.slow
def test_a_client_is_not_left_while_another_thread_takes_it():
    with FakeOllama(delay=0.02) as server, closing(OllamaClient(Host(server.url))) as client:
        parts, left = client.chat_parts(REQUEST), threading.Event()
        next(parts)

        def leave() -> None:
            with suppress(KeyboardInterrupt):
                parts.throw(KeyboardInterrupt)
            left.set()

        with ThreadPoolExecutor(1) as pool:
            with client._lock():
                made = client._made()
                pool.submit(leave)
                assert not left.wait(0.1)
                assert client._client is made
            assert left.wait(PATIENCE) and client._client is None
        assert client.version()


def test_a_stream_that_is_left_closes_its_connection_and_the_next_question_opens_another():
    with FakeOllama(delay=0.02) as server, closing(OllamaClient(Host(server.url))) as client:
        parts = client.chat_parts(REQUEST)
        next(parts)
        parts.close()
        until(lambda: server.chats[0].disconnected_at)
        assert client.names() and len(connections(server)) == 2


@pytest.mark.slow
def test_the_deadline_of_a_stream_ends_with_it():
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        list(client.chat_parts(REQUEST, deadline=0.6))  # a busy machine takes its time
        time.sleep(0.6)  # an idle connection is used for a second
        assert client.names() and len(connections(server)) == 1


@pytest.mark.slow
def test_a_stream_keeps_its_deadline_while_others_are_asked():
    with FakeOllama(scenario="drip") as server, closing(OllamaClient(Host(server.url))) as client:
        parts = client.chat_parts(REQUEST, deadline=0.4)
        with pytest.raises(BackendTimeoutError, match="after 0.4 s"):
            for _ in parts:
                client.version()


DONE = b'{"message":{"role":"assistant","content":"Paris."},"done":true}\n'


@pytest.mark.parametrize("more", [b"", b"\n", DONE])
@pytest.mark.slow
def test_an_answer_that_is_done_is_not_held_up_by_a_stream_that_goes_on(more):
    head = http(b"").replace(b"Content-Length: 0", b"Content-Length: 99999")
    with one_answer(head + DONE + more, ends=False) as (host, _):
        reasoner = AyaReasoner("m", host, options={"num_ctx": 4096})
        started = time.monotonic()
        assert "".join(reasoner.stream_reason([Message("user", "Where?")])) == "Paris."
        assert time.monotonic() - started < PATIENCE
        reasoner.close()


@pytest.mark.slow
def test_an_idle_connection_is_not_used_again_when_a_server_may_have_closed_it():
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        client.names()
        time.sleep(1.2)
        assert client.names() and len(connections(server)) == 2


def test_an_answer_that_came_with_the_last_one_answers_no_question():
    twice = http(b'{"version": "1.0.0"}') + http(b'{"version": "2.0.0"}')
    with one_answer(twice, ends=False) as (host, _), closing(OllamaClient(host)) as client:
        assert client.version() == "1.0.0"
        with pytest.raises(BackendError, match="before it was asked for"):
            client.version()


@pytest.mark.slow
def test_what_comes_before_an_answer_is_bounded_without_a_deadline_too():
    flood = b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000
    with one_answer(flood) as (host, _), closing(OllamaClient(host)) as client:
        with pytest.raises(BackendError, match="a head larger than 256 KiB"):
            list(client.chat_parts(REQUEST))


def of_model(name: str, **more: object) -> bytes:
    message = {"role": "assistant", "content": "Paris."}
    return http(json.dumps({"model": name, "message": message, "done": True, **more}).encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked, answered, said",
    [("m", "m", None), ("m", "M:latest", None), ("m", "other:7b", "other:7b")],
)
def test_a_model_that_was_not_asked_for_is_named(asked, answered, said):
    with one_answer(of_model(answered)) as (host, _):
        response = AyaReasoner(asked, host).reason([Message("user", "Where?")])
    assert response.metadata.get("response_model") == said


@pytest.mark.slow
@pytest.mark.parametrize("number", [-1, 1 << 53, 10**300], ids=["below 0", "2**53", "huge"])
def test_a_duration_that_is_none_is_left_out(number):
    with one_answer(of_model("m", load_duration=number, total_duration=7)) as (host, _):
        metadata = AyaReasoner("m", host).reason([Message("user", "Where?")]).metadata
    assert "load_duration" not in metadata and metadata["total_duration"] == 7


@pytest.mark.parametrize("number", [1 << 53, 10**300], ids=["2**53", "huge"])
def test_a_number_that_no_window_has_is_none(number):
    entry = {"name": "m", "context_length": number}
    with one_answer(http(json.dumps({"models": [entry]}).encode())) as (host, _):
        client = OllamaClient(host)
        assert client.window("m", num_ctx=None, size=1, seconds=9.0) is None
        client.close()


def test_a_server_that_has_answered_over_http_is_not_said_to_speak_https():
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        server.use("raw", raw=b"")
        with pytest.raises(BackendError, match="broke off .*it may speak https"):
            list(client.chat_parts(REQUEST))
        client.version()
        with pytest.raises(BackendError, match="broke off") as caught:
            list(client.chat_parts(REQUEST))
        assert "https" not in str(caught.value)
        with ThreadPoolExecutor() as pool, pytest.raises(BackendError, match="broke off") as caught:
            pool.submit(list, client.chat_parts(REQUEST)).result()
        assert "https" not in str(caught.value)


@pytest.mark.slow
def test_what_is_asked_after_an_answer_takes_less_than_five_seconds_in_all():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = OllamaBackend(f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        assert backend.in_force("m", Settings()) == {}
        assert set(backend.provenance("m").values()) == {None}
        assert time.monotonic() - begun < 4.0
