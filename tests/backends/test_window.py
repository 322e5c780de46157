"""The signs of a prompt that was cut, and the estimate that they are held against."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends.window import Estimate, estimate, outcome

FITS, OVERFLOWS = Estimate(likely=100, least=60), Estimate(likely=5000, least=3000)


@pytest.mark.parametrize(
    "expected, window, prompt, answer, status",
    [
        (FITS, 4096, 90, 50, "complete"),
        (FITS, 4096, 60, 0, "complete"),
        (FITS, None, 90, 50, "unknown"),
        (FITS, 4096, 0, 50, "unknown"),
        (FITS, 4096, -5, 50, "unknown"),
        # the prompt fills the window
        (FITS, 4096, 4095, 0, "truncated"),
        (FITS, 4096, 4096, 0, "truncated"),
        (OVERFLOWS, 4096, 4094, 0, "unknown"),
        # cut to half of it
        (Estimate(5000, 10), 4096, 2048, 0, "truncated"),
        (Estimate(5000, 10), 4096, 2050, 0, "truncated"),
        (Estimate(40_000, 10), 32768, 16387, 0, "truncated"),
        (Estimate(5000, 10), 4096, 2047, 0, "unknown"),
        (Estimate(5000, 10), 4096, 2057, 0, "unknown"),
        (Estimate(3000, 10), 4096, 2050, 0, "complete"),
        # fewer tokens than words
        (OVERFLOWS, 4096, 2999, 0, "truncated"),
        (OVERFLOWS, 4096, 3000, 0, "unknown"),
        (FITS, 4096, 59, 0, "truncated"),
        # the answer pushes the prompt out
        (FITS, 4096, 90, 4006, "complete"),
        (FITS, 4096, 90, 4007, "truncated"),
    ],
)
def test_the_outcome_follows_from_the_counts(expected, window, prompt, answer, status):
    assert outcome(expected, window, prompt, answer) == {
        "status": status,
        "window": window,
        "prompt_tokens": prompt,
    }


@pytest.mark.parametrize(
    "beginning, status", [(0, "complete"), (90, "complete"), (91, "truncated")]
)
def test_a_prompt_can_t_have_fewer_tokens_than_what_it_begins_with(beginning, status):
    assert outcome(FITS, 4096, 90, 5, beginning)["status"] == status


@pytest.mark.parametrize(
    "texts, likely, least",
    [
        ([], 0, 0),
        (["one two three four"], 4 + 4, 4),
        (["one", "", "two"], 1 + 4 + 0 + 4 + 1 + 4, 2),
        ([" " * 4_000 + "word"], 1 + 4, 1),
        (["слово" * 100], 250 + 4, 1),
    ],
)
def test_the_estimate_counts_bytes_and_words(texts, likely, least):
    assert estimate(text.encode() for text in texts) == Estimate(likely, least)


@given(st.lists(st.text()))
def test_a_longer_conversation_is_never_estimated_smaller(texts):
    sizes = [estimate(text.encode() for text in texts[:n]) for n in range(len(texts) + 1)]
    assert sizes == sorted(sizes, key=lambda size: (size.likely, size.least))
