"""What an answer does not show by itself, said to a program."""

from __future__ import annotations

import pytest

import ore
from ore import Response, Settings

LIMITED = {"done_reason": "length", "eval_count": 5}


@pytest.mark.parametrize(
    "metadata, options, sentence",
    [
        (
            LIMITED,
            {"num_predict": 5},
            "The answer was cut off by a limit: `options[num_predict=5]`.",
        ),
        (LIMITED, {}, "the server's own after 5 tokens; `options['num_predict']` sets another."),
        (
            {**LIMITED, "context": {"window": 16, "prompt_tokens": 11}},
            {},
            "the context window of 16 tokens, which `options['num_ctx']` makes larger.",
        ),
        (
            {"context": {"status": "truncated", "window": 16, "prompt_tokens": 16}},
            {},
            "did not fit",
        ),
        ({"response_model": "other"}, {}, "the model 'other', not the one asked for."),
        ({"images_read": False}, {}, "too few for an image"),
    ],
)
def test_what_is_not_as_it_was_asked_for_is_a_sentence(metadata, options, sentence):
    [said] = ore.warnings_of(Response("A", "m", metadata=metadata), Settings(options=options))
    assert sentence in said


def test_a_whole_answer_has_none():
    known = {"done_reason": "stop", "response_model": "m:latest", "context": {"status": "complete"}}
    assert [*ore.warnings_of(Response("A", "m", metadata=known), Settings())] == []
