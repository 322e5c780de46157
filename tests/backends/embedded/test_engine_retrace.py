"""An answer followed token by token: where the model would have gone on otherwise."""

from __future__ import annotations

import struct
from contextlib import closing

import pytest

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError
from ore.errors import BackendTimeoutError, ContextTruncatedError
from ore.glass.judging import Follower
from ore.types import Message
from tests.support.gguf import tiny_model

pytestmark = pytest.mark.embedded

MODEL = "smollm2:135m"
SYSTEM = Message("system", "Answer in one short sentence.")
BRAZIL = [SYSTEM, Message("user", "What is the capital of Brazil?")]
PROMPTS = (
    "Name three fruits.",
    "Write an emoji: 🙂🦜",
    "What is 17 plus 25?",
    "Write a line of Greek.",
)


@pytest.fixture
def reasoner(model_dir):
    with closing(EmbeddedReasoner(MODEL, Settings(options={"num_predict": 30}))) as made:
        yield made


def places(reasoner, text, messages=BRAZIL, was_cut=False):
    return reasoner.departures(messages, text, was_cut=was_cut)


def test_an_embedded_reasoner_can_follow(reasoner):
    assert isinstance(reasoner, Follower)


@pytest.mark.parametrize(
    "options",
    [{}, {"repeat_penalty": 1.0}, {"repeat_penalty": 1.4, "repeat_last_n": 16}, {"num_predict": 5}],
    ids=str,
)
def test_an_answer_of_its_own_departs_nowhere(model_dir, options):
    settings = Settings(options={"num_predict": 24, **options})
    with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        for prompt in PROMPTS:
            messages = [Message("user", prompt)]
            answer = reasoner.reason(messages)
            was_cut = answer.metadata["done_reason"] == "length"
            if "\ufffd" not in answer.content:
                found = places(reasoner, answer.content, messages, was_cut)
                assert [each for each in found if each.gap > 0.01] == [], answer.content


@pytest.fixture
def answer(reasoner):
    found = reasoner.reason(BRAZIL)
    assert found.metadata["done_reason"] == "stop" and len(found.content.split()) > 5
    return found.content


def test_a_word_that_was_edited_is_where_it_departs(reasoner, answer):
    word = answer.split()[4]
    edited = answer.replace(f" {word}", " zebra", 1)
    first = places(reasoner, edited)[0]
    assert edited[first.at :].startswith(" zebra") and first.gap > 1
    assert " zebra".startswith(first.said) and f" {word}".startswith(first.instead)


def test_what_follows_the_end_and_what_is_missing_there(reasoner, answer):
    more = places(reasoner, f"{answer} It is not.")[0]
    assert (more.at, more.instead) == (len(answer), "") and more.said and more.gap > 0.1
    shorter = " ".join(answer.split()[:4])
    [less] = places(reasoner, shorter)
    assert (less.at, less.said) == (len(shorter), "") and less.instead
    assert answer.startswith(places(reasoner, "")[0].instead)


def test_an_answer_that_was_cut_has_the_length_that_it_was_cut_at(reasoner):
    messages = [Message("user", "Tell me a long story.")]
    whole = reasoner.reason(messages)
    assert whole.metadata["done_reason"] == "length"
    assert places(reasoner, whole.content, messages, was_cut=True) == []
    assert places(reasoner, whole.content, messages)[-1].said == ""
    shorter = whole.content.rpartition(" ")[0]
    assert places(reasoner, shorter, messages, was_cut=True)[-1].said == ""


def test_a_text_in_other_tokens_than_the_model_writes_is_followed_all_the_same(reasoner):
    found = places(reasoner, "zqxj \u00ab\U0001d54f\u00bb")
    assert found[0].at == 0 and found[0].gap > 1
    assert all(before.at <= after.at for before, after in zip(found, found[1:]))


def test_an_answer_of_8000_tokens_departs_where_the_model_would_not_have_said_it(reasoner):
    [first] = reasoner.departures(BRAZIL, "the " * 8000, most=0.1)
    assert first.at == 0


def test_messages_that_do_not_fit_the_window_are_an_error(reasoner):
    with pytest.raises(ContextTruncatedError):
        places(reasoner, "Yes.", [Message("user", "the " * 8000)])


def test_a_deadline_ends_it(model_dir):
    with closing(EmbeddedReasoner(MODEL, Settings(deadline=0.001))) as reasoner:
        with pytest.raises(BackendTimeoutError):
            places(reasoner, "Yes.")


@pytest.mark.slow
def test_a_model_that_finds_nothing_likely_fails_in_its_own_turn(tmp_path):
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(
        tiny_model().replace(struct.pack("<f", 1) * 32, b"\xff" * 128)
    )  # no numbers
    settings = Settings(options={"num_predict": 8, "temperature": 0})
    with closing(EmbeddedReasoner(str(damaged), settings)) as reasoner:
        with pytest.raises(TurnFailedError, match="not of the right shape"):
            places(reasoner, "abc", was_cut=True)
