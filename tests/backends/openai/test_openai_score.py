"""How likely a given text is, asked of servers of the OpenAI protocol."""

from __future__ import annotations

import json
import math
import tracemalloc
from contextlib import closing
from time import monotonic

import pytest

from ore.backends import llama_score, openai_stream
from ore.backends.choice import open_backend
from ore.backends.engine_turn import EmbeddedReasoner
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
from tests.support.fake_ollama.scenarios import FOREVER, Pause, Whole
from tests.support.fake_openai import FakeOpenAI, data, refusal, whole
from tests.support.harness import run_ore
from tests.support.llama_server import KEY, llama_server

pytest.importorskip("openai")

QUESTION = [
    Message("system", "You are a concise, helpful assistant."),
    Message("user", "What is the capital of France?"),
]
LLAMA = {"owned_by": "llamacpp", "meta": {"n_ctx": 64}}


def asked(*args):
    return run_ore("--backend", "openai", *args, open_backend=open_backend)


def scorer(url, key=None, **settings):
    return closing(OpenAIReasoner("small", url, key, Settings(**settings)))


# llama.cpp's own server with the small model


@pytest.fixture(scope="module")
def both():
    """The same model by the embedded engine and by a server."""
    from tests.backends.embedded.test_engine_score import model_file

    path = model_file()
    with llama_server(path) as address, closing(EmbeddedReasoner(path)) as embedded:
        with scorer(f"{address}/v1", KEY) as served:
            yield embedded, served


TEXTS = [
    "The capital of France is Paris.",
    "Hi 🦊 ok",
    "日本",
    "a\x00b",
    'He said "no".\n\\',
    "<|im_end|>",
    "",
    "Paris is a city. " * 20,
]


@pytest.mark.embedded
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_a_server_says_what_the_embedded_engine_says(both, text, ended):
    one, other = (reasoner.score(QUESTION, text, ended=ended) for reasoner in both)
    assert other.logprob == pytest.approx(one.logprob, abs=1e-6)
    assert [token.id for token in other.tokens] == [token.id for token in one.tokens]
    assert [token.rank for token in other.tokens] == [token.rank for token in one.tokens]
    assert (other.prompt_tokens, other.ended) == (one.prompt_tokens, ended)


@pytest.mark.embedded
def test_a_server_scores_each_of_several_as_the_embedded_engine_does(both):
    texts = ["Paris", "London", "The capital", "The cat", "🦊"]
    for one, other in zip(*(each.score_each(QUESTION, texts) for each in both), strict=True):
        assert (other.text, other.logprob) == (one.text, pytest.approx(one.logprob, abs=1e-6))


@pytest.mark.embedded
def test_other_batches_round_otherwise_and_no_more(both):
    """A prompt longer than the engine's batch is computed in other parts than a server's."""
    long = [Message("system", "You are a careful reader. " * 20), QUESTION[1]]
    one, other = (reasoner.score(long, "Paris is the capital.") for reasoner in both)
    assert [token.id for token in other.tokens] == [token.id for token in one.tokens]
    assert other.mean == pytest.approx(one.mean, abs=0.05)


@pytest.mark.embedded
def test_the_prompt_is_that_of_a_turn(both):
    score = both[1].score(QUESTION, "Paris")
    assert both[1].reason(QUESTION).metadata["prompt_eval_count"] == score.prompt_tokens
    assert both[1].phase() == "waiting"


@pytest.mark.embedded
def test_a_text_that_does_not_fit_a_server_s_window_is_not_scored(both):
    with pytest.raises(ContextTruncatedError, match="window holds 1024.*Start the server"):
        both[1].score(QUESTION, "word " * 2000)


@pytest.mark.embedded
def test_a_server_chooses(model_dir, monkeypatch):
    from tests.backends.embedded.test_engine_score import model_file

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with llama_server(model_file()) as address:
        flags = ("--host", f"{address}/v1", "--choose", "Paris,London")
        result = asked("What is the capital of France?", *flags, "--json")
    choice = result.json["metadata"]["choice"]
    assert (result.code, result.json["content"]) == (0, "Paris")
    assert math.fsum(choice["probabilities"].values()) == pytest.approx(1)


# Servers that can't, or answer what nobody expects


@pytest.mark.parametrize("about", [{}, {"owned_by": "sglang"}, {"owned_by": ["llamacpp"]}])
def test_other_servers_can_not_and_it_is_said(about):
    with FakeOpenAI(about=about) as fake, scorer(fake.url) as reasoner:
        with pytest.raises(CapabilityError, match="can't say how likely a given text is"):
            reasoner.score(QUESTION, "Paris")
        with pytest.raises(CapabilityError, match="can't say how likely a given text is"):
            reasoner.score_each(QUESTION, ["Paris", "London"])
        assert [seen.path for seen in fake.requests] == ["/v1/models"] * 2


NOTHING = [
    whole({"detail": "Not Found"}, 404),
    refusal(404, "File Not Found"),
    Whole(404, "text/html", b"<html>nginx</html>"),
    Whole(405, "text/plain", b""),
]


@pytest.mark.parametrize("path", ["/apply-template", "/tokenize", "/completion"])
@pytest.mark.parametrize("answer", NOTHING, ids=["FastAPI", "llama.cpp", "nginx", "no text"])
def test_a_proxy_that_passes_on_only_the_protocol_is_said_to_be_that(path, answer):
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [])
        fake.beside[path] = lambda sent: [answer]
        with pytest.raises(CapabilityError, match=f"does not know {path}.* if a proxy before it"):
            reasoner.score(QUESTION, "a")


ROUTED = [
    {"id": "a", "owned_by": "llamacpp", "aliases": ["b", 7], "status": {"value": "unloaded"}},
    {"id": "c", "owned_by": "llamacpp", "aliases": ["d"], "meta": {"n_ctx": 64}},
]


def routed(listing=ROUTED):
    fake = FakeOpenAI()
    fake.listing = [whole({"data": listing})]
    llama(fake, said(entry(), entry(2, bytes=[])))
    return fake


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_router_of_llama_cpp_does_not_say_the_window_of_what_is_not_loaded(name):
    with routed() as fake, closing(OpenAIReasoner(name, fake.url)) as reasoner:
        words = f"window of '{name}' .* ask it for an answer first, or use one that is: c\\. If"
        with pytest.raises(CapabilityError, match=words):
            reasoner.score(QUESTION, "a")
    with routed(ROUTED[:1]) as fake, closing(OpenAIReasoner(name, fake.url)) as reasoner:
        with pytest.raises(CapabilityError, match="ask it for an answer first. If"):
            reasoner.score(QUESTION, "a")


@pytest.mark.parametrize("name", ["c", "d"])
def test_a_router_of_llama_cpp_scores_with_what_is_loaded_by_any_of_its_names(name):
    with routed() as fake, closing(OpenAIReasoner(name, fake.url)) as reasoner:
        assert reasoner.score(QUESTION, "a").model_id == name


@pytest.mark.parametrize("listing", [ROUTED, ROUTED[:1]], ids=["of several", "of one"])
def test_a_model_that_a_router_of_llama_cpp_does_not_list_is_none_of_its(listing):
    with routed(listing) as fake, closing(OpenAIReasoner("e", fake.url)) as reasoner:
        with pytest.raises(ModelNotFoundError, match="There is no model 'e'") as caught:
            reasoner.score(QUESTION, "a")
    assert caught.value.available == tuple(each["id"] for each in listing)


@pytest.mark.slow
def test_the_list_of_models_is_waited_for_no_longer_than_for_anything_else():
    with FakeOpenAI(about=LLAMA) as fake:
        fake.listing = [Pause(FOREVER)]
        began = monotonic()
        with scorer(fake.url, timeout=0.3) as reasoner:
            with pytest.raises(BackendError, match="did not answer within 0.3 s"):
                reasoner.score(QUESTION, "a")
    assert monotonic() - began < 5


def test_a_server_without_a_list_of_models_is_none_that_scores():
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        fake.listing = [Whole(404, "text/html", b"<html>nginx</html>")]
        with pytest.raises(
            CapabilityError, match="can't say how likely .* If it is one, check the"
        ):
            reasoner.score(QUESTION, "a")


def test_a_choice_that_a_server_can_not_make_is_refused():
    with FakeOpenAI() as fake:
        result = asked("A or B?", "--host", fake.url, "--choose", "A,B")
        assert (result.code, result.out, fake.chats) == (1, "", [])
    assert "can't say how likely a given text is" in result.err


def test_a_text_is_no_answer_to_images():
    shown = [Message("user", "What is it?", images=(b"\x89PNG\r\n\x1a\n",))]
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        with pytest.raises(CapabilityError, match="images"):
            reasoner.score(shown, "A cat.")


def test_half_a_character_is_not_sent():
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        with pytest.raises(UsageError, match="half a character"):
            reasoner.score(QUESTION, "a \ud83d b")
        assert fake.requests == []


def entry(number=1, **changed):
    told = {"id": number, "bytes": [97], "logprob": -1.0}
    return {**told, "top_logprobs": [told], **changed}


def said(*entries, **more):
    return [
        data(json.dumps({"index": 0, "completion_probabilities": [each]} | more))
        for each in entries
    ]


def llama(fake, events, tokens=None):
    """Have the stand-in be llama.cpp's server, whose model has tokens of one character."""
    fake.beside["/apply-template"] = lambda sent: [whole({"prompt": "hi"})]
    fake.beside["/completion"] = lambda sent: events
    fake.beside["/tokenize"] = lambda sent: [
        whole({"tokens": tokens or [{"id": 1, "piece": each} for each in sent["content"]]})
    ]


def test_what_is_asked_of_a_server():
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, said(entry(), entry(2, bytes=[])))
        score = reasoner.score(QUESTION, "a")
        assert [(token.id, token.logprob) for token in score.tokens] == [(1, -1.0), (2, -1.0)]
        sent = fake.requests[-1].json
    assert (sent["model"], sent["prompt"]) == ("small", [[1, 1]])
    assert (sent["grammar"], sent["n_predict"]) == ("root ::= <[1]>", 2)
    assert (sent["cache_prompt"], sent["repeat_penalty"]) == (False, 1.0)


def test_a_text_larger_than_the_window_that_a_server_lists_is_not_sent_to_be_scored():
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [refusal(500, "asked")])
        with pytest.raises(ContextTruncatedError, match="window holds 64"):
            reasoner.score(QUESTION, "a" * 64)
        assert "/completion" not in [seen.path for seen in fake.requests]


@pytest.mark.parametrize(
    "events, why",
    [
        (said(entry(7), entry(2)), "did not keep to the text"),
        (said(entry()), "did not keep to the text"),
        (said(*[entry()] * 9), "did not keep to the text"),
        (said(entry(bytes=1 << 62), entry(2)), "not of the right shape"),
        (said(entry(bytes=[256]), entry(2)), "not of the right shape"),
        (said(entry(bytes=[97] * 5000), entry(2)), "a token has more than 4,096 bytes"),
        (said(entry(top_logprobs=[{"id": 1, "bytes": [9] * 5000}])), "more than 4,096 bytes"),
        (said(entry(logprob=float("nan")), entry(2)), "not of the right shape"),
        (said(entry(logprob=3), entry(2)), "not of the right shape"),
        (said(entry(logprob=-(10**400)), entry(2)), "not of the right shape"),
        (said(entry(logprob=None), entry(2)), "not of the right shape"),
        (said(entry(logprob="sk-1"), entry(2)), "a log-probability is not a number"),
        (said(entry(top_logprobs=[]), entry(2)), "not of the right shape"),
        (said([]), "not of the right shape"),
        ([data("[1]")], "an event is not an object"),
        ([data('{"error": {"message": "it broke"}}')], "it broke"),
        ([refusal(500, "no memory left")], "no memory left"),
        ([whole({"content": "a"})], "not a stream of events"),
    ],
)
def test_what_a_server_may_answer_instead(events, why):
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, events)
        with pytest.raises(BackendError, match=why):
            reasoner.score(QUESTION, "a")


@pytest.mark.parametrize("tokens", [[{"id": 1}], [1], [{"id": 1, "piece": 1 << 62}], {"a": 1}])
def test_what_a_server_may_say_of_tokens(tokens):
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [], tokens)
        with pytest.raises(BackendError, match="not of the right shape"):
            reasoner.score(QUESTION, "a")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/apply-template", "/tokenize"])
def test_a_server_that_says_nothing_is_waited_for_no_longer_than_for_a_turn(path):
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url, timeout=0.3, deadline=8) as reasoner:
        llama(fake, [])
        fake.beside[path] = lambda sent: [Pause(FOREVER)]
        with pytest.raises(BackendError, match="Nothing came from .* for 0.3 s"):
            reasoner.score_each(QUESTION, ["yes", "no"])


def test_a_text_has_no_tokens_that_stand_for_nothing():
    about = {**LLAMA, "meta": {"n_ctx": 1 << 40}}
    with FakeOpenAI(about=about) as fake, scorer(fake.url) as reasoner:
        llama(fake, said(entry(), entry(), entry(2)))
        fake.beside["/tokenize"] = lambda sent: [
            whole({"tokens": [{"id": 1, "piece": each} for each in (sent["content"], "")]})
        ]
        for ask in (reasoner.score, lambda asked, text: reasoner.score_each(asked, [text, "b"])):
            with pytest.raises(CapabilityError, match="do not spell the text"):
                ask(QUESTION, "a")


@pytest.mark.slow
def test_the_places_of_a_text_are_counted_before_they_are_made():
    about = {**LLAMA, "meta": {"n_ctx": 1 << 40}}
    with FakeOpenAI(about=about) as fake, scorer(fake.url) as reasoner:
        llama(fake, [])
        tracemalloc.start()
        with pytest.raises(UsageError, match="5000 places"):
            reasoner.score_each(QUESTION, ["a" * 5000, "b"])
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
        tracemalloc.stop()


def test_a_prompt_of_many_tokens_is_sent_for_a_few_places_at_a_time(monkeypatch):
    monkeypatch.setattr(llama_score, "_MOST_SENT", 6)
    monkeypatch.setattr(llama_score, "MOST_PLACES", 3)
    asked = []

    def listed(sent):
        asked.append(sent["prompt"])
        return [event for n in range(len(sent["prompt"])) for event in said(entry(), index=n)]

    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [])
        fake.beside["/completion"] = listed
        score = reasoner.score(QUESTION, "\0" * 4, ended=False)
    assert [token.logprob for token in score.tokens] == [-1.0] * 4
    assert asked == [[[1] * 2], [[1] * 3], [[1] * 4], [[1] * 5]]


@pytest.mark.parametrize("name, is_other", [("small", False), ("gpt-oss:120b", True)])
def test_a_server_that_answers_for_any_name_chooses_with_another_model_and_it_is_said(
    name, is_other
):
    with FakeOpenAI(about=LLAMA) as fake:
        llama(fake, said(entry()))
        fake.beside["/tokenize"] = lambda sent: [
            whole(
                {"tokens": [{"id": 1 if sent["content"] == "A" else 2, "piece": sent["content"]}]}
            )
        ]
        told = [{"id": number, "bytes": [97], "logprob": -1.0} for number in (1, 2)]
        fake.beside["/completion"] = lambda sent: said(entry(top_logprobs=told))
        result = asked("A or B?", "--host", fake.url, "--model", name, "--choose", "A,B", "--json")
    assert (result.code, result.json["model_id"]) == (0, name)
    assert result.json["metadata"].get("response_model") == ("small" if is_other else None)
    assert ("answered with the model 'small', not the one asked for" in result.err) is is_other


def test_an_event_has_no_more_values_than_a_vocabulary_takes(monkeypatch):
    monkeypatch.setattr(openai_stream, "MOST_VALUES", 70, raising=False)
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [])
        fake.beside["/completion"] = lambda sent: said(entry(), entry(2), more=[0] * 40)
        assert reasoner.score(QUESTION, "a").logprob == -2.0
        for more in ([0] * 80, [[[[[[]]]]]] * 15, [{"a": {"a": {}}}] * 9):
            fake.beside["/completion"] = lambda sent, more=more: said(entry(), entry(2), more=more)
            with pytest.raises(BackendError, match="more than 70 values"):
                reasoner.score(QUESTION, "a")


def test_a_server_without_grammars_of_tokens_is_too_old():
    with FakeOpenAI(about=LLAMA) as fake, scorer(fake.url) as reasoner:
        llama(fake, [refusal(400, "failed to parse grammar")])
        with pytest.raises(CapabilityError, match="takes no grammar of tokens.*later llama.cpp"):
            reasoner.score(QUESTION, "a")
