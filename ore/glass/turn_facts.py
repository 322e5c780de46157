"""What is particular to a turn: where its messages came from, and the run that it was made from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from ore.artifact import encode_artifact, parse_artifact, read_bytes
from ore.artifact.canonical import exact
from ore.artifact.sources import ANSWER, ANSWER_OF, PERSONA, PROMPT, SESSION, SYSTEM
from ore.backends.effective import effective, without_sampling
from ore.backends.settings import Settings
from ore.core import load_aya_system_prompt
from ore.errors import UsageError
from ore.files.neutral import brief
from ore.glass.limits import fit_of
from ore.glass.provenance import TurnFacts, sourced
from ore.types import ExecutionArtifact, Response, RoutingDecision, ToolResult
from ore.types.artifact_fields import CONVERSATIONAL, SINGLE_TURN
from ore.types.sent import Sent

_FILE = "file:"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SKILL = re.compile(r"\[Skill:(.+)\]\n")


def facts_of(
    sent: Sent,
    told: Mapping[str, Any],
    *,
    is_persona: bool | None = None,
    session: str | None = None,
    prompt: str = PROMPT,
    parent: Mapping[str, str] | None = None,
    routing: RoutingDecision | None = None,
    more: Mapping[str, Any] | None = None,
) -> TurnFacts:
    """Return what is particular to a turn that ``sent`` was sent in.

    Args:
        told: What was ``in_force``.
        is_persona, session, prompt: See ``sources_of``.
        parent: What ``parent_of`` returns, or None.
        routing: What the router chose, or None.
        more: What else ``provenance`` says of the turn.
    """
    sources = sources_of(sent, is_persona=is_persona, session=session, prompt=prompt)
    defined = _definitions(sent.tools)
    return TurnFacts(
        sent.messages[-1].content,
        sourced(sent.messages, sources),
        told,
        decision=routing,
        skills=[name for name in map(_skill_name, sent.skills) if name is not None] or None,
        mode=SINGLE_TURN if sent.earlier is None else CONVERSATIONAL,
        parent=parent,
        more={**(more or {}), **({"tool_definitions": defined} if defined else {})},
    )


def in_force(settings: Settings, response: Response, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was in force in a turn that was answered, as artifacts say it.

    Args:
        settings: What was asked of the model.
        response: The answer.
        told: What ``Backend.in_force`` returned.
    """
    window = fit_of(response).get("window")
    known: dict[str, Any] = {"user": settings.options, "window": window, **told}
    if settings.choices is not None:
        known = without_sampling(known)
    told_of: dict[str, Any] = exact(effective(**known))
    return told_of


def sources_of(
    sent: Sent,
    *,
    is_persona: bool | None = None,
    session: str | None = None,
    prompt: str = PROMPT,
) -> list[str]:
    """Return where each message of a turn came from, as artifacts name it.

    Args:
        sent: What the turn sends.
        is_persona: Whether the system prompt is a persona's; None finds out whether it is Aya's.
        session: The name that the session is saved under, or None.
        prompt: Where the prompt came from.
    """
    if is_persona is None:
        is_persona = sent.system_prompt == load_aya_system_prompt()
    sources = [PERSONA if is_persona else SYSTEM] if sent.system_prompt else []
    names = enumerate(map(_skill_name, sent.skills), 1)
    sources += [f"skill:{number if name is None else name}" for number, name in names]
    sources += [_tool_source(result.tool_name) for result in sent.tools]
    sources += [ANSWER_OF + sent.after.execution_id] if sent.after is not None else []
    kept = SESSION if session is None else f"{SESSION}:{session}"
    sources += [f"{kept}#{number}" for number in range(1, (sent.earlier or 0) + 1)]
    return [*sources, prompt]


def parent_of(
    sent: Sent, given: ExecutionArtifact | Path | str | None = None
) -> dict[str, str] | None:
    """Return the run that a turn was made from, as ``provenance.parent`` has it; None for none.

    Args:
        sent: What the turn has sent.
        given: That run, or its file; None is the one whose answer was sent.

    Raises:
        ArtifactError: It can't be read.
        UsageError: The turn has neither its answer, nor its prompt, nor its turn.
    """
    given = sent.after if given is None else given
    if given is None:
        return None
    if isinstance(given, ExecutionArtifact):
        parent, data = given, encode_artifact(given).encode("ascii")
    else:
        data = read_bytes(given)
        parent = parse_artifact(data, os.fspath(given))
    relation, digest = _relation(sent, parent), sha256(data).hexdigest()
    return {"execution_id": parent.execution_id, "sha256": digest, "relation": relation}


def _relation(sent: Sent, parent: ExecutionArtifact) -> str:
    """Return what a turn has of its parent, as a check of the chain will look for it."""
    if sent.after is not None and sent.after.execution_id == parent.execution_id:
        return ANSWER
    earlier = sent.messages[len(sent.messages) - 1 - (sent.earlier or 0) : -1]
    said = (message.content for message in earlier)
    if (parent.input.prompt, parent.output.content) in pairwise(said):
        return SESSION
    if sent.messages[-1].content == parent.input.prompt:
        return PROMPT
    raise UsageError(
        f"The turn was not made from the run {brief(parent.execution_id)}: it has neither its "
        f"answer, nor its prompt, nor its turn in the session. Leave `parent=` out, or give the run "
        f"that it was made from."
    )


def _skill_name(text: str) -> str | None:
    """Return the name that stands before the text of a skill, None where there is none."""
    found = _SKILL.match(text)
    return None if found is None else found[1]


def _tool_source(name: str) -> str:
    if not name.startswith(_FILE):
        return f"tool:{name}"
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    path = name.removeprefix(_FILE)
    return _FILE + (f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path)


def _definitions(results: Sequence[ToolResult]) -> dict[str, str]:
    """Return the SHA-256 of what defines each tool of the user's own that was run, by its name."""
    found = ((each.tool_name, each.metadata.get("definition_sha256")) for each in results)
    return {
        name: digest
        for name, digest in found
        if isinstance(digest, str) and _SHA256.fullmatch(digest)
    }
