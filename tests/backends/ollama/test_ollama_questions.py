"""Questions to a server: what comes back, and how every failure reads."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from ore.backends.address import Host, normalise_ollama
from ore.backends.ollama import AyaReasoner
from ore.backends.ollama_client import OllamaClient
from ore.backends.probe import answers
from ore.backends.proxies import proxy_for
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    IncompleteAnswerError,
    ModelNotFoundError,
    ServerUnreachableError,
)
from ore.types import Message
from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE, until


def host_of(server: FakeOllama) -> Host:
    return Host(server.url, "--host")


@contextmanager
def one_answer(data: bytes, *, ends: bool = True):
    """A server that sends these bytes to whoever connects first, and then the end or nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection, _ = listening.accept()
            accepted.append(connection)
            with connection:
                seen.append(connection.recv(65_536))
                try:
                    connection.sendall(data)
                    if ends:
                        connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):  # closing over unread bytes would be a reset
                        pass
                except OSError:  # the client has left
                    pass

        accepted: list[socket.socket] = []
        seen: list[bytes] = []
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield Host(f"http://127.0.0.1:{listening.getsockname()[1]}"), seen
        for connection in accepted:
            with suppress(OSError):  # an error that is looked at may keep its client open
                connection.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
        assert not thread.is_alive()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_a_healthy_server_is_asked_for_everything():
    with FakeOllama(models=("b:1", "a:latest")) as server:
        host = host_of(server)
        assert OllamaClient(host).names() == ["b:1", "a:latest"]
        assert {"name", "digest"} <= set(OllamaClient(host).tags()[0])
        assert OllamaClient(host).version().count(".") == 2
        assert OllamaClient(host).ps() == []
        assert "model_info" in OllamaClient(host).show("a")
        assert answers(host.url) is True
        assert [seen.path for seen in server.requests] == [
            "/api/tags",
            "/api/tags",
            "/api/version",
            "/api/ps",
            "/api/show",
            "/api/version",
        ]


@pytest.mark.slow
def test_the_window_is_what_is_known_in_time():
    ask = {"num_ctx": None, "size": 20_000, "seconds": 0.3}
    with FakeOllama(scenario="silent", on="/api/ps") as server:
        assert OllamaClient(host_of(server)).window("mistral", **ask) is None
        assert OllamaClient(host_of(server)).window("mistral", **ask | {"num_ctx": 99}) == 99
        server.use("silent", on="/api/show")
        assert OllamaClient(host_of(server)).window("mistral", **ask | {"num_ctx": 99}) is None
        assert OllamaClient(host_of(server)).window("mistral", **ask | {"num_ctx": 9999}) is None


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_server_that_reports_an_error_with_status_200_is_told_in_its_words(end):
    said = "Unexpected endpoint or method. (GET /api/tags)"  # LM Studio's
    body = http(json.dumps({"error": said}).encode() + end.encode())
    for ask in (OllamaClient.names, OllamaClient.version, OllamaClient.default_model):
        with one_answer(body) as (host, _), pytest.raises(BackendError) as caught:
            ask(OllamaClient(host))
        assert said in str(caught.value)
    with one_answer(body) as (host, _), pytest.raises(BackendError) as caught:
        AyaReasoner("m", host).reason([Message("user", "Hi")])
    assert said in str(caught.value) and not isinstance(caught.value, IncompleteAnswerError)


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "500 Failed"])
def test_what_a_server_does_not_support_is_said_of_no_model_where_none_was_asked(status):
    answer, said = (
        http(b'{"error": "GET is not supported"}', status),
        "failed: GET is not supported",
    )
    with one_answer(answer) as (host, _), pytest.raises(BackendError, match=said):
        OllamaClient(host).names()


def test_an_error_with_status_200_that_repeats_the_key_does_not_show_it(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "sk-secret-of-mine")
    escaped = "".join(f"\\u{ord(each):04x}" for each in "sk-secret-of-mine")
    for said in ("sk-secret-of-mine", "sk-secret-of-…", f'{escaped}", "more": "{"x" * (1 << 17)}'):
        body = http(f'{{"error": "Bearer {said}"}}'.encode())
        with one_answer(body) as (host, _), pytest.raises(BackendError) as caught:
            OllamaClient(host).names()
        assert "Bearer [the key]" in str(caught.value)


def test_a_server_of_the_openai_protocol_that_knows_the_address_of_a_turn_is_told_as_one():
    event = b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'  # llama.cpp's
    said = "not as Ollama does .it sends a stream of events.: .*with `backend='openai'`"
    with one_answer(http(event)) as (host, _), pytest.raises(BackendError, match=said):
        AyaReasoner("m", host).reason([Message("user", "Hi")])


@pytest.mark.parametrize("scenario", ["tags-empty", "tags-null"])
def test_a_server_without_models_has_no_names(scenario):
    with FakeOllama(scenario=scenario) as server:
        assert OllamaClient(host_of(server)).names() == []


def test_a_model_that_is_not_there_is_not_shown():
    with FakeOllama() as server, pytest.raises(ModelNotFoundError, match="no model 'nope'"):
        OllamaClient(host_of(server)).show("nope")


def test_a_dead_server_error_gives_the_address_and_the_next_step():
    with FakeOllama() as server:
        host = host_of(server)
    assert answers(host.url) is False
    with pytest.raises(ServerUnreachableError) as caught:
        OllamaClient(host).tags()
    assert str(caught.value) == (
        f"No Ollama server answers at {host.url} (from --host): connection refused. "
        f"Start one with `ollama serve`, or name another with `host=`."
    )


@pytest.mark.parametrize(
    "body, why",
    [
        (b"", "it is empty"),
        (b"<html>", "it is not JSON: expecting value at line 1, column 1"),
        (b"[]", "its JSON is not an object"),
        (b"null", "its JSON is not an object"),
        (b'{"models":{}}', "it gives no list of models"),
        (b'{"models":[1]}', "it gives no list of models"),
        (
            b'{"models":[' + b"{}," * 200_000 + b"{}]}",
            "it lists more than 200,000 models",
        ),
        (b'{"models":[],"models":[]}', "it has the key 'models' twice in one object"),
        (b"\xff", "it is not UTF-8 at byte 0"),
        (b"[" * 100_000, "it is nested deeper than 64 levels"),
    ],
)
def test_an_answer_that_is_not_ollama_s_says_why(body, why):
    with one_answer(http(body)) as (host, _), pytest.raises(BackendError) as caught:
        OllamaClient(host).tags()
    assert str(caught.value) == (
        f"The server at {host.url} answered, but not as Ollama does ({why}): check the address."
    )


@pytest.mark.parametrize(
    "body, names",
    [
        (b'{"models":[{"name":"a"},{"model":"b"},{"name":7},{"name":null},{}]}', ["a", "b"]),
        (b'{"models":[{"name":"a\\ud800b"},{"name":""},{"name":"ok"}]}', ["ok"]),
        (b'{"models":[{"name":"koboldcpp","model":"koboldcpp/tiny"}]}', ["koboldcpp/tiny"]),
        (b"{}", []),
    ],
)
def test_entries_without_a_name_that_can_be_asked_are_passed_over(body, names):
    with one_answer(http(body)) as (host, _):
        assert OllamaClient(host).names() == names


def test_a_loaded_model_with_half_a_character_in_its_name_is_passed_over():
    half = b'{"name":"a\\ud800"},{"name":"a","model":"a\\ud800"}'
    body = b'{"models":[' + half + b',{"name":7},{"model":"b"}]}'
    with one_answer(http(body)) as (host, _):
        assert OllamaClient(host).ps() == [{"name": 7}, {"model": "b"}]


@pytest.mark.parametrize(
    "data, kind",
    [
        (b"", IncompleteAnswerError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", IncompleteAnswerError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", IncompleteAnswerError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n{", IncompleteAnswerError),
        (b"SSH-2.0-OpenSSH_9.2\r\n", IncompleteAnswerError),
        (b"HTTP/1.1 abc\r\n\r\n", BackendError),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n", BackendError),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n", BackendError),
        (http(b"", "307 Temporary Redirect", "Location: http://else.example/"), BackendError),
        (http(b"404 page not found", "404 Not Found"), BackendError),
        (http(b"", "403 Forbidden"), BackendError),
    ],
)
def test_whatever_a_server_sends_is_one_of_our_errors(data, kind):
    with one_answer(data) as (host, _), pytest.raises(BackendError) as caught:
        OllamaClient(host).tags()
    assert type(caught.value) is kind
    assert caught.value.host == host.url


def test_a_body_without_an_end_is_bounded():
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    with one_answer(head + b" " * (17 << 20)) as (host, _), pytest.raises(BackendError) as caught:
        OllamaClient(host).tags()
    assert "larger than 16 MiB, so its list of models was not read: check" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_question_has_an_end_even_if_the_server_stops_within_its_answer(data):
    with one_answer(data, ends=False) as (host, _):
        with pytest.raises(BackendTimeoutError, match=r"within 0\.2 s"):
            OllamaClient(host).ps(seconds=0.2)


@pytest.mark.slow
def test_a_byte_now_and_then_does_not_stretch_the_time():
    with FakeOllama(scenario="drip", on="/api/ps") as server:
        with pytest.raises(BackendTimeoutError, match=r"within 0\.3 s"):
            OllamaClient(host_of(server)).ps(seconds=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["timeout", "deadline"])
def test_what_is_asked_beside_a_turn_takes_no_longer_than_the_turn_may(bound):
    with FakeOllama(wait=PATIENCE, on="/api/show") as server:
        reasoner = AyaReasoner("llama3.2", host_of(server), think="on", **{bound: 0.3})
        with pytest.raises(BackendTimeoutError, match=r"within 0\.3 s"):
            reasoner.reason([Message("user", "hi")])


def test_the_key_goes_along_and_a_path_is_kept(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "abc")
    with one_answer(http(b"{}")) as (host, seen):
        OllamaClient(Host(f"{host.url}/behind/here")).tags()
    assert seen[0].startswith(b"GET /behind/here/api/tags HTTP/1.1\r\n")
    assert b"authorization: bearer abc\r\n" in seen[0].lower()


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"]
)
def test_a_proxy_of_the_environment_is_not_used_for_this_machine(name, monkeypatch):
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with one_answer(http(b'{"models":[]}')) as (host, _):
        url = host.url.replace("127.0.0.1", name)
        assert OllamaClient(Host(normalise_ollama(url))).names() == []
        assert proxy_for(url) == ""


def test_a_proxy_of_the_environment_is_used_for_other_machines(monkeypatch):
    with one_answer(http(b'{"models":[]}')) as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:p%40ss@"))
        assert OllamaClient(Host("http://box.example:11434")).names() == []
    assert seen[0].startswith(b"GET http://box.example:11434/api/tags HTTP/1.1\r\n")
    assert b"Host: box.example:11434\r\n" in seen[0]
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in seen[0]


def test_https_goes_through_a_tunnel_of_the_proxy(monkeypatch):
    with one_answer(b"HTTP/1.1 502 Bad Gateway\r\n\r\n") as (proxy, seen):
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(ServerUnreachableError, match="502 Bad Gateway"):
            OllamaClient(Host("https://box.example:443")).names()
    assert seen[0].startswith(b"CONNECT box.example:443 HTTP/1.")


def test_no_proxy_names_hosts_that_are_asked_directly(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "name.invalid")
    with pytest.raises(ServerUnreachableError) as caught:
        OllamaClient(Host("http://name.invalid:11434")).names()
    assert "refused" not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    [
        "socks5://127.0.0.1:9",
        "http://[::1",
        "http://a:x",
        f"http://{'a' * 64}:9",
        "http://m\udcff:p@127.0.0.1:9",
    ],
)
def test_a_proxy_that_can_not_be_used_is_an_error(proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(
        BackendError, match="http://box.example:1 can be made .*: check the proxies"
    ):
        OllamaClient(Host("http://box.example:1")).names()


SIZES = [
    *"-1 0x5 FFFFFFFFFFFFFFFF 8000000000000000 7FFFFFFFFFFFFFFF".split(),
    "F" * 40,
    " 5",
    "",
    "x",
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "ask",
    [
        OllamaClient.names,
        OllamaClient.version,
        OllamaClient.ps,
        lambda client: client.show("m"),
        lambda client: client.pull("m", lambda *_: None),
    ],
)
def test_a_chunk_s_size_that_is_none_is_one_sentence(size, ask):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with one_answer(head + size.encode() + b"\r\n{}\n\r\n") as (host, _):
        with pytest.raises(BackendError, match=r"broke off|not as Ollama does"):
            ask(OllamaClient(host))


# Pulling


def steps_of(server: FakeOllama, name: str) -> list[tuple[str, int, int]]:
    steps = []
    OllamaClient(host_of(server)).pull(name, lambda *step: steps.append(step))
    return steps


def test_a_pull_says_how_far_it_is():
    with FakeOllama() as server:
        steps = steps_of(server, "mistral")
        assert server.requests[0].json == {"model": "mistral", "stream": True}
    assert steps[0] == ("pulling manifest", 0, 0)
    layer = [step for step in steps if step[2] == max(total for _, _, total in steps)]
    assert [done for _, done, _ in layer] == sorted(done for _, done, _ in layer)
    assert layer[-1][1] == layer[-1][2] > 0


def test_a_model_that_nobody_has_can_not_be_pulled():
    with FakeOllama(scenario="pull-missing") as server:
        with pytest.raises(ModelNotFoundError) as caught:
            steps_of(server, "nope")
        assert str(caught.value) == (
            f"The server at {server.url} (from --host) finds no model 'nope' to fetch (pull model "
            f"manifest: file does not exist): check the name."
        )


@pytest.mark.parametrize(
    "lines, kind, says",
    [
        (b'{"status":"pulling manifest"}\n', IncompleteAnswerError, "before the model was there"),
        (b"", IncompleteAnswerError, "before the model was there"),
        (b'{"status":', IncompleteAnswerError, "in the middle of a line"),
        (b"[]\n", BackendError, "its JSON is not an object"),
        (b'{"error":"disk is full"}\n', BackendError, "failed: disk is full"),
        (b'{"error":{"a":1}}\n', BackendError, 'failed: {"a": 1}'),
        (b"x" * ((1 << 20) + 9), BackendError, "a line larger than 1 MiB"),
    ],
)
def test_a_pull_that_did_not_succeed_is_an_error(lines, kind, says):
    with one_answer(b"HTTP/1.1 200 OK\r\n\r\n" + lines) as (host, _):
        with pytest.raises(kind) as caught:
            OllamaClient(host).pull("m", lambda *step: None)
    assert says in str(caught.value)


def test_a_line_of_carriage_returns_is_looked_at_once():
    line, begun = b"x" + b"\r" * 1_000_000 + b"\n", time.process_time()
    with one_answer(b"HTTP/1.1 200 OK\r\n\r\n" + line) as (host, _):
        with pytest.raises(BackendError, match="it is not JSON"):
            OllamaClient(host).pull("m", lambda *step: None)
    assert time.process_time() - begun < 1.5


def test_odd_figures_of_a_pull_are_passed_over():
    lines = (
        b'\n{"status":"a","completed":-1,"total":"9"}\n'
        b'{"status":7,"completed":true}\n{"status":"success"}\n{"error":"late"}\n'
    )
    steps = []
    with one_answer(b"HTTP/1.1 200 OK\r\n\r\n" + lines) as (host, _):
        OllamaClient(host).pull("m", lambda *step: steps.append(step))
    assert steps == [("a", 0, 0), ("7", 0, 0)]


def test_a_step_of_a_pull_is_one_short_line():
    status = json.dumps("pulling\x1b[2J\nore: it is ready" + "x" * 9999)
    lines = f'{{"status":{status}}}\n{{"status":"success"}}\n'.encode()
    steps = []
    with one_answer(b"HTTP/1.1 200 OK\r\n\r\n" + lines) as (host, _):
        OllamaClient(host).pull("m", lambda *step: steps.append(step))
    ((step, _, _),) = steps
    assert step.startswith("pulling^[[2J ore: it is readyxxx") and len(step) < 500


@pytest.mark.parametrize("left_by", [KeyboardInterrupt, BrokenPipeError, RuntimeError])
def test_leaving_a_pull_closes_the_connection_and_keeps_the_reason(left_by):
    def leave(*step):
        raise left_by

    with FakeOllama(delay=0.05) as server:
        with pytest.raises(left_by):
            OllamaClient(host_of(server)).pull("mistral", leave)
        until(lambda: server.requests[0].disconnected_at)


@pytest.mark.slow
def test_all_questions_after_a_loaded_model_take_as_long_as_one_may():
    given: list[float] = []

    class Slow(OllamaClient):
        def ps(self, seconds):
            time.sleep(0.2)
            return [{"name": "other"}]

        def tags(self, seconds):
            given.append(seconds)
            time.sleep(0.2)
            return []

        def show(self, model, seconds):
            given.append(seconds)
            return {}

    assert Slow(Host("http://127.0.0.1:9")).window("m", num_ctx=None, size=0, seconds=1.0) is None
    assert given[0] <= 0.8 and given[1] <= 0.6


def test_a_server_that_says_its_version_in_an_error_is_none():
    with one_answer(http(b'{"version":"1"}', "404 Not Found")) as (host, _):
        assert not answers(host.url)
    with one_answer(http(b'{"version":"1"}')) as (host, _):
        assert answers(host.url)


@pytest.mark.slow
def test_a_server_that_drips_is_not_looked_at_for_longer_than_it_may_take():
    sent = []

    def drip() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            while len(sent) < 40:
                connection.sendall(b" ")
                sent.append(1)
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        assert not answers(f"http://127.0.0.1:{listening.getsockname()[1]}", 0.3)
        thread.join(PATIENCE)
    assert len(sent) < 40  # it hung up
