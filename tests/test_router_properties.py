"""Routing by rule: what holds for any prompt and any targets."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.types import RoutingTarget
from tests.test_router import content, route, target

WORDS = st.lists(
    st.sampled_from(["a", "bc", "Ä", "ä", "c++", "天", "हि", "x"]), min_size=1, max_size=5
)
TEXTS = WORDS.map(" ".join) | st.text(max_size=30)
TARGETS = st.lists(
    st.builds(
        RoutingTarget,
        st.sampled_from("pqr"),
        st.sampled_from(["tool", "skill"]),
        st.just("about"),
        st.lists(TEXTS, max_size=3).map(tuple),
    ),
    max_size=5,
)


@pytest.mark.invariant
@given(TEXTS, TARGETS, st.randoms(use_true_random=False))
def test_the_same_targets_in_any_order_decide_the_same_and_are_not_changed(prompt, targets, dice):
    before = copy.deepcopy(targets)
    decision = route(prompt, *targets)
    assert targets == before
    shuffled = list(targets)
    dice.shuffle(shuffled)
    assert content(route(prompt, *shuffled)) == content(decision)
    assert decision.reasoning.isprintable() and 0 <= decision.confidence <= 1


@given(TEXTS, TARGETS)
def test_a_targets_confidence_does_not_depend_on_the_others(prompt, targets):
    alone = [route(prompt, item).confidence for item in targets]
    assert route(prompt, *targets).confidence == max(alone, default=0.0)


@given(WORDS, st.sampled_from(["", "first "]))
def test_a_longer_hint_is_never_less_sure(words, before):
    prompt = before + " ".join(words)
    sure = [
        route(prompt, target(" ".join(words[:count]))).confidence
        for count in range(1, len(words) + 1)
    ]
    assert sure == sorted(sure) and sure[0] > 0


@pytest.mark.slow
@given(TEXTS, TARGETS, st.floats(0, 1))
def test_a_threshold_only_turns_hits_into_fallbacks(prompt, targets, threshold):
    open_to_all = route(prompt, *targets)
    decision = route(prompt, *targets, threshold=threshold)
    assert (decision.target, decision.confidence) == (open_to_all.target, open_to_all.confidence)
    hit = open_to_all.target_type != "fallback" and open_to_all.confidence >= threshold
    assert (decision.target_type != "fallback") == hit
