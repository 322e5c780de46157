"""What a connection that fails becomes, whatever the protocol: the class and the whole sentence."""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import threading
import time
from contextlib import closing, contextmanager

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends import failures, http, refusals, registry_failures
from ore.backends.address import Host
from ore.backends.model_names import parse_name
from ore.backends.ollama_client import OllamaClient
from ore.backends.openai import OpenAIBackend, OpenAIReasoner
from ore.backends.proxies import proxy_address, proxy_for
from ore.backends.registry import Registry
from ore.backends.registry_ways import Ways
from ore.cli.advice import said
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    IncompleteAnswerError,
    OreError,
    ServerUnreachableError,
)
from ore.files.neutral import neutralise
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.backends.ollama.test_ollama_questions import http as answered
from tests.backends.ollama.test_ollama_questions import one_answer

HOST = Host("http://127.0.0.1:11434", "OLLAMA_HOST")
AT = "http://127.0.0.1:11434 (from OLLAMA_HOST)"


@pytest.mark.parametrize(
    "error, kind, sentence",
    [
        (
            failures.unreachable_error(
                HOST,
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired "
                "(_ssl.c:1006)",
                failures.OPENAI,
            ),
            ServerUnreachableError,
            f"The certificate of {AT} can't be trusted (certificate has expired): renew it there, or "
            f"set this machine's clock, or name another server with `host=`.",
        ),
        (
            failures.silence_error(HOST, 2.5),
            BackendTimeoutError,
            f"Nothing came from {AT} for 2.5 s: give it longer with `timeout=`, or look at the "
            f"server's log.",
        ),
        (
            failures.silence_error(HOST, None),
            BackendTimeoutError,
            f"Nothing came from {AT}, and the connection was given up: ask again, or look at the "
            f"server's log.",
        ),
        (
            failures.no_reply_error(HOST, 9.99999),
            BackendTimeoutError,
            f"The server at {AT} did not answer within 10 s: try again, with a longer `timeout=` or "
            f"`deadline=` if one is set, or look at its log.",
        ),
        (
            failures.no_reply_error(HOST, 0.0),
            BackendTimeoutError,
            f"The server at {AT} did not answer in time: try again, with a longer `timeout=` or "
            f"`deadline=` if one is set, or look at its log.",
        ),
        (
            failures.too_slow_error(HOST, 60.0),
            BackendTimeoutError,
            f"The answer from {AT} was not complete after 60 s, so the turn was ended: give it "
            f"longer with `deadline=`.",
        ),
        (
            failures.broken_off_error(HOST, "connection reset by peer"),
            IncompleteAnswerError,
            f"The answer from {AT} broke off (connection reset by peer), so it was dropped: ask again; "
            f"the server's log may say why.",
        ),
        (
            failures.unfinished_error(HOST),
            IncompleteAnswerError,
            f"The server at {AT} ended the answer without saying that it was done, as some do when a "
            f"model repeats itself, or when another request comes, so the answer was dropped: ask "
            f"again, or ask fewer at once.",
        ),
        (
            failures.unfinished_error(HOST, is_begun=False),
            IncompleteAnswerError,
            f"The server at {AT} ended the answer before it had begun, as some do with a prompt that "
            f"does not fit: shorten it, check the address, or look at the server's log.",
        ),
        (
            failures.too_large_error(HOST, "a line", 1 << 20),
            BackendError,
            f"The server at {AT} sent a line larger than 1 MiB, so the turn was ended: check the "
            f"address.",
        ),
    ],
)
def test_a_failed_connection_says_where_why_and_what_to_do(error, kind, sentence):
    assert (type(error), str(error), error.exit_code) == (kind, sentence, 1)


@given(st.text(max_size=3_000))
def test_a_server_s_words_are_shown_on_one_line_of_bounded_length(text):
    shown = http.shorten(text)
    assert len(shown) <= http.MOST_SHOWN + 1
    assert shown.split() == shown.split(" ") or shown == ""
    assert neutralise(shown) == shown


@pytest.mark.parametrize(
    "words", ["run `rm -rf ~`", "`timeout=`", "say `Backend.pull('evil')` \x1b[2J"]
)
def test_a_server_s_words_are_no_advice_of_ours(words):
    body = json.dumps({"error": words}).encode()
    for error in (
        refusals.ollama_status_error(HOST, "m", 500, body),
        refusals.openai_status_error(HOST, "m", 500, body, has_key=False),
        failures.protocol_error(HOST, words, failures.OLLAMA),
    ):
        assert "`" not in str(error) and error.advice == ()
        assert words.split("`")[1].split("'")[0] in str(error) and said(error) == str(error)


@pytest.mark.parametrize("words", ["model '", "model ", "only "])
def test_what_a_long_error_means_is_found_at_once(words):
    """A line of a stream may have a mebibyte, and an expression can't be interrupted."""
    text = words * ((1 << 20) // len(words))
    body = json.dumps({"error": text}).encode()
    begun = time.process_time()
    for protocol in (failures.OLLAMA, failures.OPENAI):
        refusals.reported_error(HOST, "m", text, protocol)
    refusals.openai_status_error(HOST, "m", 404, body, has_key=False)
    assert time.process_time() - begun < 5


ASK = [
    lambda url: OllamaClient(Host(url)).names(),
    lambda url: OpenAIReasoner("small", Host(f"{url}/v1")).reason([Message("user", "Hello?")]),
]
REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno"
SECRET = "me:hunter2"


def said_of(ask, url: str) -> str:
    with pytest.raises(OreError) as caught:
        ask(url)
    assert SECRET not in str(caught.value) and "hunter2" not in str(caught.value)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.usefixtures("no_authorities")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("ask", ASK, ids=["ollama", "openai"])
def test_what_a_proxy_refuses_is_said_to_be_its_doing(ask, scheme, monkeypatch):
    monkeypatch.setenv(f"{scheme}_proxy", f"http://{SECRET}@127.0.0.1:9")
    said = said_of(ask, f"{scheme}://box.example:1234")
    assert (
        said.startswith("ServerUnreachableError: No ") and "connection refused. It is asked" in said
    )
    assert f"through the proxy of {scheme}_proxy, which may be what fails" in said
    with one_answer(REFUSED) as (proxy, seen):
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url.replace("//", f"//{SECRET}@"))
        said = said_of(ask, f"{scheme}://box.example:1234")
    assert seen and "127.0.0.1" not in said
    assert said.startswith(
        f"ServerUnreachableError: The proxy of {scheme}_proxy lets nobody through"
    )


@pytest.mark.parametrize("status", ["302 Found", "403 Forbidden", "503 Unavailable", "504 Timeout"])
@pytest.mark.parametrize("ask", ASK, ids=["ollama", "openai"])
def test_what_a_proxy_may_have_said_is_not_said_to_be_the_server_s_alone(ask, status, monkeypatch):
    page, words = b"<html>Sorry.</html>", b'{"error": {"message": "Sorry."}}'
    for body, is_page in ((page, True), (words, False)):
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with one_answer(head + body) as (proxy, seen):
            monkeypatch.setenv("http_proxy", proxy.url)
            said = said_of(ask, "http://box.example:1234")
        assert seen and said.endswith("check that, or name the server in NO_PROXY.") is is_page
        assert ("through the proxy of http_proxy, which may be what fails" in said) is is_page


@pytest.mark.parametrize("head", ["Content-Type: text/html", "Content-Encoding: gzip", "X-Cut: 1"])
@pytest.mark.parametrize("ask", ASK, ids=["ollama", "openai"])
def test_a_proxy_may_be_what_answers_a_turn_in_another_way_or_breaks_it_off(ask, head, monkeypatch):
    size = 6 if "Cut" not in head else 600
    answer = f"HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {size}\r\n\r\n<html>".encode()
    with one_answer(answer) as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy.url)
        said = said_of(ask, "http://box.example:1234")
    assert seen and "through the proxy of http_proxy, which may be what fails" in said


@pytest.mark.slow
@pytest.mark.usefixtures("no_authorities")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda url: AyaReasoner("m", url, timeout=0.2).reason([Message("user", "Hello?")]),
        lambda url: OllamaClient(Host(url)).names(0.2),
    ],
    ids=["turn", "list"],
)
def test_a_silent_proxy_is_not_said_to_be_the_server(ask, scheme, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://{SECRET}@127.0.0.1:{proxy.getsockname()[1]}")
        said = said_of(ask, f"{scheme}://box.example:1234")
    assert said.startswith("BackendTimeoutError: ")
    assert f"through the proxy of {scheme}_proxy, which may be what fails" in said


@pytest.mark.parametrize("ask", ASK, ids=["ollama", "openai"])
def test_no_proxy_is_blamed_that_is_not_asked(ask, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{SECRET}@127.0.0.1:9")
    assert "proxy" not in said_of(ask, "http://127.0.0.1:9")
    with one_answer(REFUSED) as (server, _):
        said = said_of(ask, server.url)
    assert "A proxy answers at" in said and said.endswith("check the address.")


@pytest.mark.parametrize("name", ["127.0.0.1", "127.1", "localhost"])
def test_no_proxy_is_asked_for_this_machine_however_it_is_written(name, monkeypatch):
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    found = answered(b'{"data": [{"id": "small"}]}', "200 OK", "Content-Type: application/json")
    with one_answer(found) as (server, _):
        url = server.url.replace("127.0.0.1", name)
        assert OpenAIBackend(Host(url)).models() == ["small"]
    with one_answer(answered(b"{}")) as (server, _):
        named = parse_name(f"{server.url.removeprefix('http://').replace('127.0.0.1', name)}/a/b")
        with closing(Registry(named, insecure=True)) as registry:
            assert registry.manifest() == b"{}"


@pytest.mark.parametrize(
    "why, file, way",
    [
        (
            "self-signed certificate",
            "",
            "set SSL_CERT_FILE to the certificate of the authority that signed it, or",
        ),
        (
            "self-signed certificate",
            "/no/file",
            "see that the file of SSL_CERT_FILE can be read and has the authority that signed it, or",
        ),
        (
            "IP address mismatch, certificate is",
            "/a",
            "name the server as its certificate does, or",
        ),
        ("certificate has expired", "", "renew it there, or set this machine's clock, or"),
        ("CA signature digest algorithm too weak", "x", "have another one made for the server, or"),
        ("invalid CA certificate", "", "have another one made for the server, or"),
        ("unsuitable certificate purpose", "", "have another one made for the server, or"),
        ("certificate is not yet valid", "/a", "renew it there, or set this machine's clock, or"),
    ],
)
def test_what_helps_against_a_certificate_is_said_by_its_reason(why, file, way, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", file)
    told = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why} (_ssl.c:1006)"
    error = failures.unreachable_error(Host("https://box:1"), told, failures.OLLAMA)
    assert f"can't be trusted ({why}): " in str(error) and way in str(error)
    assert str(error).endswith(", or name another server with `host=`.")


def test_what_helps_against_a_registry_s_certificate_is_said_by_its_reason():
    told = "certificate verify failed: certificate has expired (_ssl.c:1006)"
    assert str(registry_failures.unreachable_error("box", told)).endswith(
        "can't be trusted (certificate has expired): renew it there, or set this machine's clock."
    )


def test_a_connection_that_is_closed_in_a_handshake_is_said_in_words():
    told = "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c:1006)"
    said = str(failures.unreachable_error(Host("https://box:1"), told, failures.OPENAI))
    assert "it closed the connection before it said who it is" in said and "_ssl" not in said


def test_a_proxy_is_named_by_the_variable_that_counts(monkeypatch):
    assert proxy_for("http://box:1") == ""
    monkeypatch.setenv("ALL_PROXY", "http://x")
    assert proxy_for("http://box:1") == "ALL_PROXY"
    monkeypatch.setenv("HTTP_PROXY", "http://y")
    assert proxy_for("http://box:1") == "HTTP_PROXY"
    monkeypatch.setenv("http_proxy", "http://z")
    assert proxy_for("http://box:1/v1") == "http_proxy"
    assert proxy_for("https://box:1") == "ALL_PROXY"
    for passed in ("box", "*", "other, box"):
        monkeypatch.setenv("no_proxy", passed)
        assert proxy_for("http://box:1") == ""


def test_no_proxy_is_taken_that_whoever_asks_a_cgi_program_may_name(monkeypatch):
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    monkeypatch.setenv("HTTP_PROXY", "http://x")
    assert proxy_for("http://box:1") == ""
    monkeypatch.setenv("all_proxy", "http://x")
    assert proxy_for("http://box:1") == "all_proxy"


@pytest.mark.parametrize(
    "proxy, address",
    [("box:3128", "http://box:3128"), ("socks5://box:1", "socks5://box:1"), ("", "http://other:1")],
)
def test_the_address_of_a_proxy_is_what_its_variable_says(proxy, address, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)  # an empty one names none, and hides none in capitals
    monkeypatch.setenv("ALL_PROXY", "other:1")
    assert proxy_address("http://box.example:80") == address
    assert proxy_address("https://box.example:443") == "http://other:1"
    assert proxy_address("http://127.0.0.1:80") is None


def test_a_registry_on_this_machine_is_asked_directly_and_so_is_where_it_leads(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks4://box:1")
    with closing(Ways("http://127.0.0.1:1")) as ways, pytest.raises(httpx.ConnectError):
        ways.handle_request(httpx.Request("GET", "http://127.0.0.2:9/"))
    with pytest.raises(ValueError):
        Ways("http://box.example:80")


def test_no_handler_waits_for_the_connections_to_a_registry(monkeypatch):
    """See ``steady``."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with closing(Ways("https://box.example:443")) as ways:
        pools = [each._pool for each in ways._mounts.values()]
    assert len(pools) == 2
    assert {type(each._optional_thread_lock) for each in pools} == {type(threading.RLock())}


EXCEPTED = ["x, *", "*.example", ".box.example", "box.example:80", "http://box.example"]


def of_registry(url: str) -> None:
    name = parse_name(f"{url.partition('//')[2]}/a/b")
    with closing(Registry(name, insecure=True)) as registry:
        try:
            registry.manifest()
        except registry_failures.Trouble as trouble:
            raise trouble.error from trouble


@pytest.mark.parametrize("excepted", EXCEPTED)
@pytest.mark.parametrize("ask", [*ASK, of_registry], ids=["ollama", "openai", "registry"])
def test_no_proxy_is_asked_or_blamed_where_its_exceptions_name_the_server(
    ask, excepted, monkeypatch
):
    def unknown(*_: object, **more: object) -> None:
        raise socket.gaierror(-2, "unknown name")

    monkeypatch.setattr(http, "getaddrinfo", unknown)  # of all but the proxy, which is a number
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", excepted)
        assert "proxy" not in said_of(ask, "http://box.example:80")
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.mark.parametrize(
    "url, excepted",
    [
        ("http://10.1.2.3:8000/v1", "10.0.0.0/8"),
        ("http://10.1.2.3:8000/v1", "10.1.2.3:8000"),
        ("http://[2001:db8::5]:8000", "x,2001:db8::/32"),
        ("http://[2001:db8::5]:8000", "[2001:db8::5]"),
        ("http://[2001:db8::5]:8000", "[2001:db8::5]:8000"),
        ("http://ai.box:1", "all://BOX"),
        ("http://ai.box:1", "box:1"),
        ("http://box:8000/v1", "x, http://box:8000/"),
        ("http://ai.box:8000/v1", "x,http://ai.box:8000/v1"),
        ("http://[fd00::1]/v1", "http://[fd00::1]/v1"),
        ("http://10.0.0.5:8000/v1", "http://10.0.0.5/v1"),
        ("http://ai.box:1", "*.box:1"),
        (
            "http://box:1",
            "https://box,https://*,box:2,ox:1,ox,.b,10.0.0.0/8,,http://,/,10.0.0.0/99",
        ),
    ],
)
def test_what_no_proxy_excepts_is_asked_directly(url, excepted, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://x")
    monkeypatch.setenv("no_proxy", excepted)
    assert proxy_for(url) == ("http_proxy" if url == "http://box:1" else "")


@pytest.mark.parametrize("excepted, asked", [("other", "http_proxy"), ("box", "")])
def test_of_two_spellings_of_no_proxy_the_one_in_small_letters_counts(excepted, asked, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://x")
    monkeypatch.setenv("no_proxy", excepted)
    monkeypatch.setenv("NO_PROXY", "other" if excepted == "box" else "box")
    assert proxy_for("http://box:1") == asked


@pytest.mark.parametrize(
    "excepted", ["fd00::/8", "localhost,[::1]", "[::", "b\u00fccher.example", "x:y"]
)
@pytest.mark.parametrize("ask", [*ASK, of_registry], ids=["ollama", "openai", "registry"])
def test_an_exception_that_a_library_can_not_read_keeps_nobody_from_asking(
    ask, excepted, monkeypatch
):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", excepted)
    said = said_of(ask, "http://box.example:80")
    assert "the proxy of http_proxy" in said and "malformed" not in said


def test_a_registry_s_redirect_goes_its_own_way(monkeypatch):
    """A proxy asks for what the registry says, and nothing for an address that needs none."""
    away = b"HTTP/1.1 302 Found\r\nLocation: http://10.1.2.3:80/x\r\nContent-Length: 0\r\n\r\n"
    asked = []

    def unknown(host: str, *_: object, **more: object) -> None:
        asked.append(host)
        raise socket.gaierror(-2, "unknown name")

    with one_answer(away) as (server, _):
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
        real = http.getaddrinfo
        monkeypatch.setattr(
            http,
            "getaddrinfo",
            lambda host, *a, **k: (real if host == "127.0.0.1" else unknown)(host, *a, **k),
        )
        said = said_of(of_registry, "http://box.example:80")
    assert asked == ["10.1.2.3"] and "10.1.2.3 can't be reached" in said and "proxy" not in said


@pytest.mark.parametrize("place", ["box:99999", "box:-1", "[fd00::1]:99999", "u:p@box:99999"])
def test_a_port_that_is_none_is_no_fault_of_the_look_for_a_proxy(place, monkeypatch):
    """A registry may redirect to one."""
    monkeypatch.setenv("http_proxy", "http://x")
    assert proxy_for(f"http://{place}/") == "http_proxy"
    monkeypatch.setenv("no_proxy", place.rpartition("@")[2])
    assert proxy_for(f"http://{place}/") == ""


def test_a_registry_s_redirect_that_can_not_be_read_leads_nowhere():
    away = b"HTTP/1.1 302 Found\r\nLocation: http:////b[\r\nContent-Length: 0\r\n\r\n"
    with one_answer(away) as (server, _):
        assert "redirects to where ORE does not go (it is not a web address" in said_of(
            of_registry, server.url
        )


@pytest.mark.parametrize("ask", ASK, ids=["ollama", "openai"])
def test_where_nothing_comes_over_http_the_server_may_speak_https(ask):
    with one_answer(b"") as (server, _):
        said = said_of(ask, server.url)
    assert "broke off" in said and f"so try {server.url.replace('http', 'https')}" in said
    with one_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") as (server, _):
        assert "https" not in said_of(ask, server.url)


@contextmanager
def no_more_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("reasoner", [AyaReasoner, OpenAIReasoner])
def test_no_server_is_to_be_started_where_this_process_may_open_no_more_files(reasoner):
    asks = reasoner("small", "http://127.0.0.1:1")
    with pytest.raises(ServerUnreachableError, match="efused"):  # what it needs is loaded
        asks.reason([Message("user", "Hello")])
    with no_more_files(), pytest.raises(ServerUnreachableError) as caught:
        asks.reason([Message("user", "Hello")])
    assert "this process may open no more files; raise the limit (ulimit -n)" in str(caught.value)


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.EMFILE, "raise the limit (ulimit -n)"), (errno.ENFILE, "end other programs")],
)
def test_whose_files_are_too_many_is_told(number, advice):
    why = http.in_words(OSError(number, os.strerror(number)))
    said = str(failures.unreachable_error(Host("http://box:1"), why, failures.OLLAMA))
    assert advice in said and ("this process" in said) == (number == errno.EMFILE)
