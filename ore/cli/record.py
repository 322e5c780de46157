"""A turn as data: recorded in an artifact, or shown as a plan.

Everything that is hashed is what was sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ore import __version__
from ore.artifact import not_keepable
from ore.artifact.canonical import digest, exact, text_digest, value_or_text
from ore.artifact.seal import seal
from ore.artifact.sources import ANSWER_OF, PERSONA, SESSION, SYSTEM
from ore.backends import Backend, Settings
from ore.backends.answer import encoded
from ore.backends.effective import effective
from ore.cli.context import Context
from ore.cli.runs import Run
from ore.core import build_messages, load_aya_system_prompt
from ore.types import ExecutionArtifact, Message, Response, Session
from ore.types.artifact_fields import CONVERSATIONAL, SINGLE_TURN

LONGEST_KEPT_TEXT = 1 << 16
"""The longest system prompt, in bytes of UTF-8, whose text an artifact keeps unasked."""

_FILE = "file:"


@dataclass(frozen=True)
class Sourced:
    """One message as it is sent, and where it came from."""

    role: str
    content: str
    source: str


def sourced(messages: Sequence[Message], sources: Sequence[str]) -> list[Sourced]:
    """Return messages with their sources, one for each."""
    pairs = zip(messages, sources, strict=True)
    return [Sourced(message.role, message.content, source) for message, source in pairs]


def sent_messages(run: Run, context: Context, earlier: int) -> list[Message]:
    """Return the messages that a turn sends, made as the turn makes them.

    Of the session, they are the first ``earlier`` messages: it may hold the turn by now.
    """
    session = run.conversation.session
    return build_messages(
        context.prompt,
        system_prompt=run.engine.system_prompt,
        session=Session(session.messages[:earlier]) if session is not None else None,
        tool_results=context.tool_results,
        skill_context=context.skill_context,
        images=run.asked.images,
        after=run.asked.after,
    )


def messages_of_turn(run: Run, context: Context, earlier: int) -> list[Sourced]:
    """Return the messages of ``sent_messages`` with their sources."""
    conversation, prompt = run.conversation, run.engine.system_prompt
    messages = sent_messages(run, context, earlier)
    sources = [PERSONA if run.options.system is None else SYSTEM] if prompt else []
    sources += [f"skill:{name}" for name in context.skills or ()]
    sources += [_tool_source(result.tool_name) for result in context.tool_results or ()]
    sources += [ANSWER_OF + run.asked.after.execution_id] if run.asked.after else []
    kept = SESSION if conversation.source is None else f"{SESSION}:{conversation.source}"
    sources += [f"{kept}#{number}" for number in range(1, earlier + 1)]
    return sourced(messages, [*sources, run.asked.source])


def joined_sources(groups: object, messages: Sequence[Sourced]) -> list[list[str]] | None:
    """Return the sources of the messages that were sent as one; None where no two were joined.

    Args:
        groups: Which messages became one, by their numbers from 0, as a reasoner says it.
    """
    if not isinstance(groups, list):
        return None
    joined = [[messages[number].source for number in group] for group in groups]
    return [sources for sources in joined if len(sources) > 1]


def joined_sentence(joined: Sequence[Sequence[str]]) -> str:
    """Return the sentence that messages were joined; what is on the screen names their sources."""
    which = "; ".join(" and ".join(sources) for sources in joined)
    return f"Sent as one message, for a chat template that takes no two of them: {which}."


def messages_digest(messages: Sequence[Sourced]) -> str:
    """Return the SHA-256 over the canonical JSON of the list of each message's role and content."""
    encoded(Message(each.role, each.content) for each in messages)  # refuses what can't be sent
    return digest([{"role": each.role, "content": each.content} for each in messages])


def options_of(settings: Settings) -> dict[str, Any]:
    """Return the settings that shape an answer: the model's options, then what else was asked for.

    What was not set is left out: the model's and the server's own defaults hold.
    """
    also = {"think": settings.think, "format": settings.format}
    return dict(settings.options) | {name: v for name, v in also.items() if v is not None}


def facts(
    backend: Backend, settings: Settings, model_id: str, messages: Sequence[Sourced]
) -> dict[str, Any]:
    """Return what is known of a turn before its answer; asks the backend for its digests."""
    return {
        **_made_with(backend, settings, model_id),
        "messages_sha256": messages_digest(messages),
        "sources": _source_digests(messages),
    }


def _source_digests(messages: Sequence[Sourced]) -> list[dict[str, str]]:
    return [{"source": each.source, "sha256": text_digest(each.content)} for each in messages]


def _made_with(backend: Backend, settings: Settings, model_id: str) -> dict[str, Any]:
    options = options_of(settings)
    return {
        "ore_version": __version__,
        "backend": backend.name,
        **exact(backend.provenance(model_id)),
        "options": {name: value_or_text(value) for name, value in options.items()},
    }


Told = Callable[[], dict[str, Any]]
"""Returns what was ``in_force``; asks for it at the first call only."""


def in_force(run: Run, response: Response) -> dict[str, Any]:
    """Return what was in force in a turn that was answered; may ask the backend, once."""
    settings, window = run.asked.settings, (response.metadata.get("context") or {}).get("window")
    told = run.backend.in_force(run.model_id, settings)
    return effective(**{"user": settings.options, "window": window, **told})


def artifact_of(
    run: Run, context: Context, response: Response, earlier: int, told: dict[str, Any]
) -> ExecutionArtifact:
    """Return the sealed artifact of a turn that was answered.

    Args:
        earlier: How many messages of the session were sent with the turn.
        told: What was ``in_force``.
    """
    messages = messages_of_turn(run, context, earlier)
    tools = _hashed(messages, "tool:")
    model = run.backend.name_of(run.model_id)
    if response.model_id == run.model_id:
        response = replace(response, model_id=model)
    artifact = ExecutionArtifact.from_response(
        response,
        context.prompt,
        model,
        routing=context.decision,
        tools=[each["name"] for each in tools],
        skills=context.skills,
        continuation_requested=run.options.continuation is not None,
        continuation_reason=run.options.continuation,
        mode=SINGLE_TURN if run.conversation.session is None else CONVERSATIONAL,
    )
    full = [asdict(each) for each in messages] if run.options.artifact_full else None
    provenance = {
        **_made_with(run.backend, run.asked.settings, run.model_id),
        "effective": exact(told),
        "persona": run.options.persona,
        "system_prompt": _kept_system_prompt(run),
        "context": response.metadata.get("context"),
        "rendered_sha256": response.metadata.get("rendered_sha256"),
        "joined": joined_sources(response.metadata.get("joined"), messages),
        "grants": sorted(set(run.options.grant)),
        "skills": _hashed(messages, "skill:"),
        "tools": tools,
        "messages_sha256": messages_digest(messages),
        **({} if full is None else {"messages": full}),
        "sources": _source_digests(messages),
        "parent": run.asked.link.parent if run.asked.link else run.conversation.parent(),
    }
    return _sealed(replace(artifact, provenance=provenance))


def _kept_system_prompt(run: Run) -> str | None:
    """Return the text of the system prompt, None where none was sent or it is not to be kept."""
    text, options = run.engine.system_prompt, run.options
    if not text or options.artifact_hashes_only:
        return None
    is_short = len(text.encode("utf-8")) <= LONGEST_KEPT_TEXT
    return text if is_short or options.artifact_text else None


def keeps_own_text_here(run: Run) -> bool:
    """Return whether only this machine has the system prompt of a run: ORE's own is everywhere."""
    text = run.engine.system_prompt
    if not text or run.options.artifact_full or _kept_system_prompt(run) is not None:
        return False
    return text != load_aya_system_prompt()


def _sealed(artifact: ExecutionArtifact) -> ExecutionArtifact:
    """Return the artifact with the hashes of itself, as a reader of its JSON will compute them.

    What a server said of the turn is made exact first, so that it can't take the seal off.

    Raises:
        ArtifactError: It can't be sealed; without a seal it is not kept.
    """
    try:
        document = json.loads(json.dumps(artifact.to_dict(), allow_nan=False))
        metadata = exact(document["output"]["metadata"])
        document["output"]["metadata"] = metadata
        document["provenance"]["context"] = exact(document["provenance"]["context"])
        provenance = seal(document)["provenance"]
    except (TypeError, ValueError, RecursionError) as exc:
        raise not_keepable(exc) from exc
    return replace(
        artifact, output=replace(artifact.output, metadata=metadata), provenance=provenance
    )


def _hashed(messages: Sequence[Sourced], kind: str) -> list[dict[str, str]]:
    """Name and hash what of the messages came from skills or tools."""
    return [
        {"name": each.source.removeprefix(kind), "sha256": text_digest(each.content)}
        for each in messages
        if each.source.startswith(kind)
    ]


def _tool_source(name: str) -> str:
    if not name.startswith(_FILE):
        return f"tool:{name}"
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    path = name.removeprefix(_FILE)
    return _FILE + (f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path)
