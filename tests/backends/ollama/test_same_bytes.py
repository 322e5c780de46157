"""On the embedded model, what is asked decides what flags do, and gives the same bytes each time."""

from __future__ import annotations

import json

import pytest

from ore.backends.choice import open_backend
from tests.by_hand.same_bytes import PROMPTS, answers
from tests.support.harness import run_ore

pytestmark = pytest.mark.embedded

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}


def asked(*args: str):
    return run_ore("--backend", "embedded", *args, open_backend=open_backend)


def test_the_same_prompt_gives_the_same_bytes_in_every_process(model_dir):
    found = answers(PROMPTS[1], 5)
    assert len(set(found)) == 1 and len(found[0]) > 20


def test_options_do_what_they_say(model_dir):
    short = asked("Count to ten.", "-o", "num_predict=3", "-j").json
    assert (short["metadata"]["eval_count"], short["metadata"]["done_reason"]) == (3, "length")
    assert short["metadata"]["options"] == {"num_predict": 3}


def test_another_seed_gives_another_answer_where_it_is_warm(model_dir):
    warm = ("Tell me a story.", "-o", "temperature=1.5", "-o", "num_predict=20")
    texts = {asked(*warm, "-o", f"seed={seed}").out for seed in (1, 2, 3)}
    assert len(texts) > 1


def test_the_grammar_makes_the_answer_fit(model_dir):
    pytest.importorskip("jsonschema")
    result = asked("Give me a city.", "--schema", json.dumps(CITY))
    assert result.code == 0 and set(json.loads(result.out)) == {"city"}


def test_an_answer_that_is_cut_off_fails_the_check(model_dir):
    pytest.importorskip("jsonschema")
    result = asked("Give me a city.", "-o", "num_predict=3", "--schema", json.dumps(CITY))
    assert (result.code, result.out) == (3, "") and "cut off by a limit" in result.err


@pytest.mark.parametrize(
    "flags, code, words",
    [
        (("-o", "num_gpu=1"), 1, "computes with no graphics card: leave -o num_gpu out"),
        (("-o", "num_thread=1"), 1, "has no option 'num_thread'"),
        (("--keep-alive", "5m"), 1, "leave --keep-alive out"),
        (("--think", "on"), 1, "can't think first: leave --think out, say --think off, or use"),
        (("--think", "low"), 1, "can't be told how much to think"),
        (("-o", "num_ctx=1"), 2, "give 256 to"),
    ],
)
def test_what_the_engine_lacks_is_told(model_dir, flags, code, words):
    result = asked("hi", *flags)
    assert (result.code, result.out) == (code, "") and words in result.err


def test_an_image_is_refused(model_dir, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "can't look at images" in asked("hi", "--image", str(path)).err


def test_thinking_may_be_off_where_there_is_none(model_dir):
    assert asked("hi", "--think", "off", "-o", "num_predict=2").code == 0
