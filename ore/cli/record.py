"""A turn of a run as data: what it sends, and what an artifact says of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ore.artifact.sources import ANSWER_OF, PERSONA, SESSION, SYSTEM
from ore.backends.effective import effective
from ore.cli.context import Context
from ore.cli.runs import Run
from ore.core import build_messages, load_aya_system_prompt
from ore.glass import provenance
from ore.glass.provenance import MadeWith, Sourced, TurnFacts, sourced
from ore.types import ExecutionArtifact, Message, Response, Session, ToolResult
from ore.types.artifact_fields import CONVERSATIONAL, SINGLE_TURN

_FILE = "file:"


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


Told = Callable[[], dict[str, Any]]
"""Returns what was ``in_force``; asks for it at the first call only."""


def in_force(run: Run, response: Response) -> dict[str, Any]:
    """Return what was in force in a turn that was answered; may ask the backend, once."""
    settings, window = run.asked.settings, (response.metadata.get("context") or {}).get("window")
    told = run.backend.in_force(run.model_id, settings)
    return effective(**{"user": settings.options, "window": window, **told})


def made_with(run: Run) -> MadeWith:
    """Return what the turns of a run are made with."""
    return MadeWith(
        run.backend,
        run.asked.settings,
        run.model_id,
        persona=run.options.persona,
        system_prompt=_kept_system_prompt(run),
        grants=run.options.grant,
        is_full=run.options.artifact_full,
        continuation=run.options.continuation,
    )


def artifact_of(
    run: Run, context: Context, response: Response, earlier: int, told: dict[str, Any]
) -> ExecutionArtifact:
    """Return the sealed artifact of a turn that was answered.

    Args:
        earlier: How many messages of the session were sent with the turn.
        told: What was ``in_force``.
    """
    given = run.asked.given
    kept: dict[str, Any] = (
        {} if given is None else {"run_file": given.kept(is_full=run.options.artifact_full)}
    )
    if own := _definitions(context.tool_results or ()):
        kept["tool_definitions"] = own
    turn = TurnFacts(
        context.prompt,
        messages_of_turn(run, context, earlier),
        told,
        decision=context.decision,
        skills=context.skills,
        mode=SINGLE_TURN if run.conversation.session is None else CONVERSATIONAL,
        parent=run.asked.link.parent if run.asked.link else run.conversation.parent(),
        more=kept,
    )
    return provenance.artifact_of(made_with(run), turn, response)


def _kept_system_prompt(run: Run) -> str | None:
    """Return the text of the system prompt, None where none was sent or it is not to be kept."""
    text, options = run.engine.system_prompt, run.options
    if not text or options.artifact_hashes_only:
        return None
    return text if options.artifact_text else provenance.kept_prompt(text)


def keeps_own_text_here(run: Run) -> bool:
    """Return whether only this machine has the system prompt of a run: ORE's own is everywhere."""
    text = run.engine.system_prompt
    if not text or run.options.artifact_full or _kept_system_prompt(run) is not None:
        return False
    return text != load_aya_system_prompt()


def _definitions(results: Sequence[ToolResult]) -> dict[str, str]:
    """Return the SHA-256 of what defines each tool of the user's own that was run, by its name."""
    found = ((each.tool_name, each.metadata.get("definition_sha256")) for each in results)
    return {name: digest for name, digest in found if isinstance(digest, str)}


def _tool_source(name: str) -> str:
    if not name.startswith(_FILE):
        return f"tool:{name}"
    home = os.path.expanduser("~").rstrip(os.sep) + os.sep
    path = name.removeprefix(_FILE)
    return _FILE + (f"~{os.sep}{path.removeprefix(home)}" if path.startswith(home) else path)
