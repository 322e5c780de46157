"""No password of an address is ever shown: of a server's or a proxy's, however malformed it is."""

from __future__ import annotations

import json
import socket
import time
import traceback
from contextlib import suppress

import pytest

from ore.backends import fetching
from ore.backends import split_pin
from ore.backends.address import (
    Host,
    normalise_ollama,
    resolve_ollama,
    resolve_openai,
    without_key,
)
from ore.backends.choice import check_name, open_backend
from ore.backends.failures import OLLAMA
from ore.backends.http import Deadline
from ore.backends.model_names import checked_name, shown_name
from ore.backends.named import backend as backend_by_name, reasoner as reasoner_by_name
from ore.backends.ollama import AyaReasoner, OllamaBackend
from ore.backends.ollama_client import OllamaClient
from ore.backends.openai import OpenAIBackend, OpenAIReasoner
from ore.backends.openai_score import Server
from ore.backends.refusals import reported_error
from ore.backends.vllm_score import VllmAsking
from ore.backends.weights import PINNED
from ore.cli.advice import said
from ore.errors import BackendError, OreError, UsageError
from ore.tools.named_files import read_files
from ore.types import Message
from tests.backends.ollama.test_ollama_questions import http, one_answer
from tests.support import reported
from tests.support.fake_openai import FakeOpenAI, data, refusal
from tests.support.harness import run_ore
from tests.support.process import run

SECRET = "hunter2"

ADDRESSES = [
    "me:hunter2@box",
    "me:hunter2@box:11434",
    "http://me:hunter2@box",
    "https://me:hunter2@box/v1",
    "http://hunter2@box",
    "http://:hunter2@box",
    "http://me:hunter2@",
    "http://me:hunter2@:80",
    "http://me:hunter2@@box",
    "http://me:hunt@hunter2@box",
    "http://me:hunter2/x@box",
    "http://me:x/hunter2@box",
    "http://me:x#hunter2@box",
    "http://me:x?hunter2@box",
    "http://me:x%hunter2@box",
    "http://me:x\\hunter2@box",
    "http://me:x hunter2@box",
    "http://me:x\thunter2@box",
    "http://me:x\nhunter2@box",
    "http://me:\u00fchunter2@box",
    "http://me:[hunter2@box",
    "http://me:hunter2]@box",
    "http://[me:hunter2@::1]:80",
    "http://me%3Ahunter2%40box",
    "http://me:hunter2%40box",
    "http://me:hunter2\uff20box",
    "http://me:hunter2\ufe6bbox",
    "http:me:hunter2@box",
    "http:/me:hunter2@box",
    "http:///me:hunter2@box",
    "http//me:hunter2@box",
    "http:\\\\me:hunter2@box",
    "htp://me:hunter2@box",
    "ftp://me:hunter2@box",
    "socks5://me:hunter2@box",
    "://me:hunter2@box",
    "//me:hunter2@box",
    "http://http://me:hunter2@box",
    "http://box/me:hunter2@x",
    "http://box:80/@hunter2",
    "'http://me:hunter2@box",
    '"me:hunter2@box"',
    "http://me:hunter2",
    "me:hunter2",
    "me:hunter2:11434",
    "me:11434:hunter2",
    "http://me:hunter2/box",
    "http:me:hunter2",
    "http:/me:hunter2",
    "http//me:hunter2",
    "http:\\\\me:hunter2",
    "box me:hunter2",
    "me hunter2 box",
    "http://box?key=hunter2",
    "http://box/v1?key=hunter2",
    "http://box/v1#hunter2",
    "http://box/v1 hunter2",
    "http://box:80:hunter2",
    "[::1]:hunter2",
    "[::1]hunter2",
    "[hunter2",
    "hunter2\uff1abox",
    "\u00fc:hunter2",
    "http://b\u00fccher..:hunter2",
    "-o:hunter2",
    "http://box:99999/hunter2 x",
]

PROXIES = [
    "gopher://me:hunter2@127.0.0.1:9",
    "socks5://me:hunter2@127.0.0.1:9",
    "socks4://me:hunter2@127.0.0.1:9",
    "me:hunter2@127.0.0.1:9",
    "me:hunter2@:9",
    "me:hunter2",
    "http://me:hunter2",
    "http://me:hunter2@",
    "http://me:hunter2@@127.0.0.1:9",
    "http://me:hunter2@127.0.0.1:x",
    "http://me:hunter2@127.0.0.1:99999",
    "http://me:hunter2@127.0.0.1:-1",
    "http://me:hunter2@[::1",
    "http://me:hunter2@[::1]x",
    "http://me:hunter2@::1",
    "http://[me:hunter2@::1]:9",
    "http://me:hunter2/@127.0.0.1:9",
    "http://me:x/hunter2@127.0.0.1:9",
    "http://me:x?hunter2@127.0.0.1:9",
    "http://me:x#hunter2@127.0.0.1:9",
    "http://me:x hunter2@127.0.0.1:9",
    "http://me:x\thunter2@127.0.0.1:9",
    "http://me:x\nhunter2@127.0.0.1:9",
    "http://me:x\x7fhunter2@127.0.0.1:9",
    "http://me:x\\hunter2@127.0.0.1:9",
    "http://me:x%hunter2@127.0.0.1:9",
    "http://me:x%00hunter2@127.0.0.1:9",
    "http://me:\u00fchunter2@127.0.0.1:9",
    "http://me:\udcffhunter2@127.0.0.1:9",
    "http://me:hunter2\uff20127.0.0.1:9",
    "http://me:hunter2@" + "a" * 64 + ":9",
    "http://me:hunter2@a..b:9",
    "http://me:hunter2@\u00fc..:9",
    "http://me:hunter2@xn--a-ecp:9",
    "http://me:hunter2@two words:9",
    "http:me:hunter2@127.0.0.1:9",
    "http:/me:hunter2@127.0.0.1:9",
    "http//me:hunter2@127.0.0.1:9",
    "http:///me:hunter2@127.0.0.1:9",
    "://me:hunter2@127.0.0.1:9",
    "//me:hunter2@127.0.0.1:9",
    "HTTP://ME:hunter2@127.0.0.1:9",
    "https://me:hunter2@127.0.0.1:9",
    "http://http://me:hunter2@127.0.0.1:9",
    "http://me:hunter2@127.0.0.1:9" + "/x" * 40_000,
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_a_malformed_address_is_refused_and_its_password_not_shown(text):
    for read in (
        lambda: normalise_ollama(text),
        lambda: resolve_ollama(text),
        lambda: resolve_ollama(None, {"OLLAMA_HOST": text}),
        lambda: resolve_openai(text, {}),
        lambda: resolve_openai(None, {"OPENAI_BASE_URL": text}),
    ):
        with pytest.raises(UsageError) as caught:
            read()
        assert SECRET not in str(caught.value), text
        assert "write it like" in str(caught.value)


@pytest.fixture
def no_names(monkeypatch):
    """No name of a proxy is looked up anywhere; a network may take seconds to say that it has none."""
    look_up = socket.getaddrinfo

    def numbers_only(host, port, *_, **__):
        return look_up(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

    monkeypatch.setattr("socket.getaddrinfo", numbers_only)
    monkeypatch.setattr("ore.backends.http.getaddrinfo", numbers_only)


@pytest.mark.usefixtures("no_authorities", "no_names")
@pytest.mark.parametrize("text", PROXIES, ids=lambda text: text[:60].encode("unicode-escape"))
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_proxy_s_password_is_shown(text, scheme, monkeypatch):
    monkeypatch.setenv(f"{scheme}_proxy", text)
    url = f"{scheme}://box.invalid:1"
    for ask in (
        lambda: OllamaClient(Host(url)).names(),
        lambda: OpenAIReasoner("small", Host(f"{url}/v1")).reason([Message("user", "Hello?")]),
    ):
        with pytest.raises(OreError) as caught:
            ask()
        assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "said",
    [
        "Invalid proxy URL: http://me:hunter2@box",
        "Failed to parse: me:hunter2",
        "Could not fetch https://me:hunter2@index/simple/: 403",
    ],
)
def test_what_pip_says_of_an_address_is_not_shown(said, tmp_path):
    error = fetching._pip_error(PINNED["smollm2:135m"], f"ERROR: {said}\n", tmp_path)
    assert SECRET not in str(error)
    assert f"pip failed and said: {said[:10]}" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["http://me:hunter2@box", "me:hunter2", "http:/me:hunter2@x"])
def test_the_command_line_shows_none_either(text):
    done = run("-v", "--host", text, "Hello?", stdin=None)
    assert (done.code, done.out) == (2, "")
    assert SECRET not in done.err


ECHO = "sk-Hunter2-hunter2"


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_a_key_that_a_server_repeats_is_not_shown(status, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", ECHO)
    words = json.dumps({"error": f"no such key: Bearer {ECHO}"}).encode()
    with one_answer(http(words, f"{status} No")) as (host, seen):
        with pytest.raises(BackendError, match=r"no such key: Bearer \[the key\]") as caught:
            AyaReasoner("m", host).reason([Message("user", "Hello")])
    assert ECHO.encode() in seen[0] and ECHO not in str(caught.value)


@pytest.mark.parametrize(
    "play", [[refusal(400, ECHO)], [data('{"error": {"message": "no %s"}}' % ECHO)]]
)
def test_a_key_that_a_server_of_the_openai_protocol_repeats_is_not_shown(play):
    with FakeOpenAI(key=ECHO) as fake:
        fake.play = play
        with pytest.raises(BackendError) as caught:
            OpenAIReasoner("small", Host(fake.url), ECHO).reason([Message("user", "Hello")])
    assert ECHO not in str(caught.value)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        f"HTTP/1.1 200{ECHO}\r\n\r\n".encode(),
        OK + f"{ECHO} x\r\n\r\n".encode(),
        OK + f"Transfer-Encoding: chunked\r\n\r\n{ECHO}\r\n".encode(),
        OK + f"Content-Encoding: {ECHO}\r\n\r\n".encode(),
        OK + f"Content-Type: {ECHO}\r\n\r\n".encode(),
        f"HTTP/1.1 302 Found\r\nLocation: http://other/{ECHO}\r\n\r\n".encode(),
        http(b'{"error": "no sk\\u002dHunter2-hunter2"}', "401 No"),
        http(b'{"error": "no sk\\u002dHunter2-hunter2"}', "500 No"),
    ],
)
def test_a_key_that_stands_anywhere_in_an_answer_is_not_shown(reply, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", ECHO)
    for make in (AyaReasoner, lambda model, host: OpenAIReasoner(model, host, ECHO)):
        with one_answer(reply) as (host, _), pytest.raises(BackendError) as caught:
            make("m", host).reason([Message("user", "Hello")])
        assert ECHO.lower() not in str(caught.value).lower()


@pytest.mark.parametrize("before", ["x" * 330, "x" + " " * 740])
@pytest.mark.parametrize("place", ["Content-Encoding: {}", "{} x"])
def test_no_part_of_a_key_is_left_where_a_long_sentence_is_cut(place, before, monkeypatch):
    key = "sk-" + "Hunter2-" * 12
    monkeypatch.setenv("OLLAMA_API_KEY", key)
    reply = OK + place.format(before + key).encode() + b"\r\n\r\n"
    for make in (AyaReasoner, lambda model, host: OpenAIReasoner(model, host, key)):
        with one_answer(reply) as (host, _), pytest.raises(BackendError) as caught:
            make("m", host).reason([Message("user", "Hello")])
        assert "sk-" not in str(caught.value)


@pytest.mark.slow
def test_a_key_that_stands_in_the_names_of_an_answer_is_not_kept(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", ECHO)
    told = {"model": ECHO, "message": {"role": "assistant", "content": "Yes."}}
    line = json.dumps(told | {"done": True, "done_reason": f"no {ECHO}"}).encode() + b"\n"
    with one_answer(http(line)) as (host, _):
        kept = AyaReasoner("m", host).reason([Message("user", "Hello")]).metadata
    assert (kept["response_model"], kept["done_reason"]) == ("[the key]", "no [the key]")
    choice = {"delta": {"content": "Yes."}, "finish_reason": ECHO}
    with FakeOpenAI(key=ECHO) as fake:
        fake.play = [
            data(json.dumps({"model": ECHO, "system_fingerprint": ECHO, "choices": [choice]})),
            data("[DONE]"),
        ]
        made = OpenAIReasoner("small", Host(fake.url), ECHO)
        kept = made.reason([Message("user", "Hello")]).metadata
    for name in ("response_model", "system_fingerprint", "done_reason"):
        assert kept[name] == "[the key]"


def test_a_key_that_a_server_repeats_is_not_shown_as_how_far_a_fetch_is(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", ECHO)
    lines = [{"status": f"pulling for {ECHO}"}, {"status": "success"}]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    told: list[str] = []
    with one_answer(http(body, "200 OK")) as (host, _):
        OllamaBackend(host).pull("m", lambda step, done, total: told.append(step))
    assert told == ["pulling for [the key]"]


@pytest.mark.parametrize(
    "answer",
    [
        f"HTTP/1.1 {ECHO}\r\n\r\n".encode(),
        http(b"", "302 Found", f"Location: https://ada:s3cret@[::1/{ECHO}"),
        http(json.dumps({"error": f"no {ECHO}"}).encode() + b"\n", "200 OK"),
        http(json.dumps({"x": "y" * 50, "authorization": f"Bearer {ECHO * 2}"}).encode() + b"\n"),
        http(
            f'data: {{"error": {{"message": "no {ECHO}"}}}}\n\n'.encode(),
            "200 OK",
            "Content-Type: text/event-stream",
        ),
    ],
)
@pytest.mark.parametrize("kind", [AyaReasoner, OpenAIReasoner])
def test_a_traceback_shows_no_key_that_a_server_repeats_to_the_package(kind, answer, monkeypatch):
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, ECHO if ECHO * 2 not in str(answer) else ECHO * 2)
    with one_answer(answer) as (host, _), pytest.raises(BackendError) as caught:
        kind("m", host.url).reason([Message("user", "Hi")])
    shown = "".join(traceback.format_exception(caught.value))
    assert ECHO not in shown and "s3cret" not in shown


@pytest.mark.parametrize(
    "written",
    [
        r"ab\/c+d/ef==",
        r"ab\u002fc\u002Bd\/ef\u003D\u003d",
        r"ab\\\/c\\u002bd/ef==",
        "ab%2Fc%2bd/ef%3D=",  # in the address that a redirect leads to
    ],
)
def test_a_key_that_a_server_escapes_is_not_shown(written):
    for text in (written, f'{{"error": "no {written}"}}'):
        said = without_key(text.encode(), "Bearer ab/c+d/ef==")
        assert said == text.replace(written, "[the key]").encode()


def test_a_key_in_a_large_answer_is_not_shown_and_is_found_fast():
    begun = time.process_time()
    assert without_key(b"\\" * (8 << 20) + b"sk-hunter2", "sk-hunter2").endswith(b"[the key]")
    assert without_key(b"\\" * 9999, "\\" * 30).startswith(b"[the key][the key]")
    assert time.process_time() - begun < 10


def test_a_short_key_of_a_server_on_this_machine_is_a_word_like_any_other():
    assert without_key(b"none of them", "Bearer none") == b"none of them"
    assert without_key(b"no key", None) == b"no key"


def test_no_key_stands_in_what_a_record_of_an_error_keeps_of_its_calls(monkeypatch):
    """Services that collect errors keep the variables of each call, as texts."""
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-secret-key")
    answer = http(b"", "500 No")
    with one_answer(answer) as (host, _), pytest.raises(BackendError) as caught:
        AyaReasoner("m", host).reason([Message("user", "Hi")])
    kept = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    calls = [str(call.locals) for call in kept.stack if call.filename != __file__]
    assert any("Request(" in call for call in calls) and "sk-secret-key" not in "".join(calls)
    assert "sk-secret-key" not in repr(Server(host, "sk-secret-key", "m", 1, None))
    assert "sk-secret-key" not in repr(
        VllmAsking(host, "sk-secret-key", "m", [], None, Deadline(None))
    )


@pytest.mark.parametrize(
    "address", ["http://me:hunter2@box:1", "https://me:hunter2@box/v1", "me:hunter2@box"]
)
@pytest.mark.parametrize(
    "variable, more",
    [
        ("ORE_BACKEND", ()),
        ("ORE_STREAM", ()),
        ("ORE_SYSTEM", ()),
        ("ORE_RUNS", ()),
        ("ORE_HOME", ("--session", "s")),
        ("ORE_MODEL_DIR", ("--backend", "embedded")),
        ("OLLAMA_MODELS", ("--backend", "embedded")),
    ],
)
def test_an_address_in_another_variable_is_not_shown(variable, more, address, home, monkeypatch):
    monkeypatch.setenv(variable, address)
    result = run_ore(*more, "Hi", open_backend=open_backend)
    assert result.code != 0 and SECRET not in result.err
    assert f"{variable} is an address" in result.err


@pytest.mark.parametrize("name", ["http://me:hunter2@box:1", "https://me:hunter2@box/v1"])
def test_an_address_in_the_place_of_a_model_s_name_is_shown_without_its_password(name):
    assert SECRET not in shown_name(name)
    assert shown_name("llama3.2@sha256:1f2e") == "llama3.2@sha256:1f2e"


@pytest.mark.parametrize("asked", [reasoner_by_name, backend_by_name, OpenAIReasoner, AyaReasoner])
def test_a_program_s_address_in_the_place_of_a_name_is_refused_without_its_password(asked):
    pytest.importorskip("openai", reason="openai is not installed (requirements-openai.txt)")
    with pytest.raises(UsageError, match="^'http://…@box:1/a' ") as caught:
        asked("http://me:hunter2@box:1/a")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("flags", [("--dry-run",), ("--artifact-out", "-"), ("--json",), ("-v",)])
@pytest.mark.parametrize("is_flag, kind", [(True, "ollama"), (True, "openai"), (False, "openai")])
def test_an_address_with_a_password_is_no_model_that_a_plan_or_an_artifact_names(
    is_flag, kind, flags, home, monkeypatch
):
    model = "http://me:hunter2@box:1/a"
    if not is_flag:
        monkeypatch.setenv("ORE_MODEL", model)
    named = ("-m", model) if is_flag else ()
    with FakeOpenAI(serves_any=True) as server:
        host = ("--backend", kind, "--host", server.url)
        result = run_ore(*host, *named, *flags, "Hi", open_backend=open_backend)
    assert result.code == 2 and not any(b"hunter2" in each.body for each in server.requests)
    assert SECRET not in result.out + result.err and "hunter2" not in result.out + result.err
    assert "'http://…@box:1/a' can't be a model's name: it holds a user name" in result.err


@pytest.mark.parametrize(
    "words", ["invalid model name", "pull model manifest: file does not exist"]
)
def test_the_library_shows_no_password_of_an_address_either(words):
    """What the command line says of an address is looked through once more; a program's log is not."""
    name = "https://me:hunter2@reg.example/a"
    said = str(reported_error(Host("http://box:1"), name, words, OLLAMA))
    with pytest.raises(UsageError) as of_a_name:
        check_name(f"{name}/b/c")
    with pytest.raises(UsageError) as of_a_file:
        read_files([name])
    told = [said, *(str(each.value) for each in (of_a_name, of_a_file))]
    assert all("https://…@reg.example/a" in each for each in told) and SECRET not in "".join(told)


def test_an_address_in_the_place_of_a_file_is_shown_without_its_password(home):
    result = run_ore("-f", "http://me:hunter2@box:1/a@b", "Hi")
    assert (
        result.code == 2 and SECRET not in result.err and "http://…@b is an address" in result.err
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--timeout", "{}"),
        ("--think={}",),
        ("--rows", "{}", "Hi {{{{a}}}}"),
        ("--session", "{}"),
        ("--persona", "{}"),
        ("--skill", "{}", "Hi"),
        ("--tool", "{}", "Hi"),
        ("--tool", "echo", "--tool-arg", "{}", "Hi"),
        ("--grant", "{}", "Hi"),
        ("--option", "num_ctx={}"),
        ("--run", "{}"),
        ("--after", "{}"),
        ("--show", "{}"),
        ("--verify", "{}"),
        ("--verify", "{}", "--json"),
        ("--replay", "{}"),
        ("--replay", "{}", "--json"),
        ("--system", "@{}"),
        ("--help", "{}"),
        ("Hi", "{}"),
        ("--{}",),
    ],
)
@pytest.mark.parametrize("address", ["http://me:hunter2@box/v1", "https:/me:hun/hunter2@box"])
def test_an_address_in_the_place_of_another_value_is_shown_without_its_password(
    arguments, address, home
):
    result = run_ore(*(each.format(address) for each in arguments))
    assert result.code != 0 and SECRET not in result.out + result.err
    assert any(shown in result.out + result.err for shown in ("…@box", r"\u2026@box"))


@pytest.mark.parametrize("flags", [[], ["--csv"]])
def test_a_report_shows_an_address_among_its_paths_without_its_password(flags, home, tmp_path):
    pytest.importorskip("jinja2", reason="jinja2 is not installed (requirements-report.txt)")
    paths = [
        str(reported.write(tmp_path / "runs", reported.run(1))),
        "http://me:hunter2@box/x.json",
    ]
    result = run_ore("--report", *paths, *flags)
    assert result.code == 0 and SECRET not in result.out + result.err
    assert "http://…@box/x.json" in result.out


@pytest.mark.parametrize(
    "value", ["https://box.test/@ada/notes", "src/http/me@x:1", "git@box:me/x", "http://box:80/v1"]
)
def test_what_holds_no_password_is_shown_whole(value, home):
    assert f"'{value}'" in run_ore("--timeout", value).err


@pytest.mark.parametrize(
    "sentence",
    [
        "see `http://box:80`",
        "see <http://box:80>, or ada@box",
        "is it http://box:8080?",
        "http://box:8080^J  ended",
        "http: the proxy said 'a:b' to ada@box",
    ],
)
def test_a_sentence_with_an_address_that_holds_no_password_is_shown_whole(sentence):
    assert said(sentence) == sentence


@pytest.mark.parametrize("ask", ["models", "score", "reported"])
def test_no_key_stands_in_the_variables_of_what_asks_beside_a_turn(ask, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-secret-key")
    answer = http(b'{"error": "no"}', "200 OK" if ask == "reported" else "500 No")
    with one_answer(answer) as (host, _), pytest.raises(BackendError) as caught:
        if ask == "reported":
            OllamaBackend(host).models()
        elif ask == "models":
            OpenAIBackend(host, "sk-secret-key").models()
        else:
            OpenAIReasoner("m", host, "sk-secret-key").score([Message("user", "Hi")], "Ho")
    kept = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    calls = [str(call.locals) for call in kept.stack if call.filename != __file__]
    assert any("[the key]" in call for call in calls) and "sk-secret-key" not in "".join(calls)


@pytest.mark.parametrize(
    "address",
    [
        "http:me:hunter2@box/v1",
        "http:///me:hunter2@box/v1",
        "http:\\\\me:hunter2@box/v1",
        "http://NAME:hunter2@box/v1",
        f"https://me:{'x' * 3000}hunter2@box/v1",
        "http;//me:hunter2@box/v1",
        "http//me:hunter2@box/v1",
    ],
)
def test_a_malformed_address_is_shown_without_its_password(address, home):
    result = run_ore("--timeout", address)
    assert result.code == 2 and SECRET not in result.err and "…@box/v1" in result.err


@pytest.mark.parametrize(
    "login",
    [
        "me:top hunter2",
        "me:hunter2 top",
        "m e:hunter2",
        "me@corp.example:top hunter2",
        "me:a@b hunter2",
        "me:a\nhunter2",
        "me:a\u00a0hunter2",
    ],
)
def test_a_password_with_a_blank_in_it_is_not_shown(login, home):
    for arguments in (
        ["--timeout", f"http://{login}@box/v1"],
        ["--verify", f"http://{login}@box/v1"],
    ):
        result = run_ore(*arguments)
        shown = result.out + result.err
        assert result.code and SECRET not in shown and "http://…@box/v1" in shown


@pytest.mark.parametrize("at", ["%40", "%2540", "\uff20", "\ufe6b"])
def test_a_password_before_an_at_that_is_written_otherwise_is_not_shown(at, home):
    address = f"http://me:hunter2{at}box/v1"
    err = run_ore("--timeout", address).err
    assert SECRET not in err and "http://…@box/v1" in err
    with pytest.raises(UsageError, match="http://…@box/v1' can't be a model's name") as caught:
        checked_name(address)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "login", ["http:hunter2", "http:me@corp.example:hunter2", "http:me:a/hunter2"]
)
def test_a_mistyped_address_with_a_key_or_an_odd_login_is_no_model_s_name(login):
    with pytest.raises(UsageError, match="'http:…@box' can't be a model's name") as caught:
        checked_name(f"{login}@box")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "rest", ["box:11434@me:hunter2", "box/me:hunter2@", "me/hunter2@box", "box/v1/me:hunter2@x:2"]
)
@pytest.mark.parametrize("scheme", ["http", "HTTPS"])
def test_an_address_with_a_login_in_the_wrong_place_is_no_model_s_name(scheme, rest):
    with pytest.raises(UsageError, match=f"'{scheme}://…@.*' can't be a model's name") as caught:
        checked_name(f"{scheme}://{rest}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("scheme", ["HTTP", "ftp", "s3"])
def test_an_address_that_a_file_is_to_be_written_to_is_shown_without_its_password(scheme, home):
    """The name of its folder has one slash only."""
    result = run_ore("Hi", "--artifact-out", f"{scheme}://me:hunter2@box/run.json")
    assert result.code == 1 and SECRET not in result.err
    assert f"there is no folder {scheme}:/…@box; make it first" in result.err


@pytest.mark.parametrize("flags", [("--runs",), ("--rows", "t.csv", "--artifact-out")])
def test_no_folder_is_made_that_has_the_password_of_an_address_in_its_name(
    flags, home, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("n\n1\n")
    result = run_ore("Hi {{n}}", *flags, "s3://me:hunter2@box/runs")
    assert result.code in (1, 2) and SECRET not in result.out + result.err
    assert "an address" in result.err and not (tmp_path / "s3:").exists()


@pytest.mark.parametrize(
    "begins",
    [
        "http;//",
        "http//",
        "HTTPS:/",
        "http:",
        "http:\\\\",
        "htttp:/",
        "http\uff1a\uff0f\uff0f",
        "socks5h//",
        "//",
    ],
)
def test_a_mistyped_address_is_no_model_s_name_and_shown_without_its_password(begins):
    with pytest.raises(UsageError, match="…@box/m' can't be a model's name: it holds") as caught:
        split_pin(f"{begins}me:hunter2@box/m")
    assert SECRET not in str(caught.value)
    pinned = ("http/m@sha256:ab12", "http:1b@sha256:ab12", "hf.co/a/b:Q4@sha256:ab")
    for name in (*pinned, "models:/m@champion", "file:///home/me@box/m.gguf"):
        assert shown_name(name) == checked_name(name) == name


@pytest.mark.parametrize(
    "arguments",
    [
        ("--timeout", "http://me:hunter2"),
        ("--timeout", "s3://me:hunter2"),
        ("--artifact-out", "http://me:hunter2/a@box"),
        ("--artifact-out", "s3://me:hunter2/a@box"),
        ("--artifact-out", "http://me:80!hunter2/a@box"),
    ],
)
def test_a_password_that_no_at_follows_is_not_shown(arguments, home):
    result = run_ore("Hi", *arguments)
    assert result.code and SECRET not in result.err and "/…" in result.err


@pytest.mark.slow
def test_logins_are_looked_for_in_time_that_grows_with_the_text():
    for part in ("http:", "http:\\", "ab:/x:", "http:a:1", "@", "://a:b c", "://a b", "x:/ "):
        started = time.process_time()
        said(f"@{part * 100_000}/")
        with suppress(UsageError):
            checked_name(f"http:{part * 20_000}")
        assert time.process_time() - started < 2.0, part
