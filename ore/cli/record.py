"""What shaped a turn, as data: where each message came from, what was asked with which settings.

Everything that is hashed is what was sent. Knows nothing about files, flags or terminals.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ore import __version__
from ore.artifact.canonical import digest
from ore.artifact.seal import seal
from ore.backends import Backend, Settings
from ore.backends.messages import encoded
from ore.cli.context import Context
from ore.cli.turn import Run
from ore.core import build_messages
from ore.types import ExecutionArtifact, Message, Response

PLAN_VERSION = "ore.plan.v1"

_FILE = "file:"
_SHAPING = ("think", "format")
"""Settings besides the model's options that decide what an answer says."""


@dataclass(frozen=True)
class Sent:
    """One message as it is sent, and where it came from."""

    role: str
    content: str
    source: str


def messages_of(run: Run, prompt: str, context: Context) -> list[Sent]:
    """Return the messages that a turn sends, made as the turn makes them, with their sources."""
    session = run.conversation.session
    messages = build_messages(
        prompt,
        system_prompt=run.engine.system_prompt,
        session=session,
        tool_results=context.tool_results,
        skill_context=context.skill_context,
    )
    sources = [run.origin.system] if run.engine.system_prompt else []
    sources += [f"skill:{name}" for name in context.skills or ()]
    sources += [_tool_source(name) for name in context.tools or ()]
    earlier = len(session.messages) if session is not None else 0
    sources += [f"session:{run.origin.session}#{number}" for number in range(1, earlier + 1)]
    sources.append(run.origin.prompt)
    return [
        Sent(message.role, message.content, source)
        for message, source in zip(messages, sources, strict=True)
    ]


def messages_digest(messages: Sequence[Sent]) -> str:
    """Return the SHA-256 over the canonical JSON of the list of each message's role and content.

    Raises:
        UsageError: A message holds half a character, which can't be sent either.
    """
    encoded(Message(each.role, each.content) for each in messages)
    return digest([{"role": each.role, "content": each.content} for each in messages])


def options_of(settings: Settings) -> dict[str, Any]:
    """Return the settings that shape an answer: the model's options, then what else was asked for.

    What was not set is left out: the model's and the server's own defaults hold.
    """
    also = {name: getattr(settings, name) for name in _SHAPING}
    return dict(settings.options) | {name: v for name, v in also.items() if v is not None}


def facts(
    backend: Backend, settings: Settings, model_id: str, messages: Sequence[Sent]
) -> dict[str, Any]:
    """Return what is known of a turn before its answer; asks the backend for its digests."""
    return {
        "ore_version": __version__,
        "backend": backend.name,
        **backend.provenance(model_id),
        "options": options_of(settings),
        "messages_sha256": messages_digest(messages),
        "sources": [
            {"source": each.source, "sha256": _text_digest(each.content)} for each in messages
        ],
    }


def artifact_of(run: Run, prompt: str, context: Context, response: Response) -> ExecutionArtifact:
    """Return the sealed artifact of a turn that was answered."""
    messages = messages_of(run, prompt, context)
    tools = _hashed(messages, "tool:", _FILE)
    artifact = ExecutionArtifact.from_response(
        response,
        prompt,
        run.model_id,
        routing=context.decision,
        tools=[each["name"] for each in tools],
        skills=context.skills,
    )
    known = facts(run.backend, run.settings, run.model_id, messages)
    full = [asdict(each) for each in messages] if run.options.artifact_full else None
    provenance = {
        "ore_version": known["ore_version"],
        "backend": known["backend"],
        "server_version": known["server_version"],
        "model_digest": known["model_digest"],
        "options": known["options"],
        "persona": run.origin.persona,
        "context": response.metadata.get("context"),
        "grants": sorted(set(run.options.grant)),
        "skills": _hashed(messages, "skill:"),
        "tools": tools,
        "messages_sha256": known["messages_sha256"],
        **({} if full is None else {"messages": full}),
        "sources": known["sources"],
        "parent": run.origin.parent,
    }
    return sealed(replace(artifact, provenance=provenance))


def sealed(artifact: ExecutionArtifact) -> ExecutionArtifact:
    """Return the artifact with the hashes of itself, as a reader of its JSON will compute them.

    One that can't be written as JSON comes back as it is: writing it is what fails.
    """
    try:
        document = seal(json.loads(json.dumps(artifact.to_dict(), allow_nan=False)))
    except (TypeError, ValueError, RecursionError):
        return artifact
    return replace(artifact, provenance=document["provenance"])


def _hashed(messages: Sequence[Sent], *kinds: str) -> list[dict[str, str]]:
    """Name and hash what of the messages came from skills or tools."""
    return [
        {"name": _name(each.source), "sha256": _text_digest(each.content)}
        for each in messages
        if each.source.startswith(kinds)
    ]


def _name(source: str) -> str:
    return source if source.startswith(_FILE) else source.partition(":")[2]


def _tool_source(name: str) -> str:
    if not name.startswith(_FILE):
        return f"tool:{name}"
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    path = name.removeprefix(_FILE)
    return _FILE + (f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plan_of(run: Run, prompt: str, context: Context) -> dict[str, Any]:
    """Return the plan of the turn that ``run`` would take.

    Tools have run and skills were read, as for the turn itself; the reasoner is not called.
    """
    messages = messages_of(run, prompt, context)
    shown = [asdict(message) for message in messages]
    if run.images:
        shown[-1]["images"] = [hashlib.sha256(data).hexdigest() for data in run.images]
    return {
        "plan_version": PLAN_VERSION,
        "backend": run.backend.name,
        "model_id": run.model_id,
        "options": options_of(run.settings),
        "messages": shown,
        "messages_sha256": messages_digest(messages),
    }
