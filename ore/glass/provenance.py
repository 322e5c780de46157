"""The artifact of a turn, made from what was sent and what came back, and sealed.

Everything that is hashed is what was sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ore import __version__
from ore.artifact import MAX_ARTIFACT_BYTES, not_keepable
from ore.artifact.canonical import exact, text_digest, value_or_text
from ore.artifact.seal import seal
from ore.artifact.sources import messages_digest
from ore.backends import Backend
from ore.backends.answer import encoded
from ore.backends.settings import Settings
from ore.files.strictjson import is_list
from ore.types import ExecutionArtifact, Message, Response, RoutingDecision
from ore.types.artifact_fields import SINGLE_TURN
from ore.types.execution import fields_of

LONGEST_KEPT_TEXT = 1 << 16
"""The longest system prompt, in bytes of UTF-8, whose text an artifact keeps unasked."""

_LONG, _TRIES = 1.0, 4  # seconds after which a server is slow, and how often it is asked then


@dataclass(frozen=True)
class Sourced:
    """One message as it is sent, and where it came from.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: Its text.
        source: Where it came from, as artifacts name it.
    """

    role: str
    content: str
    source: str


def sourced(messages: Sequence[Message], sources: Sequence[str]) -> list[Sourced]:
    """Return ``messages`` with their ``sources``, one for each."""
    pairs = zip(messages, sources, strict=True)
    return [Sourced(message.role, message.content, source) for message, source in pairs]


def as_sent(messages: Iterable[Sourced]) -> list[Message]:
    """Return ``messages`` without their sources, to be sent."""
    return [Message(each.role, each.content) for each in messages]


class MadeWith(NamedTuple):
    """What turns are made with, besides their messages: the same for all turns of a run.

    Attributes:
        backend: Asked for the version of its server and the digest of the model.
        settings: What was asked of the model.
        model_id: The model, as the backend is asked for it.
        persona: The name of the persona, or None.
        system_prompt: The text of the system prompt where it is kept, else None.
        grants: The permissions that were granted.
        is_full: Whether the messages, the rendered prompt and a chat template are kept as well.
        continuation: Why more is to follow, or None.
        known: What ``known_of`` returned, so that no turn asks for it; None asks anew each time.
    """

    backend: Backend
    settings: Settings
    model_id: str
    persona: str | None = None
    system_prompt: str | None = None
    grants: tuple[str, ...] = ()
    is_full: bool = False
    continuation: str | None = None
    known: Mapping[str, Any] | None = None


class TurnFacts(NamedTuple):
    """What is particular to one turn.

    Attributes:
        prompt: The user's text.
        messages: What was sent, and where each message came from.
        in_force: What was in force: see ``ore.backends.effective``.
        decision: What the router chose, or None.
        skills: The names of the skills, or None.
        mode: ``"single_turn"`` or ``"conversational"``.
        parent: The artifact that it was made from, as ``provenance.parent`` has it, or None.
        more: What else ``provenance`` says of it.
    """

    prompt: str
    messages: Sequence[Sourced]
    in_force: Mapping[str, Any]
    decision: RoutingDecision | None = None
    skills: list[str] | None = None
    mode: str = SINGLE_TURN
    parent: Mapping[str, str] | None = None
    more: Mapping[str, Any] = MappingProxyType({})


def kept_prompt(text: str) -> str | None:
    """Return the ``text`` of a system prompt where an artifact keeps it unasked: neither empty nor long."""
    is_short = len(text.encode("utf-8", "replace")) <= LONGEST_KEPT_TEXT
    return text if text and is_short else None


def artifact_of(made: MadeWith, turn: TurnFacts, response: Response) -> ExecutionArtifact:
    """Return the sealed artifact of a turn that was answered.

    Args:
        made: What it was made with.
        turn: What is particular to it.
        response: The answer.

    Raises:
        ArtifactError: It can't be sealed; without a seal it is not kept.
    """
    messages = turn.messages
    tools = _hashed(messages, "tool:")
    model = made.backend.name_of(made.model_id)
    metadata = dict(response.metadata)
    rendered = metadata.pop("rendered", None)
    texts = {"messages": list(map(vars, messages)), "rendered": rendered}
    answered = model if response.model_id == made.model_id else response.model_id
    response = Response(response.content, answered, response.id, response.timestamp, metadata)
    artifact = ExecutionArtifact.from_response(
        response,
        turn.prompt,
        model,
        routing=turn.decision,
        tools=[each["name"] for each in tools],
        skills=turn.skills,
        continuation_requested=made.continuation is not None,
        continuation_reason=made.continuation,
        mode=turn.mode,
    )
    verdict = response.metadata.get("expectation")
    provenance = {
        **(made.known or known_of(made.backend, made.settings, made.model_id)),
        "effective": dict(turn.in_force),
        "persona": made.persona,
        "system_prompt": made.system_prompt,
        "context": response.metadata.get("context"),
        "rendered_sha256": response.metadata.get("rendered_sha256"),
        "chat_template": _kept_template(made),
        "joined": joined_sources(response.metadata.get("joined"), messages),
        "grants": sorted(set(made.grants)),
        "skills": _hashed(messages, "skill:"),
        "tools": tools,
        "messages_sha256": sent_digest(messages),
        **(texts if made.is_full else {}),
        "sources": _source_digests(messages),
        "parent": turn.parent,
        **({} if verdict is None else {"expectation": exact(verdict)}),
        **turn.more,
    }
    return _sealed(replace(artifact, provenance=provenance))


def _kept_template(made: MadeWith) -> dict[str, str] | None:
    """Return the hash of the chat template that was given in the place of the model's, or None."""
    text = made.settings.chat_template
    if text is None:
        return None
    return {"sha256": text_digest(text), **({"text": text} if made.is_full else {})}


def joined_sources(groups: object, messages: Sequence[Sourced]) -> list[list[str]] | None:
    """Return the sources of the messages that were sent as one; None where no two were joined.

    Args:
        groups: Which messages became one, by their numbers from 0, as a reasoner says it.
        messages: All of them, as they were before.
    """
    if not is_list(groups):
        return None
    try:
        joined = [[messages[int(number)].source for number in group] for group in groups]
    except (LookupError, OverflowError, TypeError, ValueError):  # a program's own metadata
        return None
    return [sources for sources in joined if len(sources) > 1]


def joined_sentence(joined: Sequence[Sequence[str]], *, always: bool) -> str:
    """Return the sentence that messages were ``joined``, by their sources, and why.

    Args:
        always: Whether that was asked for, whatever the template takes.
    """
    which = "; ".join(" and ".join(sources) for sources in joined)
    why = "as was asked for" if always else "because the chat template needs them joined"
    return f"Sent as one message, {why}: {which}."


def sent_digest(messages: Sequence[Sourced]) -> str:
    """Return what ``messages_digest`` does of ``messages`` that are to be sent.

    Raises:
        UsageError: One holds half a character, which can't be sent.
    """
    try:
        return messages_digest(map(vars, messages))
    except ValueError:
        encoded(as_sent(messages))  # says which it is
        raise


def options_of(settings: Settings) -> dict[str, Any]:
    """Return what of ``settings`` shapes an answer: the model's options, then what else was asked for.

    What was not set is left out: the model's and the server's own defaults hold.
    """
    choices = None if settings.choices is None else list(settings.choices)
    also = {"think": settings.think, "format": settings.format, "choices": choices}
    return dict(settings.options) | {name: v for name, v in also.items() if v is not None}


def facts(
    backend: Backend, settings: Settings, model_id: str, messages: Sequence[Sourced]
) -> dict[str, Any]:
    """Return what is known of a turn before its answer; asks the backend for its digests.

    Args:
        backend, settings, model_id: See ``known_of``.
        messages: What is sent.
    """
    return {
        **known_of(backend, settings, model_id),
        "messages_sha256": sent_digest(messages),
        "sources": _source_digests(messages),
    }


def _source_digests(messages: Sequence[Sourced]) -> list[dict[str, str]]:
    return [{"source": each.source, "sha256": text_digest(each.content)} for each in messages]


def known_of(backend: Backend, settings: Settings, model_id: str) -> dict[str, Any]:
    """Return ORE's version, the backend with its version, the model's digest, and the options.

    Args:
        backend: Asked for the version of its server and the digest of the model.
        settings: What is asked of the model.
        model_id: The model, as the backend is asked for it.
    """
    options = options_of(settings)
    return {
        "ore_version": __version__,
        "backend": backend.name,
        **exact(backend.provenance(model_id)),
        "options": {name: value_or_text(value) for name, value in options.items()},
    }


def known_for_all(backend: Backend, settings: Settings, model_id: str) -> dict[str, Any]:
    """Return what ``known_of`` does, for many turns: the digest tells which of them were asked before.

    A server that took long and did not name it is asked again, some times.

    Args:
        backend, settings, model_id: See ``known_of``.
    """
    for _ in range(_TRIES):
        began = time.monotonic()
        known = known_of(backend, settings, model_id)
        if known.get("model_digest") is not None or time.monotonic() - began < _LONG:
            break
    return known


def _sealed(artifact: ExecutionArtifact) -> ExecutionArtifact:
    """Return the artifact with the hashes of itself, as a reader of its JSON will compute them.

    What a server said of the turn is made exact where it has to be: it can't take the seal off.

    Raises:
        ArtifactError: It can't be sealed; without a seal it is not kept.
    """
    try:
        text = json.dumps(fields_of(artifact), allow_nan=False)
        if len(text) > MAX_ARTIFACT_BYTES:  # as a file it has no fewer
            raise ValueError(f"it is larger than {MAX_ARTIFACT_BYTES:,} bytes")
        document = json.loads(text)
        try:
            sealed = seal(document)
        except ValueError:
            sealed = seal(_exact(document))
    except (TypeError, ValueError, RecursionError) as exc:
        raise not_keepable(exc) from exc
    output = replace(artifact.output, metadata=sealed["output"]["metadata"])
    return replace(artifact, output=output, provenance=sealed["provenance"])


def _exact(document: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact's object in which what a server said of the turn is exact."""
    output, provenance = document["output"], document["provenance"]
    return {
        **document,
        "output": {**output, "metadata": exact(output["metadata"])},
        "provenance": {**provenance, "context": exact(provenance["context"])},
    }


def _hashed(messages: Sequence[Sourced], kind: str) -> list[dict[str, str]]:
    """Name and hash what of the messages came from skills or tools."""
    return [
        {"name": each.source.removeprefix(kind), "sha256": text_digest(each.content)}
        for each in messages
        if each.source.startswith(kind)
    ]
