"""How likely each token of an answer was: asked for, collected, shown and kept, on every backend."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path

import pytest

from ore.backends import engine_request, openai_request
from ore.backends.http import TooLarge
from ore.backends.logprobs import Logprobs
from ore.backends.settings import Settings
from ore.types import Message
from tests.conftest import MODEL_DIR
from tests.support.fake_ollama import FakeOllama

TOLD = {"logprob": {"sum": -1.5, "mean": -0.75, "tokens": 2}, "eval_count": 2}


class Entry:
    """A token as a client's package gives it."""

    def __init__(self, token, logprob):
        self.token, self.logprob = token, logprob


@pytest.mark.parametrize(
    "told",
    [
        [{"token": "a", "logprob": 1e308}] * 2,
        [{"token": "a", "logprob": -1e308}] * 2,
        [{"token": "a", "logprob": -(10**400)}],
        [{"token": "a", "logprob": 5}, {"token": "a", "logprob": True}],
        [None, 1, "a", [1, 2], {"token": "a"}],
        7,
        "abc",
    ],
    ids=range(7),
)
def test_what_is_no_log_probability_is_left_out(told):
    found = Logprobs()
    found.note(told)
    assert found.as_metadata() == {"logprobs": []}


def test_what_comes_in_parts_is_added_up():
    told = Logprobs()
    told.note([Entry("Par", -0.5)])
    told.note(None)
    told.note([{"token": "is", "logprob": -1, "top_logprobs": []}, Entry("", -0.25)])
    assert told.as_metadata() == {
        "logprob": {"sum": -1.75, "mean": pytest.approx(-1.75 / 3), "tokens": 3},
        "logprobs": [
            {"token": "Par", "logprob": -0.5},
            {"token": "is", "logprob": -1.0},
            {"token": "", "logprob": -0.25},
        ],
    }


@pytest.mark.parametrize(
    "entry",
    [{}, {"token": "a"}, {"token": 1, "logprob": -1}, {"token": "a", "logprob": "-1"}]
    + [{"token": "a", "logprob": each} for each in (math.nan, -math.inf, None)],
)
def test_what_has_no_number_is_left_out(entry):
    told = Logprobs()
    told.note([entry])
    assert told.as_metadata() == {"logprobs": []}


def test_half_a_character_can_be_kept():
    told = Logprobs()
    told.note([{"token": "\ud83d", "logprob": -1.0}])
    told.as_metadata()["logprobs"][0]["token"].encode()


@pytest.mark.parametrize("logprobs", [True, False])
def test_they_are_asked_for_only_where_somebody_asks(logprobs):
    settings = Settings(logprobs=logprobs)
    messages = [Message("user", "hi")]
    assert openai_request.request_of("m", messages, settings).get("logprobs", False) == logprobs
    assert engine_request.request_of(settings, -1).get("logprobs", False) == logprobs


@pytest.mark.parametrize("flags, asked", [(["--logprobs"], True), ([], None)])
def test_ollama_is_asked_and_where_it_says_nothing_that_is_said(ore, monkeypatch, flags, asked):
    from ore.backends.choice import open_backend

    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        result = ore(*flags, "hi", open_backend=open_backend)
        (chat,) = server.chats
    assert result.code == 0 and chat.json.get("logprobs") == asked
    assert ("gave no log-probabilities" in result.err) == bool(asked)


def test_a_sum_is_said_and_each_token_is_data(ore, tmp_path):
    tokens = [{"token": "Par", "logprob": -0.5}, {"token": "is.", "logprob": -1.0}]
    told = {**TOLD, "logprobs": tokens}
    result = ore("--logprobs", "hi", metadata=told)
    assert result.out == "Paris.\n"
    assert "Log-probability of the answer: -1.50 nats in 2 tokens, -0.75 a token." in result.err
    assert ore("--logprobs", "-q", "hi", metadata=told).err == ""
    some = ore("--logprobs", "hi", metadata=told | {"eval_count": 5})
    assert "in 2 of 5 tokens" in some.err
    alone = {"logprob": {"sum": -0.5, "mean": -0.5, "tokens": 1}, "eval_count": 1}
    one = ore("--logprobs", "hi", metadata=alone)
    assert "-0.50 nats in 1 token, -0.50 a token." in one.err
    data = json.loads(ore("--logprobs", "--json", "hi", metadata=told).out)
    assert data["metadata"]["logprobs"] == tokens
    path = tmp_path / "run.json"
    assert ore("--logprobs", "--artifact-out", str(path), "hi", metadata=told).code == 0
    kept = json.loads(path.read_text())["output"]["metadata"]
    assert (kept["logprob"]["sum"], kept["logprobs"]) == (-1.5, tokens)
    assert ore("--verify", str(path)).code == 0
    shown = ore("--logprobs", "-v", "hi", metadata=told).err
    assert "logprob.sum=-1.5" in shown and "'token'" not in shown


@pytest.mark.embedded
def test_the_sum_of_an_answer_is_its_score():
    from ore.backends.engine_turn import EmbeddedReasoner

    question = [Message("user", "What is the capital of France?")]
    model = str(next(Path(str(MODEL_DIR)).glob("*.gguf")))
    settings = Settings(logprobs=True, options={"num_predict": 30})
    with closing(EmbeddedReasoner(model, settings)) as reasoner:
        answer = reasoner.reason(question)
        cut = answer.metadata["done_reason"] == "length"
        score = reasoner.score(question, answer.content, ended=not cut)
    found = answer.metadata["logprob"]
    assert found["tokens"] == answer.metadata["eval_count"] == len(score.tokens)
    assert found["sum"] == pytest.approx(score.logprob, abs=0.01)
    assert found["mean"] == pytest.approx(score.mean, abs=0.01)
    texts = [each["token"] for each in answer.metadata["logprobs"]]
    assert "".join(texts) == answer.content


def part(text, *logprobs, finish=None):
    """An event of a stream, whose tokens have log-probabilities."""
    from tests.support.fake_openai import event

    content = [
        {"token": text, "logprob": each, "bytes": None, "top_logprobs": []} for each in logprobs
    ]
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event(choices=[choice | ({"logprobs": {"content": content}} if logprobs else {})])


@pytest.mark.parametrize("logprobs, total", [((-0.5, -0.25), -0.75), ((), None)])
def test_an_openai_server_is_asked_and_what_it_says_is_kept(logprobs, total):
    pytest.importorskip("openai")
    from ore.backends.address import Host
    from ore.backends.openai import OpenAIReasoner
    from tests.support.fake_openai import DONE, FakeOpenAI

    with FakeOpenAI() as fake:
        fake.play = [part("Paris", *logprobs[:1]), part(".", *logprobs[1:], finish="stop"), DONE]
        settings = Settings(logprobs=True)
        response = OpenAIReasoner("small", Host(fake.url), None, settings).reason(
            [Message("user", "hi")]
        )
        assert fake.chats[0].json["logprobs"] is True
    assert response.content == "Paris."
    found = response.metadata
    assert (found["logprob"]["sum"] if "logprob" in found else None) == total
    assert [each["logprob"] for each in found["logprobs"]] == list(logprobs)


def test_what_ollama_says_of_each_token_is_kept():
    import httpx

    from ore.backends.ollama import OllamaBackend
    from ore.backends.ollama_client import OllamaClient

    told = [{"token": "Pa", "logprob": -0.5}, {"token": "ris", "logprob": -0.25}]
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": "Pa"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": "ris"}, "done": False},
        {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True},
    ]
    for line, each in zip(lines, told):
        line["logprobs"] = [each]
    lines[-1] |= {"done_reason": "stop", "eval_count": 2, "prompt_eval_count": 3}
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()

    def answer(request):
        is_chat = request.url.path == "/api/chat"
        kind = {"content-type": "application/x-ndjson"}
        return httpx.Response(200 if is_chat else 404, headers=kind, content=body)

    reasoner = OllamaBackend("127.0.0.1:9").reasoner("llama3.2", Settings(logprobs=True))
    transport = httpx.MockTransport(answer)
    reasoner._client = OllamaClient(reasoner.host, transport=transport)
    response = reasoner.reason([Message("user", "hi")])
    assert response.content == "Paris"
    assert response.metadata["logprob"] == {"sum": -0.75, "mean": -0.375, "tokens": 2}
    assert response.metadata["logprobs"] == told


@pytest.mark.slow
def test_no_more_is_kept_of_the_tokens_than_an_answer_can_have():
    told, many = Logprobs(), [{"token": "a", "logprob": -1.0}] * 100_000
    with pytest.raises(TooLarge, match="log-probabilities"):
        for _ in range(20):
            told.note(many)
    assert 300_000 < len(told.as_metadata()["logprobs"]) < 400_000
