"""What went into two runs and what came out of them, compared value by value.

Ids, times and counts differ from run to run and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from ore.types import ExecutionArtifact

MOST_LINES = 5000
"""The longest text that is compared line by line: the comparison's time grows with its square."""

ANSWER = "answer"

_INPUT = ("prompt", "model_id")
_PROVENANCE = ("backend", "server_version", "model_digest", "options", "persona", "grants")
_NAMED = ("skills", "tools")
NAMES = (*_INPUT, *_PROVENANCE, *_NAMED, "routing", "messages", ANSWER)
"""What is compared, in the order in which it is told; all but the last went in."""


@dataclass(frozen=True)
class Difference:
    """One value that is not the same in two artifacts, as texts."""

    name: str
    old: str
    new: str


def differences(old: ExecutionArtifact, new: ExecutionArtifact) -> list[Difference]:
    """Return what is known in both artifacts and not the same, in the order of ``NAMES``."""
    found = []
    for name in NAMES:
        first, second = _both(name, old, new)
        if first is not None and second is not None and first != second:
            found.append(Difference(name, _text(first), _text(second)))
    return found


def not_known(old: ExecutionArtifact, new: ExecutionArtifact) -> list[str]:
    """Return the names of what only one of two artifacts knows, so that it can't be compared."""
    pairs = ((name, _both(name, old, new)) for name in NAMES)
    return [name for name, (first, second) in pairs if (first is None) != (second is None)]


def unified(difference: Difference, old: str, new: str) -> str:
    """Return a unified diff of a difference; ``old`` and ``new`` name the artifacts."""
    first, second = difference.old.split("\n"), difference.new.split("\n")
    head = f"--- {old} {difference.name}\n+++ {new} {difference.name}\n"
    if max(len(first), len(second)) > MOST_LINES:
        return f"{head}(too long to compare line by line)\n"
    lines = list(unified_diff(first, second, lineterm=""))[2:]
    return head + "".join(f"{line}\n" for line in lines)


def _both(name: str, old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    if name == "messages":
        return _messages(old, new)
    if name == "persona" and old.provenance is not None and new.provenance is not None:
        return old.provenance.get(name) or "", new.provenance.get(name) or ""
    return _value(name, old), _value(name, new)


def _value(name: str, artifact: ExecutionArtifact) -> Any:
    """Return a value, None where it is not known."""
    if name == ANSWER:
        return artifact.output.content
    if name == "routing":
        routing = artifact.input.routing or {}
        return {"target": routing.get("target"), "target_type": routing.get("target_type")}
    if name in _NAMED:
        return getattr(artifact.input, name) or []
    if name in _INPUT:
        return getattr(artifact.input, name)
    return (artifact.provenance or {}).get(name)


def _messages(old: ExecutionArtifact, new: ExecutionArtifact) -> tuple[Any, Any]:
    """Return the messages of both: whole where both have them, else by their hashes."""
    both = (old.provenance or {}, new.provenance or {})
    if all(_is_list(each.get("messages"), "role", "content") for each in both):
        whole = [[(m["role"], m["content"]) for m in each["messages"]] for each in both]
        first, second = ("\n\n".join(f"[{role}]\n{text}" for role, text in each) for each in whole)
        return first, second
    old_hash, new_hash = (each.get("messages_sha256") for each in both)
    differ = None not in (old_hash, new_hash) and old_hash != new_hash
    if differ and all(_is_list(each.get("sources"), "source", "sha256") for each in both):
        old_lines, new_lines = (_lines(each["sources"]) for each in both)
        if old_lines != new_lines:
            return old_lines, new_lines
    return old_hash, new_hash


def _is_list(value: Any, *keys: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and all(isinstance(each.get(key), str) for key in keys)
        for each in value
    )


def _lines(sources: Iterable[dict[str, str]]) -> str:
    return "\n".join(f"{each['source']} sha256:{each['sha256']}" for each in sources)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
