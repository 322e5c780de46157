"""What a registry is asked, over which way, and what is told to whom."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler

import pytest

from ore.backends.model_names import ModelName
from ore.backends.pulling import pull
from ore.backends.registry import Registry
from ore.backends.registry_failures import Trouble
from ore.errors import BackendError, BackendTimeoutError, CapabilityError, OreError
from tests.support.fake_registry import (
    MANIFEST,
    Answer,
    FakeRegistry,
    continued,
    endless_head,
    refusal,
    status,
)
from tests.support.listening import Listening

pytestmark = pytest.mark.usefixtures("no_authorities")

WEIGHTS = b"GGUF" + random.Random(2).randbytes(1 << 16)


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    folder = tmp_path / "models"
    monkeypatch.setenv("ORE_MODEL_DIR", str(folder))
    return folder


@pytest.fixture
def registry():
    with FakeRegistry() as served:
        yield served


def nothing(*_: object) -> None:
    """A progress that nobody looks at."""


def blobs_of(root) -> set[bytes]:
    return {path.read_bytes() for path in (root / "blobs").iterdir()}


def test_what_is_asked_is_what_ollama_asks(registry):
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    first = registry.asked[0]
    assert first.path == "/v2/team/tiny/manifests/q4" and first.headers["accept"] == MANIFEST
    assert all(seen.path.startswith("/v2/team/tiny/") for seen in registry.asked)
    assert {seen.headers["accept-encoding"] for seen in registry.asked} == {"identity"}
    assert not any("authorization" in seen.headers for seen in registry.asked)


def test_a_token_for_nobody_is_fetched_where_the_registry_itself_gives_one(root):
    with FakeRegistry(token="t0ken") as registry:
        pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
        tokens = registry.paths("/token")
        assert tokens == ["/token?service=s&scope=repository%3Ateam%2Ftiny%3Apull"]
        asked = [seen for seen in registry.asked if seen.path.startswith("/token")]
        assert "authorization" not in asked[0].headers
        after = registry.asked[registry.asked.index(asked[0]) + 1 :]
        assert {seen.headers.get("authorization") for seen in after} == {"Bearer t0ken"}
    assert WEIGHTS in blobs_of(root)


def test_a_token_that_is_no_longer_good_is_fetched_anew(root):
    with FakeRegistry(token="t0ken") as registry:
        name = registry.add("team/tiny:q4", WEIGHTS)
        challenge = f'Bearer realm="http://{registry.host}/token",service="s"'
        late = refusal(401, "UNAUTHORIZED", "expired", {"Www-Authenticate": challenge})
        registry.play["blobs"].extend([lambda answer: answer, lambda _: late])
        pull(name, nothing)
        assert len(registry.paths("/token")) == 2
    assert WEIGHTS in blobs_of(root)


@pytest.mark.parametrize("status", [400, 403])
def test_a_token_that_the_registry_repeats_is_not_shown(status):
    with FakeRegistry(token="t0ken-of-nobody") as registry:
        name = registry.add("team/tiny:q4", WEIGHTS)
        late = refusal(status, "DENIED", "not with Bearer t0ken-of-nobody")
        registry.always["blobs"] = lambda _: late
        with pytest.raises(OreError, match=r"not with Bearer \[the key\]") as caught:
            pull(name, nothing)
    assert "t0ken" not in str(caught.value)


def test_a_token_is_not_shown_either_where_the_http_library_quotes_what_repeats_it():
    with FakeRegistry(token="t0ken-of-nobody") as registry:
        registry.always["manifests"] = lambda answer: (
            answer
            if answer.status == 401
            else Answer(200, b"", {"a bad header t0ken-of-nobody": ""})
        )
        with pytest.raises(Trouble, match=r"a bad header \[the key\]") as caught:
            Registry(ModelName(registry.host, "team", "tiny", "q4")).manifest()
    assert "t0ken" not in traceback_of(caught.value)


def test_why_a_registry_is_not_understood_is_behind_the_error():
    with FakeRegistry(token="t0ken-of-nobody") as registry:
        registry.always["manifests"] = lambda _: Answer(200, b"", {"a bad header": ""})
        with pytest.raises(Trouble) as caught:
            Registry(ModelName(registry.host, "team", "tiny", "q4")).manifest()
    assert "illegal header line" in traceback_of(caught.value.__cause__)


@pytest.mark.parametrize(
    "realm, said",
    [
        ("http://localhost:1/token", "another host is to give the token"),
        ("https://token.example/x", "another host is to give the token"),
        ("http://u:p@{host}/token", "another host is to give the token"),
        ("/token", "another host is to give the token"),
    ],
)
def test_no_other_host_is_asked_for_a_token(realm, said):
    with FakeRegistry(token="t") as registry:
        registry.realm = realm.format(host=registry.host)
        with pytest.raises(CapabilityError, match=said):
            pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
        assert len(registry.asked) == 1


def test_a_token_for_what_is_asked_over_https_never_comes_over_http():
    asked = Registry(ModelName("models.example", "team", "tiny", "q4"))
    with pytest.raises(CapabilityError, match="the token would come over http"):
        asked._new_token('Bearer realm="http://models.example/token"')
    asked.close()


def test_no_token_is_fetched_for_where_the_registry_sends_on_to(root):
    with FakeRegistry(token="t") as store, FakeRegistry(store=(store, "localhost")) as registry:
        store.realm = f"http://{registry.host}/token"
        with pytest.raises(CapabilityError, match="HTTP 401"):
            pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
        assert registry.paths("/token") == []


def test_a_part_that_was_not_asked_for_is_not_taken(registry):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
    other = {"Content-Range": f"bytes 1-9/{len(WEIGHTS)}"}
    registry.play["blobs"].extend([lambda answer: answer, lambda _: Answer(206, b"x" * 9, other)])
    with pytest.raises(BackendError, match="it sends other bytes than asked for"):
        pull(name, nothing)


@pytest.mark.parametrize(
    "challenge", ["Basic realm=x", "", "Bearer", 'Bearer realm="http://[x"', 'Bearer realm=""']
)
def test_a_challenge_that_nobody_can_meet_is_said(registry, challenge):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = status(401, Www_Authenticate=challenge)
    with pytest.raises(OreError, match="ORE logs in nowhere|does not answer as a registry does"):
        pull(name, nothing)
    assert len(registry.asked) == 1


@pytest.mark.slow  # where it is quadratic: 20 seconds
def test_a_challenge_of_one_long_word_is_read_at_once(registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = status(401, Www_Authenticate="Bearer " + "a" * 60_000)
    begun = time.process_time()
    with pytest.raises(OreError, match="ORE logs in nowhere"):
        pull(name, nothing)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token": 5}', b'{"token": "a\\nb"}', b"x" * (1 << 17)], ids=range(5)
)
def test_a_token_that_is_none_is_said(body):
    with FakeRegistry(token="t") as registry:
        name = registry.add("team/tiny:q4", WEIGHTS)
        registry.always["token"] = lambda _: Answer(200, body)
        with pytest.raises(BackendError, match="gives no token|sends more than"):
            pull(name, nothing)


@pytest.mark.invariant
def test_a_redirect_to_another_host_carries_nothing_of_the_first(root):
    with FakeRegistry() as store, FakeRegistry(token="t", store=(store, "localhost")) as registry:
        pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
        for seen in store.asked:
            assert set(seen.headers) <= {
                *("host", "accept", "accept-encoding", "connection", "user-agent", "range")
            }
            assert seen.headers["accept"] == "*/*" and "localhost" in seen.headers["host"]
        assert not any("cookie" in seen.headers for seen in registry.asked)
    assert WEIGHTS in blobs_of(root)


def test_no_proxy_is_used_for_a_registry_of_this_machine(root, registry, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    assert WEIGHTS in blobs_of(root)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433"])
def test_a_proxy_is_not_blamed_that_a_registry_of_this_machine_is_not_asked_through(
    monkeypatch, host
):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    away = b"HTTP/1.1 302 Found\r\nLocation: https://models.invalid/x\r\nContent-Length: 0\r\n\r\n"
    with answering(away) as port, pytest.raises(BackendError, match="invalid can't be") as caught:
        pull(f"{host}:{port}/team/tiny:q4", nothing, insecure=True)
    assert "proxy" not in str(caught.value)


@pytest.mark.parametrize(
    "answer, insecure, said",
    [
        (None, False, "can't be reached .*: check the proxy of https_proxy, which it is asked"),
        (None, True, "can't be reached .*: check the proxy of http_proxy, which it is asked"),
        (b"", True, "breaks off .*: check the proxy of http_proxy, which it is asked through, and"),
        (b"502 Bad Gateway", False, "can't be reached .502.*: check the proxy of https_proxy"),
        (b"407 Who Are You", False, "The proxy of https_proxy lets nobody through to https://mod"),
        (b"407 Who Are You", True, "The proxy of http_proxy lets nobody through to http://models"),
    ],
)
def test_a_proxy_that_fails_is_named_by_its_variable(monkeypatch, answer, insecure, said):
    with answering(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % answer if answer else b"") as port:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://me:secret@127.0.0.1:{1 if answer is None else port}")
        with pytest.raises(BackendError, match=said) as caught:
            pull("models.example/team/tiny:q4", nothing, insecure=insecure)
    assert "secret" not in str(caught.value)


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Answer whatever is asked so, on the port that is returned."""
    with Listening(("127.0.0.1", 0), type("Handler", (Answering,), {"answer": answer})) as served:
        served.begin()
        yield served.server_address[1]
        served.end()


class Answering(StreamRequestHandler):
    """One connection."""

    answer: bytes

    def handle(self) -> None:
        self.request.recv(1 << 16)
        self.wfile.write(self.answer)


def test_an_address_that_was_good_for_a_while_is_asked_for_again(root, monkeypatch):
    monkeypatch.setattr("ore.backends.download.PART_BYTES", 1 << 14)
    monkeypatch.setattr("ore.backends.download.AT_ONCE", 1)
    with FakeRegistry() as store, FakeRegistry(store=(store, "localhost")) as registry:
        name = registry.add("team/tiny:q4", WEIGHTS, license=None)
        usual = [lambda answer: answer] * 2
        store.play["blobs"].extend([*usual, status(403), *usual])
        pull(name, nothing)
        # The config, the weights, and the weights once more; the other parts go straight there.
        assert len(registry.paths("/blobs/")) == 3 and len(store.asked) == 7
    assert WEIGHTS in blobs_of(root)


@pytest.mark.parametrize(
    "to, said",
    [
        ("http://models.example/x", "over http, which `insecure=True` allows"),
        ("ftp://127.0.0.1/x", "not a web address"),
        ("file:///etc/passwd", "not a web address"),
        ("http://user:word@127.0.0.1/x", "holds a password"),
        ("http://[", "over http"),
        ("http://[::1", "not a web address"),
        ("http://user:word/@models.example", "not a web address"),
        (f"http://{'a' * 70_000}", "not a web address"),
    ],
)
def test_a_redirect_that_leads_astray_is_not_followed(registry, to, said):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = lambda _: Answer(302, b"", {"Location": to})
    with pytest.raises(BackendError, match=said) as caught:
        pull(name, nothing)
    assert "'word'" not in traceback_of(caught.value)


def test_where_a_token_is_given_is_not_shown_where_it_is_no_address():
    with FakeRegistry(token="t", realm="http://user:word/@models.example") as registry:
        name = registry.add("team/tiny:q4", WEIGHTS)
        with pytest.raises(CapabilityError, match="another host is to give") as caught:
            pull(name, nothing)
    assert "word" not in traceback_of(caught.value)


def test_redirects_in_a_circle_end(registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = lambda _: Answer(302, b"", {"Location": "q4"})
    with pytest.raises(BackendError, match="more than 10 times"):
        pull(name, nothing)
    assert len(registry.asked) == 10


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "0"),
        *("[::]", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]", "localhost.", "a.localhost"),
        *("LOCALHOST", "127.0.0.1.", "017700000001"),
    ],
)
def test_another_machine_does_not_send_on_to_this_one(host):
    """Whoever asks a host on the network must not be made to ask what listens here alone."""
    asked = Registry(ModelName("models.example", "team", "tiny", "q4"), insecure=True)
    answer = asked._client.build_request("GET", "http://models.example/v2/x")
    import httpx

    for to in (f"http://{host}:11434/api/delete", f"https://{host}/x"):
        response = httpx.Response(307, request=answer, extensions={"location": to})
        with pytest.raises(BackendError, match="from another machine to this one"):
            asked._next(response)
    to = "http://128.0.0.1/x"
    elsewhere = httpx.Response(307, request=answer, extensions={"location": to})
    assert asked._next(elsewhere).host == "128.0.0.1"
    asked.close()


@pytest.mark.parametrize(
    "host, insecure, origin",
    [
        ("models.example", False, "https://models.example"),
        ("models.example:5000", False, "https://models.example:5000"),
        ("models.example:5000", True, "http://models.example:5000"),
        ("127.0.0.1:5000", False, "http://127.0.0.1:5000"),
        ("LocalHost:5000", False, "http://localhost:5000"),
        ("127.0.0.1.example", False, "https://127.0.0.1.example"),
    ],
)
def test_only_this_machine_is_asked_over_http_unless_it_is_allowed(host, insecure, origin):
    asked = Registry(ModelName(host, "team", "tiny", "q4"), insecure=insecure)
    assert asked._origin == origin
    asked.close()


def test_a_registry_that_speaks_no_https_is_told_so_with_the_way_out(registry):
    asked = Registry(ModelName(registry.host, "team", "tiny", "q4"))
    asked._root = asked._root.replace("http:", "https:")
    with pytest.raises(Exception, match="does not speak https: add `insecure=True`"):
        asked.manifest()
    asked.close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "no \\u001b[2J such build"}',
        b'{"errors": [{"code": "NAME_INVALID", "message": "no \\u001b[2J such build"}]}',
    ],
)
def test_a_servers_words_reach_a_message_without_control_characters(registry, body):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = lambda _: Answer(400, body)
    with pytest.raises(BackendError, match="HTTP 400 .*no .* such build") as caught:
        pull(name, nothing)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("times", [pytest.param(20_000, marks=pytest.mark.slow), None])
@pytest.mark.parametrize("kind", ["manifests", "blobs"])
def test_a_server_that_says_go_on_for_ever_is_not_listened_to(registry, kind, times):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always[kind] = continued(times)
    begun = time.monotonic()
    with pytest.raises(BackendError, match="does not answer as a registry .*a head is larger than"):
        pull(name, nothing)
    assert time.monotonic() - begun < 30
    registry.always[kind] = continued(3)
    pull(name, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["manifests", "token", "blobs", "weights"])
def test_a_head_that_never_ends_is_given_up(monkeypatch, root, what):
    """The weights, as the only ones, are asked for again."""
    monkeypatch.setattr("ore.backends.registry.HEAD_SECONDS", 0.3)
    monkeypatch.setattr("ore.backends.registry.WHOLE_SECONDS", 0.3)
    monkeypatch.setattr("ore.backends.registry_failures.MOST_TRIES", 2)
    tries = 2 if what == "weights" else 1
    dripped = []

    def drip(answer):
        if what == "weights" and answer.status != 206:  # what is small is not asked for in parts
            return answer
        dripped.append(answer)
        return endless_head(answer)

    with FakeRegistry(token="t") as registry:
        name = registry.add("team/tiny:q4", WEIGHTS)
        registry.always["blobs" if what == "weights" else what] = drip
        with pytest.raises(BackendTimeoutError, match="does not finish what it sends.* goes on"):
            pull(name, nothing)
        assert len(dripped) == tries
        registry.always.clear()
        pull(name, nothing)
    assert WEIGHTS in blobs_of(root)
