"""Following an answer without an engine: what is asked of it, and what becomes of what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from ore.backends.engine_retrace import Departure, retraced
from ore.backends.http import Deadline
from ore.backends.llama_score import Asking
from ore.errors import CapabilityError

VOCABULARY = [b"", b"The", b" boat", b" ship", b".", b"\xf0\x9f", b"\x9b\xb6", b" It"]
REQUEST = {"max_tokens": 50, "repeat_penalty": 1.1, "stop": ["x"], "reasoning_format": "auto"}


@dataclass
class Engine:
    """Says ``says`` after the prompt, whatever it is put onto; silent of parts of characters."""

    says: list[int]
    preferred: float = 0.9
    window: int = 100
    requests: list[dict[str, Any]] = field(default_factory=list)

    def events(self, request, *, silence, deadline, path):
        assert path == "/completion"
        self.requests.append(request)
        yield {"prompt_progress": {}, "stop": False}
        at = len(request["prompt"]) - 1
        if "n_probs" in request:
            yield from self._probable(request, at)
            yield {"stop": True, "content": "", "stop_type": "limit", "tokens_predicted": 1}
            return
        pending, count = b"", -1
        for count, number in enumerate(self.says[at:]):
            if count == request["n_predict"]:
                yield {"stop": True, "content": "", "stop_type": "limit", "tokens_predicted": count}
                return
            pending += VOCABULARY[number]
            try:
                said, pending = pending.decode(), b""
            except UnicodeDecodeError:
                continue
            yield {
                "stop": False,
                "content": said,
                "tokens": [number],
                "tokens_predicted": count + 1,
            }
        yield {"stop": True, "content": "", "stop_type": "eos", "tokens_predicted": count + 2}

    def posted(self, path, request, longest, deadline):
        assert (path, request["parse_special"]) == ("/tokenize", False)
        pieces = [5, 6] if request["content"] == "\U0001f6f6" else []
        return {"tokens": [{"id": each, "piece": list(VOCABULARY[each])} for each in pieces]}

    def _probable(self, request, at):
        own = self.says[at] if at < len(self.says) else 0
        rest = (1 - self.preferred) / (len(VOCABULARY) - 1)
        likely = [(own, self.preferred)]
        likely += [(number, rest) for number in range(len(VOCABULARY)) if number != own]
        tokens = [{"id": number, "bytes": list(VOCABULARY[number])} for number, _ in likely]
        is_forced = "grammar" in request
        if own == 5 and not is_forced:
            return
        key, name = ("logprob", "top_logprobs") if is_forced else ("prob", "top_probs")
        values = [math.log(value) if is_forced else value for _, value in likely]
        found = [{**each, key: value} for each, value in zip(tokens, values, strict=True)]
        yield {
            "stop": False,
            "content": "",
            "tokens": [0],
            "completion_probabilities": [{name: found}],
        }


def places(engine: Engine, text: str, was_cut=False, most=math.inf) -> list[Departure]:
    asking = Asking(engine, "fake", "prompt", [99], None, Deadline(None))  # type: ignore[arg-type]
    return retraced(asking, REQUEST, text, was_cut, most)


def test_what_the_model_says_departs_nowhere():
    engine = Engine([1, 2, 4])
    assert places(engine, "The boat.") == []
    [request] = engine.requests
    assert request["repeat_penalty"] == 1.1 and request["cache_prompt"] is False
    assert not {"stop", "max_tokens", "reasoning_format"} & set(request)


def test_it_is_put_back_onto_the_text_and_followed_on():
    engine = Engine([1, 2, 4])
    [found] = places(engine, "The ship.")
    gap = math.log(0.9) - math.log(0.1 / 7)
    assert (found.at, found.said, found.instead) == (3, " ship", " boat")
    assert found.gap == pytest.approx(gap) and not found.is_bound
    assert engine.requests[-1]["prompt"] == [99, 1, 3] and engine.requests[-1]["cache_prompt"]


def test_the_first_that_is_too_far_is_the_last():
    assert len(places(Engine([1, 2, 4]), "It ship ship", most=0.1)) == 1


def test_no_likely_token_begins_the_text():
    [found] = places(Engine([1, 2, 4]), "The zebra.")
    assert found.is_bound and (found.at, found.said) == (3, " ")


def test_the_end_is_a_token_too():
    [longer] = places(Engine([1, 2, 4]), "The boat. It")
    assert (longer.at, longer.said, longer.instead) == (9, " It", "")
    [shorter] = places(Engine([1, 2, 4]), "The boat")
    assert (shorter.at, shorter.said, shorter.instead) == (8, "", ".")


@pytest.mark.parametrize("text, count", [("The boat", 0), ("The", 1), ("The boat.", 1)])
def test_an_answer_that_was_cut_has_as_many_tokens_as_the_limit(text, count):
    engine = Engine([1, 2, 4, 7])
    engine.window = 3  # two are left after the prompt
    assert len(places(engine, text, was_cut=True)) == count


@pytest.mark.slow
def test_an_answer_of_nothing_and_one_of_8000_tokens():
    assert places(Engine([]), "") == []
    [found] = places(Engine([1]), "")
    assert (found.at, found.said, found.instead) == (0, "", "The")
    engine = Engine([1] * 8000)
    engine.window = 10_000
    assert places(engine, "The" * 8000) == [] and len(engine.requests) < 12


def test_characters_of_several_tokens():
    assert places(Engine([1, 5, 6, 4]), "The\U0001f6f6.") == []


def test_what_is_asked_in_parts_goes_on_after_a_character_of_several_tokens():
    canoe = "\U0001f6f6"
    engine = Engine([5, 6] * 20 + [4])
    assert places(engine, canoe * 20 + ".") == []
    sizes = [(len(each["prompt"]) - 1, each["n_predict"]) for each in engine.requests]
    assert sizes == [(0, 16), (16, 32)]
    engine = Engine([1, 5, 6, *[2] * 30])
    assert places(engine, f"The{canoe}{' boat' * 30}") == []
    assert engine.requests[1]["prompt"][:4] == [99, 1, 5, 6]
    odd = Engine([1] * 15 + [5, 6, 4])
    assert places(odd, "The" * 15 + canoe + ".") == []
    assert [len(each["prompt"]) - 1 for each in odd.requests] == [0, 15]


def test_tokens_that_the_engine_does_not_name_are_an_error():
    engine = Engine([5, 6, 4])
    engine.posted = lambda *_: {"tokens": []}
    with pytest.raises(CapabilityError):
        places(engine, "\U0001f6f6.")


def test_where_the_engine_is_silent_of_a_part_of_a_character_another_is_forced():
    engine = Engine([1, 5, 6, 4])
    found = places(engine, "The boat.", most=0.1)
    assert [(each.at, each.said, each.instead) for each in found] == [(3, " boat", "\ufffd")]
    drawn = [each for each in engine.requests if "n_probs" in each]
    assert ["grammar" in each for each in drawn] == [False] * 4 + [True]
    assert len({each["seed"] for each in drawn[:-1]}) == 4


def test_an_engine_that_says_nothing_of_any_token_is_an_error():
    engine = Engine([1, 5, 6])
    engine._probable = lambda *_: iter(())
    with pytest.raises(LookupError):
        places(engine, "The boat")
