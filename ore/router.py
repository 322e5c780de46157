"""Routing: choosing one tool or skill for a prompt, by rule and without a model.

Targets are data; what they stand for is never called, so a decision for a tool has no arguments
yet: the caller asks the tool.
"""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ore.errors import UsageError
from ore.files.neutral import in_form
from ore.types import RoutingDecision, RoutingTarget

DEFAULT_CONFIDENCE_THRESHOLD = 0.5

MOST_LOOKED_AT = 1 << 18
"""Characters of a prompt in which a hint is looked for, from the first."""

TEST_ROUTING_TARGET = RoutingTarget(
    name="test",
    target_type="tool",
    description="Stands for any tool where routing itself is tried out; it is in no registry.",
    hints=("test", "test routing", "try the test route"),
)
"""A target for trying a router without installing anything."""

_MISS = 0.6  # what each word of a hint leaves of the doubt
_BONUS = 0.2  # for a prompt that begins with the hint
_SHOWN = 80  # characters of a hint or name in a reasoning
_MOST_TRIES = 100  # places of a hint that are looked at one after the other
_MOST_HINTS = 12  # that a reasoning names where none is in the prompt

# Scripts that put no space between words: here every character is a word of its own.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
).match


class Router(ABC):
    """What chooses a target for a prompt."""

    @abstractmethod
    def route(self, prompt: str, targets: Iterable[RoutingTarget]) -> RoutingDecision:
        """Return the decision for ``prompt``; ``targets`` are never changed."""


class _Candidate(NamedTuple):
    confidence: float
    length: int  # of the hint as it is compared: case folded, white space collapsed
    hint: str
    target: RoutingTarget


class RuleRouter(Router):
    """Chooses by hints: the same prompt and targets always give the same decision.

    A hint matches as whole words, whatever the case and the white space between them. The longest
    matching hint of a target, of n words, gives the confidence ``1 - 0.6**n``, plus 0.2 where the
    prompt begins with it, at most 1: it depends on no other target. The most confident target
    wins; then the longer hint, the name, and a tool before a skill.

    Args:
        confidence_threshold: The least confidence that routes, 0 to 1.

    Raises:
        UsageError: The threshold is not from 0 to 1.
    """

    def __init__(self, confidence_threshold: float = DEFAULT_CONFIDENCE_THRESHOLD) -> None:
        if not 0 <= confidence_threshold <= 1:  # nor is NaN
            raise UsageError(
                f"A route's threshold must be from 0 to 1, not {confidence_threshold}."
            )
        self.confidence_threshold = confidence_threshold

    def route(self, prompt: str, targets: Iterable[RoutingTarget]) -> RoutingDecision:
        """Return the decision for ``prompt``, with a reasoning of one printable line.

        A decision for a tool has empty ``args``: whoever has the tool fills them with
        ``dataclasses.replace(decision, args=tool.extract_args(prompt))``. A fallback names the best
        candidate of ``targets`` below the threshold, if there is one.
        """
        targets = list(targets)
        if not prompt.strip():
            return _fallback("The prompt is blank")
        if not targets:
            return _fallback("There are no targets to choose from")
        text = _Searched(_folded(prompt[:MOST_LOOKED_AT]))
        found = (_candidate(text, target) for target in targets)
        best = min(filter(None, found), key=_rank, default=None)
        if best is None:
            return _fallback(_no_hint(targets, len(prompt)))
        target = best.target
        reasoning = f'"{_shown(best.hint)}" matches the {target.target_type} {_shown(target.name)}'
        if best.confidence >= self.confidence_threshold:
            return RoutingDecision(target.name, target.target_type, best.confidence, {}, reasoning)
        reasoning += (
            f", but its confidence {best.confidence:g} is below threshold "
            f"{self.confidence_threshold:g}"
        )
        return RoutingDecision(target.name, "fallback", best.confidence, {}, reasoning)


def build_targets_from_registry(registry: Mapping[str, Any]) -> list[RoutingTarget]:
    """Return a target for each tool of ``registry`` (tools by name), sorted by name."""
    return [
        RoutingTarget(name, "tool", tool.description, tuple(tool.routing_hints()))
        for name, tool in sorted(registry.items())
    ]


def _candidate(text: _Searched, target: RoutingTarget) -> _Candidate | None:
    """Return the best match of a hint of ``target`` in a prompt, or None if there is none."""
    found = [
        (folded.count(" ") + 1, at == 0, len(folded), hint)
        for hint in target.hints
        if (folded := _folded(hint)) and (at := text.find_whole(folded)) >= 0
    ]
    if not found:
        return None
    words, begins, length, hint = max(found)
    return _Candidate(confidence(words, begins), length, hint, target)


class _Searched:
    """A folded text in which hints are looked for as whole words, in time that grows with its length."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marked: str | None = None
        self._found: dict[str, int] = {}

    def find_whole(self, hint: str) -> int:
        """Return where a folded ``hint`` first stands as whole words, 0 only at the beginning; or -1."""
        if hint not in self._found:  # which may come again thousands of times
            self._found[hint] = self._find_whole(hint)
        return self._found[hint]

    def _find_whole(self, hint: str) -> int:
        text, at = self._text, self._text.find(hint)
        for _ in range(_MOST_TRIES):
            if at < 0:
                return -1
            end = at + len(hint)
            begins = at == 0 or not _is_within_word(text[at - 1], text[at])
            if begins and (end == len(text) or not _is_within_word(text[end - 1], text[end])):
                return at
            at = text.find(hint, at + 1)
        if self._marked is None:
            self._marked = _marked(text)
        return self._marked.find(_marked(hint))  # of so many, none is looked at by itself


def _marked(text: str) -> str:
    """Return a text with a mark at each end of a word: one that no folded text has."""
    pairs = zip(text, text[1:])
    rest = (right if _is_within_word(left, right) else f"\n{right}" for left, right in pairs)
    return f"\n{text[:1]}{''.join(rest)}\n"


def _is_within_word(left: str, right: str) -> bool:
    """Return whether two adjacent characters belong to one word."""
    if _is_mark(right):
        return _is_wordly(left) or _is_mark(left)
    if not _is_wordly(right) or _UNSPACED(right):
        return False
    return _is_mark(left) or (_is_wordly(left) and not _UNSPACED(left))


def _is_wordly(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_mark(character: str) -> bool:
    # Vowel signs and accents, and what joins letters in Persian and the scripts of India.
    return character in "\u200c\u200d" or unicodedata.category(character)[0] == "M"


def confidence(words: int, begins: bool) -> float:
    """Return the confidence of a matching hint of ``words`` words, 0 to 1.

    ``begins`` says whether the prompt begins with it. The result is rounded to ten digits, so that
    a threshold can be met exactly.
    """
    return min(1.0, round(1 - _MISS**words + (_BONUS if begins else 0), 10))


def _rank(candidate: _Candidate) -> tuple[float, int, str, bool, str]:
    target = candidate.target
    return (
        -candidate.confidence,
        -candidate.length,
        target.name,
        target.target_type != "tool",
        candidate.hint,
    )


def _fallback(reasoning: str) -> RoutingDecision:
    return RoutingDecision(None, "fallback", 0.0, {}, reasoning)


def _no_hint(targets: Iterable[RoutingTarget], length: int) -> str:
    """Return that none of the hints is in a prompt of that length, and the first of them."""
    hints = sorted({_shown(hint) for target in targets for hint in target.hints})
    if not hints:
        return "No target has a hint"
    named = [f'"{hint}"' for hint in hints[:_MOST_HINTS]]
    named += [f"and {len(hints) - len(named)} more"] if len(hints) > len(named) else []
    cut = f"first {MOST_LOOKED_AT:,} characters of the prompt have"
    where = "prompt has" if length <= MOST_LOOKED_AT else cut
    return f"The {where} none of these hints: {', '.join(named)}"


def _folded(text: str) -> str:
    return " ".join(in_form("NFC", text.casefold()).split())


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return (line if line.isprintable() else repr(line)[1:-1])[:_SHOWN]
