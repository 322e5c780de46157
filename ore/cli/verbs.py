"""What a flag does without a turn: lists, ``--pull``, and checking and comparing artifacts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ore.artifact import parse_artifact, read_artifact, read_bytes
from ore.artifact import verify as artifacts
from ore.artifact.compare import differences, known_to_one, not_known, unified
from ore.artifact.show import as_markdown, described
from ore.backends import Backend
from ore.cli.options import SESSION_VERBS, Options, with_default_system
from ore.cli.personas import load_persona, persona_names
from ore.cli.replay import replay
from ore.cli.runlog import with_last
from ore.cli.sessions import do_session_verb
from ore.cli.terminal.console import Console
from ore.cli.terminal.text import brief
from ore.core import AYA_PROMPT_PATH
from ore.errors import ArtifactError, CheckFailedError, PersonaError
from ore.files.neutral import one_line
from ore.skills import build_skill_registry, shown_folder
from ore.tools import TOOL_REGISTRY


def do_verb(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Do what the one verb of the command line asks for."""
    options = with_last(options, os.environ)
    if options.verb in SESSION_VERBS:
        do_session_verb(options, console)
    elif options.show is not None:
        show(options.show, console, options.json)
    elif options.verify:
        verify(options.verify, console, options.json)
    elif options.diff:
        diff(options.diff, console, options.json)
    elif options.replay:
        replay(options, console, connect)
    elif options.list_tools:
        list_tools(console, options.json)
    elif options.list_skills:
        list_skills(console, options.json)
    elif options.list_personas:
        list_personas(console, options)
    elif options.pull is not None:
        pull(console, connect(options), options.pull, options.json)
    else:
        list_models(console, connect(options), options.json)


def list_models(console: Console, backend: Backend, as_json: bool) -> None:
    """List the installed models and what is known of them, the default marked."""
    models = backend.described(whole=as_json)
    default = backend.default_model()
    usual = (default, f"{default}:latest")
    rows = [{"name": each.name, "default": each.name in usual, **asdict(each)} for each in models]
    if not rows:
        console.notice("No model is installed: fetch one with --pull NAME.")
    _list(console, as_json, rows, _model_columns)


def _model_columns(row: dict[str, Any]) -> tuple[str, ...]:
    able = row["capabilities"]
    is_for_prompts = able is None or "completion" in able
    return (
        row["name"],
        "default" if row["default"] else "" if is_for_prompts else "embeddings only",
        "" if row["size"] is None else f"{row['size'] / 1e9:.2f} GB",
        row["parameters"] or "",
        row["quantization"] or "",
        "" if row["window"] is None else f"{row['window']} tokens",
        ",".join(able or ()),
    )


def list_tools(console: Console, as_json: bool) -> None:
    """List the tools and the permissions that they need."""
    rows = [
        {
            "name": tool.name,
            "permissions": sorted(p.value for p in tool.required_permissions),
            "description": tool.description,
        }
        for _, tool in sorted(TOOL_REGISTRY.items())
    ]
    _list(
        console,
        as_json,
        rows,
        lambda row: (row["name"], ",".join(row["permissions"]) or "-", row["description"]),
    )


def list_skills(console: Console, as_json: bool) -> None:
    """List the skills; those that can't be loaded are named on stderr."""
    registry = build_skill_registry(report=console.notice)
    rows = [
        {"name": skill.name, "description": skill.description, "hints": list(skill.hints)}
        for _, skill in sorted(registry.items())
    ]
    if not rows:
        console.notice(f"There are no skills: put a folder with a SKILL.md into {shown_folder()}.")
    _list(console, as_json, rows, lambda row: (row["name"], row["description"]))


def list_personas(console: Console, options: Options) -> None:
    """List the personas, the default marked; those that can't be used are named on stderr."""
    usual = with_default_system(options, os.environ)
    default = None if usual.has_own_system else usual.persona or AYA_PROMPT_PATH.stem
    rows = []
    for name in persona_names():
        try:
            text = load_persona(name)
        except PersonaError as exc:
            console.notice(str(exc))
            continue
        rows.append({"name": name, "default": name == default, "text": text})
    _list(
        console,
        options.json,
        rows,
        lambda row: (row["name"], "default" if row["default"] else "", brief(row["text"])),
    )


def _list(
    console: Console,
    as_json: bool,
    rows: list[dict[str, Any]],
    columns: Callable[[dict[str, Any]], Sequence[str]],
) -> None:
    if as_json:
        console.json(rows)
    else:
        console.rows([columns(row) for row in rows])


def pull(console: Console, backend: Backend, name: str, as_json: bool) -> None:
    """Fetch a model with progress on stderr."""
    try:
        backend.pull(name, console.progress)
    finally:
        console.end_progress()
    console.notice(f"{name} is ready.")
    if as_json:
        console.json({"pulled": name})


def show(path: str, console: Console, as_json: bool) -> None:
    """Write the artifact at ``path`` as a page of Markdown, with whether it holds, or as data."""
    data = read_bytes(path, console.stdin)
    artifact = parse_artifact(data, "stdin" if path == "-" else path)
    run = described(artifacts.check(data, path), artifact)
    if as_json:
        console.json(run)
    else:
        console.document(as_markdown(run))


def verify(paths: Sequence[str], console: Console, as_json: bool) -> None:
    """Check the artifacts at ``paths`` and their chain, and write a line for each."""
    found = artifacts.verify(paths, console.stdin)
    if as_json:
        console.json([_document(each) for each in found])
    else:
        console.rows(
            [(each.path, each.state, "; ".join(each.problems or each.notes)) for each in found]
        )
    states = [each.state for each in found]
    totals = artifacts.totals(found)
    where = "Its line says why" if len(found) == 1 else "Their lines say why"
    if {artifacts.BROKEN, artifacts.UNSEALED} & set(states):
        raise CheckFailedError(f"{totals}. {where}.")
    if artifacts.NOT_READ in states:
        raise ArtifactError(f"{totals}. {where}.")
    console.notice(f"{totals}.")


def _document(checked: artifacts.Checked) -> dict[str, Any]:
    return {
        "path": checked.path,
        "holds": checked.state == artifacts.HOLDS,
        "execution_id": checked.artifact.execution_id if checked.artifact else None,
        "sha256": checked.sha256,
        "problems": checked.problems,
        "notes": checked.notes,
        "state": checked.state,
    }


def diff(paths: Sequence[str], console: Console, as_json: bool) -> None:
    """Compare the two artifacts at ``paths`` and write what differs, which is an error."""
    old, new = (read_artifact(path, console.stdin) for path in paths)
    found = differences(old, new)
    unknown = known_to_one(old, new) if found else not_known(old, new)
    if as_json:
        shown = [asdict(each) for each in found]
        same = False if found else None if unknown else True
        console.json({"same": same, "differences": shown, "not_known": unknown})
    elif found:
        console.document(unified(found, *paths))
    if unknown and not as_json:
        console.notice(f"Not compared, for it is not known of both: {', '.join(unknown)}.")
    if found:
        names = ", ".join(each.name for each in found)
        first, second = (one_line(path) for path in paths)
        raise CheckFailedError(f"{first} and {second} are not the same: they differ in {names}.")
    if unknown:
        console.notice("Nothing differs of what was compared.")
    else:
        console.notice("Nothing differs: input and answer are the same.")
