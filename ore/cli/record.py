"""A turn of a run as data: what it sends, and what an artifact says of it besides, as the flags have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ore.cli.context import Context
from ore.cli.runs import Run
from ore.core import load_aya_system_prompt, to_send
from ore.glass import provenance, turn_facts
from ore.glass.provenance import MadeWith, TurnFacts
from ore.types import ExecutionArtifact, Response
from ore.types.sent import Sent, sent_with


def sent_by(run: Run, context: Context) -> Sent:
    """Return what the next turn of a run would send."""
    return to_send(
        run.engine.system_prompt,
        context.prompt,
        run.conversation.session,
        context.tool_results,
        context.skill_context,
        run.asked.images,
        run.asked.after,
    )


def turn_of(run: Run, sent: Sent, told: Mapping[str, Any] | None = None, **more: Any) -> TurnFacts:
    """Return what is particular to a turn of a run; ``more`` is what ``turn_facts.facts_of`` takes."""
    return turn_facts.facts_of(
        sent,
        told or {},
        is_persona=run.options.system is None,
        session=run.conversation.source,
        prompt=run.asked.source,
        **more,
    )


Told = Callable[[], dict[str, Any]]
"""Returns what was ``in_force``; asks for it at the first call only."""


def in_force(run: Run, response: Response) -> dict[str, Any]:
    """Return what was in force in a turn that was answered; may ask the backend, once."""
    settings = run.asked.settings
    told = run.backend.in_force(run.model_id, settings)
    return turn_facts.in_force(settings, response, told)


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
    run: Run, context: Context, response: Response, told: dict[str, Any]
) -> ExecutionArtifact:
    """Return the sealed artifact of a turn that was answered; ``told`` is what was ``in_force``."""
    given = run.asked.given
    full = run.options.artifact_full
    more = None if given is None else {"run_file": given.kept(is_full=full)}
    turn = turn_of(
        run,
        sent_of(response),
        told,
        parent=run.asked.link.parent if run.asked.link else run.conversation.parent(),
        routing=context.decision,
        more=more,
    )
    return provenance.artifact_of(made_with(run), turn, response)


def sent_of(response: Response) -> Sent:
    """Return what the turn sent that ``response`` answers."""
    sent = sent_with(response)
    assert sent is not None  # the engine of a run has returned it
    return sent


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
