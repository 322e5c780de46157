"""Whether the prompt fitted: windows that are known or not, prompts that are cut, strict or not."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing

import pytest

from ore.errors import ContextTruncatedError
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.support.fake_ollama import FakeOllama
from tests.support.process import until
from tests.test_reasoner import HELLO, STREAMED, WHOLE, answer, both_ways


@both_ways
def test_the_window_is_asked_for_after_the_answer_and_never_waited_for(streams):
    with FakeOllama(scenario="silent", on="/api/ps") as server:
        stream = AyaReasoner("llama3.2", server.url).stream_reason(HELLO)
        assert next(stream) == "Paris."
        assert [seen.path for seen in server.requests] == ["/api/chat"]
        stream.close()

        started = time.monotonic()
        response = answer(AyaReasoner("llama3.2", server.url), HELLO, streams)
        assert time.monotonic() - started < 8  # a server's answer is waited for 10 s elsewhere
    assert response.metadata["context"] == {
        "status": "unknown",
        "window": None,
        "prompt_tokens": response.metadata["prompt_eval_count"],
    }


def body(text: str, **more) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "m", "message": message, **more}).encode() + b"\n"


def conversation(turns: int, words: int) -> list[Message]:
    text = "word " * words
    pairs = [[Message("user", text), Message("assistant", text)] for _ in range(turns)]
    return [Message("system", "Be brief."), *sum(pairs, []), Message("user", "And now?")]


@both_ways
@pytest.mark.parametrize(
    "overflow, messages, status",
    [
        ("old", HELLO, "complete"),
        ("old", [Message("user", "word " * 5_000)], "truncated"),
        ("rendered", [Message("user", "word " * 5_000)], "truncated"),
        ("rendered", conversation(20, 40), "complete"),
        ("rendered", conversation(20, 200), "truncated"),
        ("rendered", conversation(2, 1_600), "truncated"),
    ],
)
def test_a_prompt_that_was_cut_is_told_from_one_that_was_not(overflow, messages, status, streams):
    with FakeOllama(overflow=overflow, num_ctx=4096) as server:
        response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
        assert server.chats[0].json.get("truncate") is None
        cut = len(server.chats[0].kept) < len(messages)
    assert response.metadata["context"] == {
        "status": status,
        "window": 4096,
        "prompt_tokens": response.metadata["prompt_eval_count"],
    }
    assert status == "truncated" or not cut


@both_ways
@pytest.mark.parametrize("goes_on, status", [(True, "truncated"), (False, "complete")])
def test_a_prompt_that_shrank_as_its_conversation_grew_was_cut(goes_on, status, streams):
    last = [
        body("Yes.", done=True, done_reason="stop", prompt_eval_count=count, eval_count=2)
        for count in (239, 234)
    ]
    asked = [Message("system", "Be brief."), Message("user", "Hello?")]
    # A system message is made anew for each turn.
    grown = [Message("system", "Be brief."), asked[1], Message("assistant", "Yes."), *HELLO]
    with FakeOllama(scenario=[("body", {"body": each}) for each in last]) as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 256})
        assert answer(reasoner, asked, streams).metadata["context"]["status"] == "complete"
        messages = grown if goes_on else [Message("user", "Else?")]
        assert answer(reasoner, messages, streams).metadata["context"]["status"] == status


@both_ways
def test_a_window_beyond_what_the_model_was_trained_with_is_not_believed(streams):
    prompt = [Message("user", "word " * 5_000)]
    with FakeOllama(overflow="old") as server:
        server.ollama.context_length = 4096
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 20_000})
        response = answer(reasoner, prompt, streams)
        assert [seen.path for seen in server.requests] == ["/api/chat", "/api/show"]
    assert response.metadata["context"]["status"] == "truncated"
    assert response.metadata["context"]["window"] == 4096


@both_ways
def test_with_strict_context_the_server_refuses_what_does_not_fit(streams):
    with FakeOllama(num_ctx=4096) as server:
        reasoner = AyaReasoner("llama3.2", server.url, strict_context=True)
        assert answer(reasoner, HELLO, streams).content == "Paris."
        with pytest.raises(ContextTruncatedError) as caught:
            answer(reasoner, conversation(20, 200), streams)
        assert [seen.json["truncate"] for seen in server.chats] == [False, False]
    assert caught.value.exit_code == 3
    assert "tokens for a window of 4096" in str(caught.value)


@both_ways
def test_with_strict_context_a_server_that_cuts_all_the_same_is_caught(streams):
    last = body("Yes.", done=True, done_reason="stop", prompt_eval_count=4096, eval_count=2)
    with FakeOllama(scenario="body", body=last) as server:
        options = {"num_ctx": 4096}
        reasoner = AyaReasoner("llama3.2", server.url, strict_context=True, options=options)
        with pytest.raises(ContextTruncatedError) as caught:
            answer(reasoner, HELLO, streams)
    assert (caught.value.partial, caught.value.exit_code) == ("Yes.", 3)


@both_ways
@pytest.mark.parametrize("given", [-7, 1 << 53, 10**400], ids=["less", "more", "much more"])
def test_a_count_that_is_not_a_whole_number_is_0(streams, given):
    last = body("Yes.", done=True, prompt_eval_count=given, eval_count=given, eval_duration=given)
    with FakeOllama(scenario="body", body=last) as server:
        metadata = answer(AyaReasoner("llama3.2", server.url), HELLO, streams).metadata
    assert [metadata[f"{name}_count"] for name in ("prompt_eval", "eval")] == [0, 0]
    assert metadata["eval_duration"] == 0


# What it says that it is doing


def test_the_phase_is_loading_until_the_model_is_loaded():
    with FakeOllama(scenario="loading", seconds=0.4) as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        assert reasoner.phase() == "loading llama3.2"
        answer(reasoner, HELLO, STREAMED)
        assert reasoner.phase() == "waiting"


def test_the_phase_follows_a_streamed_turn():
    phases = []
    with FakeOllama(thinking="Hm.", reply="Yes. No.") as server:
        reasoner = AyaReasoner(
            "llama3.2", server.url, on_thinking=lambda _: phases.append(reasoner.phase())
        )
        with closing(reasoner.stream_reason(HELLO)) as chunks:
            next(chunks)
            phases.append(reasoner.phase())
        assert phases == ["thinking", "answering"]
        assert reasoner.phase() == "waiting"
    assert reasoner.phase() == "waiting"  # also where nothing answers


@pytest.mark.parametrize(
    "streams, phase",
    [(STREAMED, "reading the prompt"), (WHOLE, "reading the prompt and answering")],
)
def test_the_phase_while_the_server_is_silent_is_what_it_must_be_doing(streams, phase):
    with FakeOllama(scenario=["happy", ("happy", {"wait": 0.5})]) as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        answer(reasoner, HELLO, streams)
        turn = threading.Thread(target=answer, args=(reasoner, HELLO, streams))
        turn.start()
        until(lambda: reasoner.phase() == phase)
        turn.join()


def test_a_silent_server_is_not_reported_as_loading():
    with FakeOllama(scenario="silent", on="*") as server:
        assert AyaReasoner("llama3.2", server.url).phase() == "no reply from the server"


def test_the_phase_is_loading_while_the_server_is_silent_about_it():
    with FakeOllama(scenario="silent", on="/api/ps") as server:
        assert AyaReasoner("llama3.2", server.url).phase() == "loading llama3.2"
