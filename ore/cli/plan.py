"""What a turn would send, and what the model would read of it: shown instead of taking it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ore.artifact.canonical import text_digest
from ore.backends.answer import encoded
from ore.backends.joining import joined
from ore.backends.reading import Part, Reading
from ore.backends.window import estimate
from ore.cli.context import Context
from ore.cli.record import messages_of_turn, sent_messages
from ore.cli.runs import Run
from ore.cli.terminal.text import brief
from ore.glass.provenance import (
    Sourced,
    joined_sentence,
    joined_sources,
    messages_digest,
    options_of,
)
from ore.rows.planned import PLAN_VERSION

TEMPLATE = "template"
"""The source of what no message holds: the chat template put it there, or the tokenizer."""


def show_plan(run: Run, context: Context) -> None:
    """Show the plan of a turn: a table for a person on a terminal, else the plan as JSON.

    Raises:
        OreError: A turn could not be taken either, or nobody reads the plan.
    """
    messages = messages_of_turn(run, context, run.conversation.length)
    reading = _reading(run, context, messages)
    if run.console.stdout_is_terminal and not run.options.json:
        _show_table(run, messages, reading)
    else:
        run.console.json(plan_of(run, context, messages, reading))


def plan_of(
    run: Run, context: Context, messages: Sequence[Sourced], reading: Reading
) -> dict[str, Any]:
    """Return the plan of the turn that ``run`` would take.

    Tools have run and skills were read, as for the turn itself; the reasoner is not called.
    """
    expectation = run.asked.given.expectation if run.asked.given is not None else None
    shown, template = [asdict(message) for message in messages], run.asked.settings.chat_template
    if run.asked.images:
        shown[-1]["images"] = [hashlib.sha256(data).hexdigest() for data in run.asked.images]
    return {
        "plan_version": PLAN_VERSION,
        "backend": run.backend.name,
        "model_id": run.model_id,
        "options": options_of(run.asked.settings),
        "persona": run.options.persona,
        "grants": sorted(set(run.options.grant)),
        "system_from": run.asked.system_from,
        "chat_template": template and {"sha256": text_digest(template)},
        "messages": shown,
        "messages_sha256": messages_digest(messages),
        **({} if expectation is None else {"expect": dict(expectation.wanted)}),
        **({} if context.decision is None else {"routing": asdict(context.decision)}),
        **_read(messages, reading),
    }


def _read(messages: Sequence[Sourced], reading: Reading) -> dict[str, Any]:
    rendered, size = reading.rendered, reading.size
    return {
        "exact": reading.is_exact,
        "tokens": size.likely,
        "tokens_least": size.least,
        "tokens_most": size.most,
        "parts": [
            {
                "source": _source(part, messages, reading),
                "tokens": part.tokens,
                **({"text": part.text} if part.message is None else {}),
            }
            for part in reading.parts
        ],
        "window": reading.window,
        "fits": reading.fits,
        "left": reading.left,
        "answer_limit": reading.limit,
        "joined": joined_sources(reading.groups, messages),
        "rendered": rendered,
        "rendered_sha256": rendered and hashlib.sha256(rendered.encode()).hexdigest(),
        "not_rendered": reading.why,
        "notes": list(reading.notes),
        **reading.about,
    }


def _reading(run: Run, context: Context, messages: Sequence[Sourced]) -> Reading:
    """Return what the backend knows, else the estimate that can be made of any text."""
    sent, groups = sent_messages(run, context, run.conversation.length), None
    encoded(sent)  # refuses what can't be sent
    if run.options.join_messages == "always":
        sent, groups = joined(sent)
    settings = run.asked.settings
    known = run.backend.reading(run.model_id, sent, settings)
    if known is not None:
        return known if groups is None else replace(known, groups=groups)
    facts = run.backend.prompt_facts(run.model_id, sent, settings)
    if facts.get("groups") is not None:
        sent, groups = joined(sent)
    texts = encoded(sent)
    parts = [
        Part(number, message.content, estimate([text]).likely)
        for number, (message, text) in enumerate(zip(sent, texts, strict=True))
    ]
    limit = settings.options.get("num_predict") or 0
    return Reading(
        estimate(texts, len(run.asked.images)),
        tuple(parts),
        window=facts.get("window"),
        limit=limit if limit > 0 else None,
        groups=groups,
        why=facts["why"],
        notes=facts.get("notes", ()),
        about={name: facts[name] for name in ("template", "parameters") if facts.get(name)},
    )


def _source(part: Part, messages: Sequence[Sourced], reading: Reading) -> str:
    if part.message is None:
        return TEMPLATE
    if reading.groups is None:
        return messages[part.message].source
    return " + ".join(messages[number].source for number in reading.groups[part.message])


def _show_table(run: Run, messages: Sequence[Sourced], reading: Reading) -> None:
    about = "" if reading.is_exact else "about "
    rows = [("source", "tokens", "begins")]
    added = [part for part in reading.parts if part.message is None]
    for part in reading.parts:
        if part.message is not None:
            source = _source(part, messages, reading)
            rows.append((source, _shown(part.tokens, about), brief(part.text)))
    if added:
        counts = [part.tokens for part in added]
        total = None if None in counts else sum(count or 0 for count in counts)
        longest = max((part.text for part in added), key=len)
        rows.append((TEMPLATE, _shown(total, about), brief(longest)))
    rows.append(("in all", _shown(reading.size.likely, about), _against_window(reading)))
    run.console.rows(rows)
    as_one = joined_sources(reading.groups, messages)
    notes = [] if as_one is None else [joined_sentence(as_one)]
    for note in (*notes, *reading.notes, *([reading.why] if reading.why else [])):
        run.console.notice(note)


def _shown(tokens: int | None, about: str) -> str:
    return "" if tokens is None else f"{about}{tokens:,}"


def _against_window(reading: Reading) -> str:
    """Return the sum against the window, and what is left, in a few words."""
    between = ""
    if not reading.is_exact:
        between = f"between {reading.size.least:,} and {reading.size.most:,}; "
    if reading.window is None:
        return f"{between}the window is not known"
    of = f"{between}the window has {reading.window:,}"
    if reading.fits is False:
        return f"{of}: it does not fit"
    if reading.fits is None:
        return f"{of}: it may not fit"
    room = f"{of}: {reading.left:,} are left for the answer"
    if reading.limit is None:
        return room
    if reading.limit > (reading.left or 0):
        return f"{room}, less than the {reading.limit:,} that it may have"
    return f"{room}, which may have {reading.limit:,}"
