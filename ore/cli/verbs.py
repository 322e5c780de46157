"""The lists, and fetching a model: single-shot, and none of it takes a turn.

Knows nothing about the parser, or about what a backend is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ore.cli.terminal.console import Console

TYPE_CHECKING = False
if TYPE_CHECKING:  # most lists need no backend, and importing one takes longer than the list
    from typing import Any

    from ore.backends import Backend


def list_models(console: Console, backend: Backend, as_json: bool) -> None:
    """List the installed models, the default marked."""
    names = backend.models()
    default = backend.default_model()
    rows = [{"name": name, "default": name == default} for name in names]
    if not rows:
        console.notice("No model is installed: fetch one with --pull NAME.")
    _list(console, as_json, rows, lambda row: (row["name"], "default" if row["default"] else ""))


def list_tools(console: Console, as_json: bool) -> None:
    """List the tools and the permissions that they need."""
    from ore.tools import TOOL_REGISTRY

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
    """List the skills; what can't be loaded is said on stderr."""
    from ore.skills import build_skill_registry, shown_folder

    registry = build_skill_registry(report=console.notice)
    rows = [
        {"name": skill.name, "description": skill.description, "hints": list(skill.hints)}
        for _, skill in sorted(registry.items())
    ]
    if not rows:
        console.notice(f"There are no skills: put a folder with a SKILL.md into {shown_folder()}.")
    _list(console, as_json, rows, lambda row: (row["name"], row["description"]))


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
    """Fetch a model with progress on stderr.

    Raises:
        BackendError: It could not be fetched; nothing of it is left behind.
    """
    try:
        backend.pull(name, console.progress)
    finally:
        console.end_progress()
    console.notice(f"{name} is ready.")
    if as_json:
        console.json({"pulled": name})
