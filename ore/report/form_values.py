"""One value of a field of a form: short, whole and known, whatever a run says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ore.files.neutral import as_utf8, one_line

MOST_VALUES = 200
"""How many different values of a field are kept; more are counted."""
LONGEST_TEXT, LONGEST_LINE = 20_000, 300
"""The most characters of a text, and of any other value, that a form shows."""

NOT_KNOWN = "not known"
_ACCESS = {
    "embedded": "on the machine itself, without a server (llama.cpp)",
    "ollama": "API of an Ollama server",
    "openai": "API of a server of the OpenAI protocol",
}

_FIGURES = {
    "prompt_tokens": "prompt_eval_count",
    "answer_tokens": "eval_count",
    "nanoseconds": "total_duration",
}


@dataclass(frozen=True)
class Value:
    """One value of a field.

    Attributes:
        words: Texts, side by side in a row.
        of_run: Whether they are of the artifact, so that nothing in them may be taken for Markdown.
    """

    words: tuple[str, ...]
    of_run: bool = True


def line_of(value: Any) -> str:
    """Return a value on one line, cut at ``LONGEST_LINE`` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(as_utf8(text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"))


def text_of(text: str) -> str:
    """Return a text, cut at ``LONGEST_TEXT`` characters."""
    if len(text) <= LONGEST_TEXT:
        return as_utf8(text)
    return as_utf8(f"{text[:LONGEST_TEXT]}\n[cut: it has {len(text):,} characters]")


def of_value(value: Any) -> Value:
    """Return a value, ``NOT_KNOWN`` for none."""
    if value is None or value == "":
        return Value((NOT_KNOWN,), of_run=False)
    return Value((line_of(value),))


def pair_value(name: Any, value: Any) -> Value:
    """Return a name and what it is set to, as one value."""
    return Value((f"{line_of(name)} = {line_of(value)}",))


def joined_value(*values: Any) -> Value:
    """Return what is known of several, side by side."""
    known = tuple(line_of(value) for value in values if value is not None)
    return Value(known) if known else of_value(None)


def access(backend: Any) -> Value:
    """Return how a backend's models are reached."""
    known = _ACCESS.get(backend) if isinstance(backend, str) else None
    return Value((known,), of_run=False) if known else of_value(backend)


def day(timestamp: float) -> str:
    """Return the day of a Unix time, in UTC."""
    try:
        return datetime.fromtimestamp(timestamp, timezone.utc).date().isoformat()
    except (OverflowError, OSError, ValueError):  # somebody's number, and no time of ours
        return NOT_KNOWN


def figures_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return what is summed up of a run, and of each whether it is known."""
    found: dict[str, float] = {}
    for name, key in _FIGURES.items():
        value = metadata.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        known = value if is_number and value is not None and 0 <= value < 1e18 else None
        found |= {name: known or 0, f"{name} known": known is not None}
    return found
