"""``--list-models``; it imports little, for it is asked often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ore.backends import Backend
from ore.backends.model_names import full_name
from ore.cli.options import Options
from ore.cli.terminal.console import Console


def list_models(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """List the installed models and what is known of them, the default marked."""
    backend = connect(options)
    try:
        models, default = backend.listed(whole=options.json, progress=console.progress)
    finally:
        console.end_progress()
    is_default = _is_default(default, backend)
    rows = [
        {"name": each.name, "default": is_default(each.name), **each._asdict()} for each in models
    ]
    for row in rows:
        row["problem"] = row["problem"] and console.said(row["problem"])
    if not rows:
        console.notice(backend.no_models())
    if options.json:
        console.json(rows)
    else:
        console.rows([_columns(row) for row in rows])
    for each in models:
        if each.problem is not None:
            console.notice(each.problem)


def _is_default(default: str | None, backend: Backend) -> Callable[[str], bool]:
    """Return what tells whether a name is the default's, which may be long: it is read once."""
    if default is None:
        return lambda name: False
    if backend.name != "ollama":
        return (default, f"{default}:latest").__contains__
    whole = full_name(default)
    return lambda name: full_name(name) == whole


def _columns(row: dict[str, Any]) -> tuple[str, ...]:
    able = row["capabilities"]
    state = "embeddings only" if "embedding" in (able or ()) else "answers no prompts"
    if able is None or "completion" in able:
        state = ""
    if row["problem"] is not None:
        state = "can't be run"
    return (
        row["name"],
        "default" if row["default"] else state,
        "" if row["size"] is None else f"{row['size'] / 1e9:.2f} GB",
        row["parameters"] or "",
        row["quantization"] or "",
        "" if row["window"] is None else f"{row['window']} tokens",
        ",".join(able or ()),
        *([] if row["where"] is None else [row["where"]]),
    )
