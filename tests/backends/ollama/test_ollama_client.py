"""One chat with a server that does everything wrong."""

from __future__ import annotations

from contextlib import closing

import httpx
import pytest

from ore.backends.address import Host, resolve_ollama
from ore.backends.ollama_client import OllamaClient
from ore.backends.turn_errors import NothingAnswersError, TurnTooLargeError
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    IncompleteAnswerError,
    ModelNotFoundError,
    OreError,
    ServerUnreachableError,
    UsageError,
)
from tests.support.fake_ollama import FakeOllama

REQUEST = {"model": "llama3.2", "messages": [{"role": "user", "content": "Hello?"}]}


def chat(url: str, request: dict = REQUEST, transport=None, **bounds) -> str:
    """The text of an answer, with its thoughts in brackets."""
    with closing(OllamaClient(Host(url, "--host"), transport=transport)) as client:
        return "".join(text_of(part.message) for part in client.chat_parts(request, **bounds))


def text_of(message) -> str:
    return (f"[{message.thinking}]" if message.thinking else "") + (message.content or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario, options, answer",
    [
        ("happy", {}, "Paris is it."),
        ("split", {"size": 1}, "Paris is it."),
        ("split", {"size": 7}, "Paris is it."),
        ("joined", {}, "Paris is it."),
        ("one-write", {}, "Paris is it."),
        ("slow-start", {}, "Paris is it."),
        ("final-content", {}, "Paris is it. Indeed."),
        ("thinking", {}, "[Let me see.]Paris is it."),
        ("tool-calls", {}, "Paris is it."),
        ("no-metrics", {}, "Paris is it."),
    ],
)
def test_whatever_way_an_answer_travels_it_arrives(scenario, options, answer):
    with FakeOllama(reply="Paris is it.", scenario=scenario, **options) as server:
        assert chat(server.url) == answer
        assert len(server.chats) == 1


@pytest.mark.parametrize(
    "scenario, answer",
    [
        ("blank-line", "Paris."),
        ("nel", "Paris.a\x85b"),
        ("bad-utf8", "Paris.a\ufffd\ufffdb"),
        ("null-content", "Paris."),
        ("after-done", "Paris. And more."),
    ],
)
def test_lines_that_the_client_would_choke_on_are_read(scenario, answer):
    with FakeOllama(scenario=scenario) as server:
        assert chat(server.url) == answer


LINE_ENDS = "a\x85b\u2028c\u2029d\u201ce\u201d"


@pytest.mark.parametrize("chunk", [1, 2, 3, 10_000])
def test_unicode_line_ends_arrive_as_they_are_wherever_they_are_split(chunk):
    line = f'{{"model":"m","message":{{"role":"assistant","content":"{LINE_ENDS}"}},"done":true}}\n'
    data = line.encode()
    chunks = [data[start : start + chunk] for start in range(0, len(data), chunk)]
    with FakeOllama(scenario="body", body=chunks) as server:
        assert chat(server.url) == LINE_ENDS


AT = "{url} (from --host)"
NOT_OLLAMA = f"The server at {AT} answered, but not as Ollama does"
BROKE_OFF = f"The answer from {AT} broke off"


@pytest.mark.parametrize(
    "scenario, kind, says",
    [
        ("closed", IncompleteAnswerError, f"{BROKE_OFF} (server disconnected without sending"),
        ("closed-rst", IncompleteAnswerError, f"{BROKE_OFF} (connection reset by peer)"),
        ("half-head", IncompleteAnswerError, BROKE_OFF),
        ("cut", IncompleteAnswerError, f"{BROKE_OFF} (peer closed connection"),
        ("rst", IncompleteAnswerError, f"{BROKE_OFF} (connection reset by peer)"),
        ("bad-json", BackendError, f"{NOT_OLLAMA} (it is not JSON): check the address."),
        ("html-200", BackendError, f"{NOT_OLLAMA} (it is not JSON): check the address."),
        ("null", BackendError, f"{NOT_OLLAMA} (its JSON is not an object): check the address."),
        (
            "list-line",
            BackendError,
            f"{NOT_OLLAMA} (its JSON is not an object): check the address.",
        ),
        ("deep-json", BackendError, f"{NOT_OLLAMA} (its JSON is nested too deep): check"),
        ("huge-number", BackendError, f"{NOT_OLLAMA} (its JSON has an integer of too many digits)"),
        ("no-message", BackendError, f"{NOT_OLLAMA} (message: Field required): check the address."),
        ("null-message", BackendError, f"{NOT_OLLAMA} (message: Input should be"),
        ("number-content", BackendError, f"{NOT_OLLAMA} (message.content: Input should be"),
        ("odd-metrics", BackendError, f"{NOT_OLLAMA} (eval_duration: Input should be"),
        ("bad-gzip", BackendError, f"{NOT_OLLAMA} (the answer is encoded as gzip)"),
        ("endless-head", BackendError, f"{NOT_OLLAMA} (receive buffer too long)"),
        ("endless-line", BackendError, f"The server at {AT} sent a"),
        ("error-line", BackendError, f"The server at {AT} failed: an error was encountered while"),
        (
            "error-line-nested",
            TurnTooLargeError,
            "The prompt does not fit the model's context window: 1",
        ),
        ("error-line-number", BackendError, f"The server at {AT} failed: 42. Its log may say more"),
        ("error-line-object", BackendError, f'The server at {AT} failed: {{"code": 500}}. Its log'),
        ("error-line-unterminated", BackendError, f"The server at {AT} failed: an error was"),
        ("redirect", BackendError, f"The server at {AT} redirects to http"),
        ("html-502", BackendError, f"{NOT_OLLAMA} (status 502: a web page)"),
        ("not-found-text", BackendError, f"{NOT_OLLAMA} (status 404: 404 page not found)"),
        ("error-list", BackendError, f'{NOT_OLLAMA} (status 500: ["no","object"])'),
        ("error-number", BackendError, f"{NOT_OLLAMA} (status 500: 42)"),
        ("error-string", BackendError, f'{NOT_OLLAMA} (status 500: "no object")'),
        ("empty-500", BackendError, f"{NOT_OLLAMA} (status 500: no text)"),
        ("forbidden", BackendError, f"The server at {AT} refuses to be asked by this host name"),
        (
            "unauthorized",
            NothingAnswersError,
            f"The server at {AT} wants you to sign in (unauthorized): o",
        ),
        ("busy", BackendError, f"The server at {AT} is busy (server busy, please try again."),
        ("load-missing", ModelNotFoundError, f"There is no model 'llama3.2' at {AT}: fetch it"),
        ("load-memory", NothingAnswersError, f"The server at {AT} has too little memory (model"),
        ("runner-dead", BackendError, f"The server at {AT} failed: model runner has unexpectedly"),
        (
            "context-exceeded",
            TurnTooLargeError,
            "The prompt does not fit the model's context window: 1",
        ),
    ],
)
def test_whatever_goes_wrong_is_one_of_our_errors_and_one_sentence(scenario, kind, says):
    with FakeOllama(scenario=scenario) as server, pytest.raises(OreError) as caught:
        chat(server.url)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(says.replace("{url}", server.url))
    assert caught.value.host == server.url
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "scenario, kind, says",
    [
        ("half-line", IncompleteAnswerError, f"{BROKE_OFF} (in the middle of a line)"),
    ],
)
def test_torn_and_empty_bodies_are_told_apart(scenario, kind, says):
    with FakeOllama(scenario=scenario) as server, pytest.raises(kind) as caught:
        chat(server.url)
    assert str(caught.value).startswith(says.replace("{url}", server.url))


@pytest.mark.parametrize(
    "body, kind, says",
    [
        (b'{"error":"registry.ollama.ai/m does not support tools"}', CapabilityError, "The model"),
        (b'{"error":"model \'x\' not found"}', ModelNotFoundError, "There is no model"),
        (b'{"message":{"content":"a"},"done":"maybe"}', BackendError, "The server at"),
        (
            b'{"message":{"content":"a","tool_calls":[7]},"done":true}',
            BackendError,
            "The server at",
        ),
        (b'{"message":{"content":"a","role":7},"done":true}', BackendError, "The server at"),
    ],
)
def test_odd_objects_are_errors_too(body, kind, says):
    with FakeOllama(scenario="body", body=body + b"\n") as server:
        with pytest.raises(kind, match=f"^{says}"):
            chat(server.url)


def test_a_dead_server_error_says_where_the_address_came_from():
    with FakeOllama() as server:
        url = server.url
    with pytest.raises(ServerUnreachableError) as caught:
        chat(url)
    assert str(caught.value) == (
        f"No Ollama server answers at {url} (from --host): connection refused. "
        f"Start one with `ollama serve`, or name another with `host=`."
    )


def test_a_name_that_does_not_resolve_is_a_server_that_does_not_answer():
    with pytest.raises(
        ServerUnreachableError, match="^No Ollama server answers at http://name.inv"
    ):
        chat("http://name.invalid:11434")


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["silent", "stall"])
def test_silence_ends_with_the_timeout(scenario):
    with FakeOllama(scenario=scenario) as server, pytest.raises(BackendTimeoutError) as caught:
        chat(server.url, timeout=0.2)
    assert str(caught.value).startswith(f"Nothing came from {server.url} (from --host) for 0.2 s")


def test_a_peer_that_the_system_gives_up_is_an_error_also_without_a_timeout():
    class Dead(httpx.BaseTransport):
        def handle_request(self, request):
            raise httpx.ReadTimeout("[Errno 110] Connection timed out")

    with pytest.raises(BackendTimeoutError, match="and the connection was given up"):
        chat("http://127.0.0.1:9", transport=Dead())


@pytest.mark.parametrize(
    "request_, says",
    [
        ({**REQUEST, "format": "xml"}, "The request to the model can't be made: format"),
        ({**REQUEST, "keep_alive": []}, "The request to the model can't be made: keep_alive"),
        ({**REQUEST, "model": "\ud800"}, "The request to the model can't be made: "),
    ],
)
def test_a_request_that_can_not_be_made_is_a_usage_error_and_nothing_is_sent(request_, says):
    with FakeOllama() as server:
        with pytest.raises(UsageError) as caught:
            chat(server.url, request_)
        assert str(caught.value).startswith(says)
        assert server.requests == []


def test_an_address_that_httpx_can_t_read_is_said_to_be_one():
    host = resolve_ollama("\u221e", {})
    with pytest.raises(UsageError, match="not allowed. Check the server's address.$"):
        OllamaClient(host).version()


def test_an_impossible_host_name_is_a_usage_error():
    with pytest.raises(UsageError):
        chat("http://xn--a-ecp:11434")


def test_proxies_are_not_used_for_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with FakeOllama() as server:
        assert chat(server.url) == "Paris."


@pytest.mark.parametrize(
    "key, sent", [("abc", "Bearer abc"), ("schl\u00fcssel", None), ("a\nb", None), (None, None)]
)
def test_a_key_goes_along_if_it_is_one(key, sent, monkeypatch):
    if key is not None:
        monkeypatch.setenv("OLLAMA_API_KEY", key)
    with FakeOllama() as server:
        assert chat(server.url) == "Paris."
        assert server.chats[0].headers.get("authorization") == sent


@pytest.mark.parametrize("strict, sent", [(True, False), (False, None)])
def test_truncate_is_sent_only_with_strict_context(strict, sent):
    request = {**REQUEST, "messages": [{"role": "user", "content": "\u20ac\n\x00" * 9_000}]}
    with FakeOllama(num_ctx=100_000) as server:
        assert chat(server.url, request, strict=strict) == "Paris."
        asked = server.chats[0]
        assert asked.json.get("truncate") is sent
        assert asked.json["messages"] == request["messages"]
        assert int(asked.headers["content-length"]) == len(asked.body)


def raw(body: bytes, *fields: str) -> bytes:
    return "\r\n".join([fields[0], *fields[1:], "", ""]).encode() + body


@pytest.mark.parametrize(
    "raw_answer, words",
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "illegal status line: 'SSH-2.0-OpenSSH_9.2'"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "only Transfer-Encoding: chunked is supported",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html>Sign in", "it is not JSON"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "it switches to another protocol"),
    ],
)
def test_what_is_no_answer_of_its_kind_has_not_broken_off(raw_answer, words):
    with FakeOllama() as server:
        server.use("raw", raw=raw_answer)
        with pytest.raises(BackendError) as caught:
            chat(server.url)
    assert f"answered, but not as Ollama does ({words}): check the address." in str(caught.value)


def test_what_may_be_a_secret_of_a_redirect_is_not_shown():
    with FakeOllama() as server:
        location = "Location: http://user:s3cret@else.example/login?token=s3cret#s3cret"
        server.use("raw", raw=raw(b"", "HTTP/1.1 302 Found", location, "Content-Length: 0"))
        with pytest.raises(BackendError, match="redirects to http://else.example/login, and ORE"):
            chat(server.url)


@pytest.mark.parametrize("page, is_password", [(b"<html>401</html>", 1), (b'{"error":"no"}', 0)])
def test_a_proxy_that_wants_a_password_is_not_signed_in_to(page, is_password):
    login = 'WWW-Authenticate: Basic realm="x"'
    refused = raw(page, "HTTP/1.1 401 Unauthorized", login, f"Content-Length: {len(page)}")
    with FakeOllama(scenario="raw", raw=refused) as server:
        with pytest.raises(BackendError) as caught:
            chat(server.url)
    assert ("wants a user name and a password (status 401)" in str(caught.value)) is bool(
        is_password
    )
    assert ("ollama signin" in str(caught.value)) is not bool(is_password)


def test_a_redirect_is_not_followed():
    with FakeOllama() as other, FakeOllama() as server:
        location = f"Location: {other.url}/api/chat"
        moved = raw(b"", "HTTP/1.1 307 Temporary Redirect", location, "Content-Length: 0")
        server.use("raw", raw=moved)
        with pytest.raises(BackendError, match=f"redirects to {other.url}/api/chat, and ORE"):
            chat(server.url)
        assert other.requests == []


@pytest.mark.parametrize(
    "more", [(), *((f"Content-Encoding: {word}",) for word in ("Identity", "", "none"))]
)
def test_an_answer_is_utf_8_whatever_its_head_says(more):
    line = '{"message":{"role":"assistant","content":"é\u20ac"},"done":true}\n'.encode()
    field = "Content-Type: application/json; charset=latin-1"
    with FakeOllama(scenario="raw", raw=raw(line, "HTTP/1.1 200 OK", field, *more)) as server:
        assert chat(server.url) == "é\u20ac"
        assert server.chats[0].headers["accept-encoding"] == "identity"
