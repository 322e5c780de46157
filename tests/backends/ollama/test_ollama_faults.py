"""Connections cut at every byte, damaged answers, answers without an end: never a half turn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ore.errors import BackendError, IncompleteAnswerError, OreError
from ore.reasoner import AyaReasoner
from tests.by_hand.fuzz_ndjson import fuzz
from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE
from tests.test_reasoner import HELLO, STREAMED, WHOLE, answer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PARTS = [
    {"message": {"role": "assistant", "content": "Par\u00efs"}, "done": False},
    {"message": {"role": "assistant", "content": "."}, "done": True, "eval_count": 2},
]
LINES = [json.dumps(part, ensure_ascii=False).encode() + b"\n" for part in PARTS]
BODY = b"".join(LINES)


def head(*fields: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *fields, "", ""]).encode()


def chunked(lines: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines)


FRAMINGS = {
    "chunked": head("Transfer-Encoding: chunked") + chunked(LINES) + b"0\r\n\r\n",
    "in one chunk": head("Transfer-Encoding: chunked") + chunked([BODY]) + b"0\r\n\r\n",
    "with a length": head(f"Content-Length: {len(BODY)}") + BODY,
    "until the end": head() + BODY,
}
END_OF_DONE = b'"eval_count": 2}'


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_stream_cut_at_any_byte_is_refused_until_it_reports_done(framing):
    sent = FRAMINGS[framing]
    said_done = sent.index(END_OF_DONE) + len(END_OF_DONE)
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 4096})
        for end in range(len(sent) + 1):
            server.use("raw", raw=sent[:end])
            try:
                response = answer(reasoner, HELLO, STREAMED)
            except IncompleteAnswerError as exc:
                assert end <= said_done
                assert exc.partial in ("", "Par\u00efs")
            else:
                assert end >= said_done and response.content == "Par\u00efs."
        assert response.content == "Par\u00efs."
        assert len(server.chats) == len(sent) + 1


@pytest.mark.parametrize("framing", ["chunked", "with a length", "until the end"])
def test_an_answer_in_one_piece_cut_at_any_byte_is_refused(framing):
    whole = json.dumps(PARTS[0] | {"done": True}).encode()
    sent = {
        "chunked": head("Transfer-Encoding: chunked") + chunked([whole]) + b"0\r\n\r\n",
        "with a length": head(f"Content-Length: {len(whole)}") + whole,
        "until the end": head() + whole,
    }[framing]
    with FakeOllama() as server:
        reasoner = AyaReasoner("llama3.2", server.url, options={"num_ctx": 4096})
        for end in range(len(sent)):
            server.use("raw", raw=sent[:end])
            with pytest.raises(BackendError):
                answer(reasoner, HELLO, WHOLE)
        server.use("raw", raw=sent)
        assert answer(reasoner, HELLO, WHOLE).content == "Par\u00efs"


def test_two_thousand_damaged_answers_end_as_responses_or_our_errors():
    seen = fuzz(2_000, seed=1)
    assert set(seen) >= {"Response", "BackendError", "IncompleteAnswerError"}
    assert sum(seen.values()) == 2_000


MEASURE = """
import resource, sys
from ore.errors import OreError
from ore.reasoner import AyaReasoner
from ore.types import Message

def turn(url, way):
    reasoner, messages = AyaReasoner("llama3.2", url), [Message("user", "Hello?")]
    try:
        if way == "streamed":
            for chunk in reasoner.stream_reason(messages):
                pass
        else:
            reasoner.reason(messages)
    except OreError as exc:
        return type(exc).__name__

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

turn(sys.argv[2], sys.argv[3])
before = peak()
ended = turn(sys.argv[1], sys.argv[3])
sys.stdout.write(f"{ended} {peak() - before}")
"""


@pytest.mark.parametrize("way", ["streamed", "whole"])
@pytest.mark.parametrize("scenario", ["endless-line", "endless-head"])
def test_what_has_no_end_costs_less_than_32_mib(scenario, way):
    with FakeOllama(scenario=scenario) as endless, FakeOllama() as healthy:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, endless.url, healthy.url, way],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.stderr == ""
    ended, grown = done.stdout.split()
    assert ended == "BackendError"
    assert int(grown) < 32 << 20


def test_a_stream_of_words_without_an_end_is_ended_at_the_limit():
    line = json.dumps({"message": {"role": "assistant", "content": "x" * 900_000}, "done": False})
    data = line.encode() + b"\n"
    with FakeOllama(scenario="body", body=[data] * 20) as server:
        with pytest.raises(OreError, match="an answer larger than 16 MiB") as caught:
            answer(AyaReasoner("llama3.2", server.url), HELLO, STREAMED)
    assert len(caught.value.partial) <= (16 << 20) + 900_000


@pytest.mark.parametrize("name, shown", [("done_reason", "a?"), ("model", r"a\ud800")])
def test_half_a_character_in_a_name_of_the_end_is_no_fault(name, shown):
    last = PARTS[1] | {"done_reason": "stop", name: "a\ud800"}
    with FakeOllama(scenario="body", body=json.dumps(last).encode() + b"\n") as server:
        metadata = AyaReasoner("llama3.2", server.url).reason(HELLO).metadata
    assert metadata["response_model" if name == "model" else name] == shown
