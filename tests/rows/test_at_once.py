"""Turns of one run that are under way at once: what is asked once for all, and what each has."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine import WINDOW, Engine
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.errors import UsageError
from ore.types import Message
from tests.conftest import MODEL_DIR
from tests.support.fake_ollama import FakeOllama

HELLO = [Message("user", "Say hi.")]


def test_the_window_is_asked_for_once_a_run_and_not_once_a_row():
    with FakeOllama() as server:
        reasoner = OllamaBackend(server.url).reasoner("llama3.2", Settings(at_once=4))
        found = [reasoner.reason(HELLO).metadata["context"] for _ in range(5)]
        asked = [seen.path for seen in server.requests]
        assert {seen.connection for seen in server.requests} == {1}
    assert asked.count("/api/chat") == 5 and asked.count("/api/ps") == 1
    assert {context["window"] for context in found} == {4096}


@pytest.mark.slow
def test_a_window_that_is_not_known_is_asked_for_again():
    with FakeOllama(scenario="silent", on="/api/ps") as server:
        reasoner = OllamaBackend(server.url).reasoner("llama3.2", Settings(at_once=4))
        assert reasoner.reason(HELLO).metadata["context"]["window"] is None
        server.use("happy")
        assert reasoner.reason(HELLO).metadata["context"]["window"] == 4096


def test_a_server_takes_four_turns_at_once_and_the_embedded_engine_one():
    assert OllamaBackend.at_once == 4 and EmbeddedBackend.at_once == 1


@pytest.mark.embedded
def test_every_slot_has_the_whole_window():
    with closing(Engine(next(Path(MODEL_DIR).glob("*.gguf")), slots=3)) as engine:
        assert engine.window == WINDOW and engine.properties["total_slots"] == 3


@pytest.mark.embedded
def test_turns_at_once_share_one_engine():
    settings = Settings(at_once=2, options={"num_predict": 4})
    with closing(
        EmbeddedReasoner(next(Path(MODEL_DIR).glob("*.gguf")).as_posix(), settings)
    ) as one:
        responses, engines = [], set()

        def turn() -> None:
            responses.append(one.reason(HELLO))
            engines.add(id(one._engine))

        threads = [threading.Thread(target=turn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(responses) == 4 and len(engines) == 1
    assert {response.metadata["eval_count"] for response in responses} == {4}


@pytest.mark.embedded
def test_more_turns_at_once_than_the_engine_answers_are_refused():
    path = next(Path(MODEL_DIR).glob("*.gguf")).as_posix()
    with pytest.raises(UsageError, match="at most 8"):
        EmbeddedReasoner(path, Settings(at_once=9))
