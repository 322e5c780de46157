"""What an answer rests on: what is left out, the drops, the shares, the sentences."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from ore.errors import ArtifactError
from ore.glass.influence import explained, sentences
from ore.glass.provenance import Sourced
from ore.types.score import Score, ScoredToken
from tests.support.scores import Scoring

MESSAGES = [
    Sourced("system", "S", "persona"),
    Sourced("system", "K", "skill:writing"),
    Sourced("user", "T", "tool:echo"),
    Sourced("user", "F", "file:a.txt"),
    Sourced("user", "one", "session:trip#1"),
    Sourced("assistant", "two", "session:trip#2"),
    Sourced("user", "three", "session:trip#3"),
    Sourced("assistant", "four", "session:trip#4"),
    Sourced("user", "What?\n\nPiped in.", "prompt+stdin"),
]
NAMES = [
    "persona",
    "skill:writing",
    "tool:echo",
    "file:a.txt",
    "session:trip#1",
    "session:trip#3",
    "stdin",
]


def sources_in(messages) -> list[str]:
    """What is left out, in order: no source counts for anything here."""
    return [each.source for each in explained(Scoring([], {}), messages, "Yes.")[0].sources]


def test_every_source_can_be_left_out_but_the_prompt():
    assert sources_in(MESSAGES) == NAMES


@pytest.mark.parametrize(
    "source, content",
    [
        ("prompt", "What?\n\nNo."),
        ("stdin", "All of it\n\nis piped in."),
        ("prompt+stdin", "No blank line"),
        ("prompt+stdin", "\n\nNothing before it"),
    ],
)
def test_what_is_asked_is_never_left_out(source, content):
    assert sources_in([MESSAGES[3], Sourced("user", content, source)]) == ["file:a.txt"]


def test_what_is_left_out_is_all_of_a_source_and_nothing_else():
    scorer, told = Scoring([], {}), []
    explained(scorer, MESSAGES, "Yes.", tell=lambda *each: told.append(each))
    texts = [[message.content for message in messages] for messages, _, _ in scorer.scored]
    every = [message.content for message in MESSAGES]
    assert texts[0] == every
    for name, found in zip(NAMES[:-1], texts[1:]):
        at = [each.source for each in MESSAGES].index(name)
        size = 2 if name.startswith("session") else 1
        assert found == every[:at] + every[at + size :]
    assert texts[-1] == [*every[:-1], "What?"]
    assert told == [(1, 8, ""), *((number, 8, name) for number, name in enumerate(NAMES, 2))]


def test_files_of_one_name_are_one_source():
    messages = [MESSAGES[3], MESSAGES[3], MESSAGES[-1]]
    assert sources_in(messages) == ["file:a.txt", "stdin"]


@pytest.mark.slow
def test_many_sources_take_no_more_room_than_their_messages():
    files = [Sourced("user", "x", f"file:{number}") for number in range(100)]
    scorer = Scoring([], {})
    scorer.score = lambda *given, ended: Score("Yes.", (ScoredToken("Yes.", -1.0),), True, "m", 9)
    tracemalloc.start()
    try:
        whole, _ = explained(scorer, [*files, MESSAGES[-1]], "Yes.")
        assert len(whole.sources) == 101 and tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_of_each_scoring_no_more_is_kept_than_its_sums():
    class Fresh(Scoring):
        def score(self, messages, text, *, ended=True):
            tokens = [ScoredToken("a", -1.0, number) for number in range(5_000)]
            return Score(text, tuple(tokens), ended, "given", 1)

    many = [Sourced("user", "F", f"file:{number}") for number in range(40)]
    tracemalloc.start()
    explained(Fresh([], {}), many + MESSAGES[:1], "a" * 5_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_shares_are_of_the_drops_above_nothing():
    whole, _ = explained(Scoring([], {"S": 3.0, "K": 1.0, "T": -2.0}), MESSAGES, "Yes.")
    found = {each.source: (each.drop, each.share) for each in whole.sources}
    assert found["persona"] == (3.0, 0.75) and found["skill:writing"] == (1.0, 0.25)
    assert found["tool:echo"] == (-2.0, 0.0) and found["file:a.txt"] == (0.0, 0.0)
    assert [each.source for each in whole.sources][-1] == "tool:echo"
    assert sum(each.share for each in whole.sources) == 1


def test_where_no_source_helps_there_is_no_share():
    whole, _ = explained(Scoring([], {}), MESSAGES, "Yes.")
    assert {each.share for each in whole.sources} == {None}


TEXTS = {
    "One. Two! Three?": ["One. ", "Two! ", "Three?"],
    "No end": ["No end"],
    "It costs 3.50 pounds. Yes.": ["It costs 3.50 pounds. ", "Yes."],
    'He said "no." Then he left.': ['He said "no." ', "Then he left."],
    "- one\n- two\n": ["- one\n", "- two\n"],
    " \n": [" \n"],
    "... Well. So.": ["... Well. ", "So."],
    "(Why?) Yes... or no?! 5.": ["(Why?) ", "Yes... ", "or no?! ", "5."],
    "": [],
}


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_sentences(text):
    assert sentences(text) == TEXTS[text] and "".join(sentences(text)) == text


class Given(Scoring):
    """Says of each token what it is told."""

    def score(self, messages, text, *, ended=True):
        tokens = self.replies[: len(self.replies)]
        return Score(text, tuple(ScoredToken(*each) for each in tokens), ended, "given", 1)


@pytest.mark.parametrize(
    "text, tokens, sums",
    [
        (
            "A b. C d.",
            [("A", -1), (" b", -2), (".", -3), (" C", -4), (" d.", -5), ("", -6)],
            [-6, -15],
        ),
        ("A. 🦜!", [("A.", -1), (" ", -2), ("\ufffd", -3), ("\ufffd", -4), ("!", -5)], [-1, -14]),
        ("A.", [("A.", -1), ("", -2)], [-3]),
    ],
)
def test_a_token_belongs_to_the_sentence_that_it_begins_in(text, tokens, sums):
    _, parts = explained(Given(tokens, {}), MESSAGES[3:4] + MESSAGES[-1:], text)
    assert [part.logprob for part in parts] == sums


@pytest.mark.slow
@pytest.mark.parametrize("text", ["." * 200_000 + "a", "!?)" * 100_000, "\n" * 200_000])
def test_sentences_take_time_in_proportion_to_the_text(text):
    begun = time.process_time()
    assert "".join(sentences(text)) == text and time.process_time() - begun < 5


@pytest.mark.slow  # where each token looks at the whole answer: minutes
def test_tokens_take_time_in_proportion_to_the_answer():
    tokens = [("zz", -1)] * 200_000
    begun = time.process_time()
    _, parts = explained(Given(tokens, {}), MESSAGES[3:4] + MESSAGES[-1:], "a. " * 400_000)
    assert parts[0].logprob == -200_000 and time.process_time() - begun < 30


@pytest.mark.slow
def test_tokens_of_a_long_gap_take_time_in_proportion_to_it():
    tokens = [(" ", -1)] * 100_000
    begun = time.process_time()
    _, parts = explained(Given(tokens, {}), MESSAGES[3:4] + MESSAGES[-1:], " " * 100_000 + "A. B.")
    assert [part.logprob for part in parts] == [-100_000, 0] and time.process_time() - begun < 5


def test_more_sentences_and_sources_than_can_be_looked_into_are_refused_before_any_is_scored():
    scorer = Scoring([], {})
    many = [Sourced("user", "F", f"file:{number}") for number in range(100)]
    with pytest.raises(ArtifactError, match="10,001 sentences and the turn 100 sources, which"):
        explained(scorer, many + MESSAGES[:1], "a\n" * 10_001)
    assert scorer.scored == []


@pytest.mark.parametrize(
    "messages, answer",
    [(MESSAGES, ""), ([Sourced("user", "Hi", "prompt")], "Yes.")],
)
def test_nothing_to_explain_is_an_error(messages, answer):
    with pytest.raises(ArtifactError):
        explained(Scoring([], {}), messages, answer)


def test_messages_that_were_joined_are_joined_without_each_source_too():
    scorer = Scoring([], {})
    explained(scorer, MESSAGES[:4] + MESSAGES[-1:], "Yes.", joins=True)
    texts = [[message.content for message in messages] for messages, _, _ in scorer.scored]
    assert texts[0] == ["S\n\nK", "T\n\nF\n\nWhat?\n\nPiped in."]
    assert texts[1] == ["K", "T\n\nF\n\nWhat?\n\nPiped in."]
