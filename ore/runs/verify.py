"""``--verify``: whether artifacts are what they were when they were written, and belong together.

Shows accident, not forgery: who changes an artifact on purpose can compute its hashes anew. Knows
nothing about models or flags.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ore import strictjson
from ore.artifact import MAX_BYTES, parse_artifact, read_bytes
from ore.canonical import digest
from ore.console import Console
from ore.errors import ArtifactError, CheckFailedError
from ore.seal import SELF, breaks
from ore.types import ExecutionArtifact


@dataclass
class Checked:
    """One artifact that was looked at.

    Attributes:
        path: What was named on the command line.
        artifact: None where it can't be read.
        sha256: Of the bytes that were read.
        problems: What does not hold; empty where all does.
        notes: What could not be checked, and whose child it is.
    """

    path: str
    artifact: ExecutionArtifact | None = None
    sha256: str | None = None
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_verify(paths: Sequence[str], console: Console, as_json: bool) -> None:
    """Check the artifacts at ``paths`` and their chain, and write a line for each.

    Raises:
        CheckFailedError: Something does not hold, or can't be read.
    """
    found = verify(paths, console.stdin)
    if as_json:
        console.json([_document(each) for each in found])
    else:
        console.rows([_row(each) for each in found])
    failed = sum(bool(each.problems) for each in found)
    if failed:
        raise CheckFailedError(
            f"{failed} of {len(found)} artifacts are broken: their lines say what does not hold."
        )


def verify(paths: Sequence[str], stdin: BinaryIO | None = None) -> list[Checked]:
    """Return what is found of each artifact, in the order of ``paths``; ``-`` is stdin."""
    found = [_look_at(path, stdin) for path in paths]
    readable = [each for each in found if each.artifact is not None]
    _check_ids([each for each in readable if not each.problems])
    for each in readable:
        _check_parent(each, readable)
    return found


def _check_ids(whole: Sequence[Checked]) -> None:
    """Find two runs of one id; a copy of a run, however it is laid out, is none."""
    by_id: dict[str, Checked] = {}
    for each in whole:
        first = by_id.setdefault(each.artifact.execution_id, each)
        if first.artifact != each.artifact:
            each.problems.append(f"it has the execution_id of {first.path}, and says other things")


def _look_at(path: str, stdin: BinaryIO | None) -> Checked:
    try:
        data = read_bytes(path, stdin)
        artifact = parse_artifact(data, "stdin" if path == "-" else path)
    except ArtifactError as exc:
        return Checked(path, problems=[str(exc)])
    document = strictjson.parse(data, limit=MAX_BYTES)
    checked = Checked(path, artifact, hashlib.sha256(data).hexdigest())
    if document.get("provenance") is None:
        checked.notes.append("it has no provenance: its fields were checked, and nothing else")
        return checked
    checked.problems += [*breaks(document), *_message_problems(artifact)]
    if document["provenance"].get(SELF, "") is None:
        checked.notes.append(f"its {SELF} is null: a value in it has no canonical JSON")
    return checked


def _message_problems(artifact: ExecutionArtifact) -> Iterable[str]:
    messages = artifact.provenance.get("messages")
    if messages is None:
        return
    try:
        sent = [{"role": each["role"], "content": each["content"]} for each in messages]
        found = digest(sent)
    except (KeyError, TypeError, ValueError):
        yield "provenance.messages is no list of messages"
        return
    if found != artifact.provenance.get("messages_sha256"):
        yield "provenance.messages does not fit provenance.messages_sha256"
    if not sent or sent[-1]["content"] != artifact.input.prompt:
        yield "input.prompt is not the last of provenance.messages"


def _check_parent(child: Checked, all_of_them: Sequence[Checked]) -> None:
    parent = (child.artifact.provenance or {}).get("parent")
    if parent is None:
        return
    if not isinstance(parent, dict):
        child.problems.append("provenance.parent is no object")
        return
    name, sha256 = parent.get("execution_id"), parent.get("sha256")
    by_id = [each for each in all_of_them if each.artifact.execution_id == name]
    same = next((each for each in by_id if each.sha256 == sha256), None)
    if same is None and by_id:
        child.problems.append(f"its parent {by_id[0].path} is not the one that it was made from")
    elif same is None:
        child.notes.append(f"its parent {name} is not among these")
    elif same.artifact.input.prompt != child.artifact.input.prompt:
        child.problems.append(f"its prompt is not that of its parent {same.path}")
    else:
        child.notes.append(f"child of {same.path}")


def _row(checked: Checked) -> tuple[str, str, str]:
    return (
        checked.path,
        "broken" if checked.problems else "holds",
        "; ".join(checked.problems or checked.notes),
    )


def _document(checked: Checked) -> dict[str, Any]:
    return {
        "path": checked.path,
        "holds": not checked.problems,
        "execution_id": checked.artifact.execution_id if checked.artifact else None,
        "sha256": checked.sha256,
        "problems": checked.problems,
        "notes": checked.notes,
    }
