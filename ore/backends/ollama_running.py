"""Which of the models that an Ollama server lists is the one that is meant, and its window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def find_model(running: Iterable[dict[str, Any]], model: str) -> dict[str, Any] | None:
    """Return the entry of ``model``; names are compared as the server does, ``:latest`` implied."""
    wanted = _full_name(model)
    for entry in running:
        names = (entry.get("name"), entry.get("model"))
        if wanted in [_full_name(name) for name in names if isinstance(name, str)]:
            return entry
    return None


def window_of(entry: dict[str, Any] | None) -> int | None:
    """Return the context window, in tokens, of a model that ``/api/ps`` lists, or None."""
    length = (entry or {}).get("context_length")
    return length if type(length) is int and length > 0 else None


def _full_name(name: str) -> str:
    last = name.rpartition("/")[2]
    return name.lower() if ":" in last else f"{name.lower()}:latest"
