"""The turn that a run file says, or that a plan has planned, taken by a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ore.backends.choice import ON_THIS_MACHINE
from ore.backends.joining import JoiningReasoner
from ore.backends.model_options import as_pairs, parse_options, parse_think
from ore.backends.named import reasoner_with
from ore.backends.schema import read_schema
from ore.backends.settings import Settings
from ore.core import ORE
from ore.errors import UsageError
from ore.files import read_regular
from ore.files.neutral import brief, one_line
from ore.glass.choosing import read_choices
from ore.glass.personas import load_persona, read_system_prompt
from ore.glass.planned import MOST_BYTES, ParsedPlan, is_plan, parse_plan
from ore.glass.recording import record
from ore.reasoner import Reasoner
from ore.rows.given import Given, expected, fill, of_plan
from ore.rows.run_file import RunFile, parse_run_file
from ore.skills import build_skill_registry, find_skill, skill_text
from ore.tools.named_files import read_files
from ore.types import ExecutionArtifact, RoutingDecision, Session, ToolResult


@dataclass(frozen=True)
class _Turn:
    """A turn that a file says: which model is asked, and what it is given."""

    given: Given
    settings: Settings
    model: str | None
    backend: str | None
    system_prompt: str | None
    persona: str | None
    is_persona: bool | None
    tool_results: list[ToolResult]
    skill_context: list[str]
    session: Session | None = None
    session_name: str | None = None
    routing: RoutingDecision | None = None
    grants: tuple[str, ...] = ()
    joins: bool = False


def run_file(
    path: Path | str,
    values: Mapping[str, str] | None = None,
    *,
    reasoner: Reasoner | None = None,
    full: bool = False,
    notice: Callable[[str], None] = lambda told: None,
) -> ExecutionArtifact:
    """Take the turn that a run file says, or that a plan has planned, as ``--run`` does; return its artifact.

    The answer is its ``output.content``. Where something is expected of it, ``holds`` of
    ``provenance["expectation"]`` tells whether it is so.

    Args:
        path: The run file; or a plan, as ``Plan.to_dict()`` in JSON: its messages are sent as they are
            there, and no file, tool, skill or persona of it is read again.
        values: The text for each place in the prompt of a run file; ``stdin`` is one of them.
        reasoner: What answers, with its own options; it is not closed. None is the model that the file
            names, where the plan was made, with the options that the file has.
        full: Whether the artifact keeps the messages, too.
        notice: Told of what is left out of a folder or a skill.

    Raises:
        UsageError: It is no run file; a place has no value, or a value no place; or the model is where
            only a ``reasoner`` leads to.
        ArtifactError: It is no plan of this version, was changed, or its turn needs what it has not.
        OreError: What the turn raises.
    """
    name = os.fspath(path)
    data = read_regular(name, MOST_BYTES)
    if is_plan(data, name):
        if values:
            raise UsageError(
                f"`values=` can't be used with {one_line(name)}: a plan has its values already."
            )
        turn = _planned(parse_plan(data, name), name, full, has_reasoner=reasoner is not None)
    else:
        turn = _said(parse_run_file(data, name), values or {}, full, notice)
    with ExitStack() as stack:
        if reasoner is None:
            made = reasoner_with(turn.backend, turn.model, None, turn.settings)
            reasoner = stack.enter_context(closing(made))
        if turn.joins:
            reasoner = JoiningReasoner(reasoner)
        engine = ORE(turn.given.around(reasoner), turn.system_prompt)
        turn.given.check_system(engine.system_prompt)
        given = (turn.given.prompt, turn.session, turn.tool_results, turn.skill_context)
        response = engine.execute(*given)
        return record(
            engine,
            response,
            persona=turn.persona,
            is_persona=turn.is_persona,
            session=turn.session_name,
            prompt=turn.given.source,
            routing=turn.routing,
            grants=turn.grants,
            full=full,
            more={"run_file": turn.given.kept(is_full=full)},
        )


def _said(
    file: RunFile, values: Mapping[str, str], full: bool, notice: Callable[[str], None]
) -> _Turn:
    """Return the turn that a run file says, with what it names read."""
    if file.schema is not None and file.choose is not None:
        raise UsageError(f"{file.shown} has both schema and choose: leave one of them out.")
    file.check_values(values, stdin=False)
    given = fill(file, values, expected(file, chooses=file.choose is not None))
    skills = build_skill_registry(report=notice) if file.skill is not None else {}
    chosen = [find_skill(skills, file.skill)] if file.skill is not None else []
    settings = Settings(
        options=parse_options(file.options),
        think=parse_think(file.think),
        format=None if file.schema is None else read_schema(file.schema),
        choices=None if file.choose is None else read_choices(file.choose),
        rendered=full,
    )
    return _Turn(
        given,
        settings,
        file.model_for(os.environ.get("ORE_BACKEND")),
        None,
        _system_prompt(file),
        file.persona,
        None if file.system is None else False,
        read_files(file.files, notice),
        [skill_text(skill, notice) for skill in chosen],
    )


def _system_prompt(file: RunFile) -> str | None:
    if file.persona is not None:
        return load_persona(file.persona)
    if file.system is not None and file.system.startswith("@"):
        return read_system_prompt(file.system[1:])
    return file.system


def _planned(plan: ParsedPlan, path: str, full: bool, *, has_reasoner: bool) -> _Turn:
    """Return the turn of a plan, as it was planned."""
    turn = plan.turn
    chosen = os.environ.get("ORE_BACKEND") or None
    if not (has_reasoner or chosen or plan.backend in ON_THIS_MACHINE):
        raise UsageError(
            f"{one_line(path)} was planned for the model {brief(plan.model_id)} of the backend "
            f"{brief(plan.backend)}: say what answers with `reasoner=`."
        )
    asked = plan.asked()
    settings = Settings(
        options=parse_options(as_pairs(asked.own)),
        think=asked.think,
        format=asked.schema,
        choices=None if asked.choices is None else read_choices("\n".join(asked.choices)),
        joins=not plan.is_apart,
        rendered=full,
    )
    return _Turn(
        of_plan(plan, path),
        settings,
        plan.model,
        None if chosen else plan.backend,
        turn.system,
        plan.persona,
        not turn.is_own_system,
        turn.tool_results,
        turn.skill_context,
        Session(list(turn.session)) if turn.session else None,
        turn.session_source,
        turn.decision,
        plan.grants,
        bool(plan.joined),
    )
