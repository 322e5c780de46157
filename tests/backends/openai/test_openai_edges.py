"""The openai backend where a server, the environment or a model is odd."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from threading import Thread
from time import monotonic, sleep

import pytest

pytest.importorskip("openai")

from ore.backends import openai_client, openai_models, openai_stream, refusals
from ore.backends.address import Host
from ore.backends.answer import Answer
from ore.backends.http import REPLY_LIMIT
from ore.backends.openai import OpenAIBackend, OpenAIReasoner
from ore.backends.openai_parts import Parts
from ore.backends.settings import Settings
from ore.errors import BackendError, ContextTruncatedError, ModelNotFoundError, UsageError
from ore.glass.limits import notices_of, warnings_of
from tests.backends.openai.test_openai import ASKED, reasoner
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_ollama.scenarios import FOREVER, Chunk, Cut, Pause, Raw, Whole
from tests.support.fake_openai import DONE, JSON, USAGE, FakeOpenAI, data, event, refusal, whole

SOON = 8.0
"""Seconds: what takes a tenth of that on an idle machine."""


def test_text_held_back_as_a_possible_thinking_mark_is_part_of_the_answer():
    with FakeOpenAI(("<thi",)) as fake:
        assert list(reasoner(fake).stream_reason(ASKED)) == ["<thi"]


def test_the_phase_is_that_of_the_current_turn():
    phases = []
    with FakeOpenAI(thinking="Hm.") as fake:
        asked = reasoner(fake, on_thinking=lambda _: phases.append(asked.phase()))
        asked.reason(ASKED)
    assert phases == ["thinking"] and asked.phase() == "waiting"


def test_with_strict_context_an_answer_to_a_part_of_the_prompt_is_refused():
    with FakeOpenAI(scenario="full") as fake:
        assert reasoner(fake).reason(ASKED).metadata["context"]["status"] == "truncated"
        with pytest.raises(ContextTruncatedError) as caught:
            reasoner(fake, strict_context=True).reason(ASKED)
    assert (caught.value.partial, caught.value.exit_code) == ("Paris.", 3)


def test_a_model_with_half_a_character_in_its_name_is_not_listed_and_not_the_default():
    with FakeOpenAI(models=("a\ud800",)) as fake:
        asked = OpenAIBackend(Host(fake.url))
        assert asked.default_model() is None and asked.models() == []


def test_a_server_that_has_answered_over_http_is_not_said_to_speak_https():
    with FakeOpenAI() as fake:
        fake.play = [Cut()]
        with pytest.raises(BackendError, match="broke off .*it may speak https"):
            reasoner(fake).reason(ASKED)
        assert OpenAIBackend(Host(fake.url)).models() == ["small"]
        with pytest.raises(BackendError, match="broke off") as caught:
            reasoner(fake).reason(ASKED)
    assert "https" not in str(caught.value)


def test_a_bad_list_of_models_costs_only_the_window():
    with FakeOpenAI(models=(7,), serves_any=True) as fake:
        response = reasoner(fake).reason(ASKED)
        assert response.metadata["context"]["window"] is None
        fake.serves_any = False
        with pytest.raises(ModelNotFoundError) as caught:
            OpenAIReasoner("other", Host(fake.url)).reason(ASKED)
    assert caught.value.available == ()


@pytest.mark.parametrize(
    "listing",
    [
        [{"id": "small", "max_model_len": 4096}, {"id": "b"}],
        {"data": [{"id": None}, {"id": "small", "max_model_len": 4096}, {}, {"id": "b"}]},
    ],
    ids=["a bare list", "models without names"],
)
def test_what_a_list_of_models_names_is_there(listing):
    with FakeOpenAI() as fake:
        fake.listing = [whole(listing)]
        assert OpenAIBackend(Host(fake.url)).models() == ["small", "b"]
        assert reasoner(fake).reason(ASKED).metadata["context"]["window"] == 4096


@pytest.mark.parametrize(
    "listing, no_list",
    [({"data": None}, ""), ({"object": "list"}, "JSON is not of the right shape")],
    ids=["null", "nothing"],
)
def test_null_is_a_list_of_no_models_as_ollamas_server_writes_it(listing, no_list):
    with FakeOpenAI() as fake:
        fake.listing = [whole(listing)]
        backend = OpenAIBackend(Host(fake.url))
        if no_list:
            with pytest.raises(BackendError, match=no_list):
                backend.models()
        else:
            assert (backend.models(), backend.default_model()) == ([], None)


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2", b"HTTP/1.1 999999 x"])
def test_a_server_of_another_kind_has_answered_and_not_broken_off(said):
    with FakeOpenAI() as fake:
        fake.play = [Raw(said + b"\r\n\r\n"), Cut()]
        with pytest.raises(BackendError) as caught:
            reasoner(fake).reason(ASKED)
    words = f"not as the OpenAI protocol does (illegal status line: '{said.decode()}')"
    assert words in str(caught.value) and "https" not in str(caught.value)


@pytest.mark.parametrize(
    "sent, text",
    [(b"\xef\xbb\xbf", "Paris."), (b': \xff\n\ndata: {"choices": []}\n\n', "Paris.")],
    ids=["byte order mark", "half a character"],
)
def test_bytes_that_are_no_text_take_nothing_of_the_answer(sent, text):
    with FakeOpenAI() as fake:
        fake.play = [Chunk(sent), *fake.events()[1:], DONE]
        assert reasoner(fake).reason(ASKED).content == text


@pytest.mark.parametrize("encoding", ["Identity", "", "none"])
def test_a_text_that_is_not_compressed_may_say_so_in_any_way(encoding):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {encoding}\r\n\r\n"
    part = b'data: {"choices": [{"delta": {"content": "Paris."}, "finish_reason": "stop"}]}\n\n'
    with FakeOpenAI() as fake:
        fake.play = [Raw(head.encode() + part), Cut()]
        assert reasoner(fake).reason(ASKED).content == "Paris."


def test_a_text_that_comes_as_a_list_of_parts_is_text_and_thinking():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"content": parts}), event(delta={"content": "Par"})]
        fake.play += [event(delta={"content": [{"type": "text", "text": "is"}]}, finish="stop")]
        response = reasoner(fake).reason(ASKED)
    assert (response.content, response.metadata["thinking"]) == ("Paris", "Hm.")


def test_a_list_of_parts_may_hold_plain_texts_and_references_as_mistral_s_does():
    parts = [{"type": "text", "text": "Pa"}, "r", {"type": "reference", "reference_ids": [1]}, "is"]
    parts.insert(1, {"type": "tool_reference", "tool": "web_search", "title": "Paris"})
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"content": parts}, finish="stop"), DONE]
        assert reasoner(fake).reason(ASKED).content == "Paris"


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": {"text": "Hm."}},
        {"thinking": "Hm."},
        {"reasoning": [{"type": "text", "text": "Hm."}]},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]},
        {"content": [{"type": "thinking", "thinking": "Hm."}]},
        {"reasoning_content": [{"text": "H"}, {"signature": "x"}, "m", None, {"thinking": ["."]}]},
        {"reasoning": [{"text": None, "thinking": "Hm."}, False]},
    ],
    ids=[
        "Envoy's",
        "by that name",
        "in parts",
        "Databricks'",
        "as a text",
        "mixed",
        "with empty ones",
    ],
)
def test_thoughts_are_read_in_whatever_they_come(delta):
    with FakeOpenAI() as fake:
        fake.play = [event(delta=delta), *fake.events(), DONE]
        response = reasoner(fake).reason(ASKED)
    assert (response.content, response.metadata["thinking"]) == ("Paris.", "Hm.")


@pytest.mark.parametrize("none", [False, 0, "", [], {}])
def test_thoughts_may_be_said_to_be_none(none):
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"reasoning": none}), *fake.events(), DONE]
        assert "thinking" not in reasoner(fake).reason(ASKED).metadata


@pytest.mark.parametrize("thoughts", [7, True, {"text": 7}])
def test_thoughts_that_are_no_text_are_refused(thoughts):
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"reasoning": thoughts}), *fake.events(), DONE]
        with pytest.raises(BackendError, match="not of the right shape"):
            reasoner(fake).reason(ASKED)


def test_tokens_that_are_counted_within_a_choice_are_counted_as_moonshot_has_it():
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 19}}
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None), data(json.dumps({"choices": [choice]})), DONE]
        assert reasoner(fake).reason(ASKED).metadata["prompt_eval_count"] == 19


def test_zeros_for_all_tokens_are_no_count_of_an_answer():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None), event({}, "stop", usage=dict.fromkeys(USAGE, 0)), DONE]
        metadata = reasoner(fake).reason(ASKED).metadata
    assert (metadata["prompt_eval_count"], metadata["eval_count"]) == (None, None)


def test_a_list_with_parts_of_another_kind_is_refused_not_left_out():
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"content": [{"type": "image_url", "image_url": {}}]})]
        with pytest.raises(BackendError, match="not of the right shape"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize("reason", ["max_tokens", "model_length", "MAX_TOKENS"])
def test_other_servers_words_for_a_limit_are_known(reason):
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(reason), DONE]
        [said] = warnings_of(reasoner(fake).reason(ASKED), Settings())
    assert said.startswith("The answer was cut off by a limit")


def test_gemini_s_word_for_an_answer_that_ended_by_itself_is_that_of_others():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events("STOP"), DONE]
        assert reasoner(fake).reason(ASKED).metadata["done_reason"] == "stop"


def test_no_prompt_has_no_tokens_so_a_server_that_says_0_has_not_counted():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(), event(usage={"prompt_tokens": 0, "completion_tokens": 0})]
        assert reasoner(fake).reason(ASKED).metadata["prompt_eval_count"] is None


def test_an_answer_that_never_began_is_not_a_model_that_repeats_itself():
    with FakeOpenAI() as fake:
        fake.play = [DONE]
        with pytest.raises(BackendError, match="before it had begun.*: shorten it, check the"):
            reasoner(fake).reason(ASKED)


def test_an_answer_that_a_server_ends_for_another_request_has_the_right_address():
    with FakeOpenAI() as fake:  # llama-cpp-python's server, by default
        fake.play = [event(delta={"role": "assistant"}), DONE]
        with pytest.raises(
            BackendError, match="another request comes.*: ask again, or ask fewer at"
        ):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize("reason", ["tool_calls", "function_call", "TOOL_CALLS", "tool_use"])
def test_a_reason_alone_says_that_the_model_asked_for_tools(reason):
    last = Parts()
    last.note({"choices": [{"delta": {}, "finish_reason": reason}]})
    assert last.metadata(1)["asked_for_tools"] is True


def test_a_server_that_switches_to_another_protocol_is_said_to():
    with FakeOpenAI() as fake:
        fake.play = [Raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"), Cut()]
        with pytest.raises(BackendError, match=r"does \(it switches to another protocol\): check"):
            reasoner(fake).reason(ASKED)


def test_half_a_character_is_a_mark_of_its_own():
    with FakeOpenAI() as fake:
        fake.play = [
            Chunk(b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'),
            *fake.events(),
        ]
        assert reasoner(fake).reason(ASKED).content == "\ufffdParis."


def test_an_error_that_is_a_text_is_what_the_server_says():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None), data('{"error": "the queue is full"}')]
        with pytest.raises(BackendError, match="failed: the queue is full"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize(
    "sent",
    [
        b'data: {"object": "error", "message": "too much of context_length_exceeded", "code": 400}',
        b'event: error\ndata: {"message": "too much of context_length_exceeded"}',
        b'error: {"code": 400, "message": "too much of context_length_exceeded"}',
        b'data: {"error": {"message": "Provider returned error", "metadata": '
        b'{"raw": "too much of context_length_exceeded"}}}',
        b'{"error": {"message": "too much of context_length_exceeded"}}',
        b'data: {"code": 1261, "msg": "too much of context_length_exceeded", "success": false}',
        b'data: {"choices": null, "base_resp": {"status_code": 1039, '
        b'"status_msg": "too much of context_length_exceeded"}}',
        b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", '
        b'"error": {"code": 502, "message": "too much of context_length_exceeded"}}]}',
        b'data: {"choices": [{"index": 0, "error": {"message": {"detail": [{"loc": ["body"], '
        b'"msg": "too much of context_length_exceeded"}]}}}]}',
        b'event: error\ndata: {"detail": "too much of context_length_exceeded"}',
        b'data: {"success": false, "errors": [{"code": 5021, "message": '
        b'"too much of context_length_exceeded"}], "result": null}',
        b'data: {"text": "too much of context_length_exceeded", "error_code": 50002}',
        b'data: {"error_code": 336007, "error_msg": "too much of context_length_exceeded"}',
        b"data: too much of context_length_exceeded",
        b"data: error: too much of context_length_exceeded\ndata: at line 7",
    ],
    ids=[
        "an object that is one",
        "an event of that name",
        "a field of that name",
        "OpenRouter's",
        "a line without a field",
        "Zhipu's",
        "MiniMax's",
        "a gateway's, of a choice",
        "with an object for a message",
        "of a program with FastAPI",
        "Cloudflare's",
        "FastChat's",
        "Baidu's",
        "mistral.rs's, in words",
        "Crane's, with a line of details",
    ],
)
@pytest.mark.parametrize("begun", [0, 2])
def test_an_error_within_a_stream_is_what_the_server_says_however_it_is_marked(sent, begun):
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None)[:begun], Chunk(sent + b"\n\n"), DONE]
        with pytest.raises(ContextTruncatedError, match="does not fit .*too much of"):
            reasoner(fake, strict_context=True).reason(ASKED)


@pytest.mark.parametrize(
    "models, kind, said",
    [
        (("a", "b"), ModelNotFoundError, "There is no model 'small' at"),
        (("small",), BackendError, "failed: 400: Invalid value: Model 'small' not found"),
    ],
)
def test_an_unknown_model_that_an_event_tells_of_is_told_with_those_that_are_there(
    models, kind, said
):
    with FakeOpenAI(models=models, serves_any=True) as fake:  # as Llama Stack 0.2.12 has it
        message = "400: Invalid value: Model 'small' not found"
        fake.play = [data(json.dumps({"error": {"message": message}}))]
        with pytest.raises(BackendError, match=said) as caught:
            reasoner(fake).reason(ASKED)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "sent, said",
    [
        ("Number of choices must be greater than 0.", "Number of choices must"),
        ("[ERROR] the engine is gone", r"\[ERROR\] the engine"),
        ("503 no engine", "503 no engine"),
        ("null pointer", "null pointer"),
    ],
)
def test_data_that_is_words_is_an_error(sent, said):
    with FakeOpenAI() as fake:
        fake.play = [data(sent), Pause(FOREVER)]
        with pytest.raises(BackendError, match=f"failed: {said}"):
            reasoner(fake).reason(ASKED)


def test_json_over_several_lines_of_data_is_no_error_where_a_line_is_a_word_of_json():
    sent = (
        '{"usage":\nnull,\n"ok": [\ntrue\n,\nNaN], "choices": [\n{"delta": {"content": "It is "}}]}'
    )
    with FakeOpenAI() as fake:
        fake.play = [data(sent.replace("\n", "\ndata: ")), *fake.events(), DONE]
        assert reasoner(fake).reason(ASKED).content == "It is Paris."


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_answer_about_the_mark_of_an_error_is_an_answer_wherever_it_is_cut(cut):
    sent = b'data: {"choices": [{"delta": {"content": "error: {"}}]}\n\n'
    at = sent.index(b"error") + cut - 2
    with FakeOpenAI() as fake:
        fake.play = [Chunk(sent[:at]), Pause(0.02), Chunk(sent[at:]), *fake.events(), DONE]
        assert reasoner(fake).reason(ASKED).content == "error: {Paris."


def test_a_choice_that_ended_by_itself_is_an_answer_whatever_else_is_in_it():
    ended = {"index": 0, "delta": {"content": "Paris."}, "finish_reason": "stop"}
    more = {"error": {"code": "content_filter_error"}, "base_resp": {"status_code": 0}}
    with FakeOpenAI() as fake:
        fake.play = [data(json.dumps({"choices": [ended | more], **more, "error": None})), DONE]
        assert reasoner(fake).reason(ASKED).content == "Paris."


def test_a_message_beside_a_code_of_0_is_no_error():
    with FakeOpenAI() as fake:
        fake.play = [data('{"code": 0, "msg": "success"}'), *fake.events(), DONE]
        assert reasoner(fake).reason(ASKED).content == "Paris."


def test_an_error_without_words_in_a_choice_is_one():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None), data('{"choices": [{"error": {"code": 502}}]}'), DONE]
        with pytest.raises(BackendError, match="failed: an error without words"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize(
    "said, words",
    [
        (
            {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no balance"}},
            "no bal",
        ),
        ({"code": 401, "msg": "token expired or incorrect", "success": False}, "token expired"),
        ({"success": False, "errors": [{"code": 3, "message": "no capacity"}]}, "no capacity"),
    ],
)
def test_an_error_with_status_200_is_what_the_server_says(said, words):
    with FakeOpenAI() as fake:
        fake.play = [whole(said)]
        with pytest.raises(BackendError, match=f"failed: {words}"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize("within", [False, True])
def test_an_error_in_a_list_of_one_is_what_the_server_says(within):
    said = [{"error": {"code": 400, "message": "User location is not supported", "status": "F"}}]
    with FakeOpenAI() as fake:
        fake.play = [data(json.dumps(said))] if within else [whole(said, 400)]
        with pytest.raises(BackendError, match=r"(failed: |\()User location is not supported"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize(
    "sent", [b"retry: 3000\n\n", b"id: 7\n\n", b"event: ping\r\n\r\n", b"data:\n\n", b"data: \r\r"]
)
def test_an_event_without_data_says_nothing(sent):
    with FakeOpenAI() as fake:
        fake.play = [Chunk(sent), *fake.events(None), Chunk(sent), fake.events()[-1], DONE]
        assert list(reasoner(fake).stream_reason(ASKED)) == ["Paris", "."]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("cut", range(1, 9))
def test_an_error_that_is_cut_in_two_is_what_the_server_says(cut, end):
    sent = f'error: {{"message": "it broke"}}{end}{end}'.encode()
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None), Chunk(sent[:cut]), Pause(0.02), Chunk(sent[cut:]), DONE]
        with pytest.raises(BackendError, match="failed: it broke"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize(
    "between, last", [("\r\n" * 2, "\r\n" * 2), ("\r\r", "\r\r"), ("\n\n", "\n")]
)
def test_the_last_event_is_read_however_its_lines_end(between, last):
    with FakeOpenAI() as fake:
        rows = [each.data.decode().strip() for each in fake.events()]
        fake.play = [*(Chunk(f"{row}{between}".encode()) for row in rows[:-1])]
        fake.play.append(Chunk(f"{rows[-1]}{last}".encode()))
        assert reasoner(fake).reason(ASKED).content == "Paris."


@pytest.mark.parametrize("whole", [{"message": {"content": "Paris."}}, {"text": "Paris."}])
def test_a_choice_that_comes_whole_is_the_answer(whole):
    with FakeOpenAI() as fake:
        fake.play = [data(json.dumps({"choices": [{**whole, "finish_reason": "stop"}]})), DONE]
        assert reasoner(fake).reason(ASKED).content == "Paris."


@pytest.mark.parametrize("delta", [{"delta": {"content": ""}}, {"delta": None}, {}])
def test_a_choice_that_comes_in_parts_and_whole_is_taken_once(delta):
    both = {"index": 0, **delta, "message": {"content": "Paris."}}
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(), data(json.dumps({"choices": [both]})), DONE]
        assert reasoner(fake).reason(ASKED).content == "Paris."


@pytest.mark.slow
@pytest.mark.parametrize("then", [Cut(), Pause(FOREVER)], ids=repr)
def test_an_end_that_each_part_denies_is_none(then, monkeypatch):
    monkeypatch.setattr(openai_stream, "LAST_SECONDS", 0.2)
    with FakeOpenAI() as fake:
        fake.play = [event(delta={"content": "Par"}, finish="null"), then]
        with pytest.raises(BackendError):
            reasoner(fake, deadline=1.0).reason(ASKED)


@pytest.mark.slow
@pytest.mark.parametrize("then", [Cut(), Cut(reset=True), Pause(FOREVER)], ids=repr)
@pytest.mark.parametrize("name, begun", [("content", "Paris"), ("reasoning_content", "")])
def test_an_end_that_is_said_with_each_part_is_none_before_the_last(name, begun, then, monkeypatch):
    monkeypatch.setattr(openai_stream, "LAST_SECONDS", 0.2)
    with FakeOpenAI() as fake:  # as Gemini's servers say it
        parts = [event(delta={name: piece}, finish="stop") for piece in ("Par", "is")]
        parts = parts if begun else parts[:1]
        fake.play = [*parts, then]
        with pytest.raises(BackendError) as caught:
            reasoner(fake, deadline=1.0).reason(ASKED)
        assert caught.value.partial == begun
        fake.play = [*parts, Pause(0.4), event(delta={"content": "."}, finish="stop"), DONE]
        assert reasoner(fake, deadline=2.0).reason(ASKED).content == f"{begun}."


@pytest.mark.parametrize("then", [[], [Cut()], [DONE]], ids=repr)
def test_an_answer_that_comes_with_its_thought_and_its_end_is_whole(then):
    with FakeOpenAI() as fake:
        fake.play = [
            event(delta={"reasoning_content": "Hm.", "content": "Paris."}, finish="stop"),
            *then,
        ]
        response = reasoner(fake).reason(ASKED)
        assert (response.content, response.metadata["thinking"]) == ("Paris.", "Hm.")


@pytest.mark.parametrize("reason", ["length", "content_filter", "MAX_TOKENS"])
def test_a_limit_that_is_met_within_a_thought_is_an_end(reason):
    with FakeOpenAI() as fake:
        parts = [event(delta={"reasoning_content": piece}) for piece in ("H", "m")]
        last = event(delta={"reasoning_content": "."}, finish=reason)
        fake.play = [*parts, last, Cut()]
        response = reasoner(fake).reason(ASKED)
        assert response.metadata["done_reason"] == reason.lower()


def test_an_error_in_the_place_of_a_stream_is_what_the_server_says_without_the_key():
    with FakeOpenAI(key="sk-secret-of-mine") as fake:
        fake.play = [refusal(200, "the key sk-secret-of-mine has no credit")]
        with pytest.raises(BackendError, match="failed: the key .* has no credit") as caught:
            OpenAIReasoner("small", Host(fake.url), "sk-secret-of-mine").reason(ASKED)
    assert "sk-secret-of-mine" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("then", [Cut(), Cut(reset=True), Pause(FOREVER)], ids=repr)
@pytest.mark.parametrize("limits", [{}, {"timeout": 1.0}, {"deadline": 1.5}], ids=repr)
def test_what_goes_wrong_after_an_answer_has_ended_takes_nothing_of_it(then, limits, monkeypatch):
    monkeypatch.setattr(openai_stream, "LAST_SECONDS", 1.0)
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(), then]
        response = reasoner(fake, **limits).reason(ASKED)
    assert (response.content, response.metadata["done_reason"]) == ("Paris.", "stop")
    assert response.metadata["eval_count"] is None


@pytest.mark.parametrize("sent", ['{"choices": [{"del', '{"choices": 3}'], ids=["cut", "odd"])
@pytest.mark.parametrize(
    "begun, way", [(2, "ask again, or look at its log"), (0, "check the addr")]
)
def test_the_address_is_right_where_an_answer_has_begun(sent, begun, way):
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(None)[:begun], data(sent)]
        with pytest.raises(BackendError, match=f"not as the OpenAI protocol does .*: {way}"):
            reasoner(fake).reason(ASKED)


def test_an_error_after_the_end_of_an_answer_is_an_error():
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(), data('{"error": {"message": "it broke"}}')]
        with pytest.raises(BackendError, match="failed: it broke"):
            reasoner(fake).reason(ASKED)


@pytest.mark.slow
def test_an_answer_has_an_end():
    with FakeOpenAI(("x" * (1 << 19),) * 40) as fake, pytest.raises(BackendError) as caught:
        reasoner(fake).reason(ASKED)
    assert "sent an answer larger than 16 MiB" in str(caught.value)
    assert len(caught.value.partial) <= REPLY_LIMIT


def test_a_part_without_news_is_passed_over():
    with FakeOpenAI(scenario="no-delta") as fake:
        assert reasoner(fake).reason(ASKED).content == "Paris."


def test_choices_that_are_not_a_list_are_refused():
    with FakeOpenAI(scenario="keyed-choices") as fake, pytest.raises(BackendError) as caught:
        reasoner(fake).reason(ASKED)
    assert "a part of its answer is not of the right shape" in str(caught.value)


def test_a_part_that_lacks_what_is_looked_up_is_not_understood():
    class Keyed:
        def __getitem__(self, key):  # as a dict of Python 3.12 does when it is cut like a list
            raise KeyError(key)

    part = {"choices": Keyed()}
    asked = OpenAIReasoner("small", Host("http://127.0.0.1:9/v1"))
    with pytest.raises(BackendError, match="not of the right shape"):
        asked._take(part, Answer(None), Parts())


@pytest.mark.parametrize(
    "headers, where",
    [
        ({"Location": "https://ada:pw@gpu/v1/chat?key=x"}, "to https://gpu/v1/chat"),
        ({"Location": "https://gpu/sk-of-mine"}, r"to https://gpu/\[the key]"),
        ({}, "elsewhere"),
    ],
)
def test_it_is_said_where_a_redirect_leads_without_what_may_be_a_secret(headers, where):
    with FakeOpenAI(key="sk-of-mine") as fake:
        fake.play = [Whole(308, "text/html", b"<html>moved</html>", headers)]
        with pytest.raises(BackendError, match=f"redirects {where}, and ORE follows"):
            OpenAIReasoner("small", Host(fake.url), "sk-of-mine").reason(ASKED)


@pytest.mark.parametrize("status", [300, 304, 305])
def test_where_it_leads_is_shown_of_no_other_status(status):
    leads = {"Location": "https://ada:s3cret@gpu/?key=s3cret"}
    with FakeOpenAI() as fake:
        fake.play = [Whole(status, "text/plain", b"", leads)]
        with pytest.raises(BackendError, match=rf"\(status {status}: no text\)") as caught:
            reasoner(fake).reason(ASKED)
    assert "s3cret" not in str(caught.value)


def test_an_answer_that_is_compressed_unasked_is_refused():
    with FakeOpenAI(scenario="gzip") as fake, pytest.raises(BackendError, match="is compressed"):
        reasoner(fake).reason(ASKED)


def test_a_bad_proxy_is_an_error_before_anything_is_sent(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "gopher://x")
    with pytest.raises(BackendError, match="can be made .*proxies and certificates"):
        OpenAIReasoner("small", Host("http://192.0.2.1:9/v1")).reason(ASKED)


def test_a_request_that_can_not_be_written_is_asked_for_wrongly():
    with FakeOpenAI() as fake, pytest.raises(UsageError, match="can't be made"):
        OpenAIReasoner("\ud800", Host(fake.url)).reason(ASKED)
    assert fake.requests == []


@pytest.mark.parametrize(
    "body, words",
    [
        (b'{"error":"it broke"}', "it broke"),
        (b'{"error":[1]}', ""),
        (b'{"error":"Bad Request","message":"too long","statusCode":400}', "Bad Request too long"),
        (b'{"error":true,"message":"too long"}', "too long"),
        (b'{"error":"it broke","message":"it broke"}', "it broke"),
        (b"[]", ""),
        (b'{"message":"no","code":7,"type":"t"}', "no t"),
        (b'{"error":{"message":"no","metadata":{"raw":"why not"}}}', "no why not"),
        (b'{"error":{"message":"no","metadata":{"raw":{"x":1}}}}', "no"),
        (b'{"error":{"message":"no","metadata":["raw"]}}', "no"),
        (
            b'{"message":{"detail":[{"loc":["body","seed"],"msg":"extra"}]},"type":"t"}',
            "body seed extra t",
        ),
        (b'{"base_resp":{"status_code":0,"status_msg":"success"}}', ""),
        (b'{"message":' + b"[" * 900 + b"]" * 900 + b"}", ""),
    ],
)
def test_the_words_of_an_error_are_found_where_they_are(body, words):
    assert refusals.openai_words(body) == words


@pytest.mark.parametrize("value", ["{}", '{"delta": {"tool_calls": [{}]}}'])
def test_one_part_with_many_values_takes_no_long_time(value):
    many = ", ".join([value] * (900_000 // len(value + ", ")))
    with FakeOpenAI() as fake:
        fake.play = [data('{"choices": [%s]}' % many), *fake.events(), DONE]
        began = monotonic()
        assert reasoner(fake).reason(ASKED).content == "Paris."
    assert monotonic() - began < SOON


@pytest.mark.slow
def test_a_list_of_many_models_takes_no_long_time():
    rows = '{"id": "x"}, ' * 400_000
    with FakeOpenAI() as fake:
        fake.listing = [Whole(200, JSON, f'{{"data": [{rows}{{"id": "small"}}]}}'.encode())]
        began = monotonic()
        assert reasoner(fake).reason(ASKED).content == "Paris."
    assert monotonic() - began < SOON


@pytest.mark.slow
def test_what_is_imported_for_a_list_is_no_silence_of_the_server(monkeypatch):
    monkeypatch.setattr(openai_models, "load_packages", lambda: sleep(1.1))
    with FakeOpenAI() as fake:
        assert OpenAIBackend(Host(fake.url), seconds=1.0).models() == ["small"]


def test_one_thread_at_a_time_loads_the_package(monkeypatch):
    """Where memory fails for one, Python leaves half of the package to another that waits for it."""

    @contextmanager
    def importing(*_):
        inside.append("in")
        sleep(0.05)
        yield
        inside.append("out")

    inside: list[str] = []
    monkeypatch.setattr(openai_client, "importing", importing)
    threads = [Thread(target=openai_client._packages.__wrapped__) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == ["in", "out", "in", "out"]


CALL = '{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}'


@pytest.mark.parametrize(
    "delta, reason, asks",
    [
        ('{"tool_calls": [%s]}' % CALL, "tool_calls", True),
        ('{"tool_calls": [%s]}' % CALL, "stop", True),
        ('{"function_call": {"name": "f", "arguments": "{}"}}', "function_call", True),
        ("{}", "tool_calls", True),
        ('{"tool_calls": []}', "stop", False),
        ('{"tool_calls": null}', "content_filter", False),
    ],
)
def test_an_answer_of_calls_of_tools_and_one_that_was_filtered_are_told(delta, reason, asks):
    part = '{"choices": [{"index": 0, "delta": %s, "finish_reason": "%s"}]}' % (delta, reason)
    with FakeOpenAI() as fake:
        fake.play = [data(part), DONE]
        response = reasoner(fake).reason(ASKED)
    assert response.metadata.get("asked_for_tools") == (True if asks else None)
    assert (response.content, response.metadata["done_reason"]) == ("", reason)
    [said] = notices_of(response)
    assert said.startswith("The answer is empty: the model asked for tools") == asks
    warned = [*warnings_of(response, Settings())]
    assert ["filter" in each for each in warned] == [True] * (reason == "content_filter")


def test_a_question_makes_no_transport_beside_its_own(monkeypatch):
    made = list[object]()
    with FakeOpenAI() as fake:
        reasoner(fake).reason(ASKED)
        transport = import_module("httpx2").HTTPTransport
        beside = lambda **more: made.append(1) or transport(**more)
        monkeypatch.setattr(
            "httpx2.HTTPTransport", beside
        )  # a client makes its own by another name
        reasoner(fake).reason(ASKED)
    assert not made


BESIDE_OLLAMA = """
import sys
from threading import Thread
from ore import AyaReasoner, Message, OpenAIReasoner

asked, answers = [Message("user", "Hi")], []
reasoner = OpenAIReasoner("small", sys.argv[1])
reasoner.reason(asked)
turns = lambda: answers.extend(reasoner.reason(asked).content for _ in range(12))
threads = [Thread(target=turns) for _ in range(2)]
for each in threads:
    each.start()
AyaReasoner("mistral", sys.argv[2]).reason(asked)
for each in threads:
    each.join()
print(len(answers))
"""


@pytest.mark.slow
def test_turns_go_on_while_another_thread_imports_what_ollama_is_asked_with():
    with FakeOpenAI() as fake, FakeOllama() as ollama:
        command = [sys.executable, "-c", BESIDE_OLLAMA, fake.url, ollama.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "24\n", done.stderr
