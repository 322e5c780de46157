"""How likely a given text is, asked of a stand-in for vLLM's server."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from ore.backends import vllm_score
from ore.backends.choice import open_backend
from ore.backends.openai import OpenAIReasoner
from ore.backends.settings import Settings
from ore.errors import (
    BackendError,
    CapabilityError,
    ContextTruncatedError,
    ModelNotFoundError,
    UsageError,
)
from ore.types import Message
from tests.support.fake_openai import refusal, whole
from tests.support.harness import run_ore
from tests.support.vllm_server import END, MARKS, NUMBER, OTHER, FakeVllm, likeliest, tokens_of

pytest.importorskip("openai")

QUESTION = [Message("user", "hi")]
WRONG = "The model `other` does not exist."
PROMPT = tokens_of("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")


def scorer(fake, **settings):
    return closing(OpenAIReasoner("small", fake.url, None, Settings(**settings)))


def expected(numbers):
    written, found = [*PROMPT], []
    for number in numbers:
        found.append(likeliest(written[-1])[number])
        written.append(number)
    return found


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    "text", ["Paris is the capital", "🦊 é", "a\x00b", 'He said "no"\n\n', " x", ""]
)
def test_a_text_is_scored_token_by_token(text, ended):
    with FakeVllm() as fake, scorer(fake) as reasoner:
        score = reasoner.score(QUESTION, text, ended=ended)
    numbers = tokens_of(text) + [NUMBER[END.encode()]] * ended
    assert [token.id for token in score.tokens] == numbers
    assert [(token.logprob, token.rank + 1) for token in score.tokens] == expected(numbers)
    assert (score.text, score.ended, score.prompt_tokens) == (text, ended, len(PROMPT))
    assert not ended or score.tokens[-1].text == ""


def test_what_is_asked_of_a_server():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        reasoner.score(QUESTION, "No", ended=False)
        sent = [(seen.path, seen.json) for seen in fake.requests if seen.json]
    assert [path for path, _ in sent] == [
        "/tokenize",
        "/detokenize",
        "/tokenize",
        "/detokenize",
        "/v1/completions",
    ]
    assert sent[0][1]["add_generation_prompt"] is True
    assert sent[2][1] == {"model": "small", "prompt": "No", "add_special_tokens": False}
    assert sent[-1][1] == {
        "model": "small",
        "prompt": [[*PROMPT, NUMBER[b"No"]]],
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 1,
    }


def test_a_tokenizer_that_puts_a_blank_before_a_text_is_asked_with_the_prompt():
    with FakeVllm(space=" ") as fake, scorer(fake) as reasoner:
        assert [token.text for token in reasoner.score(QUESTION, "Paris").tokens] == ["Paris", ""]


def test_a_tokenizer_that_spells_another_text_can_not_score():
    with FakeVllm(folds=True) as fake, scorer(fake) as reasoner:
        with pytest.raises(CapabilityError, match="do not spell the text"):
            reasoner.score(QUESTION, "Paris")


@pytest.mark.parametrize(
    "how", [{"closing": ""}, {"closing": OTHER}, {"ends": MARKS[0]}, {"late": True}]
)
def test_an_end_that_the_server_does_not_end_at_is_not_scored(how):
    with FakeVllm(**how) as fake, scorer(fake) as reasoner:
        with pytest.raises(
            CapabilityError, match="by which token small ends an answer.*ended=False"
        ):
            reasoner.score(QUESTION, "Paris")
        assert len(reasoner.score(QUESTION, "Paris", ended=False).tokens) == 1


TEXTS = ["No", "Not sure", "Paris", "🦊", "No is"]


@pytest.mark.slow
def test_several_texts_are_one_request_in_any_order():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        scores = reasoner.score_each(QUESTION, TEXTS)
        again = reasoner.score_each(QUESTION, TEXTS[::-1])
        asked = [seen.json for seen in fake.requests if seen.path == "/v1/completions"]
    assert again == scores[::-1] and asked[0] == asked[1] and len(asked) == 2
    for text, score in zip(TEXTS, scores, strict=True):
        assert (score.text, score.ended) == (text, False)
        assert [t.logprob for t in score.tokens] == [one for one, _ in expected(tokens_of(text))]


def test_a_server_chooses():
    with FakeVllm() as fake:
        flags = ("--backend", "openai", "--host", fake.url, "--choose", "No,Paris", "--json")
        result = run_ore("hi", *flags, open_backend=open_backend)
    assert result.code == 0, result.err
    assert sum(result.json["metadata"]["choice"]["probabilities"].values()) == pytest.approx(1)


def test_a_text_that_does_not_fit_the_window_is_not_sent():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        with pytest.raises(ContextTruncatedError, match="window holds 1024.*max-model-len"):
            reasoner.score(QUESTION, "x" * 1024, ended=False)
        assert "/v1/completions" not in [seen.path for seen in fake.requests]


def test_one_text_is_no_list_of_its_letters():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        with pytest.raises(UsageError, match="^texts must be a list"):
            reasoner.score_each(QUESTION, "yes")


def test_more_tokens_than_an_answer_can_tell_of_are_not_sent(monkeypatch):
    monkeypatch.setattr(vllm_score, "MOST_TOKENS", 64)
    with FakeVllm() as fake, scorer(fake) as reasoner:
        with pytest.raises(UsageError, match="To score 3 of them takes .* more than 64"):
            reasoner.score_each(QUESTION, ["a", "b", "c"])


@pytest.mark.parametrize("lists", [("small",), ("small", "lora")])
@pytest.mark.parametrize(
    "said", [{"error": {"message": WRONG, "code": 404}}, {"object": "error", "message": WRONG}]
)
def test_a_model_that_is_not_there_is_named_with_those_that_are(said, lists):
    with FakeVllm() as fake, closing(OpenAIReasoner("other", fake.url)) as reasoner:
        fake.models = lists
        fake.beside["/tokenize"] = lambda sent: [whole(said, 404)]
        with pytest.raises(ModelNotFoundError, match="There is no model 'other'") as caught:
            reasoner.score(QUESTION, "Paris")
    assert caught.value.available == lists


def test_a_model_that_is_listed_is_not_said_to_be_missing_where_it_can_not_be_scored():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        fake.beside["/tokenize"] = lambda sent: [refusal(404, WRONG)]
        with pytest.raises(
            ModelNotFoundError, match="does not find what it was asked for"
        ) as caught:
            reasoner.score(QUESTION, "Paris")
    assert WRONG.replace("`", "'") in str(caught.value)


def test_a_level_of_thinking_can_not_be_scored():
    with FakeVllm() as fake, scorer(fake, think="low") as reasoner:
        with pytest.raises(CapabilityError, match="leave `think=` out"):
            reasoner.score(QUESTION, "Paris")


def test_a_server_that_knows_no_prompt_logprobs_is_refused():
    with FakeVllm(tells=False) as fake, scorer(fake) as reasoner:
        with pytest.raises(CapabilityError, match="prompt_logprobs.*later vLLM"):
            reasoner.score(QUESTION, "Paris")


def told(entry, length=len(PROMPT) + 1):
    places = [{str(NUMBER[b"Paris"]): entry}] * length
    return [whole({"choices": [{"index": 0, "prompt_logprobs": places}]})]


ENTRY = {"logprob": -1.0, "rank": 1, "decoded_token": "Paris"}


def test_a_text_has_no_more_tokens_than_bytes():
    with FakeVllm() as fake, scorer(fake) as reasoner:
        fake.beside["/tokenize"] = lambda sent: [whole({"tokens": [1] * 9})]
        fake.beside["/detokenize"] = lambda sent: [
            whole({"prompt": "hi" if len(sent["tokens"]) == 9 else "hiParis"})
        ]
        with pytest.raises(CapabilityError, match="do not spell the text"):
            reasoner.score_each(QUESTION, ["Paris"])


@pytest.mark.parametrize(
    "path, answer, why",
    [
        ("/tokenize", [whole({"tokens": "abc"})], "not of the right shape"),
        ("/tokenize", [whole({"tokens": [True]})], "not of the right shape"),
        ("/tokenize", [whole({})], "not of the right shape"),
        (
            "/tokenize",
            [refusal(404, "Not Found")],
            "does not know /tokenize.* if a proxy before it",
        ),
        (
            "/v1/completions",
            [whole({"detail": "Not Found"}, 404)],
            "does not know /completions, .*text: use a later",
        ),
        ("/detokenize", [whole({})], "not of the right shape"),
        ("/v1/completions", [whole({"choices": []})], "not of the right shape"),
        ("/v1/completions", [whole({"choices": [1]})], "not of the right shape"),
        ("/v1/completions", told(ENTRY, 3), "not of the right shape"),
        ("/v1/completions", told(None), "not of the right shape"),
        ("/v1/completions", told({**ENTRY, "logprob": 3}), "not of the right shape"),
        ("/v1/completions", told({**ENTRY, "logprob": None}), "not of the right shape"),
        ("/v1/completions", told({"logprob": -1}), "not of the right shape"),
        ("/v1/completions", told({**ENTRY, "decoded_token": {"a": 1}}), "not of the right shape"),
        ("/v1/completions", told({**ENTRY, "decoded_token": 5}), "not of the right shape"),
        ("/v1/completions", [refusal(400, "greater than max allowed: 0")], "max allowed"),
        ("/v1/completions", [refusal(500, "out of memory")], "out of memory"),
    ],
)
def test_what_a_server_may_answer_instead(path, answer, why):
    with FakeVllm() as fake, scorer(fake) as reasoner:
        fake.beside[path] = lambda sent: answer
        with pytest.raises(BackendError, match=why):
            reasoner.score(QUESTION, "Paris", ended=False)


@pytest.mark.parametrize("entry", [ENTRY, {**ENTRY, "rank": None}, {**ENTRY, "logprob": -9999.0}])
def test_what_it_may_say_of_a_token(entry):
    with FakeVllm() as fake, scorer(fake) as reasoner:
        fake.beside["/v1/completions"] = lambda sent: told(entry)
        token = reasoner.score(QUESTION, "Paris", ended=False).tokens[0]
    assert token.rank == (0 if entry["rank"] else None)
    assert token.logprob == max(entry["logprob"], -104.0)
    assert json.dumps(token.best) in ('"Paris"', "null")
