"""The openai backend against a server on a socket: what is sent, what comes back, what goes wrong."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from contextlib import closing

import pytest

from ore.backends import refusals
from ore.backends.address import Host
from ore.backends.openai import OpenAIBackend, OpenAIReasoner
from ore.backends.settings import Settings
from ore.backends.turn_errors import NothingAnswersError, TurnFailedError, TurnTooLargeError
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    CheckFailedError,
    ContextTruncatedError,
    IncompleteAnswerError,
    ModelNotFoundError,
    ServerUnreachableError,
    UsageError,
)
from ore.types import Message
from ore.types.artifact_fields import other_model
from tests.support import fake_openai
from tests.support.fake_ollama.scenarios import FOREVER, Pause, Whole
from tests.support.fake_openai import DONE, USAGE, FakeOpenAI, event, refusal, whole
from tests.support.process import until

pytest.importorskip("openai")

ASKED = [Message("system", "Be brief."), Message("user", "Which city?")]
PNG = b"\x89PNG\r\n\x1a\n...."


def reasoner(fake: FakeOpenAI, key: str | None = None, **settings) -> OpenAIReasoner:
    return OpenAIReasoner("small", Host(fake.url), key, Settings(**settings))


def test_a_turn_is_one_post_and_its_answer_has_the_usual_metadata():
    with FakeOpenAI() as fake:
        response = reasoner(fake).reason(ASKED)
    assert (response.content, response.model_id) == ("Paris.", "small")
    assert [seen.path for seen in fake.requests] == ["/v1/chat/completions", "/v1/models"]
    assert fake.chats[0].json == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Which city?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    total = response.metadata.pop("total_duration")
    assert 0 < total < 60e9
    assert response.metadata == {
        "eval_count": 7,
        "prompt_eval_count": 21,
        "eval_duration": None,
        "prompt_eval_duration": None,
        "done_reason": "stop",
        "response_model": "small",
        "context": {"status": "complete", "window": 4096, "prompt_tokens": 21},
    }


@pytest.mark.parametrize(
    "scenario, name, reason", [("fingerprint", "b4567-abc", "stop"), ("odd-names", None, "unknown")]
)
def test_what_the_server_says_of_itself_is_in_the_metadata(scenario, name, reason):
    with FakeOpenAI(scenario=scenario) as fake:
        metadata = reasoner(fake).reason(ASKED).metadata
    assert (metadata.get("system_fingerprint"), metadata["done_reason"]) == (name, reason)


def test_a_stream_is_known_by_its_kind_in_letters_of_any_size(monkeypatch):
    monkeypatch.setattr(fake_openai, "EVENTS", "Text/Event-Stream; Charset=UTF-8")
    with FakeOpenAI(("Paris.",)) as fake:
        assert reasoner(fake).reason(ASKED).content == "Paris."


def test_chunks_come_as_they_are_written():
    with FakeOpenAI(("Pa", "ris", ".")) as fake:
        assert list(reasoner(fake).stream_reason(ASKED)) == ["Pa", "ris", "."]


def test_options_thinking_format_and_images_are_sent_as_the_protocol_has_them():
    told = []
    settings = {
        "options": {"temperature": 0.0, "num_predict": 9, "seed": 3, "stop": ["x"]},
        "think": "low",
        "format": {"type": "object"},
        "on_thinking": told.append,
    }
    with FakeOpenAI(thinking="Hm.") as fake:
        response = reasoner(fake, **settings).reason([Message("user", "hi", images=(PNG,))])
    sent = fake.chats[0].json
    assert (sent["temperature"], sent["max_tokens"], sent["seed"], sent["stop"]) == (0, 9, 3, ["x"])
    assert sent["reasoning_effort"] == "low"
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    text, image = sent["messages"][0]["content"]
    assert text == {"type": "text", "text": "hi"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert (told, response.content, response.metadata["thinking"]) == (["Hm."], "Paris.", "Hm.")
    assert response.metadata["images"] == [hashlib.sha256(PNG).hexdigest()]
    assert response.metadata["options"] == settings["options"]


def test_what_a_model_says_instead_of_an_answer_is_the_answer():
    with FakeOpenAI(scenario="refusal") as fake:
        assert reasoner(fake).reason(ASKED).content == "No."


def test_thinking_inside_the_text_is_taken_out():
    with FakeOpenAI(("<thi", "nk>Hm.</th", "ink>\n\n", "Paris.")) as fake:
        chunks = reasoner(fake).stream_reason(ASKED)
        assert "".join(chunks) == "Paris."


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"options": {"top_k": 3}}, "'top_k'"),
        ({"options": {"num_ctx": 3}}, "'num_ctx'"),
        ({"think": True}, "`think=`"),
        ({"think": False}, "`think=`"),
        ({"keep_alive": 5.0}, "`keep_alive=`"),
    ],
)
def test_what_the_protocol_lacks_is_refused_before_anything_is_sent(settings, named):
    with FakeOpenAI() as fake, pytest.raises(CapabilityError, match=named):
        reasoner(fake, **settings)
    assert fake.requests == []


TROUBLES = [
    ("eof", IncompleteAnswerError, "without saying that it was done", "Paris."),
    ("cut", IncompleteAnswerError, "broke off", "Paris."),
    ("reset", IncompleteAnswerError, "broke off", "Paris."),
    ("closed", IncompleteAnswerError, "broke off", ""),
    ("silent", BackendTimeoutError, "0.3 s: give it longer with `timeout=`", ""),
    ("stalls", BackendTimeoutError, "0.3 s: give it longer with `timeout=`", "Paris."),
    ("error-event", BackendError, "failed: it broke", "Paris."),
    ("bad-json", BackendError, "not as the OpenAI protocol does", "Paris."),
    ("null-event", BackendError, "not as the OpenAI protocol does", "Paris."),
    ("list-event", BackendError, "not as the OpenAI protocol does", "Paris."),
    ("number-choices", BackendError, "not as the OpenAI protocol does", "Paris."),
    ("object-content", BackendError, "not as the OpenAI protocol does", ""),
    ("huge-line", BackendError, "a part of an answer larger than 1 MiB", ""),
    ("endless-event", BackendError, "a part of an answer larger than 1 MiB", ""),
    ("endless-comments", BackendError, "a part of an answer larger than 1 MiB", ""),
    ("html-200", BackendError, "not a stream of events", ""),
    ("json-200", BackendError, "not a stream of events", ""),
    ("no-http", BackendError, "", ""),
    ("redirect", BackendError, "follows no redirects", ""),
    ("busy", BackendError, "try again later", ""),
    ("broken", BackendError, "CUDA out of memory", ""),
    ("html-502", BackendError, "status 502", ""),
    ("too-long", TurnFailedError, "does not fit the model's context window", ""),
    ("no-images", CapabilityError, "image input is not supported", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, kind, words, partial", TROUBLES, ids=[row[0] for row in TROUBLES])
def test_trouble_is_one_sentence_after_one_request(name, kind, words, partial):
    silence = 0.3 if kind is BackendTimeoutError else None
    with FakeOpenAI(scenario=name) as fake, pytest.raises(kind) as caught:
        reasoner(fake, timeout=silence).reason(ASKED)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert (caught.value.partial, len(fake.requests)) == (partial, 1)


@pytest.mark.parametrize(
    "status, said, is_of_turn",
    [
        (400, "too hot", True),
        (422, "too hot", True),
        (500, "too hot", False),
        (500, "Jinja Exception: Conversation roles must alternate", True),
        (500, "Failed to initialize samplers: failed to parse grammar", True),
    ],
)
def test_a_request_that_is_refused_is_the_turn_s_own_fault(status, said, is_of_turn):
    body = json.dumps({"error": {"message": said}}).encode()
    host = Host("http://127.0.0.1:9")
    error = refusals.openai_status_error(host, "m", status, body, has_key=False)
    assert isinstance(error, TurnFailedError) is is_of_turn and said in str(error)


@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "API key not valid. Please pass a valid API key."}}',
        '[{"error": {"message": "API key not valid. Please pass a valid API key."}}]',
        '{"code": "Client specified an invalid argument", "error": "Incorrect API key provided: sk*"}',
    ],
    ids=["Gemini", "in a list", "xAI"],
)
def test_a_key_that_is_not_accepted_is_no_fault_of_the_turn(status, body):
    body = body.encode()
    error = refusals.openai_status_error(Host("https://h"), "m", status, body, has_key=True)
    assert type(error) is NothingAnswersError and "the key in OPENAI_API_KEY is not" in str(error)


@pytest.mark.parametrize(
    "login, body, is_password",
    [
        ('Basic realm="x"', b"<html>401</html>", True),  # nginx's, Apache's
        ("basic", b"", True),  # Caddy's
        ('Digest realm="x", qop="auth"', b"<html>401</html>", True),  # Apache's
        ("Negotiate, NTLM", b"", True),  # IIS's
        ('Basic realm="x", Bearer', b"", False),
        ("Bearer", b"", False),
        ("", b"", False),
        ('Basic realm="x"', b'{"error": {"message": "No key."}}', False),  # it knows the protocol
    ],
)
def test_a_proxy_that_wants_a_password_is_not_given_a_key(login, body, is_password):
    headers = {"WWW-Authenticate": login} if login else {}
    with FakeOpenAI() as fake:
        fake.play = [Whole(401, "text/html", body, headers)]
        for key in (None, "k"):
            with pytest.raises(NothingAnswersError) as caught:
                reasoner(fake, key).reason(ASKED)
            said = str(caught.value)
            assert ("wants a user name and a password (status 401)" in said) is is_password
            assert ("Set OPENAI_API_KEY" in said) is not is_password


def test_a_list_of_models_is_read_though_its_head_calls_it_a_text():
    with FakeOpenAI() as fake:
        fake.listing = [Whole(200, "text/plain", b'{"object": "list", "data": [{"id": "small"}]}')]
        assert OpenAIBackend(Host(fake.url)).models() == ["small"]
        fake.listing = [Whole(200, "text/html", b"<html>")]
        with pytest.raises(BackendError, match="not of the right shape"):
            OpenAIBackend(Host(fake.url)).models()


@pytest.mark.parametrize(
    "status, said",
    [
        (402, "Insufficient credits"),
        (400, "Your credit balance is too low to access the Anthropic API."),
        (400, "Access denied, please make sure your account is in good standing. Arrearage"),
        (403, "Your newly created team doesn't have any credits or licenses yet."),
        (403, "You have run out of credits or need a Grok subscription."),
        (429, "Your team x has either used all available credits or reached its monthly limit"),
        (403, "INSUFFICIENT_BALANCE"),
        (400, "Billing hard limit has been reached billing_hard_limit_reached"),
        (429, "Your account is not active billing_not_active"),
        (429, "Your account is suspended exceeded_current_quota_error"),
        (429, "余额不足或无可用资源包,请充值。 1113"),
    ],
)
def test_a_server_that_wants_to_be_paid_is_no_fault_of_the_turn(status, said):
    body = json.dumps({"error": {"message": said}}).encode()
    error = refusals.openai_status_error(Host("https://h"), "m", status, body, has_key=True)
    assert type(error) is NothingAnswersError
    assert f"wants to be paid first ({said.rstrip('.')}): look at your account" in str(error)


def test_a_quota_may_be_one_a_minute_or_that_of_an_account():
    body = b'{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    error = refusals.openai_status_error(Host("https://h"), "m", 429, body, has_key=True)
    assert type(error) is BackendError
    assert "insufficient_quota): try again later, or look at your account there." in str(error)


@pytest.mark.parametrize("name", ["no-usage", "no-mark"])
def test_a_count_that_the_server_left_out_is_null_and_its_context_unknown(name):
    with FakeOpenAI(scenario=name) as fake:
        metadata = reasoner(fake).reason(ASKED).metadata
    counts = ("eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration")
    assert [metadata[name] for name in counts] == [None] * 4
    assert metadata["context"] == {"status": "unknown", "window": 4096, "prompt_tokens": None}


@pytest.mark.parametrize(
    "rows, scenario, why",
    [
        ({"max_model_len": None}, "happy", "does not say how large its context window is"),
        ({}, "no-usage", "did not say how many tokens it read"),
    ],
)
def test_a_strict_turn_never_passes_where_nobody_knows(rows, scenario, why):
    with FakeOpenAI(scenario=scenario, about=rows) as fake:
        with pytest.raises(ContextTruncatedError, match=why) as caught:
            reasoner(fake, strict_context=True).reason(ASKED)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("strict", [False, True])
def test_far_fewer_tokens_than_the_text_can_have_are_a_cut(strict):
    prompt = [Message("user", "word " * 25_888)]
    with FakeOpenAI(about={"max_model_len": None}) as fake:
        if not strict:
            context = reasoner(fake).reason(prompt).metadata["context"]
            assert context == {"status": "truncated", "window": None, "prompt_tokens": 21}
            return
        why = "counted 21 tokens, fewer .* did not fit the context window, or .*system_prompt=''"
        with pytest.raises(ContextTruncatedError, match=why):
            reasoner(fake, strict_context=True).reason(prompt)


def test_a_server_that_cuts_no_prompt_is_believed():
    usage = event(usage={**USAGE, "prompt_tokens": 3_000})
    prompt = [Message("user", "word " * 2_900), Message("user", "And now?")]
    for owner, status in (("vllm", "complete"), ("library", "unknown")):
        with FakeOpenAI(about={"owned_by": owner}) as fake:
            fake.play = [*fake.events(), usage, DONE]
            assert reasoner(fake).reason(prompt).metadata["context"]["status"] == status


@pytest.mark.parametrize(
    "build, status",
    [("b4567-abc", "unknown"), ("b6999-abc", "complete"), ("b0-unknown", "complete")],
)
def test_an_old_llama_cpp_may_have_cut_a_prompt(build, status):
    usage = event(usage={**USAGE, "prompt_tokens": 3_000}, system_fingerprint=build)
    prompt = [Message("user", "word " * 2_900), Message("user", "And now?")]
    with FakeOpenAI(about={"owned_by": "llamacpp"}) as fake:
        fake.play = [*fake.events(), usage, DONE]
        assert reasoner(fake).reason(prompt).metadata["context"]["status"] == status


def test_the_only_model_s_window_is_that_of_the_model_which_answers_to_any_name():
    with FakeOpenAI(models=("/models/small.gguf",), serves_any=True) as fake:
        response = reasoner(fake).reason(ASKED)
    assert response.metadata["context"]["window"] == 4096
    assert (response.model_id, response.metadata["response_model"]) == ("small", "small")


@pytest.mark.parametrize(
    "aliases, said",
    [
        (["other", "small"], True),
        (["other"], None),
        ("small", None),
        ([[], "small"], True),
    ],
    ids=repr,
)
def test_another_of_a_model_s_names_is_no_other_model(aliases, said):
    with FakeOpenAI(models=("other", "b"), about={"aliases": aliases}, serves_any=True) as fake:
        fake.play = [event({"content": "Hello."}, "stop", model="other"), DONE]
        metadata = reasoner(fake).reason(ASKED).metadata
    assert (metadata["response_model"], metadata.get("asked_by_other_name")) == ("other", said)
    assert (other_model("small", metadata) is None) is (said is True)


@pytest.mark.parametrize("name", ["small:", "small.", "small-"])
def test_a_model_that_is_not_there_is_named_to_its_last_sign(name):
    with FakeOpenAI() as fake, pytest.raises(ModelNotFoundError, match=f"no model '{name}' at"):
        OpenAIReasoner(name, Host(fake.url), None, Settings()).reason(ASKED)


@pytest.mark.parametrize(
    "owner, roots, said",
    [
        ("vllm", ("/models/a", "/models/a"), True),
        ("vllm", ("/models/" + 300 * "a",) * 2, True),
        ("vllm", ("/models/a", "/adapters/b"), None),
        ("vllm", (None, None), None),
        ("vllm", ([[]], [[]]), None),
        ("gateway", ("/models/a", "/models/a"), None),
    ],
)
def test_a_model_that_vllm_serves_under_several_names_is_no_other_model(owner, roots, said):
    names = ("first", "small")
    listing = [
        {"id": name, "owned_by": owner, "root": root}
        for name, root in zip(names, roots, strict=True)
    ]
    with FakeOpenAI(serves_any=True) as fake:
        fake.listing = [whole({"object": "list", "data": listing})]
        fake.play = [event({"content": "Hello."}, "stop", model="first"), DONE]
        metadata = reasoner(fake).reason(ASKED).metadata
    assert (metadata["response_model"], metadata.get("asked_by_other_name")) == ("first", said)


def test_a_model_that_says_that_it_sees_no_images_is_sent_none():
    image = [Message("user", "What is it?", images=(PNG,))]
    with FakeOpenAI(about={"architecture": {"input_modalities": ["text"]}}) as fake:
        with pytest.raises(CapabilityError, match="can't look at images"):
            reasoner(fake).reason(image)
        assert fake.chats == []


def png(width, height):
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height)


@pytest.mark.parametrize(
    "side, count, read",
    [(512, 21, False), (512, 80, None), (300, 21, False), (64, 21, None)],
)
def test_an_image_that_was_dropped_is_never_claimed(side, count, read):
    """Of a small one a model makes a few tokens: four of 56 by 56 pixels, as Qwen's do."""
    image = [Message("user", "What is it?", images=(png(side, side),))]
    with FakeOpenAI() as fake:
        fake.play = [*fake.events(), event(usage={**USAGE, "prompt_tokens": count}), DONE]
        assert reasoner(fake).reason(image).metadata.get("images_read") is read


@pytest.mark.parametrize(
    "model, read",
    [("llama3.2-vision:11b", None), ("x/Llama-3.2-90B-Vision-Instruct", None), ("gemma3", False)],
)
def test_a_model_that_looks_beside_the_text_has_one_token_of_an_image(model, read):
    image = [Message("user", "What is it?", images=(png(512, 512),))]
    with FakeOpenAI(models=(model,)) as fake:
        fake.play = [*fake.events(), event(usage={**USAGE, "prompt_tokens": 21}), DONE]
        answered = OpenAIReasoner(model, fake.url).reason(image)
    assert answered.metadata.get("images_read") is read


SAID = [
    (500, "the rendered prompt is 4117 tokens; the model context is 4096", "does not fit"),
    (400, "Requested tokens (5000) exceed context window of 2048", "does not fit"),
    (400, "Invalid model name passed in model=x", "There is no model 'small'"),
    (400, "small is not a valid model ID", "There is no model 'small'"),
    (400, "The API deployment does not exist DeploymentNotFound", "There is no model 'small'"),
    (400, "Unknown model: small unknown_model", "There is no model 'small'"),
    (400, "Unknown Model, please check the model code. 1211", "There is no model 'small'"),
    (400, "The provided model identifier is invalid.", "There is no model 'small'"),
    (400, "AiError: No such model @cf/small or task", "There is no model 'small'"),
    (400, "模型不存在，请检查模型代码。 1211", "There is no model 'small'"),
    (400, "Unsupported model small, please use models API to get", "There is no model 'small'"),
    (404, "model not found", "There is no model 'small'"),
    (404, "no router for requested model", "There is no model 'small'"),
    (404, "no local server found for requested model not_found", "There is no model 'small'"),
    (404, "no peer found for requested model", "There is no model 'small'"),
    (400, "Only big&&vis allowed now, your model small", "There is no model 'small'"),
    (400, "Only  allowed now, your model small", "There is no model 'small'"),
    (400, "model is required", "There is no model 'small'"),
    (400, "Unavailable model: small unavailable_model", "There is no model 'small'"),
    (400, "The requested model 'small' is not supported by any provider", "There is no model"),
    (400, "The requested model is not supported. model_not_supported", "There is no model 'small'"),
    (400, "`small` has been decommissioned. model_decommissioned", "There is no model 'small'"),
    (400, "Unable to access non-serverless small. model_not_available", "There is no model"),
    (410, "The model has reached its end of life on 2026-05-14", "There is no model 'small'"),
    (404, "Function 'f': Not found for account 'a'", "There is no model 'small'"),
    (400, "messages[0].content must be a string", "can't do this (messages[0].content must"),
    (
        422,
        "body -> messages -> 0 -> content -> list[TextContentPart] -> 0 -> type Input should be 'text'",
        "can't do this (body -> messages",
    ),
    (422, "reasoning_effort Input should be 'text' or 'low'", "failed: reasoning_effort Input"),
    (400, "Input exceeds the max input token limit", "does not fit the model's context window"),
    (400, "The model does not support Chat Completions API", "does not chat (The model does not"),
    (
        501,
        "This server does not support completions. Start it without `--embeddings`",
        "does not chat (This server does not",
    ),
    (
        400,
        "This is not a chat model and thus not supported in v1/chat",
        "does not chat (This is not",
    ),
    (400, "The requested modality is not supported", "can't do this (The requested modality"),
    (400, "This response_format type is unavailable now", "can't do this (This response_format"),
    (
        422,
        "response_format.type `json_schema` is unavailable now",
        "can't do this (response_format",
    ),
    (400, "a vision model is required", "failed: a vision model is required"),
    (400, "could not find suitable inference handler for x", "There is no model 'small'"),
    (400, "could not find real modelID for x", "There is no model 'small'"),
    (410, "The model `small` was retired model_not_found", "There is no model 'small'"),
    (400, "unknown model architecture: 'x'", "failed: unknown model architecture: 'x'"),
    (400, "Your account was flagged", "failed: Your account was flagged"),
    (500, "The content filter timed out", "failed: The content filter timed out"),
    (400, "context window exceeds limit (2013)", "does not fit"),
    (500, "context window exceeds GPU memory", "failed: context window exceeds GPU memory"),
    (400, "The key is not enabled for this model", "failed: The key is not enabled"),
    (529, "Overloaded", "is busy, or a limit is reached (Overloaded"),
    (500, "this model has no vision arm", "can't do this (this model has no vision arm"),
    (400, "This model doesn't support the image field", "can't do this (This model doesn't"),
    (400, "Only 'text' content type is supported.", "can't do this (Only 'text' content type"),
    (400, "Image input is not enabled for this model", "can't do this (Image input is not"),
    (400, "unknown variant `image_url`, expected `text`", "can't do this (unknown variant"),
    (400, "No endpoints found that support image input", "can't do this (No endpoints found"),
    (400, "Logprobs is not enabled for models/gemini-2.5", "can't do this (Logprobs is not"),
    (400, "At most 0 image(s) may be provided in one prompt.", "can't do this (At most 0"),
    (400, "'messages.0.content' : value must be a string", "can't do this ('messages.0"),
    (400, "image_url is only supported by certain models.", "can't do this (image_url is only"),
    (500, "this model is missing data required for image input", "can't do this (this model is"),
    (
        500,
        "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}]",
        "can't do this ([{'loc'",
    ),
    (
        500,
        "[{'loc': ('response_format',), 'msg': 'x'}, {'loc': ('n',), 'msg': 'Input should be 1'}]",
        "failed: [{'loc'",
    ),
    (400, "Vision add-on is not loaded, but images were provided", "can't do this (Vision add-on"),
]


FILTERED = [
    (403, "small requires moderation on OpenAI. Your input was flagged for 'violence'."),
    (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE"),
    (400, "The response was filtered due to Azure OpenAI's content management policy."),
    (400, "Output blocked by content filtering policy"),
    (400, "The request was rejected because it was considered high risk content_filter"),
    (400, "Output data may contain inappropriate content. data_inspection_failed"),
    (400, "input new_sensitive (1026)"),
    (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
]


@pytest.mark.parametrize("key", [None, "sk-of-mine"])
@pytest.mark.parametrize("status, text", FILTERED)
def test_what_a_filter_says_is_no_fault_of_the_key_or_the_server(status, text, key):
    body = json.dumps({"error": {"message": text}}).encode()
    host = Host("https://h")
    error = refusals.openai_status_error(host, "small", status, body, has_key=key is not None)
    assert type(error) is TurnFailedError
    assert "does not let this through" in str(error) and "in other words, or another" in str(error)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("status, text, words", SAID)
def test_what_a_server_says_is_what_is_said(status, text, words, plain):
    with FakeOpenAI(models=("other",), serves_any=True) as fake:
        fake.play = [Whole(status, "text/plain", text.encode()) if plain else refusal(status, text)]
        with pytest.raises(BackendError) as caught:
            reasoner(fake).reason(ASKED)
        assert "check the address" not in str(caught.value)
        assert words in str(caught.value)


@pytest.mark.parametrize(
    "status, text",
    [
        (400, "Invalid model parameters: temperature must be between 0 and 2"),
        (400, "Failed to fetch an image for the model: it was not found"),
        (400, "The model's tokenizer has no chat template: file does not exist"),
        (404, "No endpoints found for small."),
        (404, "litellm.NotFoundError: OpenAIException - The model `gpt-4` does not exist"),
    ],
)
def test_a_model_that_the_server_lists_is_not_said_to_be_missing(status, text):
    with FakeOpenAI() as fake:
        fake.play = [refusal(status, text)]
        with pytest.raises(BackendError) as caught:
            reasoner(fake).reason(ASKED)
    assert "There is no model" not in str(caught.value)
    assert f"lists 'small', but does not let it answer: {text[:20]}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens, which is not enough.",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens).",
        "Prompt length 5000 is greater than max_seq_len 4096",
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        "Cannot process new request: Prompt length (5056) exceeds maximum input length (2048)",
        "Your input is too long. Max input length is 4096 tokens, but you supplied 5441 tokens.",
        "Range of input length should be [1, 30720]",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 2345",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the rendered prompt is 4117 tokens; the model context is 4096",
        "Context size has been exceeded.",
        "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)",
        "You passed 9001 input tokens and requested 0 output tokens. However, the model's context "
        "length is only 8192 tokens, resulting in a maximum input length of 8192 tokens.",
        "Your input exceeds this model's context window",
        "prompt token count of 131283 exceeds the limit of 128000 model_max_prompt_tokens_exceeded",
        "tokens_limit_reached Request body too large for gpt-4o model. Max size: 8000 tokens.",
        "Please reduce the length of the messages or completion.",
        "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
        "Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)",
        "Prompt exceeds max length",
        "tokens in request more than max tokens allowed",
        "invalid params, context window exceeds limit (2013)",
        "too many tokens: size limit exceeded by 19296 tokens. Try using shorter or fewer inputs.",
        "litellm.ContextWindowExceededError: litellm.BadRequestError",
        "Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)",
        "AiError: The estimated number of input and maximum output tokens (35000) exceeded this model "
        "context window limit (24000)",
        "length of prompt_tokens (51231) must be less than max_seq_len (32768).",
        "Total tokens of image and text exceed max message tokens. Request id: 0217",
        "Request prompt has 2015 tokens in total, larger than the model input length limit 1416.",
        "The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)",
        "Input length 205467 exceeds the maximum length 202752.",
        "Prompt tokens too long",
        "Prompt has 256468 tokens, but the configured context size is 256000 tokens",
        "Input token length is too long",
        "Reached context length of 4096 tokens with model (arch: gpt-oss) that does not currently "
        "support mid-generation context overflow. Try reloading with a larger context length.",
        "Prompt sequence length is greater than 4096, perhaps consider using `truncate_sequence`?",
        "Number of prompt tokens: 5000 exceeds model max length: 4096",
        "input_ids size (3216) + current sequence length (0) exceeds max length (2048)",
        "max_length (2347) cannot be greater than model context_length (2176)",
        "`default_max_tokens` (-152) must be greater than 0, `default_max_tokens` (-152) = max_seq_len "
        "(8192) - `splited_prompt_len` (8000) - `query_token_len` (344)",
        "`prompt_token_ids` length (5000) is greater than `max_seq_len` (4096)",
        "the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model",
        "Too many input tokens. Max input tokens: 8192, request input token count: 9279",
        "the input prompt token len 303876 + max_new_tokens 32000 > 262144",
        "Prompt is 11543 tokens but the model context window is 4096 tokens.",
        "Prompt 超长",
        "prompt_too_long: tokenized VLM text prompt has 20767 tokens, max prompt/context tokens is 8192",
        "Prompt has 5000 tokens, but context_length is 4096; at least one output token is required.",
        "The prompt leaves no room for output tokens",
    ],
    ids=[
        "LM Studio",
        "LM Studio, later",
        "vLLM",
        "SGLang",
        "TabbyAPI",
        "Gemini",
        "xAI",
        "TensorRT-LLM",
        "Replicate",
        "DashScope",
        "TGI",
        "TGI's sum",
        "others",
        "Ollama",
        "LM Studio's MLX",
        "vLLM's before March 2026",
        "vLLM's own",
        "OpenAI",
        "Copilot",
        "GitHub Models",
        "Groq",
        "Poolside",
        "Atlas",
        "Zhipu",
        "GLM",
        "MiniMax",
        "Cohere",
        "LiteLLM",
        "llama.cpp in LM Studio",
        "Cloudflare",
        "SiliconFlow",
        "Ark",
        "MLC",
        "TensorRT-LLM, later",
        "Ark, GLM",
        "Qianfan",
        "DS4",
        "Qwen",
        "LM Studio, in an answer",
        "mistral.rs",
        "OpenVINO",
        "ONNX Runtime",
        "ONNX Runtime's sum",
        "TensorRT-LLM's PyTorch",
        "TensorRT-LLM's tokens",
        "watsonx",
        "Bedrock",
        "LightLLM",
        "RKLLM",
        "Zhipu's own",
        "vMLX",
        "Xinference's MLX",
        "Xinference's TensorRT-LLM",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_each_server_s_words_for_a_prompt_that_does_not_fit_are_known(text, status):
    with FakeOpenAI() as fake:
        fake.play = [refusal(status, text)]
        with pytest.raises(ContextTruncatedError):
            reasoner(fake, strict_context=True).reason(ASKED)


def test_a_window_that_requests_share_may_be_full_of_the_others():
    with FakeOpenAI() as fake:
        fake.play = [
            *fake.events()[:1],
            event(error={"message": "Context size has been exceeded."}),
        ]
        with pytest.raises(TurnTooLargeError) as caught:
            reasoner(fake).reason(ASKED)
    assert str(caught.value) == (
        "The prompt and its answer, with all that the server is asked at once, do not fit the model's "
        "context window (Context size has been exceeded): ask fewer at once, shorten it, or give the "
        "model a larger window."
    )


@pytest.mark.parametrize(
    "text",
    [
        "You passed 9001 input tokens and requested 0 output tokens. However, the model's context "
        "length is only 8192 tokens, resulting in a maximum input length of 8192 tokens.",
        "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)",
        "Prompt too long: 5152 tokens exceeds max_seq_len 2048\n(leave room for output tokens)",
        "This model's maximum context length is 1024 tokens. However, your prompt contains at least "
        "1025 input tokens, which exceeds this limit even without any output tokens. Please reduce "
        "the length of the input prompt. (parameter=input_tokens, value=1025)",
        "`default_max_tokens` (-152) must be greater than 0, `default_max_tokens` (-152) = max_seq_len "
        "(8192) - `splited_prompt_len` (8000) - `query_token_len` (344)",
        "The prompt leaves no room for output tokens",
        "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
    ],
    ids=[
        "vLLM, earlier",
        "vLLM's before March 2026",
        "Atlas",
        "vLLM 0.32",
        "TensorRT-LLM",
        "Xinference",
        "vLLM 0.32, to the last token",
    ],
)
def test_where_the_prompt_alone_does_not_fit_no_shorter_answer_is_advised(text):
    with FakeOpenAI() as fake:
        fake.play = [refusal(400, text)]
        with pytest.raises(ContextTruncatedError) as caught:
            reasoner(fake, strict_context=True).reason(ASKED)
    assert str(caught.value).startswith("The prompt does not fit the model's context window")
    assert "num_predict" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context "
        "length is 4096 tokens and your request has 2778 input tokens (8000 > 4096 - 2778).",
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested "
        "a total of 9010 tokens: 10 tokens from the input messages and 9000 tokens for the completion.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        "input length and `max_tokens` exceed context limit: 100 + 200000 > 200000",
        "Reached context length of 4096 tokens with model (arch: gpt-oss) that does not currently "
        "support mid-generation context overflow. Try reloading with a larger context length.",
        "the input prompt token len 303876 + max_new_tokens 32000 > 262144",
    ],
    ids=["vLLM", "SGLang", "TGI", "Anthropic", "LM Studio", "LightLLM"],
)
def test_where_the_answer_that_is_asked_for_does_not_fit_it_can_be_shorter(text):
    with FakeOpenAI() as fake:
        fake.play = [refusal(400, text)]
        with pytest.raises(ContextTruncatedError) as caught:
            reasoner(fake, strict_context=True, options={"num_predict": 8000}).reason(ASKED)
    assert str(caught.value).startswith("The prompt and its answer do not fit the model's context")
    assert "shorten it, lower `options['num_predict']`, or give" in str(caught.value)


def test_an_answer_of_no_tokens_that_is_refused_says_nothing_of_the_window():
    with FakeOpenAI() as fake:
        fake.play = [refusal(400, "max_tokens must be at least 1, got 0.")]
        with pytest.raises(TurnFailedError, match="failed: max_tokens must be at least 1, got 0"):
            reasoner(fake, strict_context=True, options={"num_predict": 0}).reason(ASKED)


@pytest.mark.parametrize(
    "text",
    [
        "Too many tokens, please wait before trying again.",
        "Too many input tokens per minute, please wait before trying again.",
        "`user` exceeds max length (64)",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7000",
    ],
)
def test_another_limit_than_the_window_s_is_no_check_that_failed(text):
    with FakeOpenAI() as fake:
        fake.play = [refusal(413, text)]
        with pytest.raises(BackendError) as caught:
            reasoner(fake, strict_context=True).reason(ASKED)
    assert not isinstance(caught.value, CheckFailedError)


@pytest.mark.parametrize(
    "status, body",
    [
        (404, {"detail": "Not Found"}),
        (404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}),
        (404, {"error": {"code": "404", "message": "Resource not found"}}),
        (405, {"detail": "Method Not Allowed"}),
        (404, {"message": "no Route matched with those values. Not Found"}),
        (404, {"errors": [{"code": 7000, "message": "No route for that URI (not found)"}]}),
        (404, {"error": {"message": "Invalid URL (POST /chat/completions): not found"}}),
        (404, {"error": {"message": "Unknown request URL: POST /x. Not Found"}}),
    ],
)
def test_where_no_such_server_is_the_address_is_to_be_checked_though_json_says_so(status, body):
    with FakeOpenAI() as fake:
        fake.play = [whole(body, status)]
        with pytest.raises(BackendError, match="([Ff]ound|Allowed).*: check the address; it often"):
            reasoner(fake).reason(ASKED)


@pytest.mark.parametrize("status, body, is_said", [(403, b"", 1), (403, b"no", 0), (401, b"", 0)])
def test_a_bare_403_may_be_ollama_s_that_is_asked_by_another_name(status, body, is_said):
    host = Host("http://box.example:11434/v1")
    error = refusals.openai_status_error(host, "small", status, body, has_key=False)
    assert ("it may want a key; Ollama wants its IP address, not a name." in str(error)) is bool(
        is_said
    )


@pytest.mark.parametrize("body", [b"", b'{"error": "Request too large"}', b"<html>413</html>"])
def test_a_request_that_is_too_large_says_nothing_of_another(body):
    host = Host("http://127.0.0.1:1")
    for error in (
        refusals.openai_status_error(host, "small", 413, body, has_key=False),
        refusals.ollama_status_error(host, "small", 413, body),
    ):
        assert type(error) is TurnTooLargeError  # a conversation is sent whole


@pytest.mark.parametrize(
    "strict, kind", [(True, ContextTruncatedError), (False, TurnTooLargeError)]
)
def test_a_413_in_plain_text_is_judged_by_its_words_as_json_is(strict, kind):
    body = b"the rendered prompt is 5000 tokens; the model context is 4096"
    error = refusals.openai_status_error(
        Host("http://127.0.0.1:1"), "small", 413, body, has_key=False, strict=strict
    )
    assert type(error) is kind
    assert f"The prompt does not fit the model's context window ({body.decode()})" in str(error)


def test_the_words_of_another_413_are_shown():
    host, body = Host("http://127.0.0.1:1"), b"length limit exceeded"
    for error in (
        refusals.openai_status_error(host, "small", 413, body, has_key=False, strict=True),
        refusals.ollama_status_error(host, "small", 413, body, strict=True),
    ):
        assert type(error) is TurnTooLargeError
        assert "(status 413: length limit exceeded): shorten the prompt" in str(error)


@pytest.mark.parametrize(
    "status, said",
    [
        (403, "your country is not served"),
        (
            401,
            "You have insufficient permissions for this operation. Missing scopes: model.request",
        ),
        (401, "key not allowed to access model. This key can only access models=['m']"),
    ],
)
def test_what_a_key_is_not_allowed_is_said_and_not_that_it_is_not_accepted(status, said):
    with FakeOpenAI(key="sk-of-mine") as fake:
        fake.play = [refusal(status, said)]
        with pytest.raises(BackendError, match="refuses .*key in OPENAI_API_KEY is al") as caught:
            OpenAIReasoner("small", Host(fake.url), "sk-of-mine").reason(ASKED)
    assert "not accepted" not in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize(
    "status, text, words",
    [
        (500, b"Internal Server Error", "failed: Internal Server Error"),
        (502, b"<html>Bad Gateway</html>", r"failed \(status 502: a web page\): look at its log"),
        (503, b"<html>Sorry</html>", r"is busy, or a limit is reached \(a web page\)"),
        (
            413,
            b"<html>Too large</html>",
            "takes no request as large as this one .status 413.: shorten",
        ),
        (404, b"404 page not found", "check the address"),
        (500, b"", "check the address"),
    ],
)
def test_plain_text_of_a_failing_server_is_what_it_says(status, text, words):
    with FakeOpenAI() as fake:
        fake.play = [Whole(status, "text/plain", text)]
        with pytest.raises(BackendError, match=words):
            reasoner(fake).reason(ASKED)


def test_strict_context_makes_a_prompt_that_does_not_fit_a_failed_check():
    with FakeOpenAI(scenario="too-long") as fake, pytest.raises(ContextTruncatedError) as caught:
        reasoner(fake, strict_context=True).reason(ASKED)
    assert isinstance(caught.value, CheckFailedError)


@pytest.mark.parametrize("name", ["silent", "endless"])
@pytest.mark.slow
def test_a_deadline_ends_a_turn(name):
    with FakeOpenAI(scenario=name) as fake, pytest.raises(BackendTimeoutError, match="`deadline=`"):
        reasoner(fake, deadline=0.4).reason(ASKED)


def test_two_addresses_of_a_server_take_together_what_a_connection_may(monkeypatch):
    tried = []

    def refuse(address, timeout, **_):
        tried.append((address, timeout))
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("ore.backends.http.getaddrinfo", lambda *_, **__: [(), ()])
    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(BackendError, match="connection refused"):
        OpenAIReasoner("small", "http://host.test:9/v1").reason(ASKED)
    assert tried == [(("host.test", 9), 2.5)]


@pytest.mark.slow
def test_what_is_asked_before_a_turn_takes_of_its_deadline():
    image = [Message("user", "What is it?", images=(PNG,))]
    with FakeOpenAI() as fake:
        fake.listing = [Pause(FOREVER)]
        with pytest.raises(BackendTimeoutError, match="`deadline=`"):
            reasoner(fake, deadline=0.5).reason(image)
        assert [seen.path for seen in fake.requests] in ([], ["/v1/models"])


def test_closing_the_generator_closes_the_connection_at_once():
    taken = []
    with FakeOpenAI(scenario="endless") as fake:
        for number in range(3):
            chunks = reasoner(fake).stream_reason(ASKED)
            next(chunks)
            closed = time.monotonic()
            chunks.close()
            until(lambda: fake.chats[number].disconnected_at)
            taken.append(fake.chats[number].disconnected_at - closed)
    assert min(taken) < 0.1  # the others may have met a busy machine


def test_a_server_that_is_down_is_named():
    with FakeOpenAI() as fake:
        url = fake.url
    with pytest.raises(ServerUnreachableError, match=f"No server answers at {url}"):
        OpenAIReasoner("small", Host(url)).reason(ASKED)


def test_an_unknown_model_is_told_with_those_that_are_there():
    with FakeOpenAI(models=("a", "b")) as fake, pytest.raises(ModelNotFoundError) as caught:
        reasoner(fake).reason(ASKED)
    assert (caught.value.model, caught.value.available) == ("small", ("a", "b"))


@pytest.mark.parametrize(
    "key, way", [(None, "it may want a key"), ("sk-long-enough", "is allowed")]
)
def test_why_a_server_lets_nobody_in_is_told(key, way):
    with FakeOpenAI() as fake:
        fake.play = [refusal(403, "Your country is not supported")]
        with pytest.raises(BackendError, match=f"Your country is not supported.*{way}"):
            reasoner(fake, key).reason(ASKED)


@pytest.mark.parametrize("body, said", [(b"<html>Forbidden", " (a web page)"), (b"", "")])
@pytest.mark.parametrize(
    "has_key, way", [(False, "want a key"), (True, "not accept the key that it was sent")]
)
def test_whether_it_is_the_key_is_not_known_where_a_server_only_refuses(body, said, has_key, way):
    error = refusals.openai_status_error(Host("https://h"), "m", 403, body, has_key=has_key)
    more = "" if body else "; Ollama wants its IP address, not a name"
    assert f"refuses{said}: it may {way}{more}. Set OPENAI_API_KEY" in str(error)


def test_the_key_is_sent_and_never_shown():
    with FakeOpenAI(key="sk-secret") as fake:
        right = reasoner(fake, "sk-secret")
        assert right.reason(ASKED).content == "Paris."
        with pytest.raises(BackendError, match="is not accepted") as caught:
            reasoner(fake, "sk-wrong").reason(ASKED)
        with pytest.raises(BackendError, match=r"\(Incorrect API key provided .*it wants a key"):
            reasoner(fake).reason(ASKED)
    assert "sk-" not in str(caught.value) + repr(right)
    assert "authorization" not in fake.requests[-1].headers


def test_a_key_that_is_read_from_a_file_is_sent_without_its_line_end():
    with FakeOpenAI(key="sk-of-mine") as fake:
        assert OpenAIReasoner("small", fake.url, "sk-of-mine\n").reason(ASKED).content == "Paris."


def test_a_program_that_gives_no_key_for_a_host_sends_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-host")
    with FakeOpenAI() as fake:
        OpenAIReasoner("small", fake.url, "").reason(ASKED)
        OpenAIReasoner("small", fake.url).reason(ASKED)
    sent = [seen.headers.get("authorization") for seen in fake.chats]
    assert sent == [None, "Bearer sk-of-another-host"]


@pytest.mark.parametrize(
    "key", ["sk-of-mine\nsk-of-mine", "sk-of mine", "sk-of-mine\0", "sk-of-m\u00efne"]
)
def test_a_key_that_can_not_be_sent_is_not_shown(key):
    with pytest.raises(UsageError, match="The key can't be sent") as caught:
        OpenAIReasoner("small", "http://127.0.0.1:9/v1", key)
    assert "sk-of" not in str(caught.value)


def test_nothing_of_this_machine_or_of_other_variables_is_told(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: \u00fc\nAuthorization: Bearer mine")
    with FakeOpenAI() as fake:
        reasoner(fake).reason(ASKED)
    names = set(fake.chats[0].headers)
    assert not [n for n in names if n.startswith(("x-stainless", "openai-", "x-mine", "auth"))]


@pytest.mark.slow
def test_a_list_of_countless_models_is_refused():
    with FakeOpenAI(models=["m"] * 200_001) as fake:
        with pytest.raises(BackendError, match="it lists more than 200,000 models"):
            OpenAIBackend(Host(fake.url)).models()


@pytest.mark.parametrize(
    "models, default",
    [(("only",), "only"), (("a", "b"), None), ((), None), (("http://ada:PW@box/m",), None)],
)
def test_the_only_model_is_the_default(models, default):
    with FakeOpenAI(models=models) as fake:
        backend = OpenAIBackend(Host(fake.url))
        assert backend.models() == list(models)
        assert backend.default_model() == default
        with pytest.raises(CapabilityError, match="can't be told to fetch"):
            backend.pull("x", lambda *_: None)


@pytest.mark.parametrize(
    "about, able",
    [
        ({"capabilities": ["embed"]}, ("embedding",)),
        ({"capabilities": ["embed"] * 100_000}, ("embedding",)),
        ({"model_type": "rerank"}, ("rerank",)),
        ({"labels": ["reranking"]}, ("reranking",)),
        ({"labels": ["Transcription", "tts"]}, ("transcription", "tts")),
        ({"categories": ["text_to_speech"]}, ("text_to_speech",)),
        ({"model_type": "image"}, ("image",)),
        ({"labels": ["chat", "image"]}, None),
        ({"type": "Embedding"}, ("embedding",)),
        ({"capabilities": ["streaming"], "type": "chat"}, None),
        ({"capabilities": []}, None),
        ({"labels": ["embeddings", 5]}, None),
    ],
)
def test_a_model_that_answers_no_prompts_is_listed_as_such_and_no_default(about, able):
    with FakeOpenAI(about=about) as fake:
        backend = OpenAIBackend(Host(fake.url))
        assert backend.described()[0].capabilities == able
        assert backend.default_model() == (None if able else "small")


def test_one_reasoner_serves_several_threads():
    with FakeOpenAI() as fake:
        one, answers = reasoner(fake), []
        threads = [
            threading.Thread(target=lambda: answers.append(one.reason(ASKED).content))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with closing(one.stream_reason(ASKED)) as chunks:
            assert "".join(chunks) == "Paris."
    assert answers == ["Paris."] * 8


@pytest.mark.parametrize(
    "about, size, parameters, quantization, window",
    [
        (
            {"meta": {"n_ctx": 4096, "size": 96_576_768}, "max_model_len": None},
            *(96_576_768, None, None, 4096),
        ),
        ({"meta": {"n_params": 134_515_008, "ftype": "Q4_1"}}, None, "134.52M", "Q4_1", 4096),
        ({"meta": {"n_params": 8_030_261_312, "ftype": "a\nb"}}, None, "8.0B", None, 4096),
        ({"meta": {"n_params": 0, "ftype": 7}}, None, None, None, 4096),
        ({"max_model_len": 8192}, None, None, None, 8192),
        ({"meta": "odd", "max_model_len": "odd"}, None, None, None, None),
        ({"meta": {"n_ctx": -1, "size": 1 << 60}, "max_model_len": 0}, None, None, None, None),
    ],
)
def test_a_model_is_listed_with_what_its_server_says_of_it(
    about, size, parameters, quantization, window
):
    with FakeOpenAI(about=about) as fake:
        (found,) = OpenAIBackend(Host(fake.url, "--host")).described()
    known = (found.size, found.parameters, found.quantization, found.window)
    assert (found.name, *known) == ("small", size, parameters, quantization, window)


@pytest.mark.parametrize("count", [16, 0])
def test_what_a_server_reused_of_a_prompt_is_kept(count):
    with FakeOpenAI() as fake:
        usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": count}}
        fake.play = [*fake.events(), event(usage=usage), DONE]
        assert reasoner(fake).reason(ASKED).metadata["cached_tokens"] == count
