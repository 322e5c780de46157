"""The stand-in server against the official client: what the client raises, row by row.

These rows say what ``ollama.Client`` does when a real server misbehaves; a stand-in under which it
does the same is one that other tests can rely on.
"""

from __future__ import annotations

import builtins
import json

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE

REPLY = "The capital is Paris."
FIRST = "The"
ASK = [{"role": "user", "content": "What is the capital of France?"}]
BUSY = "server busy, please try again.  maximum pending requests exceeded"
CRASH = "an error was encountered while running the model: unexpected EOF"
NESTED = (
    "request (18000 tokens) exceeds the available context size (4096 tokens), try increasing it"
)
NO_LAST_CHUNK = (
    "peer closed connection without sending complete message body (incomplete chunked read)"
)

SAME = object()
BROKEN = "RemoteProtocolError"

# Scenario; the text that is streamed before anything is raised; what a whole chat raises: class,
# part of its text, status (or None: nothing is raised); what a streamed one raises.
ROWS = [
    ("busy", "", ("ResponseError", BUSY, 503), SAME),
    ("load-crash", "", ("ResponseError", "llama-server process has terminated", 500), SAME),
    ("load-missing", "", ("ResponseError", "not found, try pulling it first", 404), SAME),
    ("unauthorized", "", ("ResponseError", "unauthorized", 401), SAME),
    ("forbidden", "", ("ResponseError", "", 403), SAME),
    ("empty-500", "", ("ResponseError", "", 500), SAME),
    ("html-502", "", ("ResponseError", "<html>", 502), SAME),
    ("not-found-text", "", ("ResponseError", "404 page not found", 404), SAME),
    ("rate-limited", "", ("ResponseError", "usage limit", 429), SAME),
    ("error-string", "", ("AttributeError", "'str' object", None), SAME),
    ("error-number", "", ("AttributeError", "'int' object", None), SAME),
    ("error-list", "", ("AttributeError", "'list' object", None), SAME),
    ("context-exceeded", "", ("ResponseError", NESTED, 400), SAME),
    ("error-line", FIRST, ("ResponseError", CRASH, 500), ("ResponseError", CRASH, -1)),
    ("error-line-nested", FIRST, ("ResponseError", NESTED, 500), ("ResponseError", NESTED, -1)),
    ("error-line-number", FIRST, ("ResponseError", "42", 500), ("AttributeError", "'int'", None)),
    ("cut", FIRST, (BROKEN, "received", None), (BROKEN, NO_LAST_CHUNK, None)),
    ("rst", FIRST, ("ReadError", "reset", None), SAME),
    ("closed", "", (BROKEN, "Server disconnected without sending a response.", None), SAME),
    ("half-head", "", (BROKEN, "Server disconnected without sending a response.", None), SAME),
    ("eof", FIRST, None, None),
    ("half-line", FIRST, ("JSONDecodeError", "Unterminated string", None), SAME),
    ("bad-json", FIRST, ("JSONDecodeError", "double quotes", None), SAME),
    ("blank-line", FIRST, ("JSONDecodeError", "Expecting value", None), SAME),
    ("html-200", "", ("JSONDecodeError", "Expecting value", None), SAME),
    ("empty-200", "", ("JSONDecodeError", "Expecting value", None), None),
    ("null", FIRST, ("TypeError", "NoneType", None), ("AttributeError", "'NoneType'", None)),
    ("no-message", FIRST, ("ValidationError", "Field required", None), SAME),
    ("nel", FIRST, None, ("JSONDecodeError", "Unterminated string", None)),
    ("bad-utf8", "Thea\ufffd\ufffdb capital is Paris.", ("UnicodeDecodeError", "0xff", None), None),
    ("surrogate", "Thea\ud800b capital is Paris.", None, None),
    ("deep-json", FIRST, ("RecursionError", "", None), SAME),
    ("huge-number", FIRST, ("ValueError", "Exceeds the limit", None), SAME),
    ("bad-gzip", "", ("DecodingError", "incorrect header", None), SAME),
    ("happy", REPLY, None, None),
    ("split", REPLY, None, None),
    ("joined", REPLY, None, None),
    ("one-write", REPLY, None, None),
    ("thinking", REPLY, None, None),
    ("tool-calls", REPLY, None, None),
    ("no-metrics", REPLY, None, None),
    ("final-content", REPLY + " Indeed.", None, None),
    ("after-done", REPLY + " And more.", ("JSONDecodeError", "Extra data", None), None),
]
NAMES = [row[0] for row in ROWS]


@pytest.fixture
def fake():
    with FakeOllama(reply=REPLY) as fake:
        yield fake


@pytest.fixture
def client(fake):
    import ollama

    with ollama.Client(fake.url, trust_env=False, verify=False, timeout=PATIENCE) as client:
        yield client


def error_type(name: str) -> type[Exception]:
    """The exception that a row names."""
    import httpx
    import ollama
    import pydantic

    for place in (ollama, httpx, json, pydantic, builtins):
        if hasattr(place, name):
            return getattr(place, name)
    raise LookupError(name)


def check(raised: pytest.ExceptionInfo, wanted: tuple) -> None:
    """The exception is exactly of the class, with the text and the status that a row names."""
    name, text, status = wanted
    assert type(raised.value) is error_type(name)
    assert text in str(raised.value)
    if status is not None:
        assert raised.value.status_code == status
        assert text or raised.value.error == ""


@pytest.mark.parametrize(("scenario", "wanted"), [(row[0], row[2]) for row in ROWS], ids=NAMES)
def test_whole_chat_raises_as_with_a_real_server(fake, client, scenario, wanted):
    fake.use(scenario)
    if wanted is None:
        assert client.chat("llama3.2", ASK).message.role == "assistant"
        return
    with pytest.raises(error_type(wanted[0])) as raised:
        client.chat("llama3.2", ASK)
    check(raised, wanted)


@pytest.mark.parametrize(("scenario", "before", "whole", "streamed"), ROWS, ids=NAMES)
def test_streamed_chat_yields_text_until_it_raises(fake, client, scenario, before, whole, streamed):
    fake.use(scenario)
    wanted = whole if streamed is SAME else streamed
    parts = client.chat("llama3.2", ASK, stream=True)
    assert fake.requests == [], "the call itself sends nothing"
    texts = []
    if wanted is None:
        texts += [part.message.content for part in parts]
    else:
        with pytest.raises(error_type(wanted[0])) as raised:
            for part in parts:
                texts.append(part.message.content)
        check(raised, wanted)
    assert "".join(texts) == before


def test_nested_error_in_a_stream_is_a_dict_to_the_client(fake, client):
    fake.use("error-line-nested")
    with pytest.raises(error_type("ResponseError")) as raised:
        list(client.chat("llama3.2", ASK, stream=True))
    assert raised.value.error["n_ctx"] == 4096


def test_nested_error_before_a_stream_is_json_in_a_string_to_the_client(fake, client):
    fake.use("context-exceeded")
    with pytest.raises(error_type("ResponseError")) as raised:
        list(client.chat("llama3.2", ASK, stream=True))
    assert json.loads(raised.value.error)["error"]["n_prompt_tokens"] == 18_000


def test_stopped_server_is_a_connection_error(fake, client):
    fake.stop()
    with pytest.raises(ConnectionError, match="^Failed to connect to Ollama"):
        client.chat("llama3.2", ASK)
    with pytest.raises(error_type("ConnectError"), match="refused"):
        list(client.chat("llama3.2", ASK, stream=True))
    fake.start()
    assert client.chat("llama3.2", ASK).message.content == REPLY


@pytest.mark.parametrize("scenario", ["silent", "stall", "slow-start", "loading"])
def test_silence_is_a_read_timeout(fake, scenario):
    import ollama

    fake.use(scenario, **({} if scenario == "silent" else {"seconds": 60}))
    with ollama.Client(fake.url, trust_env=False, verify=False, timeout=0.05) as client:
        with pytest.raises(error_type("ReadTimeout")):
            list(client.chat("llama3.2", ASK, stream=True))
        with pytest.raises(error_type("ReadTimeout")):
            client.chat("llama3.2", ASK)


def test_models_null_is_refused_by_the_client(fake, client):
    fake.use("tags-null")
    with pytest.raises(error_type("ValidationError")):
        client.list()


def test_show_of_old_servers(fake, client):
    assert client.show("llama3.2").capabilities == ["completion"]
    fake.use("show-old")
    assert client.show("llama3.2").capabilities is None
    fake.use("show-bare")
    with pytest.raises(error_type("ValidationError")):
        client.show("llama3.2")


def test_unload_is_one_part_although_streamed(fake, client):
    client.chat("llama3.2", ASK)
    assert [model.model for model in client.ps().models] == ["llama3.2:latest"]
    parts = list(client.chat("llama3.2", [], stream=True, keep_alive=0))
    assert [(part.done, part.done_reason) for part in parts] == [(True, "unload")]
    assert client.ps().models == []


def test_pull_tells_its_progress_and_brings_the_model(fake, client):
    parts = list(client.pull("smollm2:135m", stream=True))
    assert parts[0].status == "pulling manifest"
    assert parts[1].total == 92_871_040 and parts[1].completed is None
    assert parts[-1].status == "success"
    assert client.list().models[0].model == "smollm2:135m"
    assert client.pull("smollm2:135m").status == "success"


def test_pull_of_an_unknown_model_is_an_error_line(fake, client):
    fake.use("pull-missing")
    parts = client.pull("nothing", stream=True)
    assert next(parts).status == "pulling manifest"
    with pytest.raises(error_type("ResponseError"), match="file does not exist") as raised:
        next(parts)
    assert raised.value.status_code == -1
    with pytest.raises(error_type("ResponseError")) as raised:
        client.pull("nothing")
    assert raised.value.status_code == 500
