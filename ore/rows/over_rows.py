"""One prompt asked of every row of a table by a program: one turn and one artifact a row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path

from ore.artifact.signing import Signer
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.joining import JoiningReasoner
from ore.core import ORE, to_send
from ore.errors import UsageError
from ore.glass.origin import around, backend_of, model_of, settings_of
from ore.glass.provenance import MadeWith, kept_prompt, known_for_all
from ore.glass.turn_facts import facts_of
from ore.rows.kept import RowFolder
from ore.rows.looked_at import look_at, refuse_places, require_place
from ore.rows.placeholders import parse_template
from ore.rows.row_checks import CheckedTable
from ore.rows.row_run import RowRun
from ore.rows.row_turns import Asking, Question, told_once
from ore.rows.tables import Table
from ore.types import ToolResult


def over_rows(
    engine: ORE,
    prompt: str,
    table: Table,
    *,
    tool_results: list[ToolResult] | None = None,
    skill_context: list[str] | None = None,
    folder: Path | str | None = None,
    values: Mapping[str, str] | None = None,
    expected: Table | None = None,
    key: str | None = None,
    jobs: int | None = None,
    most_failures: int | None = None,
    least: float | None = None,
    persona: str | None = None,
    full: bool = False,
    sign: Path | str | None = None,
) -> RowRun:
    """Return the run that asks ``prompt`` of every row of a table, as ``--rows`` does; none is asked yet.

    Every row is looked at first, so that what can't be asked is found before the first is.

    Args:
        engine: What answers; several threads ask its reasoner at once.
        prompt: The prompt, with ``{{COLUMN}}`` in the place of each value.
        table: The table; it is to stay open until the run is over.
        tool_results: What tools returned, for each of the turns.
        skill_context: Texts of the role ``system``, for each of the turns.
        folder: Where each row has its artifact; what is there and holds is not asked again. None keeps
            none.
        values: What has a place in the prompt and is no column.
        expected: A table with a column ``expected``, row for row; the same file is opened once more.
        key: A column that tells one row from another, in both tables.
        jobs: How many turns are taken at once, from 1 on; None is what the reasoner or its backend takes.
        most_failures: After how many rows that failed no more is asked; None is never.
        least: The least probability of a word that is chosen, or None.
        persona: The name of the persona that the system prompt is, if it is one.
        full: Whether artifacts keep the messages, too.
        sign: The path of an SSH key that signs each artifact as it is written; what was there stays as
            it was. It needs ``folder``. None signs none.

    Raises:
        UsageError: A row can't be asked, the prompt has no place for one, or nothing is to be signed; or
            an argument has a value that it can't have.
        ArtifactError: Nothing can be written to ``folder``, or the key does not sign.
        FileAccessError: A table can't be read.
    """
    _check_given(jobs, most_failures, least, signs_nothing=sign is not None and folder is None)
    if expected is not None:
        table = CheckedTable(table, expected, key)
    question = _question(engine, prompt, values or {}, tool_results, skill_context, persona)
    kept = None if folder is None else RowFolder(os.fspath(folder))
    looked = look_at(table, question, key=key)
    if kept is not None:
        kept.check()
    refuse_places(engine.system_prompt, table, question)
    signer = None if sign is None else _signer(sign)
    asking = _asking(engine, question, kept, jobs, persona, full, signer)
    return RowRun(table, asking, looked.rows, folder=kept, most_failures=most_failures, least=least)


def _check_given(
    jobs: int | None, most_failures: int | None, least: float | None, *, signs_nothing: bool
) -> None:
    """Refuse what no count and no probability can be (every word is as likely as NaN), and a lone key."""
    if signs_nothing:
        raise UsageError("There is nothing to sign: say where artifacts go with `folder=`.")
    if jobs is not None and not (isinstance(jobs, int) and jobs > 0):
        raise UsageError(f"The number of jobs is {jobs!r}: give a whole number, 1 or more.")
    if least is not None and not (isinstance(least, Real) and 0 <= least <= 1):
        raise UsageError(f"`least=` must be a number from 0 to 1, not {least!r}.")
    if most_failures is not None and not (isinstance(most_failures, int) and most_failures > 0):
        raise UsageError(f"`most_failures=` must be a whole number above 0, not {most_failures!r}.")


def _question(
    engine: ORE,
    prompt: str,
    values: Mapping[str, str],
    tool_results: list[ToolResult] | None,
    skill_context: list[str] | None,
    persona: str | None,
) -> Question:
    """Return what all rows are asked alike, with the messages before the prompt and their sources."""
    template = parse_template(prompt)
    require_place(template, values)
    sent = to_send(engine.system_prompt, prompt, None, tool_results, skill_context)
    turn = facts_of(sent, {}, is_persona=True if persona is not None else None)
    return Question(
        template,
        before=turn.messages[:-1],
        tool_results=tool_results,
        skill_context=skill_context,
        skills=turn.skills,
        more=turn.more,
        values=values,
    )


def _signer(key: Path | str) -> Signer:
    signer = Signer(os.fspath(key))
    signer.check()
    return signer


def _asking(
    engine: ORE,
    question: Question,
    folder: RowFolder | None,
    jobs: int | None,
    persona: str | None,
    full: bool,
    signer: Signer | None,
) -> Asking:
    *wrapped, inner = around(engine.reasoner)
    backend, model_id, settings = backend_of(inner), model_of(inner), settings_of(inner)
    # A file that has become another since it was loaded is loaded anew for the first row.
    looked_up = EmbeddedBackend() if isinstance(inner, EmbeddedReasoner) else backend
    joins = None if settings.joins else "never"
    joins = "always" if any(isinstance(each, JoiningReasoner) for each in wrapped) else joins
    if joins is not None:
        question = replace(question, more={**question.more, "join_messages": joins})
    made = MadeWith(
        backend,
        settings,
        model_id,
        persona=persona,
        system_prompt=kept_prompt(engine.system_prompt),
        is_full=full,
        known=known_for_all(looked_up, settings, model_id),
    )
    return Asking(
        engine,
        made,
        question,
        jobs=jobs or settings.at_once or backend.at_once,
        folder=folder,
        told=told_once(partial(backend.in_force, model_id, settings), settings),
        signer=signer,
    )
