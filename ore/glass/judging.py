"""Could this model have said this? A recorded answer, judged by the model that it names.

At temperature 0 a model says what it finds likeliest, so that an answer of its own can be followed
token by token. It shows which model, messages and options an answer fits; not that it is true, and not
who wrote it down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ore.backends.joining import joined
from ore.glass.provenance import Sourced, messages_digest
from ore.types import ExecutionArtifact, Message

if TYPE_CHECKING:  # the engine is needed by those who ask it
    from ore.backends.engine_retrace import Departure

ACCEPT, REJECT, CANNOT_SAY = "accept", "reject", "cannot say"
MOST_NATS = 0.3
"""How much likelier than the text's another token may be: rounding differs between machines.

It is the one that ``tests.by_hand.judging.chosen`` chooses from the rates in ``docs/evidence.md``."""
_WORD = re.compile(r"\s*\S+")


@runtime_checkable
class Follower(Protocol):
    """A reasoner that can follow an answer: see ``EmbeddedReasoner.departures``."""

    def departures(
        self, messages: list[Message], text: str, *, was_cut: bool = False, most: float = math.inf
    ) -> list[Departure]:
        """Return where the model would not have said what ``text`` says, up to a gap above ``most``."""


@dataclass(frozen=True)
class Judgement:
    """Whether a model could have given an answer.

    Attributes:
        verdict: ``ACCEPT``, ``REJECT`` or ``CANNOT_SAY``.
        reason: Why it can't be said; None where it can.
        at: Where the first token is that it would not have said, in characters of the answer.
        said: The word that the answer has there; empty at its end.
        instead: What the model would have said; empty where it would have ended.
        gap: How much likelier that was, in nats; with a verdict of ``ACCEPT``, the largest that was met.
    """

    verdict: str
    reason: str | None = None
    at: int | None = None
    said: str | None = None
    instead: str | None = None
    gap: float | None = None


def cannot_say(reason: str) -> Judgement:
    """Return the judgement that nothing can be said, and why: the end of a sentence."""
    return Judgement(CANNOT_SAY, reason)


def why_not(artifact: ExecutionArtifact) -> str | None:
    """Return why nobody can say whether a model gave this answer, from its record; None if one can."""
    metadata, provenance = artifact.output.metadata, artifact.provenance or {}
    temperature = _in_force(provenance, "temperature")
    if not isinstance(temperature, (int, float)):
        return "it does not say its temperature"
    if temperature != 0:
        return f"its temperature was {temperature:g}, and only at 0 a model has one answer"
    for name, what in (("format", "a schema"), ("stop", "stop texts")):
        if _in_force(provenance, name):
            return f"it was asked with {what}, which the answer alone does not show"
    if metadata.get("choice"):
        return "it was chosen from words, and is not what the model would say by itself"
    if metadata.get("thinking"):
        return "the model thought first, and what it thought is no part of the answer"
    if metadata.get("done_reason") not in ("stop", "length"):
        return "it does not say how the answer ended"
    if "\ufffd" in artifact.output.content:
        return "a part of a character in it was lost when it was written down"
    return None


def check_sent(artifact: ExecutionArtifact, messages: Sequence[Sourced]) -> str | None:
    """Return why ``messages`` are not those that were sent; None where they are."""
    sent = (artifact.provenance or {}).get("messages_sha256")
    if sent is None:
        return "it has no hash of its messages"
    if sent != messages_digest(messages):
        return (
            "its messages are not what they were: its persona or its skills have changed since; "
            "`ORE.record(full=True)` keeps them"
        )
    return None


def judge(
    follower: Follower,
    messages: Sequence[Sourced],
    artifact: ExecutionArtifact,
    *,
    joins: bool = False,
) -> Judgement:
    """Return whether the model of ``follower`` could have given the answer of ``artifact``.

    Args:
        follower: Has the options of the recorded turn.
        messages: Those of the turn.
        joins: Whether they were joined.

    Raises:
        OreError: What ``departures`` raises.
    """
    text = artifact.output.content
    asked = [Message(each.role, each.content) for each in messages]
    if joins:
        asked, _ = joined(asked)
    was_cut = artifact.output.metadata.get("done_reason") == "length"
    farthest = 0.0
    for found in follower.departures(asked, text, was_cut=was_cut, most=MOST_NATS):
        if found.gap > MOST_NATS:
            word = _WORD.match(text, found.at)
            said = word[0] if word else text[found.at :]
            return Judgement(REJECT, None, found.at, said, found.instead, found.gap)
        farthest = max(farthest, found.gap)
    return Judgement(ACCEPT, gap=farthest)


def _in_force(provenance: dict[str, Any], name: str) -> object:
    """Return an option that was in force, None where it is not known."""
    options, told = provenance.get("options"), provenance.get("effective")
    if isinstance(options, dict) and name in options:
        return options[name]
    for key in ("parameters", name, "value"):
        told = told.get(key) if isinstance(told, dict) else None
    return told
