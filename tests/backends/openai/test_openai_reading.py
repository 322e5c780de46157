"""What a model on a server reads of a turn: counted where the server counts, else estimated."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from ore.backends.address import Host
from ore.backends.openai import OpenAIBackend
from ore.backends.reading import Part
from ore.backends.settings import Settings
from ore.backends.window import Estimate
from ore.types import Message
from tests.conftest import MODEL_DIR
from tests.support.fake_openai import FakeOpenAI
from tests.support.llama_server import KEY, WINDOW, llama_server

pytest.importorskip("openai")
ASKED = [Message("system", "Be brief."), Message("user", "Why?")]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine an answer takes longer than a plan waits for it."""
    monkeypatch.setattr("ore.backends.openai_template._SECONDS", 60.0)
    monkeypatch.setattr("ore.backends.openai._WINDOW_SECONDS", 60.0)
    monkeypatch.setattr("ore.backends.openai.LOOK_UP_SECONDS", 60.0)


def template(request):
    return {
        "prompt": "".join(f"<{m['role']}>{m['content']}" for m in request["messages"]) + "<end>"
    }


def letters(request):
    return {"tokens": [{"id": 1, "piece": letter} for letter in request["content"]]}


LLAMA = {"/apply-template": template, "/tokenize": letters}
VLLM = {"/tokenize": lambda request: {"count": 31, "max_model_len": 512, "tokens": [1] * 31}}


def reading(fake, messages=ASKED, **settings):
    backend = OpenAIBackend(Host(fake.url, "--host"))
    return backend.reading("small", messages, Settings(**settings))


def test_llama_cpp_s_server_renders_and_counts_what_it_is_sent():
    with FakeOpenAI(about={"owned_by": "llamacpp", "meta": {"n_ctx": 64}}) as fake:
        fake.asked = LLAMA
        found = reading(fake, options={"num_predict": 9, "temperature": 0.0})
        assert fake.chats == []
        paths = [seen.path for seen in fake.requests]
        assert paths == ["/v1/models", "/apply-template", "/apply-template", "/tokenize"]
    assert found.rendered == "<system>Be brief.<user>Why?<end>"
    assert set(astuple(found.size)) == {len(found.rendered)}
    assert (found.window, found.limit, found.fits) == (64, 9, True)
    assert found.parts[1] == Part(0, "Be brief.", 9) and found.notes == ()


def test_a_message_that_the_template_leaves_out_is_said():
    with FakeOpenAI(about={"owned_by": "llamacpp"}) as fake:
        fake.asked = {**LLAMA, "/apply-template": lambda _: {"prompt": "<user>Why?<end>"}}
        assert "leaves out a message of the role 'system'" in reading(fake).notes[0]
        fake.asked["/apply-template"] = lambda _: {"prompt": ""}
        assert "template writes nothing, so the model was not asked" in reading(fake).notes[0]


def test_vllm_counts_and_shows_no_text():
    with FakeOpenAI(about={"owned_by": "vllm"}) as fake:
        fake.asked = VLLM
        found = reading(fake)
        asked = fake.requests[-1].json
        assert asked["add_generation_prompt"] is True and asked["model"] == "small"
        assert [message["content"] for message in asked["messages"]] == ["Be brief.", "Why?"]
    assert (found.size, found.window) == (Estimate(31, 31, 31), 512)
    assert found.rendered is None and "does not show the text" in found.why


ODD = [None, [], "text", {}, {"count": -1}, {"count": "31"}, {"tokens": 3}, {"prompt": None}]


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
@pytest.mark.parametrize("answer", ODD, ids=repr)
def test_an_odd_answer_leaves_an_estimate(owner, answer):
    with FakeOpenAI(about={"owned_by": owner}) as fake:
        fake.asked = dict.fromkeys(("/apply-template", "/tokenize"), lambda _: answer)
        assert reading(fake) is None


@pytest.mark.parametrize("owner", ["library", "openai", None, 3])
def test_a_server_that_does_not_count_is_not_sent_the_prompt(owner):
    with FakeOpenAI(about={"owned_by": owner}) as fake:
        assert reading(fake) is None
        assert [seen.path for seen in fake.requests] == ["/v1/models"]


def test_a_server_that_is_not_there_leaves_an_estimate():
    with FakeOpenAI() as fake:
        pass
    assert reading(fake) is None


@pytest.mark.embedded
def test_the_tokens_of_a_plan_are_those_of_the_turn():
    with llama_server(next(Path(MODEL_DIR).glob("*.gguf"))) as url:
        backend = OpenAIBackend(Host(f"{url}/v1", "--host"), KEY)
        (name,) = backend.models()
        settings = Settings(options={"num_predict": 1})
        planned = backend.reading(name, ASKED, settings)
        answer = backend.reasoner(name, settings).reason(ASKED)
    assert planned.size.least == planned.size.most and planned.window == WINDOW
    assert planned.size.likely == answer.metadata["prompt_eval_count"]
