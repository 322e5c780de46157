"""Going on with a saved session from a program, as it was begun."""

from __future__ import annotations

import pytest

import ore
from ore import ORE, Beginning, FileSessionStore, Message, Session, begun_with, session_markdown
from ore.errors import CheckFailedError, PersonaError, UsageError
from tests.support.fake_ollama import FakeOllama


def asked_of(begun, settings=None):
    """What a server is asked in a turn that goes on so."""
    with FakeOllama(models=["llama3.2:latest", "other:latest"]) as server:
        with ORE(*begun_with(begun, settings, host=server.url)) as engine:
            engine.execute("Hi")
        (chat,) = server.chats
    return chat.json


def test_a_session_goes_on_with_its_model_its_options_and_its_system_prompt():
    begun = Beginning("1", "ollama", "other", None, "Be kind.", ("temperature=0", "seed=7"))
    chat = asked_of(begun)
    assert chat["model"] == "other" and chat["options"] == {"temperature": 0, "seed": 7}
    assert chat["messages"][0] == {"role": "system", "content": "Be kind."}


def test_options_of_the_program_win():
    begun = Beginning("1", "ollama", "other", options=("temperature=0", "seed=7"))
    chat = asked_of(begun, ore.Settings(options={"seed": 8}))
    assert chat["options"] == {"temperature": 0, "seed": 8}


@pytest.mark.parametrize(
    "persona, system, first",
    [
        (None, None, ore.ORE(ore.AyaReasoner("m")).system_prompt),
        ("aya", None, ore.load_persona("aya")),
        (None, "", None),
    ],
)
def test_the_system_prompt_is_that_of_the_persona_none_or_the_usual_one(persona, system, first):
    messages = asked_of(Beginning("1", "ollama", "other", persona, system))["messages"]
    assert [m["content"] for m in messages[:-1]] == ([] if first is None else [first])


@pytest.mark.parametrize(
    "begun, error",
    [
        (Beginning("1", "nowhere", "m"), UsageError),
        (Beginning("1", "ollama", "m", options=("no option",)), UsageError),
        (Beginning("1", "ollama", "m", persona="gone"), PersonaError),
        (Beginning("1", "ollama", "other@sha256:" + "0" * 64), CheckFailedError),
    ],
)
def test_what_can_t_be_gone_on_with_is_said(begun, error):
    with FakeOllama(models=["other:latest"]) as server:
        with pytest.raises(error):
            begun_with(begun, host=server.url)
        assert server.chats == []


def test_a_session_is_written_as_markdown(tmp_path):
    store = FileSessionStore(tmp_path / "sessions")
    session = Session([Message("user", "Hi."), Message("assistant", "# Hello")], created_at=0.0)
    text = session_markdown(
        session, "trip", Beginning(session.id, "ollama", "m", system="Be kind.")
    )
    head, about, *rest = text.split("\n\n")
    assert head == "# trip" and about.startswith("1 turn, begun 19")
    assert about.endswith(" with the model m, its system prompt")
    assert rest == ["## System prompt", "Be kind.", "## You", "Hi.", "## Answer", "# Hello"]
    store.create(session, "trip")
    assert session_markdown(store.load("trip"), "trip").split("\n\n")[-2] == "## Aya"


def test_a_session_of_which_nobody_knows_how_it_was_begun_goes_on_as_a_new_one(tmp_path):
    """One of an older ORE, or one that a program has saved, has no beginning."""
    store = FileSessionStore(tmp_path)
    store.save(Session(), "old")
    chat = asked_of(store.beginning("old"), ore.Settings(options={"seed": 7}))
    assert chat["model"] == "llama3.2:latest" and chat["options"] == {"seed": 7}
    assert chat["messages"][0]["content"] == ore.load_persona("aya")
