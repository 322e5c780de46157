"""One prompt asked of every row of a table by a program: one turn and one artifact a row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.joining import JoiningReasoner
from ore.core import ORE, Sent
from ore.errors import UsageError
from ore.glass.limits import warnings_of
from ore.glass.origin import around, backend_of, model_of, settings_of
from ore.glass.provenance import MadeWith, Sourced, kept_prompt, known_of
from ore.glass.recording import sources_of
from ore.rows.kept import RowFolder
from ore.rows.looked_at import look_at, refuse_places
from ore.rows.placeholders import parse_template
from ore.rows.row_checks import CheckedTable
from ore.rows.row_run import RowRun
from ore.rows.row_turns import Asking, Question, told_once
from ore.rows.tables import Table


def over_rows(
    engine: ORE,
    prompt: str,
    table: Table,
    *,
    folder: Path | str | None = None,
    values: Mapping[str, str] | None = None,
    expected: Table | None = None,
    key: str | None = None,
    jobs: int | None = None,
    most_failures: int | None = None,
    least: float | None = None,
    persona: str | None = None,
    full: bool = False,
) -> RowRun:
    """Return the run that asks ``prompt`` of every row of a table, as ``--rows`` does; none is asked yet.

    Every row is looked at first, so that what can't be asked is found before the first is.

    Args:
        engine: What answers; several threads ask its reasoner at once.
        prompt: The prompt, with ``{{COLUMN}}`` in the place of each value.
        table: The table; it is to stay open until the run is over.
        folder: Where each row has its artifact; what is there and holds is not asked again. None keeps
            none.
        values: What has a place in the prompt and is no column.
        expected: A table with a column ``expected``, row for row; the same file is opened once more.
        key: A column that tells one row from another, in both tables.
        jobs: How many turns are taken at once; None is what the reasoner or its backend takes.
        most_failures: After how many rows that failed no more is asked; None is never.
        least: The least probability of a word that is chosen, or None.
        persona: The name of the persona that the system prompt is, if it is one.
        full: Whether artifacts keep the messages, too.

    Raises:
        UsageError: A row can't be asked, or the prompt has no place for one.
        ArtifactError: Nothing can be written to ``folder``.
        FileAccessError: A table can't be read.
    """
    template = parse_template(prompt)
    if not set(template.names) - set(values or {}):
        raise UsageError(
            "The prompt has no place for a row: write {{column}} where its value goes, with the name "
            "of the column."
        )
    if expected is not None:
        table = CheckedTable(table, expected, key)
    question = Question(template, before=_before(engine, persona), values=values or {})
    kept = None if folder is None else RowFolder(os.fspath(folder))
    looked = look_at(table, question, key=key)
    if kept is not None:
        kept.check()
    refuse_places(engine.system_prompt, table)
    asking = _asking(engine, question, kept, jobs, persona, full)
    return RowRun(table, asking, looked.rows, folder=kept, most_failures=most_failures, least=least)


def _before(engine: ORE, persona: str | None) -> list[Sourced]:
    """Return the messages before the prompt, with their sources."""
    text = engine.system_prompt
    sources = sources_of(Sent((), text), persona)[:-1]
    return [Sourced("system", text, source) for source in sources]


def _asking(
    engine: ORE,
    question: Question,
    folder: RowFolder | None,
    jobs: int | None,
    persona: str | None,
    full: bool,
) -> Asking:
    *wrapped, inner = around(engine.reasoner)
    backend, model_id, settings = backend_of(inner), model_of(inner), settings_of(inner)
    ask = partial(backend.in_force, model_id, settings)
    if isinstance(inner, EmbeddedReasoner):
        ask = partial(inner.in_force)
    if any(isinstance(each, JoiningReasoner) for each in wrapped):
        question = replace(question, more={"join_messages": "always"})
    made = MadeWith(
        backend,
        settings,
        model_id,
        persona=persona,
        system_prompt=kept_prompt(engine.system_prompt),
        is_full=full,
        known=known_of(backend, settings, model_id),
    )
    return Asking(
        engine,
        made,
        question,
        jobs=jobs or settings.at_once or backend.at_once,
        folder=folder,
        told=told_once(ask, settings),
        judge=lambda response: [*warnings_of(response, settings)],
    )
