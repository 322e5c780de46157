"""Whether artifacts are as they were when they were written, and belong together.

Shows accidents, not forgery: whoever changes an artifact on purpose can compute its hashes anew.
What has no hashes shows nothing, and is never said to hold.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ore.artifact import MAX_ARTIFACT_BYTES, read_bytes
from ore.artifact.canonical import digest
from ore.artifact.seal import breaks, is_sealed
from ore.errors import ArtifactError
from ore.types import ExecutionArtifact, strictjson

HOLDS, BROKEN, UNSEALED, NOT_READ = "holds", "broken", "nothing to check", "not read"
STATES = (HOLDS, BROKEN, UNSEALED, NOT_READ)
"""What may be found of an artifact; one without a seal has nothing that could be checked."""


@dataclass
class Checked:
    """What was found of one artifact.

    Attributes:
        path: What was named on the command line.
        artifact: None where nothing could be read, or what was read is not an artifact.
        sha256: Of the bytes that were read; None where nothing could be read.
        is_sealed: Whether it has hashes of itself.
        problems: What does not hold, or why nothing could be read; empty where all holds.
        notes: What could not be checked, and which artifact is its parent.
    """

    path: str
    artifact: ExecutionArtifact | None = None
    sha256: str | None = None
    is_sealed: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """One of ``STATES``."""
        if self.sha256 is None:
            return NOT_READ
        if self.problems:
            return BROKEN
        return HOLDS if self.is_sealed else UNSEALED


Pair = tuple[Checked, ExecutionArtifact]


def verify(paths: Sequence[str], stdin: io.BufferedIOBase | None = None) -> list[Checked]:
    """Check each artifact and their chain; return what was found, in the order of ``paths``.

    A path ``-`` is stdin. Never raises: what can't be read is a finding.
    """
    found = [_look_at(path, stdin) for path in paths]
    artifacts = [(each, each.artifact) for each in found if each.artifact is not None]
    _check_ids([pair for pair in artifacts if not pair[0].problems])
    for child, artifact in artifacts:
        _check_parent(child, artifact, artifacts)
    return found


def _check_ids(whole: Sequence[Pair]) -> None:
    """Find different runs with the same id; a copy of a run, however it is laid out, is allowed."""
    by_id: dict[str, Pair] = {}
    for checked, artifact in whole:
        first, original = by_id.setdefault(artifact.execution_id, (checked, artifact))
        if original != artifact:
            checked.problems.append(f"it has the execution_id of {first.path}, but other content")


def _look_at(path: str, stdin: io.BufferedIOBase | None) -> Checked:
    try:
        data = read_bytes(path, stdin)
    except ArtifactError as exc:
        return Checked(path, problems=[str(exc)])
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        document = strictjson.parse(data, limit=MAX_ARTIFACT_BYTES)
        artifact = ExecutionArtifact.from_dict(document)
    except ValueError as exc:
        problem = f"it can't be used as an artifact: {str(exc).rstrip('.')}"
        return Checked(path, sha256=sha256, problems=[problem])
    checked = Checked(path, artifact, sha256, is_sealed(document))
    if checked.is_sealed:
        checked.problems += breaks(document)
    else:
        checked.notes.append("it has no seal: nothing shows whether it was changed")
    checked.problems += _message_problems(artifact.input.prompt, artifact.provenance or {})
    return checked


def _message_problems(prompt: str, provenance: dict[str, Any]) -> Iterable[str]:
    messages = provenance.get("messages")
    if messages is None:
        return
    try:
        sent = [{"role": each["role"], "content": each["content"]} for each in messages]
        found = digest(sent)
    except (KeyError, TypeError, ValueError):
        yield "provenance.messages is not a list of messages"
        return
    if found != provenance.get("messages_sha256"):
        yield "provenance.messages does not fit provenance.messages_sha256"
    if not sent or sent[-1]["content"] != prompt:
        yield "input.prompt is not the last of provenance.messages"


def _check_parent(child: Checked, artifact: ExecutionArtifact, found: Sequence[Pair]) -> None:
    parent = (artifact.provenance or {}).get("parent")
    if parent is None:
        return
    if not isinstance(parent, dict):
        child.problems.append("provenance.parent is not an object")
        return
    name, sha256 = parent.get("execution_id"), parent.get("sha256")
    by_id = [pair for pair in found if pair[1].execution_id == name]
    same = next((pair for pair in by_id if pair[0].sha256 == sha256), None)
    if same is not None:
        path, original = same[0].path, same[1]
        if original.input.prompt == artifact.input.prompt:
            child.notes.append(f"child of {path}")
        else:
            child.problems.append(f"its prompt is not that of its parent {path}")
    elif by_id:
        path = by_id[0][0].path
        child.problems.append(f"its parent {path} is not the artifact it was made from")
    else:
        child.notes.append(f"its parent {name} is not among these")
