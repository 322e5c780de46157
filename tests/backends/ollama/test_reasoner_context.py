"""Whether the prompt fitted: windows that are known or not, prompts that are cut, strict or not."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest

from ore.backends import go_template, ollama
from ore.backends.fitted import does_refuse
from ore.backends.turn_errors import TurnFailedError, TurnTooLargeError
from ore.core import load_aya_system_prompt
from ore.errors import BackendTimeoutError, ContextTruncatedError, OreError
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.support.fake_ollama import CUTS, FakeOllama
from tests.support.process import until
from tests.support.token_counts import SAMPLES
from tests.test_reasoner import HELLO, STREAMED, answer, both_ways

OLD_WORDS = "the input length exceeds the context length"
USUAL = ollama._WINDOW_SECONDS


@pytest.fixture(autouse=True)
def _a_window_is_waited_for(monkeypatch):
    """A busy machine may need more than the half second that a window is given."""
    monkeypatch.setattr("ore.backends.ollama._WINDOW_SECONDS", (60.0, 60.0))


@both_ways
@pytest.mark.slow
def test_the_window_is_asked_for_after_the_answer_and_never_waited_for(streams, monkeypatch):
    monkeypatch.setattr("ore.backends.ollama._WINDOW_SECONDS", USUAL)
    with FakeOllama(scenario="silent", on="/api/ps", version=CUTS) as server:
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
    with FakeOllama(overflow=overflow, num_ctx=4096, version=CUTS) as server:
        response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
        is_short = messages is HELLO
        assert server.chats[0].json.get("truncate") is (False if is_short else None)
        cut = len(server.chats[0].kept) < len(messages)
    assert response.metadata["context"] == {
        "status": status,
        "window": 4096,
        "prompt_tokens": response.metadata["prompt_eval_count"],
    }
    assert status == "truncated" or not cut


LONG, WHOLE = [Message("user", "word " * 5_000)], [Message("user", "word " * 3_000)]
BEHIND = [Message("system", "Be brief."), *WHOLE, *WHOLE]


@both_ways
@pytest.mark.parametrize(
    "version, overflow", [("0.12.6", "old"), ("0.13.5", "old"), ("0.33.0-rc2", "rendered")]
)
@pytest.mark.parametrize("messages, is_cut", [(WHOLE, False), (LONG, True), (BEHIND, True)])
def test_a_server_that_can_says_itself_whether_a_long_prompt_fits(
    messages, is_cut, version, overflow, streams
):
    with FakeOllama(num_ctx=4096, version=version, overflow=overflow) as server:
        response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
        chats = [(seen.json.get("truncate"), seen.kept is not None) for seen in server.chats]
    assert chats == ([(False, False), (None, True)] if is_cut else [(False, True)])
    assert response.metadata["context"] == {
        "status": "truncated" if is_cut else "complete",
        "window": 4096,
        "prompt_tokens": response.metadata["prompt_eval_count"],
        "told_by": "server",
    }


@both_ways
def test_of_what_could_have_been_left_out_it_is_known_that_it_was_not(streams):
    aya = Message("system", load_aya_system_prompt())
    messages = [aya, Message("user", "Hafenmeister " * 1_200)]
    for version, status in (("0.13.5", "complete"), (CUTS, "unknown")):
        with FakeOllama(num_ctx=4096, version=version) as server:
            response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
        assert response.metadata["context"]["status"] == status


@both_ways
@pytest.mark.parametrize(
    "size, num_ctx, asks",
    [(5, None, False), (5, 200, True), (1243, None, False), (1244, None, True), (1244, 8192, True)],
)
def test_for_a_short_prompt_nothing_is_looked_up_first_unless_its_window_is_small(
    size, num_ctx, asks, streams
):
    options = {} if num_ctx is None else {"num_ctx": num_ctx}
    with FakeOllama() as server:
        prompt = [Message("user", "x" * size)]  # to whose bytes 256 are added
        answer(AyaReasoner("llama3.2", server.url, options=options), prompt, streams)
        assert server.chats[0].json.get("truncate") is False
        assert (server.requests[0].json.get("truncate") == "?") is asks
        # A server that takes what is false for no messages would have its model answer.
        assert server.requests[0].json["messages"]


@both_ways
def test_a_server_that_counts_far_too_few_tokens_is_not_taken_at_its_word(streams):
    with FakeOllama(scenario="body", body=FEW) as server:
        context = answer(AyaReasoner("llama3.2", server.url), WHOLE, streams).metadata["context"]
        assert [seen.json.get("truncate") for seen in server.chats] == [False]
    assert context == {"status": "truncated", "window": None, "prompt_tokens": 14}


@both_ways
@pytest.mark.parametrize("version, by_server", [("0.13.5", True), (CUTS, False)])
def test_a_short_prompt_that_a_server_refuses_is_sent_again_to_be_cut(version, by_server, streams):
    """As where the Modelfile's own system prompt takes the window."""
    short = [Message("user", "one two three four five six seven eight nine ten eleven")]
    with FakeOllama(num_ctx=10, version=version) as server:
        context = answer(AyaReasoner("llama3.2", server.url), short, streams).metadata["context"]
        read = [seen.kept is not None for seen in server.chats]
        assert server.requests[0].path == "/api/chat"
    assert read == ([False, True] if by_server else [True])
    assert (context["status"], "told_by" in context) == ("truncated", by_server)


@both_ways
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "version, tokens, status",
    [("0.13.5", 1_000, "complete"), ("0.13.5", 400, "truncated"), (CUTS, 1_000, "truncated")],
)
def test_a_server_that_refuses_is_believed_unless_far_fewer_tokens_were_counted(
    version, tokens, status, strict, streams
):
    """Ten letters of Japanese thanks are one token of Qwen's: a third of what its usual text has."""
    thanks = [
        Message("user", "\u3042\u308a\u304c\u3068\u3046\u3054\u3056\u3044\u307e\u3059" * 1_000)
    ]
    with FakeOllama(num_ctx=4096, version=version) as server:
        server.ollama.tokens = tokens
        reasoner = AyaReasoner("llama3.2", server.url, strict_context=strict)
        if strict and status == "truncated":
            with pytest.raises(ContextTruncatedError):
                answer(reasoner, thanks, streams)
            return
        context = answer(reasoner, thanks, streams).metadata["context"]
    assert (context["status"], "told_by" in context) == (status, status == "complete")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("turns, num_ctx, is_cut", [(2, 1400, False), (4, 1200, True)])
def test_a_server_is_not_believed_behind_a_proxy_that_drops_what_it_is_asked(
    turns, num_ctx, is_cut, strict
):
    """So little is cut that the count is no sign of it."""
    messages = conversation(turns, 160)
    with FakeOllama(num_ctx=num_ctx, version="0.13.5", overflow="old") as server:
        server.ollama.drops_truncate = True
        reasoner = AyaReasoner("llama3.2", server.url, strict_context=strict)
        if strict and is_cut:
            with pytest.raises(ContextTruncatedError):
                reasoner.reason(messages)
            return
        context = reasoner.reason(messages).metadata["context"]
        assert (len(server.chats[-1].kept) < len(messages)) is is_cut
    assert "told_by" not in context and (context["status"] != "complete") is is_cut


@both_ways
@pytest.mark.parametrize(
    "words, window, options, asks",
    [
        (400, 4096, {}, False),
        (40, 2048, {}, True),  # which another program may have loaded it with
        (400, 65536, {}, True),
        (400, None, {}, True),
        (40, None, {"num_ctx": 4096}, False),
        (400, None, {"num_ctx": 65536}, True),
    ],
)
def test_a_long_conversation_that_is_sure_not_to_fit_is_not_sent_to_be_refused(
    words, window, options, asks, streams
):
    """Ollama 0.13.5 counts all of it once for each message, before it refuses."""
    messages = conversation(60, words)
    with FakeOllama(num_ctx=window or 4096, version="0.13.5") as server:
        reasoner = AyaReasoner("llama3.2", server.url, options=options)
        if window is not None:
            answer(reasoner, HELLO, False)
            server.requests.clear()
        context = answer(reasoner, messages, streams).metadata["context"]
        assert server.chats[0].json.get("truncate") is (False if asks else None)
    fits = 65536 in (window, options.get("num_ctx"))
    assert context["status"] == ("complete" if fits else "truncated")


@both_ways
@pytest.mark.parametrize("version", [CUTS, "", "odd"])
def test_a_server_that_does_not_know_how_to_refuse_is_not_asked_to(version, streams):
    with FakeOllama(num_ctx=4096, version=version) as server:
        response = answer(AyaReasoner("llama3.2", server.url), LONG, streams)
        assert [seen.json.get("truncate") for seen in server.chats] == [None]
    assert "told_by" not in response.metadata["context"]


@pytest.mark.slow
@both_ways
def test_a_server_that_is_slow_to_say_what_it_knows_says_itself_that_it_cut(streams):
    with FakeOllama(num_ctx=4096, scenario="happy", on="question", wait=0.7) as server:
        response = answer(AyaReasoner("llama3.2", server.url), LONG, streams)
        assert [seen.kept is not None for seen in server.chats] == [False, True]
    assert response.metadata["context"]["told_by"] == "server"


@both_ways
@pytest.mark.parametrize("scenario", ["busy", "bad-gateway", "cut", "load-missing"])
def test_what_fails_otherwise_is_not_sent_again(scenario, streams):
    with FakeOllama(scenario=scenario) as server:
        with pytest.raises(OreError):
            answer(AyaReasoner("llama3.2", server.url), WHOLE, streams)
        assert len(server.chats) == 1


@both_ways
def test_an_answer_that_has_begun_is_not_asked_for_again(streams):
    said = body("Par", done=False) + json.dumps({"error": OLD_WORDS}).encode() + b"\n"
    with FakeOllama(scenario="body", body=said) as server:
        with pytest.raises(TurnTooLargeError) as caught:
            answer(AyaReasoner("llama3.2", server.url), WHOLE, streams)
        assert len(server.chats) == 1
    assert (caught.value.partial, caught.value.exit_code) == ("Par", 1)


@both_ways
@pytest.mark.parametrize(
    "version, facts, status",
    [
        ("0.33.0", {}, "complete"),  # its llama.cpp makes 301 tokens 512
        ("0.30.1-rc2", {}, "complete"),
        ("0.13.5", {}, "truncated"),
        ("", {}, "truncated"),
        ("0.33.0", {"details": {"format": "safetensors"}}, "truncated"),
    ],
)
def test_an_answer_that_ends_in_the_room_that_a_rounded_window_has_cost_nothing(
    version, facts, status, streams
):
    with FakeOllama(reply="word " * 60, version=version) as server:
        server.ollama.tokens, server.ollama.shown = 279, facts
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 301})
        response = answer(reasoner, [Message("user", "word " * 279)], streams)
    assert response.metadata["context"]["status"] == status


@both_ways
def test_a_window_beyond_what_the_model_was_trained_with_is_not_believed(streams):
    prompt = [Message("user", "word " * 5_000)]
    with FakeOllama(overflow="old", version=CUTS) as server:
        server.ollama.context_length = 4096
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 20_000})
        response = answer(reasoner, prompt, streams)
        assert [seen.path for seen in server.requests] == [
            "/api/chat",
            "/api/chat",
            "/api/chat",
            "/api/show",
        ]
    assert response.metadata["context"]["status"] == "truncated"
    assert response.metadata["context"]["window"] == 4096


def test_what_a_loaded_model_was_trained_with_is_asked_once_of_its_digest():
    prompt = [Message("system", "Be brief."), Message("user", "word " * 500)]
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        windows = [reasoner.reason(prompt).metadata["context"]["window"] for _ in range(3)]
        server.ollama.copies["llama3.2"], server.ollama.context_length = "another", 2048
        windows.append(reasoner.reason(prompt).metadata["context"]["window"])
        asked = [seen.path for seen in server.requests]
    away = 4  # once a turn: whether another server answers
    assert asked.count("/api/ps") == 4 and asked.count("/api/show") == 2 + away
    assert windows == [4096, 4096, 4096, 2048]


@both_ways
def test_a_window_that_a_modelfile_sets_is_never_more_than_the_model_s(streams):
    with FakeOllama() as server:
        server.ollama.window, server.ollama.context_length = lambda *_: 999_999_999, 8192
        response = answer(AyaReasoner("llama3.2", server.url), HELLO, streams)
    assert response.metadata["context"]["window"] == 8192


@both_ways
def test_a_short_strict_turn_passes_where_nothing_is_said_of_the_model_itself(streams):
    """As behind a gateway that lets turns through, and /api/ps."""
    with FakeOllama(num_ctx=8192, version=CUTS, scenario="closed", on="/api/show") as server:
        response = answer(AyaReasoner("llama3.2", server.url, **STRICT), HELLO, streams)
    context = response.metadata["context"]
    assert (context["status"], context["window"]) == ("complete", 8192)


@both_ways
@pytest.mark.parametrize("num_ctx", [999_999_999, 8192])
def test_a_window_that_was_asked_for_is_never_more_than_the_model_s(num_ctx, streams):
    with FakeOllama() as server:
        server.ollama.context_length = 8192
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": num_ctx})
        assert answer(reasoner, HELLO, streams).metadata["context"]["window"] == 8192


@both_ways
@pytest.mark.parametrize("num_ctx", [200, 512])
def test_a_model_that_sees_images_has_a_window_with_room_for_one(num_ctx, streams):
    """See ``Scheduler.getRunner`` of Ollama."""
    with FakeOllama(capabilities=("completion", "vision"), overflow="rendered") as server:
        reasoner = AyaReasoner(
            "llama3.2", server.url, strict_context=True, options={"num_ctx": num_ctx}
        )
        context = answer(reasoner, [Message("user", "word " * 600)], streams).metadata["context"]
    assert (context["status"], context["window"]) == ("complete", 2048)


def test_what_is_true_or_not_need_not_be_python_s_own():
    """As numpy's are: no index of a tuple."""
    with FakeOllama() as server:
        for strict in (0.0, 1.0):
            reasoner = AyaReasoner("llama3.2", server.url, strict_context=strict)
            assert answer(reasoner, HELLO, False).metadata["context"]["status"] == "complete"


@both_ways
@pytest.mark.parametrize("family, status", [("gptoss", "complete"), ("llama", "truncated")])
def test_a_model_that_is_given_more_than_was_asked_for_has_the_window_that_it_has(
    family, status, streams
):
    """See ``scheduleRunner`` of Ollama: gpt-oss has 8,192 tokens at least, if there is memory."""
    with FakeOllama() as server:
        server.ollama.shown, server.ollama.tokens = {"details": {"family": family}}, 5000
        server.ollama.window = lambda request, model: 8192
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 4096})
        context = answer(reasoner, [Message("user", "word " * 5000)], streams).metadata["context"]
    window = {"complete": 8192, "truncated": 4096}[status]
    assert (context["status"], context["window"]) == (status, window)


DENSE = "7f3a9c" * 400  # 600 tokens of the stand-in's


@both_ways
@pytest.mark.parametrize("overflow", ["old", "rendered"])
@pytest.mark.parametrize("num_ctx", [None, 1024])
def test_a_small_prompt_that_a_small_model_cut_is_told(num_ctx, overflow, streams):
    with FakeOllama(overflow=overflow) as server:
        server.ollama.context_length = 512
        server.ollama.note_use = lambda request, model, size: server.ollama.loaded.update(
            {model: num_ctx or 4096}
        )  # /api/ps of 0.13.5 says what was asked for
        options = {"num_ctx": num_ctx} if num_ctx else None
        reasoner = AyaReasoner("llama3.2", server.url, options=options)
        context = answer(reasoner, [Message("user", DENSE)], streams).metadata["context"]
    assert (context["status"], context["window"]) == ("truncated", 512)


@both_ways
def test_a_window_that_the_server_claims_is_never_more_than_the_model_s(streams):
    """What ``/api/ps`` gives is what was asked for: see ``NewLlamaServer`` of Ollama."""
    with FakeOllama(overflow="old") as server:
        server.ollama.context_length = 4096
        listed = server.ollama.ps_lines

        def claimed():
            for line in listed():
                yield {"models": [each | {"context_length": 131_072} for each in line["models"]]}

        server.ollama.ps_lines = claimed
        reasoner = AyaReasoner("llama3.2", server.url)
        context = answer(reasoner, [Message("user", "word " * 5_000)], streams).metadata["context"]
    assert (context["status"], context["window"]) == ("truncated", 4096)


OWN = "A boat pays by its length. " * 90


@both_ways
@pytest.mark.parametrize(
    "shown, tokens, status",
    [
        ({"system": OWN}, 1026, "truncated"),
        (
            {"messages": [{"role": "user", "content": OWN}, {"role": "assistant"}, 7]},
            1026,
            "truncated",
        ),
        ({}, 1026, "truncated"),  # by its template, which alone can have so many
        ({"system": "Be brief.", "messages": 7}, 1025, "complete"),
        ({}, 1028, "complete"),
    ],
)
def test_a_prompt_that_was_cut_in_half_for_what_the_modelfile_adds_is_told(
    shown, tokens, status, streams
):
    with FakeOllama(num_ctx=2048, version=CUTS) as server:
        server.ollama.shown, server.ollama.tokens = shown, tokens
        response = answer(AyaReasoner("llama3.2", server.url), [Message("user", "Hi.")], streams)
    assert response.metadata["context"]["status"] == status


@both_ways
@pytest.mark.parametrize("overflow", ["old", "rendered"])
@pytest.mark.parametrize("words, status", [(3, "complete"), (1050, "complete"), (1200, "unknown")])
def test_a_turn_whose_system_prompt_can_not_have_been_left_out_is_complete(
    words, status, overflow, streams
):
    messages = [
        Message("system", load_aya_system_prompt()),
        Message("user", "Hafenmeister " * words),
    ]
    with FakeOllama(num_ctx=4096, overflow=overflow, version=CUTS) as server:
        response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
    assert response.metadata["context"]["status"] == status


def test_nothing_can_have_been_left_out_before_the_only_message():
    with FakeOllama(num_ctx=4096, capabilities=("completion", "vision")) as server:
        server.ollama.tokens = 3500
        messages = [Message("user", "\u4e16\u754c\u597d" * 600, images=(b"GIF89a",))]
        response = answer(AyaReasoner("llama3.2", server.url), messages, False)
    assert response.metadata["context"]["status"] == "complete"


@both_ways
def test_of_no_messages_nobody_knows_whether_they_fitted(streams):
    """Asked so, a server loads the model, and answers nothing."""
    with FakeOllama() as server:
        response = answer(AyaReasoner("llama3.2", server.url), [], streams)
    assert (response.content, response.metadata["context"]["status"]) == ("", "unknown")


TEN_WORDS = [Message("user", "word " * 10)]


@both_ways
@pytest.mark.parametrize("overflow", ["old", "rendered"])
@pytest.mark.parametrize(
    "shown, messages, status",
    [
        ({"system": OWN}, TEN_WORDS, "truncated"),
        ({"system": OWN}, [Message("system", "Be brief."), *TEN_WORDS], "complete"),
        ({"messages": [{"role": "user", "content": OWN}]}, TEN_WORDS, "truncated"),
        ({"system": OWN[:900]}, [Message("user", "word " * 300)], "truncated"),
        ({"system": OWN[:900]}, TEN_WORDS, "complete"),
        ({"system": "Be brief."}, [Message("user", "word " * 300)], "unknown"),
        ({}, [Message("user", "word " * 300)], "complete"),
        ({}, [Message("system", "Be brief."), Message("user", "word " * 300)], "unknown"),
    ],
)
def test_a_system_prompt_of_the_modelfile_that_was_left_out_is_told(
    shown, messages, status, overflow, streams
):
    """See ``chatPrompt`` of Ollama 0.13.5: what is before the last message is left out, all of it."""
    with FakeOllama(num_ctx=512, overflow=overflow, version=CUTS) as server:
        server.ollama.shown = shown
        response = answer(AyaReasoner("llama3.2", server.url), messages, streams)
    assert response.metadata["context"]["status"] == status


WORDS = [Message("user", "word " * 25_888)]
FEW = body("Yes.", done=True, done_reason="stop", prompt_eval_count=14, eval_count=2)


@both_ways
@pytest.mark.parametrize("keep_alive", [None, 0])
def test_far_fewer_tokens_than_the_text_can_have_are_a_cut_whatever_the_window(keep_alive, streams):
    with FakeOllama(
        scenario="body", body=FEW, version=CUTS
    ) as server:  # no model is listed as loaded
        reasoner = AyaReasoner("llama3.2", server.url, keep_alive=keep_alive)
        context = answer(reasoner, WORDS, streams).metadata["context"]
    assert context == {"status": "truncated", "window": None, "prompt_tokens": 14}


@both_ways
@pytest.mark.parametrize(
    "keep_alive, strict", [(0, False), ("0", True), ("0s", False), (0.0, True)]
)
@pytest.mark.slow
def test_the_window_of_a_model_that_is_not_kept_is_asked_for_in_time(keep_alive, strict, streams):
    with FakeOllama(reply="Paris it is.", delay=0.2) as server:
        reasoner = AyaReasoner("llama3.2", server.url, keep_alive=keep_alive, strict_context=strict)
        context = answer(reasoner, HELLO, streams).metadata["context"]
        of_template = ["/api/show"] * strict
        assert [seen.path for seen in server.requests] == ["/api/chat", "/api/ps", *of_template]
        assert server.ollama.loaded == {}
    assert (context["status"], context["window"]) == ("complete", 4096)


@both_ways
def test_a_second_name_for_the_same_weights_has_their_window(streams):
    with FakeOllama(models=("first:latest",), copies={"second:latest": "first:latest"}) as server:
        reasoner = AyaReasoner("second", server.url)
        context = answer(reasoner, HELLO, streams).metadata["context"]
        assert list(server.ollama.loaded) == ["first:latest"]
    assert (context["status"], context["window"]) == ("complete", 4096)


@both_ways
def test_a_model_made_of_the_same_weights_has_the_window_of_the_one_that_is_loaded(streams):
    with FakeOllama(models=("first:latest",), copies={"second:latest": "first:latest"}) as server:
        entry = server.ollama.entry
        server.ollama.entry = lambda model: entry(model) | {"digest": model}  # of the manifest
        shown = server.ollama.show
        weights = f"FROM /blobs/sha256-{'a' * 64}\n"

        def show(request: dict):
            reply = shown(request)
            return replace(reply, lines=[line | {"modelfile": weights} for line in reply.lines])

        server.ollama.show = show
        context = answer(AyaReasoner("second", server.url), HELLO, streams).metadata["context"]
    assert (context["status"], context["window"]) == ("complete", 4096)


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


STRICT = {"strict_context": True}


@both_ways
@pytest.mark.parametrize("version, passes", [("0.12.6", True), ("0.12.5", False), ("odd", False)])
def test_a_large_strict_turn_that_fitted_passes_where_the_server_refuses_others(
    version, passes, streams
):
    prompt = conversation(4, 600)  # nearly all of the window, of words that could be more
    with FakeOllama(num_ctx=5200, version=version) as server:
        reasoner = AyaReasoner("llama3.2", server.url, **STRICT)
        if passes:
            context = answer(reasoner, prompt, streams).metadata["context"]
            assert context["status"] == "complete"
            return
        with pytest.raises(ContextTruncatedError, match="It is not known whether all") as caught:
            answer(reasoner, prompt, streams)
    assert (caught.value.exit_code, caught.value.partial) == (3, "Paris.")


@both_ways
@pytest.mark.parametrize("wait", [0, pytest.param(0.7, marks=pytest.mark.slow)])
def test_a_large_strict_turn_that_fitted_passes_behind_a_proxy_that_sorts_keys_or_is_slow(
    wait, streams
):
    with FakeOllama(num_ctx=5200, scenario="happy", on="question", wait=wait) as server:
        server.ollama.sorts_keys = not wait
        reasoner = AyaReasoner("llama3.2", server.url, **STRICT)
        context = answer(reasoner, conversation(4, 600), streams).metadata["context"]
    assert (context["status"], context["told_by"]) == ("complete", "server")


def test_a_question_that_nobody_has_read_is_no_answer_also_the_second_time():
    """It is asked again after the turn."""
    first = "json: cannot unmarshal number into Go struct field ChatRequest.messages of type []api.Message"
    said = [TurnFailedError(first), BackendTimeoutError("silent")]

    def ask(odd):
        raise said.pop(0)

    assert does_refuse(ask, "llama3.2") is None and not said


@both_ways
@pytest.mark.parametrize(
    "last, why",
    [
        (
            {"done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2},
            "does not say how large its context window is",
        ),
        ({"done_reason": "stop"}, "did not say how many tokens it read"),
    ],
)
def test_a_strict_turn_never_passes_where_nobody_knows(last, why, streams):
    last = body("Yes.", done=True, **last)
    with FakeOllama(scenario="body", body=last, version=CUTS) as server:
        with pytest.raises(ContextTruncatedError, match=why) as caught:
            answer(AyaReasoner("llama3.2", server.url, **STRICT), HELLO, streams)
    assert caught.value.exit_code == 3


@both_ways
@pytest.mark.parametrize("version, passes", [("0.12.6", True), (CUTS, False)])
def test_a_prompt_is_known_to_be_whole_where_another_program_had_the_model_unloaded(
    version, passes, streams
):
    last = body("Yes.", done=True, done_reason="stop", prompt_eval_count=9, eval_count=2)
    with FakeOllama(scenario="body", body=last, version=version) as server:
        context = answer(AyaReasoner("llama3.2", server.url), HELLO, streams).metadata["context"]
    status = {"status": "complete", "told_by": "server"} if passes else {"status": "unknown"}
    assert context == {**status, "window": None, "prompt_tokens": 9}


@both_ways
@pytest.mark.parametrize(
    "model, shown",
    [("llama3.2", {"remote_host": "http://10.0.0.7:11434"}), ("gpt-oss:120b-cloud", {})],
)
@pytest.mark.parametrize(
    "words, num_ctx, tokens, why",
    [
        (1, None, 20, "how large its"),
        (1000, None, 1000, "how large its"),
        (1000, 1500, 1000, "1500"),
    ],
)
def test_a_server_that_has_another_one_answer_does_not_vouch_for_it(
    model, shown, words, num_ctx, tokens, why, streams
):
    """The other one may be older, and cut what it is asked to refuse."""
    last = body("Yes.", done=True, done_reason="stop", prompt_eval_count=tokens, eval_count=2)
    options = {"num_ctx": num_ctx} if num_ctx else None
    with FakeOllama(scenario="body", body=last, version="0.13.5", models=(model,)) as server:
        server.ollama.shown = shown
        asked = [Message("user", "word " * words), Message("assistant", "Yes."), *HELLO]
        with pytest.raises(ContextTruncatedError, match=why):
            answer(AyaReasoner(model, server.url, options=options, **STRICT), asked, streams)


@both_ways
def test_a_model_that_another_server_answers_for_may_be_listed_as_loaded(streams):
    """Its name was another model's, which stays in memory for five minutes."""
    with FakeOllama(num_ctx=8192, version="0.13.5") as server:
        server.ollama.tokens = 2000
        server.ollama.shown = {"remote_host": "http://10.0.0.7:11434"}
        with pytest.raises(ContextTruncatedError, match="8192"):
            prompt = [Message("user", "word " * 5000)]
            answer(AyaReasoner("llama3.2", server.url, **STRICT), prompt, streams)


@both_ways
@pytest.mark.parametrize("status, error", [(429, "slow down"), (503, "server busy")])
def test_a_gateway_that_does_not_pass_on_what_is_asked_says_nothing_of_the_server(
    status, error, streams
):
    raw = f'HTTP/1.1 {status} No\r\nConnection: close\r\n\r\n{{"error": "{error}"}}'.encode()
    with FakeOllama(
        scenario="raw", raw=raw, on="question", num_ctx=1024, version="0.13.5"
    ) as server:
        context = answer(AyaReasoner("llama3.2", server.url), LONG, streams).metadata["context"]
    assert (context["status"], context["told_by"]) == ("truncated", "server")


@both_ways
@pytest.mark.parametrize("kind", ["hexadecimal", "Chinese", "minified", "Base64", "CSV"])
def test_dense_text_that_was_cut_in_half_is_told(kind, streams):
    text = SAMPLES[kind][0] * 20
    last = body("Yes.", done=True, done_reason="stop", prompt_eval_count=514, eval_count=2)
    with FakeOllama(scenario="body", body=last, version=CUTS) as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 1024})
        context = answer(reasoner, [Message("user", text)], streams).metadata["context"]
    assert context["status"] == "truncated"


@both_ways
@pytest.mark.parametrize("options", [{}, {"num_keep": 24}], ids=["the model", "the request"])
@pytest.mark.parametrize(
    "count, status", [(524, "truncated"), (525, "truncated"), (526, "complete")]
)
def test_a_cut_that_keeps_more_of_the_beginning_is_told(options, count, status, streams):
    with FakeOllama(version=CUTS) as server:
        server.ollama.tokens = count
        if not options:
            server.ollama.shown = {"parameters": "num_keep                       24"}
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 1024, **options})
        messages = [Message("user", SAMPLES["hexadecimal"][0] * 5)]
        assert answer(reasoner, messages, streams).metadata["context"]["status"] == status


@both_ways
@pytest.mark.parametrize("given", [-7, 1 << 53, 10**400], ids=["less", "more", "much more"])
def test_a_count_that_is_not_a_whole_number_is_0(streams, given):
    last = body("Yes.", done=True, prompt_eval_count=given, eval_count=given, eval_duration=given)
    with FakeOllama(scenario="body", body=last) as server:
        metadata = answer(AyaReasoner("llama3.2", server.url), HELLO, streams).metadata
    assert [metadata[f"{name}_count"] for name in ("prompt_eval", "eval")] == [0, 0]
    assert metadata["eval_duration"] == 0


# What it says that it is doing


@pytest.mark.slow
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


def test_a_model_that_is_loaded_under_another_name_is_not_said_to_be_loading():
    with FakeOllama(models=("first:latest",), copies={"second:latest": "first:latest"}) as server:
        reasoner = AyaReasoner("second", server.url)
        with closing(reasoner.stream_reason(HELLO)) as chunks:
            next(chunks)
            assert reasoner.phase() == "answering"


@both_ways
@pytest.mark.slow
def test_the_phase_while_the_server_is_silent_says_no_more_than_is_known(streams):
    with FakeOllama(scenario=["happy", ("happy", {"wait": 0.5})]) as server:
        reasoner = AyaReasoner("llama3.2", server.url)
        answer(reasoner, HELLO, streams)
        turn = threading.Thread(target=answer, args=(reasoner, HELLO, streams))
        turn.start()
        until(lambda: reasoner.phase() == "waiting for llama3.2")
        turn.join()


@pytest.mark.slow
def test_a_silent_server_is_not_reported_as_loading():
    with FakeOllama(scenario="silent", on="*") as server:
        assert AyaReasoner("llama3.2", server.url).phase() == "no reply from the server"


@pytest.mark.slow
def test_the_phase_is_loading_while_the_server_is_silent_about_it():
    with FakeOllama(scenario="silent", on="/api/ps") as server:
        assert AyaReasoner("llama3.2", server.url).phase() == "loading llama3.2"


ASKED = [Message("system", load_aya_system_prompt()), Message("user", "Who was it?")]
UNTAUGHT = "{{ .Prompt }}"


@both_ways
@pytest.mark.parametrize(
    "template, messages, left_out",
    [
        (UNTAUGHT, ASKED, "system"),
        ("{{ .System }} {{ .Prompt }}", ASKED, None),
        (UNTAUGHT, [ASKED[0], *WORDS], None),  # the window did not have room for the rest either
        (UNTAUGHT, WORDS, None),
    ],
)
def test_what_a_template_leaves_out_is_not_said_to_be_the_windows_fault(
    template, messages, left_out, streams
):
    with FakeOllama(scenario="body", body=FEW) as server:
        server.ollama.shown = {"template": template}
        context = answer(AyaReasoner("llama3.2", server.url), messages, streams).metadata["context"]
        assert (context["status"], context.get("left_out")) == ("truncated", left_out)

        with (
            closing(AyaReasoner("llama3.2", server.url, strict_context=True)) as strict,
            pytest.raises(ContextTruncatedError) as raised,
        ):
            answer(strict, messages, streams)
    assert ("context window" in str(raised.value)) is (left_out is None)
    assert ("messages of the role 'system'" in str(raised.value)) is (left_out is not None)


@both_ways
@pytest.mark.parametrize("prompt", ["Who was it?", "word " * 400])
def test_a_short_system_prompt_that_a_template_leaves_out_is_told(prompt, streams):
    """The count does not show it. Nothing more is asked about a short prompt, unless it is strict."""
    messages = [Message("system", "Be brief."), Message("user", prompt)]
    with FakeOllama(version="0.29.9") as server:
        server.ollama.shown = {"template": UNTAUGHT}
        context = answer(AyaReasoner("llama3.2", server.url), messages, streams).metadata["context"]
        status = ("truncated", "system") if len(prompt) > 1500 else ("complete", None)
        assert (context["status"], context.get("left_out")) == status
        assert "told_by" not in context

        with (
            closing(AyaReasoner("llama3.2", server.url, strict_context=True)) as strict,
            pytest.raises(ContextTruncatedError, match="messages of the role 'system'"),
        ):
            answer(strict, messages, streams)


@both_ways
@pytest.mark.parametrize("prompt", ["Who was it?", "word " * 400])
@pytest.mark.parametrize("is_strict", [False, True])
def test_a_model_without_a_template_has_one_of_llama_cpps_own(prompt, is_strict, streams):
    """Ollama 0.30 and newer shows the bare one all the same; a real 0.33 gave the model every message."""
    messages = [Message("system", "Be brief."), Message("user", prompt)]
    with FakeOllama(version="0.30.0") as server:
        server.ollama.shown = {"template": UNTAUGHT}
        reasoner = AyaReasoner("llama3.2", server.url, strict_context=is_strict)
        context = answer(reasoner, messages, streams).metadata["context"]
    assert context["status"] == "complete" and "left_out" not in context


def test_a_template_is_read_as_often_for_a_long_conversation_as_for_a_short_one(monkeypatch):
    """It was read for each message: 400 took 16 s with a server's longest template."""
    read, roles_of = [], go_template.roles_of
    monkeypatch.setattr(go_template, "roles_of", lambda text: read.append(text) or roles_of(text))
    counts = []
    with FakeOllama(scenario="body", body=FEW) as server:
        server.ollama.shown = {"template": UNTAUGHT}
        for turns in (1, 20):
            response = AyaReasoner("llama3.2", server.url).reason(conversation(turns, 20))
            assert response.metadata["context"]["status"] == "truncated"
            counts.append(len(read))
    assert counts[1] == 2 * counts[0]


@both_ways
def test_a_turn_that_was_cut_asks_of_its_model_twice_at_most(streams):
    messages = [ASKED[0], Message("user", "abcdefghij" * 200)]
    cut = body("Yes.", done=True, done_reason="stop", prompt_eval_count=258, eval_count=2)
    with FakeOllama(scenario="body", body=cut) as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 512})
        assert answer(reasoner, messages, streams).metadata["context"]["status"] == "truncated"
        asked = [seen.path for seen in server.requests]
    assert asked.count("/api/show") == 2  # how large the window can be, and what the model adds


@both_ways
def test_a_turn_whose_answer_moved_a_rounded_window_asks_for_the_version_once(streams):
    messages = [Message("system", "Rhyme."), Message("user", "word " * 290)]
    cut = body("Yes.", done=True, done_reason="stop", prompt_eval_count=299, eval_count=300)
    with FakeOllama(scenario="body", body=cut, version="0.33.0") as server:
        server.ollama.shown = {"template": "{{ .Prompt }}"}
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 301})
        assert answer(reasoner, messages, streams).metadata["context"]["status"] == "truncated"
        asked = [seen.path for seen in server.requests]
    assert asked.count("/api/version") == 1
