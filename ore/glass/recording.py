"""The artifact of a turn that a program took: what was sent, and all that is known of what answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ore.artifact.sources import PROMPT
from ore.backends import Backend
from ore.backends.answer import hashes
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.ollama import AyaReasoner
from ore.backends.openai import OpenAIReasoner
from ore.backends.settings import Settings
from ore.core import ORE
from ore.errors import UsageError
from ore.files.strictjson import part
from ore.glass.origin import around, backend_of, settings_of
from ore.glass.provenance import MadeWith, artifact_of, kept_prompt
from ore.glass.turn_facts import facts_of, in_force, parent_of
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact, Response, RoutingDecision
from ore.types.sent import listed, sent_with


def record(
    engine: ORE,
    response: Response,
    *,
    persona: str | None = None,
    session: str | None = None,
    parent: ExecutionArtifact | Path | str | None = None,
    routing: RoutingDecision | None = None,
    grants: Iterable[str] = (),
    continuation: str | None = None,
    full: bool = False,
    system_text: bool | None = None,
    is_persona: bool | None = None,
    prompt: str = PROMPT,
    more: Mapping[str, Any] | None = None,
) -> ExecutionArtifact:
    """Return the sealed artifact of a turn of ``engine``'s; may ask its server for a digest.

    The arguments and what is raised are those of ``ORE.record``. ``is_persona`` and ``prompt`` are
    those of ``sources_of``, and ``more`` is what else ``provenance`` says.
    """
    sent = sent_with(response)
    if sent is None:
        raise UsageError(
            "This response can't be recorded: give the one that execute, or a stream's response, "
            "returned, not a copy."
        )
    kept = kept_prompt(sent.system_prompt) if system_text is None else sent.system_prompt or None
    *_, inner = around(engine.reasoner)
    settings = _asked(response, inner)
    backend, model_id, told = _origin(inner, response, settings)
    made = MadeWith(
        backend,
        settings,
        model_id,
        persona=persona,
        system_prompt=None if system_text is False else kept,
        grants=tuple(listed("grants", grants)),
        is_full=full,
        continuation=continuation,
    )
    turn = facts_of(
        sent,
        in_force(settings, response, told),
        is_persona=True if persona is not None else is_persona,
        session=session,
        prompt=prompt,
        parent=parent_of(sent, parent),
        routing=routing,
        more=more,
    )
    return artifact_of(made, turn, _with_images(response, hashes(sent.messages)))


def _with_images(response: Response, images: list[str]) -> Response:
    """Return a response whose metadata name the ``images`` that were sent: a program's own may not."""
    if not images or "images" in response.metadata:
        return response
    metadata = {**response.metadata, "images": images}
    return Response(response.content, response.model_id, response.id, response.timestamp, metadata)


def _asked(response: Response, inner: Reasoner) -> Settings:
    """Return what was asked of the model, as ORE's reasoners note it with each answer.

    The words to choose from, and a chat template, are those of the ``inner`` reasoner.
    """
    known, own = response.metadata, settings_of(inner)
    asked = {name: known[name] for name in ("think", "format", "keep_alive") if name in known}
    return Settings(
        options=part(known, "options"),
        choices=own.choices if "choice" in known else None,
        chat_template=own.chat_template,
        **asked,
    )


def _origin(
    reasoner: Reasoner, response: Response, settings: Settings
) -> tuple[Backend, str, dict[str, Any]]:
    """Return the backend that an innermost reasoner belongs to, its model, and what was in force there."""
    backend = backend_of(reasoner)
    if not isinstance(reasoner, (AyaReasoner, EmbeddedReasoner, OpenAIReasoner)):
        return backend, response.model_id, {}
    return backend, reasoner.model_id, backend.in_force(reasoner.model_id, settings)
