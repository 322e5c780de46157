"""Lists of what there is, ``--pull`` and ``--show-license``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ore.backends import Backend
from ore.cli.options import Options, with_default_system
from ore.cli.terminal.console import Console, apart
from ore.cli.terminal.text import preview
from ore.core import AYA_PROMPT_PATH
from ore.errors import BackendError, OreError, PersonaError, Terminated
from ore.files.neutral import one_line
from ore.glass.personas import load_persona, persona_names
from ore.skills import build_skill_registry, shown_folder
from ore.tools import all_tools


def list_tools(options: Options, console: Console, *_: object) -> None:
    """List the tools and the permissions that they need."""
    with apart():
        tools = all_tools(console.notice)
    rows = [
        {
            "name": tool.name,
            "permissions": sorted(p.value for p in tool.required_permissions),
            "description": tool.description,
        }
        for _, tool in sorted(tools.items())
    ]
    _list(
        console,
        options.json,
        rows,
        lambda row: (row["name"], ",".join(row["permissions"]) or "-", row["description"]),
    )


def list_skills(options: Options, console: Console, *_: object) -> None:
    """List the skills; those that can't be loaded are named on stderr."""
    left_out: list[str] = []

    def report(text: str) -> None:
        left_out.append(text)
        console.notice(text)

    registry = build_skill_registry(report=report)
    rows = [
        {"name": skill.name, "description": skill.description, "hints": list(skill.hints)}
        for _, skill in sorted(registry.items())
    ]
    if not rows and not left_out:
        console.notice(f"There are no skills: put a folder with a SKILL.md into {shown_folder()}.")
    _list(console, options.json, rows, lambda row: (row["name"], row["description"]))


def list_personas(options: Options, console: Console, *_: object) -> None:
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
        lambda row: (row["name"], "default" if row["default"] else "", preview(row["text"])),
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


def pull(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Fetch a model with progress on stderr."""
    backend, name = connect(options), str(options.pull)
    try:
        backend.pull(name, console.progress, insecure=options.insecure)
    except (KeyboardInterrupt, Terminated) as exc:
        console.give_up_stalled()
        console.end_progress()
        stopped = "Stopped: give the same command again to go on."
        if isinstance(exc, KeyboardInterrupt) and console.stderr_is_terminal:
            raise KeyboardInterrupt(stopped) from None  # it is said in place of ``Stopped.``
        console.notice(stopped)
        raise
    finally:
        console.end_progress()
    with suppress(OreError):  # the model is there, whatever becomes of this
        lines = "\n".join(backend.licenses(name)).splitlines()
        if first := next((line.strip() for line in lines if line.strip()), ""):
            same = " with this --backend and --host" * bool(options.backend or options.host)
            way = f"--show-license {name}{same}"
            console.notice(f"Licence: {one_line(preview(first))} (all of it: {way})")
    console.notice(f"{name} is ready.")
    if options.json:
        console.json({"pulled": name})


def show_license(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Write the licences that come with a model."""
    name = str(options.show_license)
    found = connect(options).licenses(name)
    if not found:
        raise BackendError(
            f"No licence of {name} is known here: look where it comes from to see what you may do "
            f"with it."
        )
    if options.json:
        console.json({"model": name, "licenses": found})
    else:
        console.document("\n\n".join(text.strip("\n") for text in found))
