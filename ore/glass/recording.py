"""The artifact of a turn that a program took: what was sent, and all that is known of what answered."""

from __future__ import annotations

from typing import Any

from ore.artifact.sources import ANSWER_OF, PERSONA, SESSION, SYSTEM
from ore.backends import Backend, Settings
from ore.backends.effective import effective
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.ollama import AyaReasoner
from ore.backends.openai import OpenAIReasoner
from ore.core import ORE, Sent, load_aya_system_prompt, sent_with
from ore.errors import UsageError
from ore.glass.origin import around, backend_of, settings_of
from ore.glass.provenance import MadeWith, TurnFacts, artifact_of, kept_prompt, sourced
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact, Response
from ore.types.artifact_fields import CONVERSATIONAL, SINGLE_TURN


def record(
    engine: ORE, response: Response, *, persona: str | None = None, full: bool = False
) -> ExecutionArtifact:
    """Return the sealed artifact of a turn of ``engine``'s; may ask its server for a digest.

    Args:
        response: What ``execute``, or a stream of the engine, has returned: the very object.
        persona: The name of the persona that the system prompt is, if it is one.
        full: Whether the messages themselves are kept, too.

    Raises:
        UsageError: No engine has returned that response.
        ArtifactError: It holds what an artifact can't.
    """
    sent = sent_with(response)
    if sent is None:
        raise UsageError(
            "This response can't be recorded: give the one that execute, or a stream's response, "
            "returned, not a copy."
        )
    *_, inner = around(engine.reasoner)
    known, settings = response.metadata, _asked(response, inner)
    backend, model_id, told = _origin(inner, response, settings)
    window = (known.get("context") or {}).get("window")
    made = MadeWith(
        backend,
        settings,
        model_id,
        persona=persona,
        system_prompt=kept_prompt(sent.system_prompt),
        is_full=full,
    )
    turn = TurnFacts(
        sent.messages[-1].content,
        sourced(sent.messages, sources_of(sent, persona)),
        effective(**{"user": settings.options, "window": window, **told}),
        mode=SINGLE_TURN if sent.earlier is None else CONVERSATIONAL,
    )
    return artifact_of(made, turn, response)


def sources_of(sent: Sent, persona: str | None = None) -> list[str]:
    """Return where each message of a turn came from, as artifacts name it."""
    is_persona = persona is not None or sent.system_prompt == load_aya_system_prompt()
    sources = [PERSONA if is_persona else SYSTEM] if sent.system_prompt else []
    sources += [f"skill:{number}" for number in range(1, sent.skills + 1)]
    sources += [f"tool:{name}" for name in sent.tools]
    sources += [ANSWER_OF + sent.after] if sent.after else []
    sources += [f"{SESSION}#{number}" for number in range(1, (sent.earlier or 0) + 1)]
    return [*sources, "prompt"]


def _asked(response: Response, inner: Reasoner) -> Settings:
    """Return what was asked of the model, as ORE's reasoners note it with each answer.

    The words to choose from are those of the ``inner`` reasoner.
    """
    known = response.metadata
    choices = settings_of(inner).choices if "choice" in known else None
    asked = {name: known[name] for name in ("think", "format", "keep_alive") if name in known}
    return Settings(options=known.get("options") or {}, choices=choices, **asked)


def _origin(
    reasoner: Reasoner, response: Response, settings: Settings
) -> tuple[Backend, str, dict[str, Any]]:
    """Return the backend that an innermost reasoner belongs to, its model, and what was in force there."""
    if isinstance(reasoner, EmbeddedReasoner):
        return backend_of(reasoner), reasoner.model_id, reasoner.in_force()
    backend = backend_of(reasoner)
    if not isinstance(reasoner, (AyaReasoner, OpenAIReasoner)):
        return backend, response.model_id, {}
    return backend, reasoner.model_id, backend.in_force(reasoner.model_id, settings)
