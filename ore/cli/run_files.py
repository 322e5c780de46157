"""``--run FILE``: a turn that a file says, or a plan has planned; flags win over what is there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ore.backends import Backend
from ore.backends.choice import ON_THIS_MACHINE
from ore.backends.model_options import as_pairs
from ore.cli.context import parse_arguments
from ore.cli.options import Options
from ore.cli.prompt import read_all, stdin_of
from ore.cli.runs import open_run
from ore.cli.terminal.console import Console
from ore.cli.turn import answer_once
from ore.errors import UsageError
from ore.files import read_regular
from ore.files.neutral import brief, one_line
from ore.glass.planned import MOST_BYTES, ParsedPlan, is_plan, parse_plan
from ore.rows.given import Given, expected, fill, of_plan
from ore.rows.judge import require
from ore.rows.run_file import STDIN, RunFile, parse_run_file

THINK: dict[bool | str, str] = {True: "on", False: "off"}
SHAPED = ("system", "no_system", "persona", "file", "tool", "route", "skill", "image", "after")
"""The fields that change the messages of a turn, which a plan has already."""


def run_file(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Take the turn that the file at ``options.run_file`` says.

    Raises:
        CheckFailedError: It was answered, shown and kept, and the answer is not what was expected.
        OreError: As for any turn.
    """
    path = str(options.run_file)
    data = read_regular(path, MOST_BYTES)
    if is_plan(data, path):
        options, given = _planned(options, parse_plan(data, path), path)
    else:
        file = parse_run_file(data, path)
        merged = with_file(options, file)
        judged_by = expected(file, chooses=merged.choose is not None)
        given = fill(file, _values(options, file, console), judged_by)
        given = replace(given, says_system=merged.system_flag != options.system_flag)
        has_stdin = STDIN in given.values
        options = merged.replace(prompt=given.prompt, no_stdin=merged.no_stdin or has_stdin)
    with open_run(options, console, connect, given) as run:
        assert run.first is not None  # there is a prompt, and no REPL
        response = answer_once(run, run.first)
    if response is not None:
        require(response)


def with_file(options: Options, file: RunFile) -> Options:
    """Return ``options`` with what ``file`` says and no flag does, and without ``--run``.

    Files add up; each of the model's options is taken from the file where no flag sets it.

    Raises:
        UsageError: The file and the flags don't go together.
    """
    changed: dict[str, Any] = {"run_file": None, "values": ()}
    if options.model is None:
        changed["model"] = file.model_for(options.backend or os.environ.get("ORE_BACKEND"))
    names = ["skill", "think"]
    names += ["schema", "choose"] if options.schema is None and options.choose is None else []
    for name in names:
        if getattr(options, name) is None:
            changed[name] = getattr(file, name)
    if options.system_flag is None:
        changed |= {"persona": file.persona, "no_system": file.system == ""}
        changed["system"] = file.system or None
    kept = [pair for pair in file.options if pair.partition("=")[0] not in options.options_set]
    changed |= {"option": (*kept, *options.option), "file": (*file.files, *options.file)}
    merged = options.replace(**changed, prompt="")
    _check_pairs(merged, file.shown)
    return merged


def _check_pairs(merged: Options, shown: str) -> None:
    try:
        merged.check_pairs()
    except UsageError as exc:
        raise UsageError(f"With what {shown} says, {exc}") from exc


def _values(options: Options, file: RunFile, console: Console) -> dict[str, str]:
    """Return the text for each place of the prompt; stdin is read where it has one.

    Raises:
        UsageError: A place has no value, or a value no place.
    """
    values = parse_arguments(options.values, "--set", file.template.names)
    if STDIN in values:
        raise UsageError(f"--set {STDIN}=… can't be used: {{{{{STDIN}}}}} is what is piped in.")
    file.check_values(values, stdin=True)
    if STDIN not in file.template.names:
        return values
    if options.no_stdin:
        raise UsageError(f"{file.shown} has a place for {{{{{STDIN}}}}}: leave --no-stdin out.")
    stdin = stdin_of(options, console.stdin)
    why = f", for {file.shown} has a place for {{{{{STDIN}}}}}: pipe a text in, or add <FILE"
    piped = "" if stdin is None else read_all(stdin, console.notice, why)
    if not piped.strip():
        file.check_values(values, stdin=False)
    return values | {STDIN: piped}


def _planned(options: Options, plan: ParsedPlan, path: str) -> tuple[Options, Given]:
    shown, turn = one_line(path), plan.turn
    if options.values:
        raise UsageError(f"--set can't be used with {shown}: a plan has its values already.")
    changes = [f"--{name.replace('_', '-')}" for name in SHAPED if getattr(options, name)]
    if options.keeps_session:
        changes.append("a session flag")
    if changes:
        raise UsageError(
            f"{changes[0]} can't change the plan {shown}, which has its messages: leave it out, or "
            f"make a new plan."
        )
    changed: dict[str, Any] = {"run_file": None, "prompt": turn.prompt, "no_stdin": True}
    changed |= {"persona": plan.persona, "grant": plan.grants or options.grant}
    changed |= {"system": turn.system} if turn.is_own_system else {"no_system": not turn.system}
    if options.schema is not None and "choice" in plan.expect:
        raise UsageError(
            f"The expectation in {shown} is a choice, but there is nothing to choose from: leave "
            f"--schema out."
        )
    if options.model is None:
        changed["model"] = plan.model
        chosen = options.backend or os.environ.get("ORE_BACKEND") or options.host
        if not chosen and plan.backend in ON_THIS_MACHINE:
            changed["backend"] = plan.backend
        if not chosen and plan.backend == "openai":
            raise UsageError(
                f"{shown} was planned for the model {brief(plan.model_id)} of an openai server: "
                f"say --backend openai, or name a model with --model."
            )
    if options.join_messages is None and (plan.joined or plan.is_apart):
        changed["join_messages"] = "never" if plan.is_apart else "always"
    asked = plan.asked()
    is_shaped = options.choose is not None or options.schema is not None
    if not is_shaped and asked.choices is not None:
        changed["choose"] = "\n".join(asked.choices)  # which parse_plan has looked at
    if options.think is None and asked.think is not None:
        changed["think"] = THINK.get(asked.think, asked.think)
    if not is_shaped and asked.schema is not None:
        changed["schema"] = json.dumps(asked.schema)
    shaped = {name: changed[name] for name in ("choose", "schema", "think") if name in changed}
    _check_pairs(options.replace(run_file=None, prompt="", **shaped), shown)
    left = {name: value for name, value in asked.own.items() if name not in options.options_set}
    changed["option"] = (*as_pairs(left), *options.option)
    return options.replace(**changed), of_plan(plan, path)
