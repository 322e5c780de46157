"""What a connection that fails becomes, whatever the protocol: the class and the whole sentence."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends import failures, http, refusals
from ore.backends.address import Host
from ore.cli.advice import said
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    IncompleteAnswerError,
    ServerUnreachableError,
)
from ore.files.neutral import neutralise

HOST = Host("http://127.0.0.1:11434", "OLLAMA_HOST")
AT = "http://127.0.0.1:11434 (from OLLAMA_HOST)"


@pytest.mark.parametrize(
    "error, kind, sentence",
    [
        (
            failures.unreachable_error(
                HOST,
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate "
                "(_ssl.c:1006)",
                failures.OPENAI,
            ),
            ServerUnreachableError,
            f"The certificate of {AT} can't be trusted (self-signed certificate): name the "
            f"authority that signed it with SSL_CERT_FILE, or another server with `host=`.",
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
            f"The server at {AT} did not answer within 10 s: try again, or look at its log.",
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
            f"The server at {AT} ended the answer without saying that it was done, as it does when "
            f"a model repeats itself, so the answer was dropped: ask again.",
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
