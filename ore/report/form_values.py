"""One value of a field of a form: short, whole and known, whatever a run says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ore.artifact.sources import is_of_session
from ore.files.neutral import as_utf8, one_line
from ore.files.strictjson import part
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import cut_off_by

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


def sums_of(artifact: ExecutionArtifact, sources: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return what is summed up of a run: its figures, and whether it is this or that.

    Args:
        artifact: The run.
        sources: Those of its messages, with their hashes.
    """
    provenance, metadata = artifact.provenance or {}, artifact.output.metadata
    verdict = part(provenance, "expectation").get("holds")
    context = part(metadata, "context")
    options = part(provenance, "options")
    return {
        **_figures(metadata),
        "rows": isinstance(provenance.get("row"), dict),
        "in_session": any(is_of_session(source) for source, _ in sources),
        "made_from": isinstance(provenance.get("parent"), dict),
        "cut": cut_off_by(metadata) is not None,
        "cut not known": metadata.get("done_reason") in (None, "", "unknown"),
        "truncated": context.get("status") == "truncated",
        "truncated not known": context.get("status") in (None, "unknown"),
        "again not known": not provenance.get("messages_sha256"),
        "expected": isinstance(verdict, bool),
        "as_expected": verdict is True,
        "shaped": "format" in options or "choices" in options,
    }


def _figures(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that are summed up, and of each whether it is known.

    A server that counts no token of a prompt or an answer counts nothing.
    """
    found: dict[str, float] = {}
    is_counted = bool(metadata.get("prompt_eval_count") or metadata.get("eval_count"))
    for name, key in _FIGURES.items():
        value: Any = metadata.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_known = is_number and 0 <= value < 1e18
        known = value if is_known and (value or key == "eval_count" and is_counted) else None
        found |= {name: known or 0, f"{name} known": known is not None}
    return found
