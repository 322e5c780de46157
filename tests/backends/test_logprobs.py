"""How likely each token of an answer was: asked for, collected, shown and kept, on every backend."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path

import pytest

from ore.backends import Settings, engine_request, openai_request
from ore.backends.logprobs import Logprobs
from ore.types import Message
from tests.conftest import MODEL_DIR
from tests.support.fake_ollama import FakeOllama

TOLD = {"logprob": {"sum": -1.5, "mean": -0.75, "tokens": 2}, "eval_count": 2}


class Entry:
    """A token as a client's package gives it."""

    def __init__(self, token, logprob):
        self.token, self.logprob = token, logprob


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
