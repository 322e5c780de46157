"""Addresses as people write them, what they mean, and who named them."""

from __future__ import annotations

import re
from time import monotonic

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ore.backends.address import (
    Host,
    as_host,
    is_loopback,
    normalise_ollama,
    ollama_authorization,
    resolve_ollama,
    sendable,
    stays_here,
)
from ore.errors import UsageError


@pytest.mark.parametrize(
    "text, url",
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("example", "http://example:11434"),
        ("example:8080", "http://example:8080"),
        ("example:", "http://example:11434"),
        (":8080", "http://127.0.0.1:8080"),
        ("http://example", "http://example:80"),
        ("https://example", "https://example:443"),
        ("HTTPS://Example.COM:8443", "https://example.com:8443"),
        ("http://:80", "http://127.0.0.1:80"),
        ("example/path", "http://example:11434/path"),
        ("http://example/a/b/", "http://example:80/a/b"),
        ("example.com.", "http://example.com.:11434"),
        ("under_score", "http://under_score:11434"),
        (f"{'a' * 63}.example", f"http://{'a' * 63}.example:11434"),
        ("  localhost\n", "http://localhost:11434"),
        ("'http://example'", "http://example:80"),
        ('" example:1 "', "http://example:1"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://[2001:DB8::1]", "http://[2001:db8::1]:80"),
        ("2001:0db8::0001", "http://[2001:db8::1]:11434"),
        ("ollama.com", "https://ollama.com:443"),
        ("ollama.com:11434", "http://ollama.com:11434"),
        ("http://ollama.com", "http://ollama.com:80"),
        ("bücher.example", "http://xn--bcher-kva.example:11434"),
    ],
)
def test_an_address_is_normalised(text, url):
    assert normalise_ollama(text) == url


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "it names no host"),
        ("  ''  ", "it names no host"),
        ("http://", "it names no host"),
        (":", "it names no host"),
        ("example:0", "the port is not a number from 1 to 65535"),
        ("example:65536", "the port is not a number from 1 to 65535"),
        ("example:abc", "the port is not a number from 1 to 65535"),
        ("example:-1", "the port is not a number from 1 to 65535"),
        ("example:٣", "the port is not a number from 1 to 65535"),
        ("[::1]:x", "the port is not a number from 1 to 65535"),
        ("[::1", "the part in brackets is not an IPv6 address"),
        ("[::1]8080", "the part in brackets is not an IPv6 address"),
        ("[example]", "the part in brackets is not an IPv6 address"),
        ("fe80::1%eth0", "it is neither host:port nor an IPv6 address"),
        ("a:1:b", "it is neither host:port nor an IPv6 address"),
        ("ftp://example", "only http and https are understood"),
        ("unix:///run/ollama.sock", "only http and https are understood"),
        ("http://https://example", "only http and https are understood"),
        ("two words", "it is not a host name"),
        ("line\nbreak", "it is not a host name"),
        ("nul\0byte", "it is not a host name"),
        ("-x", "it is not a host name"),
        ("a..b", "it is not a host name"),
        ("a" * 300, "it is not a host name"),
        (f"{'a' * 64}.example", "it is not a host name"),
        ("example?x=1", "it is not a host name"),
        ("example/a b", "its path holds illegal characters"),
        ("example/a?x=1", "its path holds illegal characters"),
        ("example/é", "its path holds illegal characters"),
    ],
)
def test_a_bad_address_is_refused_with_the_reason(text, why):
    with pytest.raises(UsageError) as caught:
        normalise_ollama(text, "OLLAMA_HOST")
    said = str(caught.value)
    assert re.fullmatch(r"OLLAMA_HOST(, which begins with \S+,)? can't be used .*", said)
    assert said.endswith(f" ({why}): write it like 127.0.0.1:11434 or https://example.com.")


@pytest.mark.parametrize(
    "text, begins",
    [
        ("http://box:x", ", which begins with http://box,"),
        ("box/a b", ", which begins with box,"),
        ("ftp://box", ", which begins with ftp://box,"),
        ("two words", ""),
    ],
)
def test_a_bad_address_is_shown_as_far_as_its_host(text, begins):
    with pytest.raises(UsageError, match=f"^OLLAMA_HOST{begins} can't be used"):
        normalise_ollama(text, "OLLAMA_HOST")


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(UsageError) as caught:
        normalise_ollama("http://me:s3cret@example:80")
    assert "user name" in str(caught.value)
    assert "s3cret" not in str(caught.value)


ADDRESSES = st.text(alphabet="ahtps:/[].@%0123456789-_\u00e9 '\"?#", max_size=24)


@given(ADDRESSES | st.text(max_size=40))
@example("http://[::1]:1/../x")
def test_any_text_is_an_address_that_every_client_takes_or_a_usage_error(text):
    try:
        url = normalise_ollama(text)
    except UsageError:
        return
    assert normalise_ollama(url) == url
    parsed = httpx.URL(url)
    assert parsed.raw_host and parsed.userinfo == b""
    is_loopback(url)


@pytest.mark.parametrize(
    "url, local",
    [
        ("http://127.0.0.1:11434", True),
        ("http://127.9.9.9:1", True),
        ("http://localhost:11434/x", True),
        ("https://[::1]:443", True),
        ("http://localhost.example:1", False),
        ("http://127.0.0.1.example:1", False),
        ("http://10.0.0.1:11434", False),
        ("http://[2001:db8::1]:80", False),
    ],
)
def test_loopback_is_told_from_the_rest(url, local):
    assert is_loopback(url) is local
    assert stays_here(url) is local


@pytest.mark.parametrize("host", ["localhost.", "127.1", "0x7f.1", "[::ffff:7f00:1]", "0.0.0.0"])
def test_this_machine_is_known_however_it_is_written(host):
    assert stays_here(f"http://{host}:11434")


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "[::ffff:7f00:1]", "0"])
def test_this_machine_s_number_is_sent_a_key_however_it_is_written(host):
    assert sendable("sk-of-mine", "OPENAI_API_KEY", f"http://{host}:8000") == "sk-of-mine"


@pytest.mark.parametrize("host", ["localhost.", "x.localhost", "128.1", "[::ffff:8001:1]"])
def test_what_a_name_server_may_be_asked_for_is_sent_no_key(host):
    assert sendable("sk-of-mine", "OPENAI_API_KEY", f"http://{host}:8000") is None


@pytest.mark.parametrize(
    "flag, environ, host",
    [
        (None, {}, Host("http://127.0.0.1:11434", "default")),
        (None, {"OLLAMA_HOST": ""}, Host("http://127.0.0.1:11434", "default")),
        (None, {"OLLAMA_HOST": " '' "}, Host("http://127.0.0.1:11434", "default")),
        (None, {"OLLAMA_HOST": "box"}, Host("http://box:11434", "OLLAMA_HOST")),
        ("other:1", {"OLLAMA_HOST": "box"}, Host("http://other:1", "`host=`")),
        ("other:1", {"OLLAMA_HOST": "not:an:address"}, Host("http://other:1", "`host=`")),
    ],
)
def test_the_flag_wins_over_the_variable_over_the_default(flag, environ, host):
    assert resolve_ollama(flag, environ) == host


@pytest.mark.parametrize(
    "flag, environ, named",
    [
        ("", {}, "`host=` can't be used"),
        (None, {"OLLAMA_HOST": "a b"}, "OLLAMA_HOST can't be used"),
    ],
)
def test_a_bad_address_is_blamed_on_who_named_it(flag, environ, named):
    with pytest.raises(UsageError, match=f"^{named}"):
        resolve_ollama(flag, environ)


@pytest.mark.parametrize(
    "name", ["stra\u00dfe.example", "a\u200db.example", "\u03b2\u03c2.example"]
)
def test_a_name_that_is_not_the_same_everywhere_is_refused(name):
    with pytest.raises(UsageError, match="not the same everywhere in ASCII; write the form"):
        resolve_ollama(name, {})


def test_a_name_of_a_megabyte_takes_no_long_time():
    started = monotonic()
    with pytest.raises(UsageError, match="it is not a host name"):
        resolve_ollama("\u00fc" * (1 << 20), {})
    assert monotonic() - started < 5.0


@pytest.mark.parametrize(
    "host, shown",
    [
        (Host("http://a:1", "--host"), "http://a:1 (from --host)"),
        (Host("http://a:1", "OLLAMA_HOST"), "http://a:1 (from OLLAMA_HOST)"),
        (Host("http://a:1", "default"), "http://a:1 (the default)"),
        (Host("http://a:1"), "http://a:1"),
    ],
)
def test_a_host_says_where_it_came_from(host, shown):
    assert str(host) == shown


def test_as_host_takes_a_host_a_text_or_the_environment(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "box")
    named = Host("http://a:1", "--host")
    assert as_host(named) is named
    assert as_host("b") == Host("http://b:11434", "host")
    assert as_host(None) == Host("http://box:11434", "OLLAMA_HOST")


@pytest.mark.parametrize(
    "url, key, header",
    [
        ("https://ollama.com:443", "abc", "Bearer abc"),
        ("https://ollama.com:443", " abc\n", "Bearer abc"),
        ("http://127.0.0.1:11434", "abc", "Bearer abc"),
        ("http://127.0.0.1:11434", "a b\u00e9", None),
        ("http://box:11434", "abc", None),
        ("http://box:11434", "a b\u00e9", None),
        ("https://ollama.com:443", "", None),
    ],
)
def test_the_key_is_sent_to_this_machine_and_over_https_only(url, key, header):
    assert ollama_authorization(url, {"OLLAMA_API_KEY": key}) == header


def test_a_key_that_can_not_be_sent_is_a_usage_error_that_does_not_show_it():
    with pytest.raises(UsageError, match="OLLAMA_API_KEY can't be sent") as caught:
        ollama_authorization("https://ollama.com:443", {"OLLAMA_API_KEY": "s3cr\u00e9t"})
    assert "s3cr" not in str(caught.value)
