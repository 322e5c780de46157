"""One of several words as the answer: what may be chosen from, and how likely each one is."""

from __future__ import annotations

import itertools
import math

import pytest

from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError
from ore.errors import FileAccessError, UsageError
from ore.glass.choosing import ChoosingReasoner, read_choices, reasoner_of, shares
from ore.reasoner import Scorer
from ore.types import Message
from ore.types.score import Score, ScoredToken
from tests.support.harness import ScriptedBackend


def score(*tokens: tuple[str, float]) -> Score:
    scored = tuple(ScoredToken(text, math.log(p), 0, None, text) for text, p in tokens)
    return Score("".join(text for text, _ in tokens), scored, False, "made-up", 7)


YES, NO = score(("yes", 0.6)), score(("no", 0.2))
NOT_SURE = score(("no", 0.2), (" way", 0.25))
NOT_AT_ALL = score(("no", 0.2), (" way", 0.25), (" out", 0.5))


class CountingScorer(Scorer):
    """Says the same scores each time, and counts how often it is asked."""

    def __init__(self, *scores: Score) -> None:
        self.scores, self.calls, self.closed = scores, [], 0

    def score(self, messages, text, *, ended=True):
        raise AssertionError("--choose scores all words at once")

    def score_each(self, messages, texts):
        self.calls.append((messages, tuple(texts)))
        return [each for text in texts for each in self.scores if each.text == text]

    def close(self):
        self.closed += 1


@pytest.mark.parametrize(
    "scores, probabilities, covered",
    [
        ([YES, NO], {"yes": 0.75, "no": 0.25}, 0.8),
        ([YES, NO, NOT_SURE], {"yes": 0.75, "no": 0.1875, "no way": 0.0625}, 0.8),
        (
            [YES, NO, NOT_SURE, NOT_AT_ALL],
            {"yes": 0.75, "no": 0.1875, "no way": 0.03125, "no way out": 0.03125},
            0.8,
        ),
        ([YES, NOT_SURE], {"yes": 0.6 / 0.65, "no way": 0.05 / 0.65}, 0.65),
        ([YES, score(("maybe", 0.6))], {"maybe": 0.5, "yes": 0.5}, 1.0),
        ([score(("a", 1e-30)), score(("b", 3e-30))], {"b": 0.75, "a": 0.25}, 4e-30),
    ],
)
def test_a_word_is_as_likely_as_an_answer_that_begins_with_it(scores, probabilities, covered):
    for order in itertools.permutations(scores):
        found, all_of_them = shares(order)
        assert found == pytest.approx(probabilities) and list(found) == list(probabilities)
        assert all_of_them == pytest.approx(covered)
        assert sum(found.values()) == pytest.approx(1)


def test_words_without_a_probability_can_not_be_chosen_from():
    nothing = Score("a", (ScoredToken("a", -math.inf),), False, "made-up", 7)
    with pytest.raises(TurnFailedError, match="none of the words"):
        shares([nothing, nothing])


def test_choosing_is_one_call_of_the_scorer_and_nothing_is_added_to_the_messages():
    scorer = CountingScorer(YES, NO, NOT_SURE)
    reasoner = ChoosingReasoner(scorer, "m", Settings(choices=("no", "yes", "no way")))
    messages = [Message("user", "Is it?")]
    response = reasoner.reason(messages)
    assert scorer.calls == [(messages, ("no", "yes", "no way"))]
    assert (response.content, response.model_id) == ("yes", "m")
    choice = response.metadata["choice"]
    assert choice["probability"] == choice["probabilities"]["yes"] == pytest.approx(0.75)
    assert (response.metadata["eval_count"], response.metadata["prompt_eval_count"]) == (1, 7)
    assert (choice["covered"], choice["rather"]) == (pytest.approx(0.8), "yes")
    reasoner.close()
    assert scorer.closed == 1


def test_without_choices_the_reasoner_is_the_backends_own():
    backend = ScriptedBackend()
    assert reasoner_of(backend, "scripted", Settings()) is backend.engine


@pytest.mark.parametrize(
    "text, words",
    [
        ("yes,no", ("yes", "no")),
        (" yes , no ", ("yes", "no")),
        ("yes,Yes", ("yes", "Yes")),
        ("not sure\nyes, of course", ("not sure", "yes, of course")),
        ("🦊,日本", ("🦊", "日本")),
        (",".join(map(str, range(1000))), tuple(map(str, range(1000)))),
    ],
)
def test_words_are_trimmed_and_kept_in_order(text, words):
    assert read_choices(text) == words


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "there is none; give two or more"),
        ("yes", "there is one only"),
        ("yes,", "the 2nd is empty"),
        (",", "the 1st is empty"),
        ("yes,,no", "the 2nd is empty"),
        ("yes, no,yes ", "'yes' is there twice"),
        (",".join(map(str, range(1001))), "there are 1,001 of them; give at most 1,000"),
        ("yes,n\to", "the 2nd has characters that can't be printed"),
        ("a,b,\udc80", "the 3rd has characters that can't be printed"),
        ("a,b,c," + "d" * 201, "the 4th has .* more than 200"),
        (",".join([*"abcdefghijkl", "\x00"]), "the 13th has"),
    ],
)
def test_what_can_not_be_chosen_from_is_said(text, reason):
    with pytest.raises(
        UsageError, match=f"The words of `choices=` can't be chosen from: .*{reason}"
    ):
        read_choices(text)


def test_a_thousand_words_can_be_chosen_from():
    assert len(read_choices(",".join(map(str, range(1000))))) == 1000


def test_words_are_read_from_a_file_one_a_line(tmp_path):
    file = tmp_path / "words.txt"
    file.write_bytes("\ufeffyes, sir\r\nno\n".encode())
    assert read_choices(f"@{file}") == ("yes, sir", "no")
    file.write_text("one\n\ntwo\n")
    with pytest.raises(UsageError, match="words.txt can't be chosen from: the 2nd is empty"):
        read_choices(f"@{file}")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not text in UTF-8"):
        read_choices(f"@{file}")
    with pytest.raises(UsageError, match="What follows @ does not name a file"):
        read_choices("@")
    with pytest.raises(FileAccessError):
        read_choices(f"@{tmp_path}/none")
