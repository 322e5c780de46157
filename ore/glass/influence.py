"""What an answer rests on: it is scored again with each of its sources left out in turn.

It is influence and not truth. How much less likely an answer is without a text says that the model took
it from there, not that the text is right, nor that the model understood it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import fsum

from ore.artifact.sources import is_of_session
from ore.backends.joining import joined
from ore.errors import (
    ArtifactError,
    CapabilityError,
    CheckFailedError,
    ContextTruncatedError,
    UsageError,
)
from ore.glass.judging import check_sent
from ore.glass.provenance import Sourced, as_sent
from ore.glass.reopening import Reopening
from ore.reasoner import Scorer
from ore.types import ExecutionArtifact, Message
from ore.types.artifact_fields import cut_off_by
from ore.types.score import Score

PIPED = "stdin"
_PROMPT_AND_PIPED = "prompt+stdin"
_END_OF_SENTENCE = re.compile(r"(?<![.!?…])[.!?…]+[\"')\]]*(?:\s+|$)|\n\s*")
_SPACES = re.compile(r"\s*")
_NEAR = 1000
"""Within how many characters a token is looked for: some before it may be parts of characters."""
_MOST_PAIRS = 1_000_000
"""The most pairs of a sentence and a source: each is a number of what is returned."""
_BLANK_LINE = "\n\n"


@dataclass(frozen=True)
class Influence:
    """What one source did for an answer, or a part of it.

    Attributes:
        source: As the artifact names it; of a turn of the session, its two messages.
        drop: How much less likely the answer is without it, in nats; below 0 where it is likelier.
        share: Its part of all drops above 0, from 0 to 1; None where there is no such drop.
    """

    source: str
    drop: float
    share: float | None


@dataclass(frozen=True)
class Explained:
    """A part of an answer, and the sources of it, the one it rests on most first.

    Attributes:
        text: The part, or the whole.
        logprob: The logarithm of its probability with all sources, in nats.
        sources: What each did.
    """

    text: str
    logprob: float
    sources: list[Influence]


@dataclass(frozen=True)
class _Left:
    """A source, the numbers of its messages, and what stays of the prompt, all of it where it is None."""

    source: str
    numbers: Collection[int] = ()
    prompt: str | None = None

    def rest(self, messages: Sequence[Sourced]) -> list[Message]:
        """Return the messages without it; those of all sources at once may be too many."""
        found = as_sent(m for n, m in enumerate(messages) if n not in self.numbers)
        if self.prompt is not None:
            found[-1] = Message(found[-1].role, self.prompt)
        return found


def explain(
    artifact: ExecutionArtifact,
    opening: Reopening,
    *,
    tell: Callable[[int, int, str], None] = lambda number, of, source: None,
    name: str = "The run",
) -> tuple[Explained, list[Explained]]:
    """Return which of its sources a recorded answer rests on, and each of its sentences: see ``--why``.

    Its model scores the answer once with all sources, and once without each.

    Args:
        artifact: The run.
        opening: Opens it with its model, and keeps that for the next one.
        tell: Called before each scoring with its number from 1, how many there are, and what is left
            out: ``""`` at the first.
        name: What the run is called in an error.

    Raises:
        ArtifactError: It can't be used, or does not hold enough of the run.
        CheckFailedError: Its model is another one by now.
        CapabilityError: The backend can't score a text.
        OreError: What opening it, or scoring, raises.
    """
    if artifact.output.metadata.get("thinking"):
        raise ArtifactError(f"{name}: the model thought first, which is no part of the answer.")
    try:
        opened = opening.open(artifact)
    except (ArtifactError, CheckFailedError) as exc:
        raise type(exc)(f"{name} can't be looked into: {str(exc).rstrip('.')}.") from exc
    if reason := check_sent(artifact, opened.messages):
        raise ArtifactError(f"{name} can't be looked into: {reason}.")
    if not isinstance(opened.reasoner, Scorer):
        raise CapabilityError(
            f"{name} can't be looked into: the backend {opened.backend.name} does not say how "
            f"likely a given text is: ask its prompt of the embedded engine, and look into that run."
        )
    metadata = artifact.output.metadata
    has_end = cut_off_by(metadata) is None and not metadata.get("choice")
    try:
        return explained(
            opened.reasoner,
            opened.messages,
            artifact.output.content,
            ended=has_end,
            joins=opened.joins,
            tell=tell,
        )
    except (ContextTruncatedError, UsageError) as exc:
        raise ArtifactError(f"{name} can't be looked into: {exc}") from exc


def explained(
    scorer: Scorer,
    messages: Sequence[Sourced],
    answer: str,
    *,
    ended: bool = True,
    joins: bool = False,
    tell: Callable[[int, int, str], None] = lambda number, of, source: None,
) -> tuple[Explained, list[Explained]]:
    """Return what an answer rests on, and what each of its sentences does.

    The answer is scored once with all messages, and once for each source.

    Args:
        scorer: What says how likely the answer is.
        messages: What was sent, the prompt last.
        answer: The answer.
        ended: Whether the answer ended by itself, and was not cut off.
        joins: Whether messages were joined, and are here.
        tell: Called before each scoring with its number from 1, how many there are, and what is left
            out: ``""`` at the first.

    Raises:
        ArtifactError: There is nothing to explain, or nothing to leave out; or too much of both.
        OreError: What ``scorer.score`` raises.
    """
    left_out, parts = _each_left_out(messages), sentences(answer)
    if not answer:
        raise ArtifactError("The answer is empty: there is nothing that it could rest on.")
    if not left_out:
        raise ArtifactError(
            "The turn was given nothing but its prompt: there is no file, skill or turn to leave out."
        )
    if len(parts) * len(left_out) > _MOST_PAIRS:
        raise ArtifactError(
            f"The answer has {len(parts):,} sentences and the turn {len(left_out):,} sources, which makes "
            f"more than {_MOST_PAIRS:,} pairs: ask with fewer files or turns, or for a shorter answer."
        )
    totals, by_part = list[float](), list[list[float]]()
    for number, each in enumerate((_Left(""), *left_out), 1):
        tell(number, len(left_out) + 1, each.source)
        rest = each.rest(messages)
        asked = joined(rest)[0] if joins else rest
        score = scorer.score(asked, answer, ended=ended)
        totals.append(score.logprob)
        by_part.append(_by_part(score, answer, parts))
    names = [each.source for each in left_out]
    return _explained(answer, totals, names), [
        _explained(text, [sums[number] for sums in by_part], names)
        for number, text in enumerate(parts)
    ]


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text``, with the spaces after them: together they are the text."""
    ends = [0]
    for found in _END_OF_SENTENCE.finditer(text):
        if found.start() > ends[-1]:  # what a sentence begins with does not end it
            ends.append(found.end())
    parts = [text[first:end] for first, end in zip(ends, [*ends[1:], len(text)], strict=True)]
    return [part for part in parts if part]


def _explained(text: str, logprobs: list[float], names: list[str]) -> Explained:
    drops = [logprobs[0] - without for without in logprobs[1:]]
    above = fsum(drop for drop in drops if drop > 0)
    found = [
        Influence(name, drop, max(drop, 0.0) / above if above else None)
        for name, drop in zip(names, drops, strict=True)
    ]
    return Explained(text, logprobs[0], sorted(found, key=lambda each: -each.drop))


def _by_part(score: Score, answer: str, parts: Sequence[str]) -> list[float]:
    """Return the logarithm of each part's probability: a token belongs to where it begins."""
    ends, end = list[int](), 0
    for part in parts:
        end += len(part)
        ends.append(end)
    sums: list[list[float]] = [[] for _ in parts]
    at = begin = part_number = 0
    for token in score.tokens:
        begin = _begin(answer, at) if at >= begin else begin
        while part_number < len(parts) - 1 and begin >= ends[part_number]:
            part_number += 1
        sums[part_number].append(token.logprob)
        at = _after(answer, at, token.text)
    return [fsum(each) for each in sums]


def _begin(answer: str, at: int) -> int:
    """Return where the first character that is not a space is, from ``at`` on: " The" begins there."""
    found = _SPACES.match(answer, at)
    return found.end() if found is not None else at


def _after(answer: str, at: int, token: str) -> int:
    """Return where a token ends that begins at ``at``; a part of a character is found by the next."""
    found = answer.find(token, at, at + len(token) + _NEAR)
    return at if found < 0 else found + len(token)


def _each_left_out(messages: Sequence[Sourced]) -> list[_Left]:
    """Return each source that can be left out, a turn of the session as one."""
    groups: dict[str, set[int]] = {}
    for number, each in enumerate(messages[:-1]):
        groups.setdefault(_group(each, number, messages), set()).add(number)
    found = [_Left(name, numbers) for name, numbers in groups.items()]
    typed, blank, _ = messages[-1].content.partition(_BLANK_LINE)
    if messages[-1].source == _PROMPT_AND_PIPED and blank and typed.strip():
        found.append(_Left(PIPED, prompt=typed))
    return found


def _group(message: Sourced, number: int, messages: Sequence[Sourced]) -> str:
    """Return the name that a message is left out by: an answer goes with what it answers."""
    if not is_of_session(message.source):
        return message.source if message.source != "?" else f"message {number + 1}"
    before = messages[number - 1] if number else message
    is_answer = message.role == "assistant" and is_of_session(before.source)
    return before.source if is_answer else message.source
