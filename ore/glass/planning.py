"""The plan of a turn: what would be sent, and what the model would read of it. Nothing is generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ore.artifact.canonical import text_digest
from ore.backends import Backend
from ore.backends.answer import encoded, hashes
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.joining import JoiningReasoner, joined
from ore.backends.reading import Part, Reading
from ore.backends.settings import Settings
from ore.backends.window import estimate
from ore.core import ORE
from ore.glass.origin import around, backend_of, model_of, settings_of
from ore.glass.provenance import joined_sources, options_of, sent_digest, sourced
from ore.glass.turn_facts import sources_of
from ore.types import Message
from ore.types.sent import Sent
from ore.types.turn_plan import TEMPLATE, Plan, PlannedMessage, PlannedPart

Reader = Callable[[list[Message]], Reading | None]


def plan(engine: ORE, sent: Sent) -> Plan:
    """Return the plan of a turn of ``engine``'s that would send ``sent``.

    The embedded engine loads the model, if it has not; a server may be asked what it knows.

    Raises:
        OreError: Whatever a turn would raise before its answer.
    """
    *wrapped, inner = around(engine.reasoner)
    return planned(
        backend_of(inner),
        model_of(inner),
        settings_of(inner),
        sent.messages,
        sources_of(sent),
        joins_always=any(isinstance(each, JoiningReasoner) for each in wrapped),
        reader=inner.reading if isinstance(inner, EmbeddedReasoner) else None,
    )


def planned(
    backend: Backend,
    model_id: str,
    settings: Settings,
    messages: Sequence[Message],
    sources: Sequence[str],
    *,
    joins_always: bool = False,
    reader: Reader | None = None,
    more: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of a turn that would send ``messages``, which came from ``sources``.

    Args:
        joins_always: Whether messages are joined whatever the model's template takes.
        reader: Returns what the model reads; None asks the backend.
        more: What else is planned: see ``Plan``.

    Raises:
        OreError: Whatever a turn would raise before its answer.
    """
    known = sourced(messages, sources)
    digest = sent_digest(known)  # refuses what can't be sent
    reading = _reading(backend, model_id, settings, list(messages), joins_always, reader)
    shown = [
        PlannedMessage(each.role, each.content, source, tuple(hashes([each])))
        for each, source in zip(messages, sources, strict=True)
    ]
    template = settings.chat_template
    return Plan(
        backend=backend.name,
        model_id=model_id,
        options=options_of(settings),
        messages=tuple(shown),
        messages_sha256=digest,
        parts=tuple(
            PlannedPart(_source(part, sources, reading), part.text, part.tokens)
            for part in reading.parts
        ),
        tokens=reading.size.likely,
        tokens_least=reading.size.least,
        tokens_most=reading.size.most,
        window=reading.window,
        fits=reading.fits,
        left=reading.left,
        answer_limit=reading.limit,
        joined=joined_sources(reading.groups, known),
        rendered=reading.rendered,
        not_rendered=reading.why,
        notes=reading.notes,
        chat_template=template and text_digest(template),
        about=reading.about,
        more={**(more or {}), **({} if settings.joins else {"join_messages": "never"})},
    )


def _reading(
    backend: Backend,
    model_id: str,
    settings: Settings,
    messages: list[Message],
    joins_always: bool,
    reader: Reader | None,
) -> Reading:
    """Return what the backend knows, else the estimate that can be made of any text."""
    sent, groups = joined(messages) if joins_always else (messages, None)
    known = reader(sent) if reader else backend.reading(model_id, sent, settings)
    if known is not None:
        return known if groups is None else replace(known, groups=groups)
    facts = backend.prompt_facts(model_id, sent, settings)
    if facts.get("groups") is not None:
        sent, groups = joined(sent)
    texts = encoded(sent)
    parts = [
        Part(number, message.content, estimate([text]).likely)
        for number, (message, text) in enumerate(zip(sent, texts, strict=True))
    ]
    limit = settings.options.get("num_predict") or 0
    return Reading(
        estimate(texts, sum(len(message.images) for message in messages)),
        tuple(parts),
        window=facts.get("window"),
        limit=limit if limit > 0 else None,
        groups=groups,
        why=facts["why"],
        notes=facts.get("notes", ()),
        about={name: facts[name] for name in ("template", "parameters") if facts.get(name)},
    )


def _source(part: Part, sources: Sequence[str], reading: Reading) -> str:
    if part.message is None:
        return TEMPLATE
    if reading.groups is None:
        return sources[part.message]
    return " + ".join(sources[number] for number in reading.groups[part.message])
