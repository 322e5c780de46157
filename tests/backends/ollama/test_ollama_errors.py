"""What a server's refusals and words become: the class, the exit code and the whole sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends import failures, refusals
from ore.backends.address import Host
from ore.backends.turn_errors import NothingAnswersError, TurnFailedError, TurnTooLargeError
from ore.errors import (
    BackendError,
    CapabilityError,
    ContextTruncatedError,
    ModelNotFoundError,
    ServerUnreachableError,
)

HOST = Host("http://127.0.0.1:11434", "OLLAMA_HOST")
AT = "http://127.0.0.1:11434 (from OLLAMA_HOST)"
EXCEEDED = {
    "error": {
        "code": 400,
        "message": "request (18 tokens) exceeds the available context size (8 tokens), try it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 18,
        "n_ctx": 8,
    }
}
TOO_LONG = (
    "The prompt does not fit the model's context window: 18 tokens for a window of 8 (request "
    "(18 tokens) exceeds the available context size (8 tokens), try it): "
    "shorten it, or give the model a larger window."
)


def body(error: object, **more: object) -> bytes:
    return json.dumps({"error": error, **more}).encode()


@pytest.mark.parametrize(
    "status, sent, kind, sentence",
    [
        (
            404,
            body("model 'm' not found"),
            ModelNotFoundError,
            f"There is no model 'm' at {AT}: fetch it with `Backend.pull('m')`.",
        ),
        (
            404,
            body('model "m:latest" not found, try pulling it first'),
            ModelNotFoundError,
            f"There is no model 'm' at {AT}: fetch it with `Backend.pull('m')`.",
        ),
        (
            404,
            b"404 page not found",
            BackendError,
            f"The server at {AT} answered, but not as Ollama does (status 404: 404 page not "
            f"found): check the address, or its log.",
        ),
        (
            400,
            body("registry.ollama.ai/library/m:latest does not support tools"),
            CapabilityError,
            f"The model 'm' at {AT} can't do this (registry.ollama.ai/library/m:latest does not "
            f"support tools): leave it out, or use another model.",
        ),
        (
            400,
            body("invalid model name"),
            BackendError,
            f"The server at {AT} does not take 'm' for a model's name (invalid model name): Ollama's "
            f"are NAME, NAMESPACE/NAME or HOST/NAMESPACE/NAME, each with :TAG or without.",
        ),
        (
            500,
            body(
                'pull model manifest: Get "https://127.0.0.1:5599/v2/team/m/manifests/v1": http: server '
                "gave HTTP response to HTTPS client"
            ),
            BackendError,
            f"The server at {AT} can't fetch 'm', because its registry does not speak https (pull model "
            f'manifest: Get "https://127.0.0.1:5599/v2/team/m/manifests/v1": http: server gave HTTP '
            f"response to HTTPS client): add `insecure=True` to ask it over http.",
        ),
        (
            500,
            body(
                'pull model manifest: Get "https://registry.ollama.ai/v2/library/m/manifests/latest": '
                "dial tcp: lookup registry.ollama.ai on 10.0.0.1:53: no such host"
            ),
            BackendError,
            f"The server at {AT} can't reach the registry of 'm' (pull model manifest: Get "
            f'"https://registry.ollama.ai/v2/library/m/manifests/latest": dial tcp: lookup '
            f"registry.ollama.ai on 10.0.0.1:53: no such host): check the name, and that machine's "
            f"network.",
        ),
        (
            400,
            body('"m" does not support chat'),
            CapabilityError,
            f"The model 'm' at {AT} does not chat (\"m\" does not support chat): use one of "
            f"`Backend.models()` that does.",
        ),
        (
            400,
            body("invalid JSON schema in format"),
            TurnFailedError,
            f"The server at {AT} failed: invalid JSON schema in format. Its log may say more.",
        ),
        (400, body(json.dumps(EXCEEDED)), TurnTooLargeError, TOO_LONG),
        (400, body(EXCEEDED["error"]), TurnTooLargeError, TOO_LONG),
        (
            400,
            body("the input length exceeds the context length"),
            TurnTooLargeError,
            "The prompt does not fit the model's context window (the input length exceeds the "
            "context length): shorten it, or give the model a larger window.",
        ),
        (
            401,
            body("unauthorized", signin_url="https://ollama.com/connect?x=1"),
            NothingAnswersError,
            f"The server at {AT} wants you to sign in (unauthorized): "
            f"open https://ollama.com/connect?x=1.",
        ),
        (
            401,
            body("unauthorized"),
            NothingAnswersError,
            f"The server at {AT} wants you to sign in (unauthorized): run `ollama signin`, or set "
            f"OLLAMA_API_KEY.",
        ),
        (
            403,
            b"",
            BackendError,
            f"The server at {AT} refuses to be asked by this host name: use its IP address.",
        ),
        (
            403,
            body("ollama cloud is disabled"),
            BackendError,
            f"The server at {AT} refused: ollama cloud is disabled.",
        ),
        (
            500,
            body('option "temperature" must be of type float32'),
            BackendError,
            f'The server at {AT} failed: option "temperature" must be of type float32. '
            f"Its log may say more.",
        ),
        (
            500,
            body("model requires more system memory (41 GiB) than is available (7 GiB)"),
            NothingAnswersError,
            f"The server at {AT} has too little memory (model requires more system memory (41 GiB) "
            f"than is available (7 GiB)): use a smaller model.",
        ),
        (
            500,
            b"",
            BackendError,
            f"The server at {AT} answered, but not as Ollama does (status 500: no text): "
            f"check the address, or its log.",
        ),
        (
            503,
            body("server busy, please try again.  maximum pending requests exceeded"),
            BackendError,
            f"The server at {AT} is busy (server busy, please try again. maximum pending requests "
            f"exceeded): try again later.",
        ),
        (
            413,
            b"<html>Request Entity Too Large</html>",
            TurnTooLargeError,
            f"The server at {AT} takes no request as large as this one (status 413): shorten the "
            f"prompt, or its images.",
        ),
        (
            413,
            b'{"detail": "Request Entity Too Large"}',
            TurnTooLargeError,
            f"The server at {AT} takes no request as large as this one (status 413: Request Entity Too "
            f"Large): shorten the prompt, or its images.",
        ),
        (
            307,
            b"",
            BackendError,
            f"The server at {AT} redirects to https://else.example/, and ORE follows no redirects.",
        ),
    ],
)
def test_a_refusal_becomes_an_error_that_says_what_to_do(status, sent, kind, sentence):
    location = "https://else.example/" if status < 400 else ""
    error = refusals.ollama_status_error(HOST, "m", status, sent, location=location)
    assert (type(error), str(error)) == (kind, sentence)
    assert (error.host, error.exit_code) == (HOST.url, 1)


@pytest.mark.parametrize(
    "location",
    [
        "http:user:s3cret@else.example/",
        "http://user:s3/cret@else.example/",
        "http:\\\\user:s3cret@else.example",
        "user:s3cret@else.example",
        "https://user:s3cret%40else.example/",
        "https://user:s3cret\uff20else.example/",
    ],
)
def test_a_redirect_that_is_no_address_shows_no_password(location):
    error = refusals.ollama_status_error(HOST, "m", 302, b"", location=location)
    assert str(error) == f"The server at {AT} redirects elsewhere, and ORE follows no redirects."


@pytest.mark.parametrize(
    "status, text", [(401, b'{"error":"Unauthorized"}'), (404, b'{"detail":"Not Found"}')]
)
def test_of_an_address_of_the_openai_protocol_its_backend_is_advised(status, text):
    host = Host("http://127.0.0.1:8000/v1", "--host")
    said = str(refusals.ollama_status_error(host, "m", status, text))  # vLLM's
    assert said.endswith("it may speak the OpenAI protocol, so try `backend='openai'`.")
    assert "signin" not in said


@pytest.mark.parametrize("status", [300, 304])
def test_what_leads_nowhere_is_called_no_redirect(status):
    said = f"(status {status}: no text): check the address"
    assert said in str(refusals.ollama_status_error(HOST, "m", status, b""))
    assert said in str(refusals.openai_status_error(HOST, "m", status, b"", has_key=False))


def test_with_strict_context_a_prompt_that_does_not_fit_is_a_failed_check():
    error = refusals.ollama_status_error(HOST, "m", 400, body(json.dumps(EXCEEDED)), strict=True)
    assert (type(error), error.exit_code, str(error)) == (ContextTruncatedError, 3, TOO_LONG)


@pytest.mark.parametrize(
    "status, detail, code, said",
    [
        (400, "the input length exceeds the context length", 3, "does not fit the model's context"),
        (500, "model requires more system memory than is available", 1, "has too little memory"),
        (401, "Not authenticated", 1, "wants you to sign in (Not authenticated): run"),
        (403, "Not authenticated", 1, "refused: Not authenticated."),
        (404, "Not Found", 1, "answered, but not as Ollama does (status 404:"),
        (405, "Method Not Allowed", 1, "answered, but not as Ollama does (status 405:"),
        (422, [{"msg": "Field required"}], 1, "answered, but not as Ollama does (status 422:"),
    ],
)
def test_what_an_ollama_says_through_open_webui_is_understood(status, detail, code, said):
    sent = json.dumps({"detail": detail}).encode()
    error = refusals.ollama_status_error(HOST, "m", status, sent, strict=True)
    assert error.exit_code == code and said in str(error)


@pytest.mark.parametrize(
    "page",
    [
        b"<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        b"<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.</p>",
        b"Client sent an HTTP request to an HTTPS server.\n",
        b"Bad Request\nThis combination of host and port requires TLS.\n",
    ],
    ids=["nginx", "Apache", "Go", "Tomcat"],
)
def test_a_port_that_wants_https_is_to_be_asked_by_https(page):
    host = Host("http://box.example:8443/v1", "--host")
    said = "speaks https, and was asked over http: try https://box.example:8443/v1."
    for error in (
        refusals.openai_status_error(host, "m", 400, page, has_key=False),
        refusals.ollama_status_error(host, "m", 400, page),
    ):
        assert type(error) is BackendError and said in str(error)


@pytest.mark.parametrize("size", [0, 1 << 17])
def test_a_prompt_that_an_error_repeats_does_not_make_its_server_speak_https(size):
    prompt = "Why does nginx say: The plain HTTP request was sent to HTTPS port?" + "x" * size
    sent = json.dumps({"error": {"message": f"top_logprobs needs logprobs: {prompt}"}}).encode()
    sent = sent[: 1 << 16]  # more of an error is not read
    for error in (
        refusals.openai_status_error(HOST, "m", 400, sent, has_key=False),
        refusals.ollama_status_error(HOST, "m", 400, sent),
    ):
        assert "needs logprobs" in str(error) and "speaks https" not in str(error)


def test_a_proxy_may_be_what_speaks_https(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy.example:3129")
    host = Host("http://box.example:80", "--host")
    page = b"Client sent an HTTP request to an HTTPS server."
    error = refusals.ollama_status_error(host, "m", 400, page)
    assert "try https://box.example:80. It is asked through the proxy" in str(error)


def test_a_path_that_only_other_protocols_have_is_named_where_nothing_is_found():
    host = Host("http://127.0.0.1:11434/api/generate", "--host")
    error = refusals.ollama_status_error(host, "m", 404, b"404 page not found")
    assert str(error).endswith("check the address, or leave /api/generate out of it.")


@pytest.mark.parametrize("status", [400, 500, 502, 504])
def test_a_path_where_a_server_or_a_proxy_fails_is_not_to_be_left_out(status):
    host = Host("http://box.example/ollama", "--host")
    error = refusals.ollama_status_error(host, "m", status, b"<html>Bad Gateway</html>")
    assert str(error).endswith(f"(status {status}: a web page): check the address, or its log.")


def test_a_missing_model_names_those_that_are_there():
    error = failures.no_model_error(HOST, "m", failures.OLLAMA, ("a:latest", "b"))
    assert (error.model, error.available) == ("m", ("a:latest", "b"))
    assert str(error) == (
        f"There is no model 'm' at {AT}: fetch it with `Backend.pull('m')`, "
        f"or use one that is there: a:latest, b."
    )


def test_the_names_that_a_server_gives_its_models_stay_on_the_line_and_are_bounded():
    names = ("a\nYou: \x1b[2J`b`", "m" * 100_000, *map(str, range(30)))
    said = str(failures.no_model_error(HOST, "m", failures.OLLAMA, names))
    assert "there: a^JYou: ^[[2J'b', mmm" in said and said.endswith("17, \u2026.")
    assert said.isprintable() and len(said) < 1000


def test_a_server_that_is_not_there_says_where_why_and_what_to_do():
    error = failures.unreachable_error(HOST, "connection refused", failures.OLLAMA)
    assert (type(error), error.exit_code) == (ServerUnreachableError, 1)
    assert str(error) == (
        f"No Ollama server answers at {AT}: connection refused. Start one with `ollama serve`, or "
        f"name another with `host=`."
    )


@pytest.mark.parametrize(
    "line, text",
    [
        (b'{"error":"x"}', "x"),
        (b'{"error":{"code":500}}', '{"code": 500}'),
        (b'{"error":""}', ""),
        (b'{"message":{}}', ""),
        (b"null", ""),
        (b"[" * 100_000, ""),
        (b'{"error":', ""),
        (b"\xff", ""),
    ],
)
def test_only_an_object_with_an_error_reports_one(line, text):
    assert refusals.error_words(line) == text


@given(
    st.integers(300, 599),
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "n_ctx", "signin_url"]), inner
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_any_refusal_is_a_backend_error_of_one_bounded_line(status, sent):
    error = refusals.ollama_status_error(HOST, "m", status, sent)
    assert isinstance(error, BackendError)
    assert "\n" not in str(error) and len(str(error)) < 2_000


@pytest.mark.parametrize(
    "number", [-1, True, 1 << 53, 10**4000], ids=["below 0", "true", "2**53", "huge"]
)
def test_sizes_that_are_none_are_not_said(number):
    told = body({**EXCEEDED["error"], "n_prompt_tokens": number})
    error = refusals.ollama_status_error(HOST, "m", 400, told)
    assert str(error) == TOO_LONG.replace(": 18 tokens for a window of 8", "")
