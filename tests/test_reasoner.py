"""The reasoner over a real socket: what it sends, what it returns, how it ends and how it stops."""

from __future__ import annotations

import threading

import ollama  # noqa: F401  (now, so that no test measures the time it takes)
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ore.backends.address import Host
from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    IncompleteAnswerError,
    ModelNotFoundError,
    ServerUnreachableError,
    UsageError,
)
from ore.reasoner import AyaReasoner, Reasoner
from ore.types import Message, Response
from tests.support.fake_ollama import FakeOllama

HELLO = [Message("system", "You are Aya."), Message("user", "Capital of France?")]
STREAMED, WHOLE = True, False
both_ways = pytest.mark.parametrize("streams", [STREAMED, WHOLE], ids=["streamed", "whole"])


def answer(reasoner: Reasoner, messages: list[Message], streams: bool) -> Response:
    """The response, with its chunks checked against it."""
    if not streams:
        return reasoner.reason(messages)
    chunks = []
    stream = reasoner.stream_reason(messages)
    while True:
        try:
            chunks.append(next(stream))
        except StopIteration as end:
            assert "".join(chunks) == end.value.content
            assert all(chunks)
            return end.value


def test_making_one_touches_no_network():
    with FakeOllama() as server:
        AyaReasoner("llama3.2", server.url).close()
        OllamaBackend(server.url).reasoner("llama3.2", Settings())
        assert server.requests == []


@both_ways
def test_a_turn_is_one_chat_with_the_messages_as_they_are(streams):
    with FakeOllama(reply="Paris is lovely.") as server:
        response = answer(AyaReasoner("llama3.2", server.url), HELLO, streams)
        assert server.chats[0].json == {
            "model": "llama3.2",
            "messages": [
                {"role": "system", "content": "You are Aya."},
                {"role": "user", "content": "Capital of France?"},
            ],
            "stream": True,
            "tools": [],
            "truncate": False,
        }
        assert [(seen.method, seen.path) for seen in server.requests] == [
            ("POST", "/api/chat"),
            ("GET", "/api/ps"),
        ]
    assert (response.content, response.model_id) == ("Paris is lovely.", "llama3.2")


@both_ways
def test_what_the_reasoner_was_given_goes_along(streams):
    given_ = {"think": False, "format": "json", "keep_alive": "5m"}
    with FakeOllama(reply="{}") as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"seed": 7, "num_ctx": 99}, **given_)
        context = answer(reasoner, HELLO, streams).metadata["context"]
        sent = server.chats[0].json
    assert {key: sent[key] for key in given_} == given_
    assert sent["options"] == {"seed": 7, "num_ctx": 99}
    assert context["window"] == 99


@both_ways
def test_the_metadata_holds_what_the_server_measured(streams):
    with FakeOllama(reply="Paris is lovely.", thinking="Hm. France.") as server:
        metadata = answer(AyaReasoner("llama3.2", server.url), HELLO, streams).metadata
    prompt = metadata["prompt_eval_count"]
    assert metadata.pop("context") == {
        "status": "complete",
        "window": 4096,
        "prompt_tokens": prompt,
    }
    assert metadata.pop("thinking") == "Hm. France."
    assert metadata.pop("done_reason") == "stop"
    assert set(metadata) == {
        "eval_count",
        "prompt_eval_count",
        "eval_duration",
        "prompt_eval_duration",
        "total_duration",
        "load_duration",
    }
    assert all(type(value) is int and value > 0 for value in metadata.values())


@pytest.mark.invariant
@both_ways
def test_the_four_counts_are_there_even_if_the_server_gives_none(streams):
    with FakeOllama(scenario="no-metrics") as server:
        metadata = answer(AyaReasoner("llama3.2", server.url), HELLO, streams).metadata
    assert metadata == {
        "eval_count": 0,
        "prompt_eval_count": 0,
        "eval_duration": 0,
        "prompt_eval_duration": 0,
        "context": {"status": "unknown", "window": 4096, "prompt_tokens": 0},
    }


TEXTS = st.text(
    st.characters(exclude_categories=("Cs",)) | st.sampled_from("\r\n\x85\u2028\x00"), min_size=1
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4), streams=st.booleans())
def test_any_text_goes_there_and_comes_back_verbatim(shared_server, texts, streams):
    server, reasoner = shared_server
    server.ollama.chunks = texts
    server.ollama.reply = "".join(texts)
    response = answer(reasoner, [Message("user", text) for text in texts], streams)
    assert response.content == "".join(texts)
    sent = server.chats[-1].json["messages"]
    assert sent == [{"role": "user", "content": text} for text in texts]


@pytest.fixture(scope="module")
def shared_server():
    with FakeOllama() as server:
        yield server, AyaReasoner("llama3.2", server.url)


@both_ways
def test_an_empty_message_is_sent_without_content_and_an_empty_answer_is_one(streams):
    with FakeOllama(reply="", chunks=[]) as server:
        messages = [Message("assistant", ""), Message("user", "Go on.")]
        assert answer(AyaReasoner("llama3.2", server.url), messages, streams).content == ""
        assert server.chats[0].json["messages"][0] == {"role": "assistant"}


@both_ways
def test_half_a_character_in_a_message_is_refused_before_anything_is_sent(streams):
    with FakeOllama() as server:
        with pytest.raises(UsageError, match="role 'user' holds half a character .* position 2"):
            answer(AyaReasoner("llama3.2", server.url), [Message("user", "ab\ud83d")], streams)
        assert server.requests == []


def test_half_a_character_in_an_answer_becomes_a_replacement():
    with FakeOllama(scenario="surrogate") as server:
        response = answer(AyaReasoner("llama3.2", server.url), HELLO, STREAMED)
    assert response.content == "Paris.a\ufffdb"


@pytest.mark.parametrize(
    "arguments, settings_, says",
    [
        (("",), {}, "No model was named"),
        (("  ",), {}, "No model was named"),
        ((None,), {}, "No model was named"),
        (("m", "a b"), {}, "The server's address can't be used (it is not a host name)"),
        (("m",), {"timeout": 0}, "The timeout must be above 0 seconds"),
        (("m",), {"deadline": -1.5}, "The deadline must be above 0 seconds"),
        (("m",), {"deadline": float("nan")}, "The deadline must be above 0 seconds"),
        (("m",), {"timeout": float("inf")}, "The timeout must be above 0 seconds"),
        (("m",), {"timeout": "5"}, "The timeout must be a number of seconds, not '5'"),
        (("m",), {"timeout": True}, "The timeout must be a number of seconds, not True"),
    ],
)
def test_arguments_without_a_meaning_are_usage_errors(arguments, settings_, says):
    with pytest.raises(UsageError) as caught:
        AyaReasoner(*arguments, **settings_)
    assert str(caught.value).startswith(says)


@both_ways
def test_a_missing_model_error_lists_the_installed_models(streams):
    with FakeOllama(models=("a:latest", "b:1")) as server:
        with pytest.raises(ModelNotFoundError) as caught:
            answer(AyaReasoner("nope", Host(server.url, "default")), HELLO, streams)
        assert [seen.path for seen in server.requests] == ["/api/chat", "/api/tags"]
    assert (caught.value.model, caught.value.available) == ("nope", ("a:latest", "b:1"))
    assert str(caught.value) == (
        f"There is no model 'nope' at {server.url} (the default): fetch it with `Backend.pull('nope')`, "
        f"or use one that is there: a:latest, b:1."
    )


@both_ways
def test_a_server_that_is_down_fails_the_turn(streams):
    with FakeOllama() as server:
        url = server.url
    with pytest.raises(ServerUnreachableError):
        answer(AyaReasoner("llama3.2", url), HELLO, streams)


@pytest.mark.parametrize(
    "scenario, kind",
    [
        ("eof", IncompleteAnswerError),
        ("cut", IncompleteAnswerError),
        ("rst", IncompleteAnswerError),
        ("error-line", BackendError),
        ("bad-json", BackendError),
        ("stall", BackendTimeoutError),
    ],
)
def test_what_came_before_a_failure_is_kept_as_a_part(scenario, kind):
    chunks = []
    silence = 0.3 if scenario == "stall" else None
    with FakeOllama(reply="Paris is it.", scenario=scenario, after=2) as server:
        reasoner = AyaReasoner("llama3.2", server.url, timeout=silence)
        with pytest.raises(kind) as caught:
            for chunk in reasoner.stream_reason(HELLO):
                chunks.append(chunk)
    assert caught.value.partial == "".join(chunks) == "Paris is"


@both_ways
def test_an_answer_that_never_reports_done_is_refused(streams):
    with FakeOllama(scenario="eof", after=1) as server:
        with pytest.raises(IncompleteAnswerError, match="without saying that it was done"):
            answer(AyaReasoner("llama3.2", server.url), HELLO, streams)


def test_what_follows_the_last_line_is_not_read():
    with FakeOllama(scenario="after-done") as server:
        response = answer(AyaReasoner("llama3.2", server.url), HELLO, STREAMED)
    assert response.content == "Paris."


def test_one_reasoner_serves_several_threads():
    with FakeOllama(reply=lambda request: request["messages"][0]["content"]) as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        said: dict[str, str] = {}

        def ask(text: str) -> None:
            said[text] = answer(reasoner, [Message("user", text)], text < "m").content

        threads = [threading.Thread(target=ask, args=(letter * 50,)) for letter in "acexyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == {letter * 50: letter * 50 for letter in "acexyz"}


@both_ways
def test_after_a_restart_of_the_server_the_next_turn_works(streams):
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        answer(reasoner, HELLO, streams)
        server.stop()
        with pytest.raises(ServerUnreachableError):
            answer(reasoner, HELLO, streams)
        server.start()
        assert answer(reasoner, HELLO, streams).content == "Paris."
