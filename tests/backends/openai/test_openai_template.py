"""A server that says its model's template gets messages that all arrive."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from ore.backends.address import Host
from ore.backends.joining import joined
from ore.backends.openai import OpenAIBackend, OpenAIReasoner
from ore.backends.settings import Settings
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.fake_openai import FakeOpenAI
from tests.support.gguf import CHATML, write_model
from tests.support.llama_server import KEY, llama_server

pytest.importorskip("openai")
SYSTEM, SKILL = Message("system", "Be kind."), Message("system", "[Skill:x]\nBe brief.")
FILE, PROMPT = Message("user", "[Tool:file:n.txt]\nA note."), Message("user", "hi")
ALL = [SYSTEM, SKILL, FILE, PROMPT]
FIRST = (
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.role }}: {{ m.content }}\n"
    "{% endif %}{% endfor %}"
)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine an answer takes longer than a turn waits for it."""
    monkeypatch.setattr("ore.backends.openai_template._SECONDS", 60.0)
    monkeypatch.setattr("ore.backends.openai._WINDOW_SECONDS", 60.0)


def ask(url: str, messages: list[Message], key: str | None = None, **settings) -> dict:
    options = {"num_predict": 2}
    made = OpenAIReasoner("small", Host(url), key, Settings(options=options, **settings))
    with closing(made) as reasoner:
        return reasoner.reason(messages).metadata


@pytest.mark.invariant
@pytest.mark.parametrize(
    "template, joins",
    [
        (None, False),
        (lambda texts: " ".join(texts), False),
        (lambda texts: " ".join(texts[:1] + texts[2:]), True),
        (lambda texts: None, True),
        (lambda texts: 7, False),
    ],
    ids=["not known", "takes all", "leaves one out", "refuses", "lies"],
)
def test_messages_are_joined_where_the_template_does_not_take_them(template, joins):
    with FakeOpenAI() as fake:
        fake.template = template
        metadata = ask(fake.url, ALL)
        sent = [(each["role"], each["content"]) for each in fake.chats[0].json["messages"]]
        wanted, groups = joined(ALL) if joins else (ALL, None)
        assert sent == [(each.role, each.content) for each in wanted]
        assert metadata.get("joined") == groups and len(fake.chats) == 1
        assert [seen.path for seen in fake.requests].count("/apply-template") == 1


@pytest.mark.parametrize(
    "messages, settings",
    [([PROMPT], {}), ([SYSTEM, PROMPT], {}), ([SYSTEM, SKILL, PROMPT], {"joins": False})],
)
def test_a_turn_that_does_not_need_it_asks_nothing_of_a_template(messages, settings):
    with FakeOpenAI() as fake:
        fake.template = lambda texts: ""
        ask(fake.url, messages, **settings)
        assert "/apply-template" not in [seen.path for seen in fake.requests]


def test_the_dry_run_says_what_would_be_joined():
    with FakeOpenAI() as fake:
        fake.template = lambda texts: None
        backend = OpenAIBackend(Host(fake.url))
        assert backend.prompt_facts("small", ALL, Settings())["groups"] == [[0, 1], [2, 3]]
        assert "groups" not in backend.prompt_facts("small", ALL, Settings(joins=False))
        assert fake.chats == []


def test_no_text_of_the_turn_is_in_the_question():
    with FakeOpenAI() as fake:
        fake.template = lambda texts: " ".join(texts)
        ask(fake.url, ALL)
        (asked,) = [seen for seen in fake.requests if seen.path == "/apply-template"]
        assert not any(each.content in str(asked.json) for each in ALL)


@pytest.mark.slow
def test_a_question_that_nobody_answers_holds_no_turn_up_for_long(monkeypatch):
    monkeypatch.setattr("ore.backends.openai_template._SECONDS", 2.0)
    with FakeOpenAI() as fake:
        fake.template = lambda texts: time.sleep(3) or ""
        assert "joined" not in ask(fake.url, ALL)


@pytest.mark.invariant
@pytest.mark.slow
def test_marks_are_looked_for_in_time_that_does_not_grow_with_their_number():
    talk = [Message(("user", "assistant")[at % 2], "x") for at in range(2_999)]
    filler = "[mark:" * 2_000_000
    with FakeOpenAI() as fake:
        fake.template = lambda texts: filler + "".join(reversed(texts))
        began = time.process_time()
        metadata = ask(fake.url, [SYSTEM, SKILL, *talk])
    assert "joined" not in metadata and time.process_time() - began < 5


@pytest.mark.slow
@needs_engine
@pytest.mark.parametrize("template, joins", [(CHATML, False), (FIRST, True)])
def test_so_it_is_with_llama_cpp_s_own_server(tmp_path, template, joins):
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=template)
    with llama_server(path) as address:
        metadata = ask(f"{address}/v1", [SYSTEM, SKILL, PROMPT], KEY)
    assert metadata.get("joined") == ([[0, 1], [2]] if joins else None)
