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

from ore.artifact.verify import Checked, read_again
from ore.backends.joining import joined
from ore.backends.turn_errors import NotPinnedError, TurnFailedError
from ore.errors import (
    ArtifactError,
    CapabilityError,
    CheckFailedError,
    ModelNotFoundError,
    PersonaError,
    SkillError,
    UsageError,
)
from ore.files.neutral import one_line
from ore.files.strictjson import part
from ore.glass.provenance import Sourced, as_sent, sent_digest
from ore.glass.reopening import Reopening
from ore.types import ExecutionArtifact, Message
from ore.types.artifact_fields import cut_off_by

if TYPE_CHECKING:  # the engine is needed by those who ask it
    from ore.backends.engine_retrace import Departure

ACCEPT, REJECT, CANNOT_SAY = "accept", "reject", "cannot say"
MOST_NATS = 0.3
"""How much likelier than the text's another token may be: rounding differs between machines.

It is the one that ``tests.by_hand.judging.chosen`` chooses from the rates in ``docs/rates.md``."""
_SHOWN = 40
"""How many characters are shown of what is before a word, and of the word."""
_WORD = re.compile(r"\s*\S+")
_OF_ITSELF = (
    *(ArtifactError, CapabilityError, CheckFailedError, ModelNotFoundError, UsageError),
    *(PersonaError, SkillError, TurnFailedError),
)
"""What is wrong with one run, and not with the backend of all."""


@runtime_checkable
class Follower(Protocol):
    """A reasoner that can follow an answer: see ``EmbeddedReasoner.departures``."""

    def departures(
        self, messages: list[Message], text: str, *, was_cut: bool = False, most: float = math.inf
    ) -> list[Departure]:
        """Return where the model would not have said what ``text`` says, up to a gap above ``most``.

        It is the answer to ``messages``; ``was_cut`` says that it did not end by itself.
        """
        ...


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
    """Return the judgement that nothing can be said, and the ``reason``: the end of a sentence."""
    return Judgement(CANNOT_SAY, reason)


def why_not(artifact: ExecutionArtifact) -> str | None:
    """Return why nobody can say whether a model gave the answer of ``artifact``; None if one can."""
    metadata, provenance = artifact.output.metadata, artifact.provenance or {}
    if metadata.get("choice"):
        return "it was chosen from words, and is not what the model would say by itself"
    temperature = _in_force(provenance, "temperature")
    if not isinstance(temperature, (int, float)):
        return "it does not say its temperature"
    if temperature != 0:
        return f"its temperature was {temperature:g}, and only at 0 a model has one answer"
    for name, what in (("format", "a schema"), ("stop", "stop texts")):
        if _in_force(provenance, name):
            return f"it was asked with {what}, which the answer alone does not show"
    if metadata.get("thinking"):
        return "the model thought first, and what it thought is no part of the answer"
    if metadata.get("done_reason") != "stop" and cut_off_by(metadata) != "a limit":
        return "it does not say that the answer ended by itself, or at a limit"
    if "\ufffd" in artifact.output.content:
        return "a part of a character in it was lost when it was written down"
    return None


def check_sent(artifact: ExecutionArtifact, messages: Sequence[Sourced]) -> str | None:
    """Return why ``messages`` are not those that ``artifact`` was made with; None where they are."""
    sent = (artifact.provenance or {}).get("messages_sha256")
    if sent is None:
        return "it has no hash of its messages"
    if sent != sent_digest(messages):
        return (
            "its messages are not what they were: its persona or its skills have changed since; "
            "`ORE.record(full=True)` keeps them"
        )
    return None


def judge(artifact: ExecutionArtifact, opening: Reopening) -> Judgement:
    """Return whether the model that a run names could have given its answer, as ``--with-model`` does.

    Args:
        artifact: The run.
        opening: Opens it with its model, and keeps that for the next one.

    Raises:
        CheckFailedError: The model is not the one that ``opening`` pins.
        OreError: A backend can't be used, or fails; where a run is at fault, nothing can be said.
    """
    if reason := why_not(artifact):
        return cannot_say(reason)
    try:
        opened = opening.open(artifact)
        if reason := check_sent(artifact, opened.messages):
            return cannot_say(reason)
        if not isinstance(opened.reasoner, Follower):
            return cannot_say(
                f"the backend {opened.backend.name} can't follow an answer token by token: only the "
                f"embedded engine can"
            )
        with opening.waiting(opened.backend.phase):
            return followed(opened.reasoner, opened.messages, artifact, joins=opened.joins)
    except NotPinnedError:
        raise
    except _OF_ITSELF as exc:
        return cannot_say(str(exc).rstrip("."))


def judge_checked(checked: Checked, opening: Reopening) -> Judgement | None:
    """Return what ``judge`` does of an artifact that was checked; None where it is not one.

    Args:
        checked: One of ``Verdict.checked``; of a folder's, the artifact is read once more.
        opening: Opens it with its model.

    Raises:
        OreError: What ``judge`` raises.
    """
    if checked.execution_id is None:
        return None
    artifact = read_again(checked)
    return cannot_say("it was changed meanwhile") if artifact is None else judge(artifact, opening)


def followed(
    follower: Follower,
    messages: Sequence[Sourced],
    artifact: ExecutionArtifact,
    *,
    joins: bool,
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
    asked = as_sent(messages)
    if joins:
        asked, _ = joined(asked)
    was_cut = cut_off_by(artifact.output.metadata) == "a limit"
    farthest = 0.0
    for found in follower.departures(asked, text, was_cut=was_cut, most=MOST_NATS):
        if found.gap > MOST_NATS:
            word = _WORD.match(text, found.at)
            said = word[0] if word else text[found.at :]
            return Judgement(REJECT, None, found.at, said, found.instead, found.gap)
        farthest = max(farthest, found.gap)
    return Judgement(ACCEPT, gap=farthest)


def in_words(judgement: Judgement, text: str) -> str:
    """Return a ``judgement`` of an answer, ``text``, in words, on one line."""
    if judgement.verdict == ACCEPT:
        return "accept: the model says this, token by token"
    if judgement.verdict != REJECT:
        return f"{judgement.verdict}: {judgement.reason}"
    before = " ".join(text[: judgement.at].split())[-_SHOWN:]
    after = f"after {_quoted(before)} " if before else ""
    there = f"it has {_quoted(judgement.said)}" if judgement.said else "it ends"
    own = f"go on with {_quoted(judgement.instead)}" if judgement.instead else "end"
    return f"reject: {after}{there}, where the model would {own} (likelier by {judgement.gap:.1f} nats)"


def _quoted(text: str | None) -> str:
    shown = one_line(text or "").strip()
    return repr(f"{shown[:_SHOWN]}…" if len(shown) > _SHOWN else shown)


def _in_force(provenance: dict[str, Any], name: str) -> object:
    """Return an option that was in force, None where it is not known."""
    if name in (options := part(provenance, "options")):
        return options[name]
    return part(part(part(provenance, "effective"), "parameters"), name).get("value")
