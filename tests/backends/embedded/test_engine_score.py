"""How likely a given text is: asked of an engine that is made up, and of the real one."""

from __future__ import annotations

import math
import re
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from ore.backends import llama_score
from ore.backends.engine import Engine
from ore.backends.engine_score import asking
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.http import Deadline
from ore.backends.settings import Settings
from ore.errors import (
    BackendError,
    CapabilityError,
    ContextTruncatedError,
    UsageError,
)
from ore.types import Message
from tests.conftest import MODEL_DIR

BYTES = [bytes([byte]) for byte in range(256)]
WORDS = [b"Paris", b" is", b" the", b" capital", b"No", b"Not", b" sure", b"\xf0\x9f", b"\n\n"]
VOCABULARY = [*BYTES, *WORDS]
END = len(VOCABULARY)
PROMPT = "<user>hi<assistant>"
MESSAGES = [Message("user", "hi")]


class MadeUpEngine:
    """Answers as the engine does, over a vocabulary of bytes and a few words.

    Like the engine it tells nothing of a token that leaves a character open.
    """

    takes_system, template, window = True, "", 100_000
    name, larger_window = Engine.name, Engine.larger_window

    def __init__(self, *, space: bytes = b"", strays: bool = False) -> None:
        self.requests: list[dict] = []
        self._space, self._strays = space, strays

    def posted(self, path, request, longest, deadline):
        if path == "/apply-template":
            return {"prompt": f"<user>{request['messages'][0]['content']}<assistant>"}
        text = self._space + request["content"].encode()
        found = []
        while text:
            number = max(
                (n for n, piece in enumerate(VOCABULARY) if text.startswith(piece)),
                key=lambda n: len(VOCABULARY[n]),
            )
            found.append({"id": number, "piece": list(VOCABULARY[number])})
            text = text[len(VOCABULARY[number]) :]
        return {"tokens": found}

    def events(self, request, *, silence, deadline, path, longest, is_marked):
        assert (path, is_marked) == ("/completion", False)
        self.requests.append(request)
        forced = [int(number) for number in re.findall(r"<\[(\d+)\]>", request["grammar"])]
        if request["grammar"] == 'root ::= "a"':
            forced = [ord("a")]
        yield {"prompt_progress": {"processed": 1, "total": 1}}
        for index, prompt in enumerate(request["prompt"]):
            written, numbers = list(prompt), [*forced, END][: request["n_predict"]]
            tail = b""
            for number in numbers:
                if self._strays:
                    number = 7
                entries = likeliest(written[-1])
                written.append(number)
                tail += piece_of(number)
                if is_text(tail):
                    tail = b""
                    entry = next(each for each in entries if each["id"] == number)
                    top = entries[: request["n_probs"]]
                    yield {
                        "index": index,
                        "stop": False,
                        "completion_probabilities": [{**entry, "top_logprobs": top}],
                    }
            yield {"index": index, "stop": True, "completion_probabilities": []}


def piece_of(number):
    return b"" if number == END else VOCABULARY[number]


def is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@cache
def likeliest(last):
    """Every token after another one, the likeliest first."""
    weights = {number: (number * 7919 + last * 104729) % 1009 + 1 for number in range(END + 1)}
    total = sum(weights.values())
    return [
        {"id": number, "bytes": list(piece_of(number)), "logprob": math.log(weight / total)}
        for number, weight in sorted(weights.items(), key=lambda pair: -pair[1])
    ]


def expected(numbers):
    """The logprobs of tokens after the prompt."""
    written, found = [ord(">")], []
    for number in numbers:
        found.append(next(e["logprob"] for e in likeliest(written[-1]) if e["id"] == number))
        written.append(number)
    return found


def scored(engine, text, ended=True):
    with asking(engine, "made-up", MESSAGES, {}, Settings(), Deadline(None)) as asked:
        return asked.score(text, ended)


def scored_each(engine, texts):
    with asking(engine, "made-up", MESSAGES, {}, Settings(), Deadline(None)) as asked:
        return asked.score_each(texts)


def test_one_text_is_no_list_of_its_letters():
    with pytest.raises(UsageError, match="^texts must be a list"):
        scored_each(MadeUpEngine(), "yes")


def numbers_of(text):
    return [each["id"] for each in MadeUpEngine().posted("", {"content": text}, 0, None)["tokens"]]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "Paris is the capital",
        "He said \"no\"\\ and 'yes' [a-z] <[1]> # (x|y)* ::= root",
        "two\nlines\n\n\ttab\r\n",
        "🦊",
        "Paris 🦊 is 日本 the é end",
        "a\x00b\x00",
        "\x00",
        "<|im_end|>",
    ],
)
def test_a_text_is_scored_token_by_token(text, ended):
    engine = MadeUpEngine()
    score = scored(engine, text, ended)
    numbers = numbers_of(text) + [END] * ended
    assert [token.id for token in score.tokens] == numbers
    assert [token.logprob for token in score.tokens] == pytest.approx(expected(numbers))
    assert score.logprob == pytest.approx(sum(expected(numbers)))
    assert score.mean == pytest.approx(score.logprob / len(numbers))
    assert (score.text, score.ended, score.prompt_tokens) == (text, ended, len(PROMPT))
    for request in engine.requests:
        assert (request["temperature"], request["repeat_penalty"]) == (0, 1.0)
        assert re.fullmatch(r'root ::= ("a?"|<\[\d+\]>( <\[\d+\]>)*)', request["grammar"])
    assert engine.requests[0]["cache_prompt"] is False or "🦊" == text or text[0] == "\x00"


def test_whole_tokens_are_one_request_that_computes_afresh():
    engine = MadeUpEngine()
    scored(engine, "Paris is the capital")
    assert [(r["cache_prompt"], r["n_predict"]) for r in engine.requests] == [(False, 5)]


@pytest.mark.parametrize("ended, tokens, requests", [(True, 1, 1), (False, 0, 0)])
def test_an_empty_text_has_its_end_alone(ended, tokens, requests):
    engine = MadeUpEngine()
    score = scored(engine, "", ended)
    assert (len(score.tokens), len(engine.requests)) == (tokens, requests)
    assert score.logprob == pytest.approx(sum(expected([END] * ended)))
    assert ended or score.mean == 0


@pytest.mark.slow
def test_a_text_of_8000_tokens_is_one_request():
    engine = MadeUpEngine()
    score = scored(engine, " is" * 8000)
    assert (len(score.tokens), len(engine.requests)) == (8001, 1)


def test_a_rank_is_known_among_the_likeliest_alone():
    engine = MadeUpEngine()
    tokens = scored(engine, "".join(map(chr, range(32, 127)))).tokens
    written = [ord(">")]
    for token in tokens:
        rank = [each["id"] for each in likeliest(written[-1])].index(token.id)
        assert token.rank == (rank if rank < llama_score.NEXT_BEST else None)
        assert token.best == bytes(likeliest(written[-1])[0]["bytes"]).decode("utf-8", "replace")
        written.append(token.id)
    assert {None} < {token.rank for token in tokens}


def test_a_text_that_does_not_fit_the_window_is_not_scored():
    engine = MadeUpEngine()
    engine.window = len(PROMPT) + 4
    assert len(scored(engine, "abc").tokens) == 4
    with pytest.raises(ContextTruncatedError, match="the text 5, .* holds 23.*num_ctx"):
        scored(engine, "abcd")


def test_an_engine_that_does_not_keep_to_the_text_is_found_out():
    with pytest.raises(BackendError, match="did not keep to the text"):
        scored(MadeUpEngine(strays=True), "Paris is")


def test_a_listing_without_the_token_is_an_error():
    engine = MadeUpEngine()
    complete = engine.events

    def events(request, **how):
        for event in complete({**request, "n_probs": 3}, **how):
            yield event

    engine.events = events
    with pytest.raises(BackendError, match="not of the right shape"):
        scored_each(engine, ["Paris", "No", "Z"])


def test_a_tokenizer_that_marks_beginnings_is_asked_with_the_prompt():
    class Marking(MadeUpEngine):
        def posted(self, path, request, longest, deadline):
            self._space = b"" if "<assistant>" in request.get("content", "") else b" "
            return super().posted(path, request, longest, deadline)

    assert scored(Marking(), "Paris").tokens[0].id == numbers_of("Paris")[0]


def test_a_tokenizer_that_spells_another_text_can_not_score():
    class Folding(MadeUpEngine):
        def posted(self, path, request, longest, deadline):
            content = request.get("content", "").lower()
            return super().posted(path, {**request, "content": content}, longest, deadline)

    with pytest.raises(CapabilityError, match="do not spell the text"):
        scored(Folding(), "Paris")


TEXTS = ["No", "Not sure", "Not the", "Paris", "🦊", "No is"]


def test_several_texts_are_asked_for_together_in_any_order():
    engine = MadeUpEngine()
    scores = scored_each(engine, TEXTS)
    assert [score.text for score in scores] == TEXTS
    for score in scores:
        numbers = numbers_of(score.text)
        assert [token.id for token in score.tokens] == numbers
        assert [token.logprob for token in score.tokens] == pytest.approx(expected(numbers))
        assert None not in {token.rank for token in score.tokens} and not score.ended
    other = MadeUpEngine()
    assert scored_each(other, TEXTS[::-1]) == scores[::-1]
    assert engine.requests == other.requests and len(engine.requests) == 1


def test_a_place_where_a_text_is_rare_is_asked_for_once_more(monkeypatch):
    common, rare = likeliest(ord(">"))[0]["id"], likeliest(ord(">"))[-1]["id"]
    texts = [VOCABULARY[common].decode(), VOCABULARY[rare].decode()]
    monkeypatch.setattr(llama_score, "_LIKELY", 5)
    engine = MadeUpEngine()
    found = scored_each(engine, texts)
    assert [request["n_probs"] > 5 for request in engine.requests] == [False, True]
    assert [request["prompt"] for request in engine.requests] == [[[ord(c) for c in PROMPT]]] * 2
    monkeypatch.undo()
    assert found == scored_each(MadeUpEngine(), texts)
    assert [score.tokens[0].rank for score in found] == [0, END]


@pytest.mark.slow
def test_texts_that_part_in_too_many_places_are_refused():
    texts = [f"{number:04} is the" for number in range(1000)]
    engine = MadeUpEngine()
    with pytest.raises(UsageError, match="1000 texts have [\\d]+ places .* more than 256"):
        scored_each(engine, texts)
    assert engine.requests == []


@pytest.mark.parametrize("written, same", [(2, True), (5, False), (None, None)])
def test_a_text_is_compared_with_what_was_written_by_the_number_of_its_tokens(written, same):
    assert scored(MadeUpEngine(), "Paris").is_tokenised_as(written) is same


# The real engine

QUESTION = [
    Message("system", "You are a concise, helpful assistant."),
    Message("user", "What is the capital of France?"),
]


@pytest.fixture(scope="module")
def plain():
    """A reasoner that scores, and answers without a penalty."""
    options = {"repeat_penalty": 1.0, "num_predict": 24}
    with closing(EmbeddedReasoner(model_file(), Settings(options=options))) as reasoner:
        yield reasoner


def model_file():
    return str(next(Path(str(MODEL_DIR)).glob("*.gguf")))


@pytest.mark.embedded
def test_an_answer_of_the_model_is_what_it_likes_best(plain):
    answer = plain.reason(QUESTION)
    score = plain.score(QUESTION, answer.content)
    assert score.is_tokenised_as(answer.metadata["eval_count"])
    assert score.prompt_tokens == answer.metadata["prompt_eval_count"]
    assert {token.rank for token in score.tokens} == {0}
    assert [token.text for token in score.tokens] == [token.best for token in score.tokens]
    assert -30 < score.logprob < -15


@pytest.mark.embedded
def test_an_answer_that_was_cut_has_no_end_token(plain):
    question = [Message("user", "Tell me a long story of the sea.")]
    answer = plain.reason(question)
    assert answer.metadata["done_reason"] == "length"
    cut = plain.score(question, answer.content, ended=False)
    assert cut.is_tokenised_as(answer.metadata["eval_count"])
    assert {token.rank for token in cut.tokens} == {0}
    ended = plain.score(question, answer.content)
    assert not ended.is_tokenised_as(answer.metadata["eval_count"])
    assert ended.tokens[-1].logprob < -2 and ended.logprob < cut.logprob - 2


@pytest.mark.embedded
def test_a_text_of_other_tokens_than_were_written_is_told_apart(plain):
    """An answer of as many tokens as letters: nobody would write it so, but a penalty may."""
    score = plain.score(QUESTION, "Paris")
    assert len(score.tokens) == 2
    assert score.is_tokenised_as(6) is False
    assert score.is_tokenised_as(2) is True and score.is_tokenised_as(None) is None


@pytest.mark.embedded
def test_a_forged_word_is_found_in_its_place(plain):
    honest = plain.score(QUESTION, "The capital of France is Paris.")
    forged = plain.score(QUESTION, "The capital of France is London.")
    assert honest.logprob - forged.logprob > 5
    (other,) = [token for token in forged.tokens if token.text == " London"]
    assert (other.rank, other.best) == (3, " Paris")


@pytest.mark.embedded
def test_the_logprobs_are_those_before_penalty_and_grammar(plain):
    """The engine's own numbers of an answer that it wrote freely, and of the same text forced."""
    settings = Settings(options={"repeat_penalty": 1.3, "num_predict": 12})
    with closing(EmbeddedReasoner(model_file(), settings)) as penalised:
        text = penalised.reason(QUESTION).content
        found = penalised.score(QUESTION, text, ended=False)
    again = plain.score(QUESTION, text, ended=False)
    assert [t.logprob for t in found.tokens] == pytest.approx(
        [t.logprob for t in again.tokens], abs=1e-3
    )
    assert max(token.rank for token in found.tokens) > 0  # the penalty chose another one


@pytest.mark.embedded
@pytest.mark.parametrize(
    "text", ["", "Hi 🦊 ok", "日本", "a\x00b", 'He said "no".\n\\', "<|im_end|>"]
)
def test_any_text_is_scored_whole(plain, text):
    score = plain.score(QUESTION, text)
    spelt = "".join(token.text for token in score.tokens)
    assert spelt == text or "\ufffd" in spelt
    assert all(math.isfinite(token.logprob) and token.logprob <= 0 for token in score.tokens)
    assert score.tokens[-1].text == ""


@pytest.mark.embedded
def test_half_a_character_can_not_be_scored(plain):
    with pytest.raises(UsageError, match="half a character"):
        plain.score(QUESTION, "a \ud83d b")
    with pytest.raises(UsageError, match="half a character"):
        plain.score_each(QUESTION, ["yes", "\udc80"])


@pytest.mark.embedded
def test_each_of_several_is_what_it_is_alone(plain):
    texts = ["Paris", "London", "The capital", "The cat", "🦊"]
    for each in plain.score_each(QUESTION, texts):
        alone = plain.score(QUESTION, each.text, ended=False)
        assert each.logprob == pytest.approx(alone.logprob, abs=0.02)
        assert [t.id for t in each.tokens] == [t.id for t in alone.tokens]


@pytest.mark.embedded
def test_a_turn_after_a_score_is_as_before(plain):
    before = plain.reason(QUESTION)
    plain.score(QUESTION, "Paris 🦊")
    assert plain.reason(QUESTION).content == before.content
    assert plain.phase() == "waiting"
