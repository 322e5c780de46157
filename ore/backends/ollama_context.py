"""What an Ollama server says of its models: which is loaded, and how large its context window is.

Reads answers of the server. Asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def find_model(running: Iterable[dict[str, Any]], model: str) -> dict[str, Any] | None:
    """Return what ``/api/ps`` reports of ``model``, or None if it is not loaded.

    Names are compared as the server does: any case, ``:latest`` implied.
    """
    wanted = _full_name(model)
    for entry in running:
        names = (entry.get("name"), entry.get("model"))
        if wanted in [_full_name(name) for name in names if isinstance(name, str)]:
            return entry
    return None


def window_of(running: Iterable[dict[str, Any]], model: str) -> int | None:
    """Return the context window of ``model``, in tokens, as ``/api/ps`` reports it, or None."""
    length = (find_model(running, model) or {}).get("context_length")
    return length if type(length) is int and length > 0 else None


def trained_window(shown: dict[str, Any]) -> int | None:
    """Return the largest context, in tokens, that a model knows, as ``/api/show`` reports it."""
    facts = shown.get("model_info")
    if not isinstance(facts, dict):
        return None
    length = facts.get(f"{facts.get('general.architecture')}.context_length")
    return length if type(length) is int and length > 0 else None


def _full_name(name: str) -> str:
    last = name.rpartition("/")[2]
    return name.lower() if ":" in last else f"{name.lower()}:latest"
