"""One client for every question: made in its own time, by one process, closed by anyone."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing

import pytest

from ore.backends import ollama_client
from ore.backends.address import Host
from ore.backends.ollama_client import OllamaClient
from ore.errors import IncompleteAnswerError
from tests.support.fake_ollama import FakeOllama

REQUEST = {"model": "llama3.2", "messages": [{"role": "user", "content": "Hello?"}]}
WAYS = {
    "question": lambda client: client.names(0.8),
    "turn": lambda client: list(client.chat_parts(REQUEST, deadline=0.8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_importing_the_package_takes_nothing_of_a_question_s_time(way, monkeypatch):
    def slow(*args):
        time.sleep(1.0)
        return made(*args)

    made = ollama_client.new_client
    monkeypatch.setattr(ollama_client, "new_client", slow)
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        assert WAYS[way](client)
        assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the fake server is a thread
def test_a_forked_child_does_not_ask_over_its_parent_s_connection():
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        client.version()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = int(not client.version())
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        client.version()
        parent, inherited, again = (seen.connection for seen in server.requests)
        assert inherited != parent == again


def test_a_client_that_is_closed_before_it_has_asked_is_one_of_our_errors(monkeypatch):
    with FakeOllama() as server, closing(OllamaClient(Host(server.url))) as client:
        made = client._made()
        client.close()
        monkeypatch.setattr(client, "_made", lambda: made)  # as another thread may have it
        with pytest.raises(IncompleteAnswerError, match="the client has been closed"):
            client.version()


def test_a_cookie_does_not_come_back():
    line = b'{"message":{"role":"assistant","content":"Paris."},"done":true}\n'
    head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nConnection: close\r\n\r\n"
    with FakeOllama(scenario="raw", raw=head + line) as server:
        with closing(OllamaClient(Host(server.url))) as client:
            list(client.chat_parts(REQUEST))
            list(client.chat_parts(REQUEST))
            assert ["cookie" in seen.headers for seen in server.chats] == [False, False]


@pytest.mark.slow
def test_no_number_of_open_streams_keeps_a_turn_waiting():
    with FakeOllama(scenario="stall") as server, ExitStack() as opened:
        client = opened.enter_context(closing(OllamaClient(Host(server.url))))
        for _ in range(101):
            parts = opened.enter_context(closing(client.chat_parts(REQUEST)))
            assert next(parts).message.content == "Paris."
