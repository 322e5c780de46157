"""A reasoner of a server keeps nothing of a turn: a used one reports what a new one does."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from ore.backends.address import Host
from ore.backends.ollama import AyaReasoner
from ore.backends.openai import OpenAIReasoner
from ore.backends.settings import Settings
from ore.core import ORE
from ore.reasoner import Reasoner
from ore.types import Message, Session
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.held import texts_held_by

MEASURED = ("total_duration", "load_duration", "eval_duration", "prompt_eval_duration")
LONG = [Message("user", "tide " * 400), Message("assistant", "Yes."), Message("user", "And now?")]


@contextmanager
def ollama():
    """A server that counts fewer tokens for the longer one of two prompts, as one that cuts does."""
    counts = iter([900, 700, 700])

    def count(request: dict) -> str:
        fake.ollama.tokens = next(counts)
        return "Paris."

    with FakeOllama(num_ctx=1000, reply=count) as fake:
        yield lambda: AyaReasoner("llama3.2", fake.url)


@contextmanager
def openai():
    pytest.importorskip("openai")
    with FakeOpenAI() as fake:
        yield lambda: OpenAIReasoner("small", Host(fake.url, "--host"), None, Settings())


REASONERS = {"ollama": ollama, "openai": openai}


def reported(reasoner: Reasoner, messages: list[Message]) -> dict:
    metadata = reasoner.reason(messages).metadata
    return {name: value for name, value in metadata.items() if name not in MEASURED}


@pytest.mark.invariant
@pytest.mark.parametrize("kind", REASONERS)
def test_a_used_reasoner_reports_the_same_of_the_same_messages_as_a_new_one(kind):
    with REASONERS[kind]() as new:
        used = new()
        reported(used, LONG[:1])
        assert reported(used, LONG) == reported(new(), LONG)


@pytest.mark.invariant
@pytest.mark.parametrize("kind", REASONERS)
def test_a_closed_reasoner_holds_no_text_of_any_turn(kind):
    with REASONERS[kind]() as new:
        reasoner = new()
        response = ORE(reasoner, "Be brief.").execute("the marigold question", Session())
        reasoner.close()
        held = "\n".join(texts_held_by(reasoner))
    assert "marigold" not in held and response.content not in held
    assert reasoner.model_id in held  # it was looked for in the right place
