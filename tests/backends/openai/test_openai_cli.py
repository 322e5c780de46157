"""The openai backend from the command line: where it looks for its server and key, and real ones."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

import ore
from ore.backends.address import openai_key, resolve_openai
from ore.backends.choice import open_backend
from ore.errors import UsageError
from tests.support import process
from tests.support.fake_ollama.scenarios import Chunk, Whole
from tests.support.fake_openai import DONE, FakeOpenAI, refusal
from tests.support.harness import run_ore
from tests.support.llama_server import KEY, WINDOW, llama_server

pytest.importorskip("openai")

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


def asked(*args: str, **more):
    return run_ore("--backend", "openai", *args, open_backend=open_backend, **more)


@pytest.mark.parametrize(
    "flag, environ, url",
    [
        ("http://gpu:8000", {}, "http://gpu:8000/v1"),
        ("gpu:8000", {}, "http://gpu:8000/v1"),
        ("gpu", {}, "http://gpu:80/v1"),
        ("https://api.example.com/openai/v1/", {}, "https://api.example.com:443/openai/v1"),
        (None, {"OPENAI_BASE_URL": "http://a:1/v1"}, "http://a:1/v1"),
        ("http://b:2", {"OPENAI_BASE_URL": "http://a:1/v1"}, "http://b:2/v1"),
    ],
)
def test_the_server_is_named_by_flag_or_variable(flag, environ, url):
    assert resolve_openai(flag, environ).url == url


@pytest.mark.parametrize("flag, environ", [(None, {}), (None, {"OPENAI_BASE_URL": " "})])
def test_no_server_is_assumed(flag, environ):
    with pytest.raises(UsageError, match="`host=` URL or OPENAI_BASE_URL"):
        resolve_openai(flag, environ)


@pytest.mark.parametrize(
    "url, key",
    [
        ("https://api.example.com:443/v1", "sk-1"),
        ("http://127.0.0.1:8000/v1", "sk-1"),
        ("http://gpu:8000/v1", None),
    ],
)
def test_a_key_goes_over_https_or_stays_on_this_machine(url, key):
    assert openai_key(url, {"OPENAI_API_KEY": " sk-1 "}) == key


def test_a_key_that_can_be_none_is_refused_without_being_shown():
    with pytest.raises(UsageError) as caught:
        openai_key("https://a:443/v1", {"OPENAI_API_KEY": "sk-\u00e4 b"})
    assert "sk-" not in str(caught.value)


def test_a_turn_goes_to_the_named_server_and_its_only_model():
    with FakeOpenAI() as fake:
        result = asked("Which city?", "--host", fake.url, "--no-system")
    assert (result.code, result.out, result.err) == (0, "Paris.\n", "")
    assert fake.chats[0].json["messages"] == [{"role": "user", "content": "Which city?"}]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_list_of_models_wants_one_to_be_named(status):
    with FakeOpenAI(serves_any=True) as fake:
        fake.listing = [Whole(status, "text/html", b"<html>nginx</html>")]
        result = asked("hi", "--host", fake.url)
        assert (
            result.code == 1
            and "If the address is right, name the model with --model:" in result.err
        )
        assert asked("hi", "--host", fake.url, "--model", "small").out == "Paris.\n"


@pytest.mark.parametrize("status", [400, 404])
def test_of_a_server_that_finds_no_list_no_model_is_said_to_be_listed_or_missing(status):
    said = "Route GET:/v1/models not found"  # Fastify's words
    with FakeOpenAI() as fake:
        fake.listing = [refusal(status, said)]
        result = asked("--list-models", "--host", fake.url)
    assert result.code == 1 and "''" not in result.err
    assert f" does not find what it was asked for: {said}" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--list-models",), ("hi",)])
def test_a_list_of_models_that_is_too_large_ends_no_turn(flags):
    with FakeOpenAI() as fake:
        fake.listing = [Whole(200, "application/json", b" " * (17 << 20))]
        result = asked(*flags, "--host", fake.url)
        assert result.code == 1 and "turn" not in result.err
        assert (
            "sent an answer larger than 16 MiB, so its list of models was not read: check the address, "
            "or name the model with --model." in result.err
        )
        assert asked("hi", "--host", fake.url, "--model", "small").out == "Paris.\n"


def test_of_several_models_one_has_to_be_named():
    with FakeOpenAI(models=("small", "large")) as fake:
        result = asked("hi", "--host", fake.url)
        assert (
            result.code == 1
            and "has several models, or none that answers prompts: name one" in result.err
        )
        assert asked("hi", "--host", fake.url, "--model", "large").out == "Paris.\n"
        assert (
            asked("--list-models", "--host", fake.url).out
            == "small\t\t\t\t\t4096 tokens\nlarge\t\t\t\t\t4096 tokens\n"
        )


def test_the_model_of_a_run_file_is_a_name_of_the_server_beside_a_file_of_that_name(
    tmp_path, monkeypatch
):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    path = tmp_path / "f.ore"
    path.write_text("---\nmodel: x.gguf\n---\nHi")
    with FakeOpenAI(models=("x.gguf",)) as fake:
        assert asked("--run", str(path), "--host", fake.url).out == "Paris.\n"
        monkeypatch.setenv("ORE_BACKEND", "openai")
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        assert ore.run_file(path).output.content == "Paris."
        assert {chat.json["model"] for chat in fake.chats} == {"x.gguf"}


def test_a_server_that_lists_no_model_is_asked_by_name_and_nothing_is_to_be_fetched():
    with FakeOpenAI(models=(), serves_any=True) as fake:
        result = asked("--list-models", "--host", fake.url)
        assert (result.code, result.out) == (0, "") and "--pull" not in result.err
        assert "lists no model: name the one to ask with --model" in result.err
        assert asked("hi", "--host", fake.url, "--model", "any").out == "Paris.\n"


def test_a_server_that_lists_no_model_is_not_said_to_show_them():
    with FakeOpenAI(models=()) as fake:
        result = asked("hi", "--host", fake.url, "--model", "any")
    assert result.code == 1 and "There is no model 'any' at " in result.err
    assert result.err.endswith(": it names none, so look there for what its model is called.\n")


def test_no_licence_is_said_to_be_missing_where_a_server_says_of_none():
    with FakeOpenAI() as fake:
        result = asked("--show-license", "nosuch", "--host", fake.url)
    assert result.code == 1 and "No licence of nosuch is known here: look where" in result.err


def test_the_variables_do_and_the_key_is_in_no_output(monkeypatch, tmp_path):
    artifact = tmp_path / "run.json"
    with FakeOpenAI(key="sk-secret") as fake:
        monkeypatch.setenv("ORE_BACKEND", "openai")
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        result = run_ore("hi", "-v", "--artifact-out", str(artifact), open_backend=open_backend)
    assert result.code == 0
    assert "sk-secret" not in result.out + result.err + artifact.read_text()


def test_no_limit_of_an_answer_is_not_sent_so_none_is_said_to_be_in_force(tmp_path):
    artifact = tmp_path / "run.json"
    with FakeOpenAI() as fake:
        options = ("-o", "num_predict=-1", "-o", "seed=3")
        result = asked("hi", "-v", *options, "--host", fake.url, "--artifact-out", str(artifact))
    sent = fake.chats[0].json
    assert "max_tokens" not in sent and sent["seed"] == 3
    told = json.loads(artifact.read_text())["provenance"]
    assert told["options"] == {"num_predict": -1, "seed": 3}
    assert told["effective"]["parameters"]["num_predict"] == {"value": None, "from": None}
    assert told["effective"]["parameters"]["seed"] == {"value": 3, "from": "user"}
    assert "In force: seed=3 (user) and " in result.err


def test_a_server_of_a_file_that_is_not_this_machine_is_named(monkeypatch):
    from ore.cli import main
    from ore.cli.terminal.console import Console
    from tests.support.harness import Terminal

    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1:9/v1")
    err = Terminal()
    code = main(
        ["hi", "--backend", "openai", "--model", "m", "--timeout", "0.1"],
        console=Console(None, Terminal(), err),
        env_files={"OPENAI_BASE_URL": "/x/.env"},
    )
    assert code == 1
    assert "Prompts go to http://192.0.2.1:9/v1, which /x/.env names." in err.getvalue()


def test_a_failed_turn_shows_what_came_and_saves_nothing(home):
    with FakeOpenAI(scenario="cut") as fake:
        result = asked("hi", "--host", fake.url, "-s", "--session", "trip")
    assert (result.code, result.out) == (1, "Paris.\n")
    assert "broke off" in result.err
    assert not (home / ".ore/sessions/trip.json").exists()


@pytest.mark.parametrize(
    "reply, code, out",
    [(('{"city":', ' "Rome"}'), 0, '{\n  "city": "Rome"\n}\n'), (("Rome",), 3, "")],
)
def test_a_schema_is_sent_and_checked(reply, code, out):
    with FakeOpenAI(reply) as fake:
        result = asked("hi", "--host", fake.url, "--schema", json.dumps(SCHEMA))
    assert (result.code, result.out) == (code, out)
    assert fake.chats[0].json["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["silent", "endless"])
def test_an_interrupt_ends_the_request_at_once(scenario):
    flags = ("--backend", "openai", "--model", "small", "-s", "hi")
    taken = []
    with FakeOpenAI(scenario=scenario) as fake:
        for number in range(2):
            with process.running(*flags, "--host", fake.url) as running:
                process.until(lambda: len(fake.chats) > number)
                time.sleep(0.05)
                sent = time.monotonic()
                running.send_signal(signal.SIGINT)
                process.until(lambda: fake.chats[number].disconnected_at)
                taken.append(fake.chats[number].disconnected_at - sent)
                assert process.end(running).code == 130
    assert min(taken) < 0.1  # the other may have met a busy machine


@pytest.mark.embedded
def test_a_real_server_of_the_protocol_answers(model_dir, monkeypatch):
    """llama.cpp's own server is such a server; the small model behind it is real."""
    with llama_server(next(model_dir.glob("*.gguf"))) as address:
        url = f"{address}/v1"
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        options = ("--host", url, "--no-system", "-o", "temperature=0", "-o", "num_predict=30")
        result = asked("What is the capital of France?", *options, "-j")
        assert result.code == 0 and result.json["content"].strip()
        metadata = result.json["metadata"]
        assert metadata["done_reason"] in ("stop", "length") and metadata["eval_duration"] > 0
        assert 0 < metadata["eval_count"] <= 30 < metadata["prompt_eval_count"]
        assert metadata["context"]["window"] == WINDOW
        assert metadata["context"]["status"] == "complete"
        streamed = asked("What is the capital of France?", *options, "-s")
        assert streamed.code == 0 and len(streamed.out) > 1
        fits = asked("Name a city.", *options, "--schema", json.dumps(SCHEMA))
        assert fits.code == 0 and set(json.loads(fits.out)) == {"city"}
        long = asked("word " * 6000, *options, "--strict-context")
        assert long.code == 3 and "does not fit the model's context window" in long.err
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        assert "is not accepted" in asked("hi", *options, "--model", "x").err
        _still_answers(url, KEY)


def _still_answers(url: str, key: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
    assert connection.getresponse().status == 200
    connection.close()


IMPORTING = """
import signal, sys
from ore.backends.openai_client import _packages
def press(event, args):
    if event == "import" and args[0] == sys.argv[1]:
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(press)
try:
    _packages()
except KeyboardInterrupt:
    assert sys.modules["openai"].OpenAI
else:
    raise AssertionError("the signal was lost")
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["openai._models", "openai._client"])
def test_an_interrupt_waits_for_the_import_of_the_package(module):
    command = [sys.executable, "-c", IMPORTING, module]
    subprocess.run(command, cwd=process.ROOT, check=True, timeout=process.PATIENCE)


@pytest.mark.parametrize(
    "asked_for, answered, is_said",
    [
        ("small", "small", False),
        ("small", "other", True),
        ("small", "small-2026-01-31", False),
        ("small", "small-mini", True),
        ("small", "small@main", False),
        ("small", "small@other", True),
        ("Small.gguf", "/models/small.gguf", False),
        ("small", "small:latest", False),
        ("small-latest", "small-20260131", False),
        ("small-latest", "small-2-20260131", True),
        ("small", "o\x1b[31mther", False),
    ],
)
@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_model_that_was_not_asked_for_is_said(asked_for, answered, is_said, quiet):
    with FakeOpenAI(serves_any=True) as fake:
        fake.play = [
            Chunk(chunk.data.replace(b'"small"', json.dumps(answered).encode()))
            for chunk in [*fake.events(), DONE]
        ]
        result = asked("hi", "--model", asked_for, "--host", fake.url, *quiet)
    said = (
        f"ore: warning: The server answered with the model '{answered}', not the one asked for.\n"
    )
    assert (result.code, result.out, result.err) == (0, "Paris.\n", said if is_said else "")


def test_an_image_that_the_server_hardly_counted_is_said(tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(
        bytes.fromhex("89504e470d0a1a0a0000000d494844520000020000000200")
    )  # 512 × 512
    with FakeOpenAI() as fake:
        flags = ("--no-system", "--image", str(picture), "--host", fake.url)
        result = asked("What is it?", *flags, "--model", "small")
    assert "the model may not have seen it" in result.err and result.code == 0


@pytest.mark.parametrize("model", ["/models/small.gguf", "small.gguf", "./here.gguf", "./here"])
def test_a_model_s_name_is_never_a_file_there(model, tmp_path, monkeypatch):
    """As llama.cpp's server names the model that it has; a file of that name may be here as well."""
    for name in ("here", "here.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    with FakeOpenAI(models=(model,)) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        for named in ((), ("--model", model), ("--model", model, "--host", fake.url)):
            done = asked("hi", *named, "--artifact-out", "run.json")
            assert (done.code, done.out) == (0, "Paris.\n"), done.err
        for named in ((), ("--host", fake.url)):
            again = asked("--replay", "run.json", *named)
            assert (again.code, again.out) == (0, "run.json\tsame\tmessages rebuilt\n"), again.err
        assert {chat.json["model"] for chat in fake.chats} == {model} and len(fake.chats) == 5
