"""The service of docs/services.md: a real uvicorn, and clients that hang up in the middle of an answer."""

from __future__ import annotations

import http.client
import threading

import pytest
import uvicorn

from ore import ORE, AyaReasoner
from tests.support.fake_ollama import FakeOllama
from tests.support.pages import ROOT
from tests.support.process import until

TIMES = 10


def service(engine):
    """The application, as the page writes it."""
    page = (ROOT / "docs/services.md").read_text(encoding="utf-8")
    [code] = [block for block in page.split("```") if "app = FastAPI()" in block]
    code = code.replace("\nengine = ", "\nmade = ")
    names = {"engine": engine, "__name__": "service"}
    exec(code.removeprefix("python"), names)
    return names["app"]


@pytest.fixture
def running():
    """A server on a port of its own, with a model that writes for long."""
    with FakeOllama(delay=0.05, reply="word " * 1_000) as fake:
        with ORE(AyaReasoner("llama3.2", fake.url), "") as engine:
            config = uvicorn.Config(service(engine), port=0, log_level="warning")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run)
            thread.start()
            until(lambda: server.started)
            try:
                yield fake, server.servers[0].sockets[0].getsockname()[1]
            finally:
                server.should_exit = True
                thread.join(10)


@pytest.mark.invariant
@pytest.mark.slow
def test_the_model_stops_each_time_that_a_client_hangs_up(running):
    fake, port = running
    for number in range(TIMES):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/ask?prompt=Hello")
        assert connection.getresponse().read(4) == b"word"
        connection.close()
        until(lambda: fake.chats[number].disconnected_at is not None)
    assert len(fake.chats) == TIMES
