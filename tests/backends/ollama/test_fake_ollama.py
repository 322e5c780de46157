"""The stand-in server by itself: its bytes, its rules, its records, its connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.fake_ollama.rules import count_tokens, fit
from tests.support.process import PATIENCE

ASK = [{"role": "user", "content": "hi"}]
DATE = rb"Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\r\n"
STAMP = rb'"created_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z"'


def connect(fake: FakeOllama) -> http.client.HTTPConnection:
    """A connection that no test waits on for ever; closed by the test."""
    return http.client.HTTPConnection("127.0.0.1", fake.port, timeout=PATIENCE)


def ask(connection: http.client.HTTPConnection, **request) -> http.client.HTTPResponse:
    """Send one chat and return the beginning of its answer."""
    body = {"model": "llama3.2", "messages": ASK} | request
    connection.request("POST", "/api/chat", json.dumps(body))
    return connection.getresponse()


def fetch(fake: FakeOllama, path: str = "/api/chat", method: str = "POST", **request):
    """Return status, headers and body of one request on a connection of its own."""
    connection = connect(fake)
    try:
        connection.request(method, path, json.dumps(request) if request else None)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def chat(fake: FakeOllama, messages=ASK, **request) -> list[dict]:
    """Return the objects that one chat is answered with."""
    body = fetch(fake, **({"model": "llama3.2", "messages": messages} | request))[2]
    return [json.loads(line) for line in body.split(b"\n") if line]


def exchange(fake: FakeOllama, request: bytes) -> bytes:
    """Return every byte that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", fake.port), timeout=PATIENCE) as raw:
        raw.sendall(request)
        return b"".join(iter(lambda: raw.recv(65536), b""))


def post(body: bytes) -> bytes:
    head = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_stream_is_written_as_go_writes_it():
    with FakeOllama(chunks=["<b>\u2028\x85", "é"]) as fake:
        got = exchange(fake, post(b'{"model":"llama3.2","messages":[{"role":"user"}]}'))
    head, _, body = got.partition(b"\r\n\r\n")
    assert re.fullmatch(
        rb"HTTP/1\.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
        + DATE
        + rb"Transfer-Encoding: chunked\r\nConnection: close",
        head,
    )
    message = rb'"message":\{"role":"assistant","content":"%b"\},"done":'
    first = message % rb"\\u003cb\\u003e\\u2028\xc2\x85" + b"false}\n"
    second = message % "é".encode() + b"false}\n"
    metrics = rb'"total_duration":29000000,"load_duration":5000000,"prompt_eval_count":4,'
    metrics += rb'"prompt_eval_duration":4000000,"eval_count":2,"eval_duration":20000000\}'
    last = message % b"" + rb'true,"done_reason":"stop",' + metrics + b"\n"
    frame = rb'[0-9a-f]+\r\n\{"model":"llama3.2",' + STAMP + b",%b\r\n"
    assert re.fullmatch(
        b"".join(frame % line for line in (first, second, last)) + b"0\r\n\r\n", body
    )
    sizes = [int(size, 16) for size in re.findall(rb"(?m)^([0-9a-f]+)\r$", body)]
    assert sizes == [len(line) + 1 for line in re.findall(rb"\{.*\}(?=\n)", body)] + [0]


@pytest.mark.parametrize(
    ("stream", "kind", "chunked"),
    [(True, "application/json", True), (False, "application/json; charset=utf-8", False)],
)
def test_refusal_of_the_runner_takes_the_place_of_the_stream(stream, kind, chunked):
    with FakeOllama(scenario="overflow-native", num_ctx=4) as fake:
        for scenario in ("overflow-native", "runner-dead"):
            fake.use(scenario)
            _, headers, body = fetch(fake, model="mistral", messages=ASK, stream=stream)
            assert headers["Content-Type"] == kind and json.loads(body)["error"]
            assert (headers["Transfer-Encoding"] == "chunked") == chunked


def test_long_body_is_chunked_and_a_short_one_has_its_length():
    with FakeOllama(reply="word " * 1000) as fake:
        _, long, body = fetch(fake, model="mistral", messages=ASK, stream=False)
        _, short, _ = fetch(fake, model="mistral", messages=[])
    assert (long["Transfer-Encoding"], long["Content-Length"]) == ("chunked", None)
    assert short["Transfer-Encoding"] is None and int(short["Content-Length"]) < 200
    assert json.loads(body)["message"]["content"] == "word " * 1000


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "body"),
    [
        ("GET", "/", 200, "text/plain; charset=utf-8", b"Ollama is running"),
        ("HEAD", "/", 200, "text/plain; charset=utf-8", b""),
        ("GET", "/api/version", 200, "application/json; charset=utf-8", b'{"version":"0.32.15"}'),
        ("GET", "/api/ps", 200, "application/json; charset=utf-8", b'{"models":[]}'),
        ("GET", "/v1/nothing", 404, "text/plain", b"404 page not found"),
        ("GET", "/api/chat", 405, "text/plain", b"405 method not allowed"),
    ],
)
def test_fixed_answers(method, path, status, kind, body):
    with FakeOllama() as fake:
        got, headers, text = fetch(fake, path, method)
    assert (got, headers["Content-Type"], text) == (status, kind, body)


def test_foreign_host_is_forbidden_with_an_empty_body():
    request = b"GET /api/tags HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"
    with FakeOllama() as fake:
        for host in (b"127.0.0.1:1", b"LOCALHOST", b"[::1]:80", b"a.local", b"10.1.2.3"):
            assert exchange(fake, request % host).startswith(b"HTTP/1.1 200 ")
        refused = exchange(fake, request % b"evil.example")
    assert refused.startswith(b"HTTP/1.1 403 Forbidden\r\nDate") and refused.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"", 400, "missing request body"),
        (b"{", 400, "unexpected EOF"),
        (b"[]", 400, "json: cannot unmarshal array into Go value of type api.ChatRequest"),
        (
            {"options": "warm"},
            400,
            "json: cannot unmarshal string into Go struct field ChatRequest.options of type "
            "map[string]interface {}",
        ),
        ({"model": ""}, 400, "model is required"),
        ({"model": "../x y"}, 400, "invalid model name"),
        ({"model": "Nope"}, 404, "model 'Nope' not found"),
        ({"model": "mistral:7b"}, 404, "model 'mistral:7b' not found"),
        ({"options": {"temperature": "x"}}, 500, 'option "temperature" must be of type float32'),
        ({"options": {"num_ctx": True}}, 500, 'option "num_ctx" must be of type integer'),
        ({"options": {"use_mmap": 1}}, 500, 'option "use_mmap" must be of type boolean'),
        (
            {"tools": [{}]},
            400,
            "registry.ollama.ai/library/llama3.2:latest does not support tools",
        ),
        ({"think": True}, 400, '"llama3.2" does not support thinking'),
        ({"think": "max"}, 400, '"llama3.2" does not support thinking'),
        (
            {"format": "xml"},
            500,
            'invalid format: "\\"xml\\""; expected "json" or a valid JSON Schema object',
        ),
        ({"keep_alive": "soon"}, 400, 'time: invalid duration "soon"'),
    ],
)
def test_bad_request_is_refused_in_ollamas_words(body, status, error):
    if isinstance(body, dict):
        body = json.dumps({"model": "llama3.2", "messages": ASK} | body).encode()
    with FakeOllama() as fake, contextlib.closing(connect(fake)) as connection:
        connection.request("POST", "/api/chat", body)
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())) == (status, {"error": error})


@pytest.mark.parametrize(
    "request_part",
    [
        {"model": "LLAMA3.2:Latest"},
        {"options": {"unknown": "x", "temperature": 1, "num_ctx": 4096.0}},
        {"think": False},
        {"format": {"type": "object"}},
        {"keep_alive": "5m"},
        {"keep_alive": -1},
    ],
)
def test_good_request_is_answered(request_part):
    with FakeOllama() as fake:
        assert chat(fake, **request_part)[-1]["done_reason"] == "stop"


def test_embedding_model_does_not_chat():
    with FakeOllama(capabilities=("embedding",)) as fake:
        assert chat(fake) == [{"error": '"llama3.2" does not support chat'}]


def test_thoughts_come_first_unless_forbidden():
    with FakeOllama(thinking="Well now", reply="Yes.") as fake:
        shown = [line["message"] for line in chat(fake)]
        quiet = [line["message"]["content"] for line in chat(fake, think=False)]
        (whole,) = chat(fake, stream=False)
    start = {"role": "assistant", "content": ""}
    assert shown[:2] == [start | {"thinking": "Well"}, start | {"thinking": " now"}]
    assert quiet == ["Yes.", ""]
    assert whole["message"] == {"role": "assistant", "content": "Yes.", "thinking": "Well now"}


def test_reply_may_depend_on_the_request():
    with FakeOllama(reply=lambda request: request["messages"][-1]["content"].upper()) as fake:
        assert chat(fake, stream=False)[0]["message"]["content"] == "HI"


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("a b  c\n", 3)]
)
def test_tokens_are_four_characters_of_a_word(text, tokens):
    assert count_tokens(text) == tokens


def say(role: str, tokens: int) -> dict:
    """A message that counts as so many tokens."""
    return {"role": role, "content": "x " * (tokens - 4)}


TALK = [
    say("system", 10),
    say("user", 30),
    say("system", 10),
    say("assistant", 30),
    say("user", 20),
]


@pytest.mark.parametrize(
    ("num_ctx", "kept", "tokens"),
    [(100, [0, 1, 2, 3, 4], 100), (99, [0, 2, 3, 4], 70), (69, [0, 2, 4], 40), (40, [0, 2, 4], 40)],
)
def test_whole_messages_are_dropped_from_the_front_but_not_the_system_messages(
    num_ctx, kept, tokens
):
    found, count = fit({"messages": TALK}, num_ctx, "rendered")
    assert (found, count) == ([TALK[number] for number in kept], tokens)


def test_a_system_message_that_does_not_fit_beside_the_last_message_is_dropped():
    systems, prompt = [say("system", 10), say("system", 30)], say("user", 20)
    assert fit({"messages": [*systems, prompt]}, 60, "rendered") == ([*systems, prompt], 60)
    assert fit({"messages": [*systems, prompt]}, 59, "rendered") == ([systems[0], prompt], 30)


LONG = [say("system", 100), say("user", 100)]
EXCEEDED = "request ({} tokens) exceeds the available context size (64 tokens), try increasing it"


@pytest.mark.parametrize(
    ("overflow", "request_part", "status", "wanted"),
    [
        ("overflow-rendered", {}, 200, 34),
        ("overflow-old", {}, 200, 64),
        ("overflow-native", {}, 400, EXCEEDED.format(100)),
        ("overflow-rendered", {"truncate": False}, 400, EXCEEDED.format(200)),
        ("overflow-old", {"truncate": False}, 400, "the input length exceeds the context length"),
        ("overflow-rendered", {"shift": False}, 400, "the prompt is longer than the context"),
    ],
)
def test_prompt_that_is_too_long(overflow, request_part, status, wanted):
    options = {"num_ctx": 64}
    with FakeOllama(scenario=overflow) as fake:
        got, _, body = fetch(fake, model="mistral", messages=LONG, options=options, **request_part)
        shown = json.loads(fetch(fake, "/api/ps", "GET")[2])["models"]
    assert got == status
    if status == 200:
        assert json.loads(body.split(b"\n")[-2])["prompt_eval_count"] == wanted
        assert shown[0]["context_length"] == 64
        return
    error = json.loads(body)["error"]
    assert wanted in (json.loads(error)["error"]["message"] if error[0] == "{" else error)


@pytest.mark.parametrize(
    ("request_part", "reason", "tokens"),
    [
        ({}, "stop", 20),
        ({"options": {"num_predict": 6}}, "length", 6),
        ({"options": {"num_ctx": 16}}, "stop", 20),
        ({"options": {"num_ctx": 16}, "shift": False}, "length", 11),
    ],
)
def test_generation_ends_where_the_window_or_the_request_says(request_part, reason, tokens):
    with FakeOllama(reply=("w " * 20).strip()) as fake:
        *said, last = chat(fake, **request_part)
    assert (last["done_reason"], last["eval_count"], len(said)) == (reason, tokens, tokens)
