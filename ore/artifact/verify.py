"""Whether artifacts are as they were when they were written, and belong together.

Shows accidents, not forgery: whoever changes an artifact on purpose can compute its hashes anew.
What has no hashes shows nothing, and is never said to hold.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ore.artifact import parsed, read_bytes
from ore.artifact.canonical import text_digest
from ore.artifact.seal import SELF, breaks, is_sealed
from ore.artifact.sources import Parent, kept_system_prompt, link_problem, messages_digest
from ore.errors import ArtifactError
from ore.files.strictjson import part
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import check_parsed
from ore.types.execution import artifact_of_checked

if TYPE_CHECKING:  # where no signature is asked for, nothing of it is loaded
    from ore.artifact.signers import Signature, Signers

HOLDS, BROKEN, UNSEALED, NOT_READ = "holds", "broken", "nothing to check", "not read"
UNSIGNED = "not signed"
"""What may be found of an artifact; one without a seal has nothing that could be checked.

``UNSIGNED`` is found where signatures were asked for, and nobody is known to have signed it.
"""

_LONGEST_ID = 200
_HASHED = "sha256:"  # before the hash that stands for a longer text
_COUNTED = {
    HOLDS: ("holds", "hold"),
    BROKEN: ("is broken", "are broken"),
    UNSEALED: ("has nothing to check", "have nothing to check"),
    UNSIGNED: ("is not signed", "are not signed"),
    NOT_READ: ("can't be read", "can't be read"),
}


@dataclass(slots=True)
class Checked:
    """What was found of one artifact.

    Attributes:
        path: What was named on the command line, or found in a folder that was.
        artifact: None where nothing could be read, or what was read is not an artifact; and where
            ``execution_id`` and ``parent`` alone were kept of it.
        sha256: Of the bytes that were read; None where nothing could be read.
        is_sealed: Whether it has hashes of itself.
        problems: What does not hold, or why nothing could be read; empty where all holds.
        notes: What could not be checked, and which artifact is its parent.
        execution_id: The artifact's; the SHA-256 of one that is absurdly long.
        parent: What its provenance says of the artifact that it was made from, if anything: its
            ``execution_id`` and ``sha256``, and the ``relation`` to it.
        content: A hash of all that it says.
        signature: Who signed it; None where that was not asked for.
    """

    path: str
    artifact: ExecutionArtifact | None = None
    sha256: str | None = None
    is_sealed: bool = False
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    execution_id: str | None = None
    parent: dict[str, str] | None = None
    content: bytes = b""
    signature: Signature | None = None

    @property
    def state(self) -> str:
        """``HOLDS``, ``BROKEN``, ``UNSEALED``, ``UNSIGNED`` or ``NOT_READ``."""
        if self.sha256 is None:
            return NOT_READ
        if self.problems:
            return BROKEN
        if not self.is_sealed:
            return UNSEALED
        return UNSIGNED if self.signature is not None and self.signature.problem else HOLDS


def in_chain(found: list[Checked]) -> list[Checked]:
    """Add to what was ``found`` of artifacts by themselves what they show of each other; return it."""
    read = [each for each in found if each.execution_id is not None]
    _check_ids(each for each in read if not each.problems)
    children = [(each, each.parent) for each in read if each.parent is not None]
    by_id: dict[str, dict[str, Checked]] = {}  # and by their bytes' hash: there may be many copies
    for _, parent in children:
        by_id[parent.get("execution_id", "")] = {}
    for each in read if by_id else ():
        if each.execution_id in by_id:
            by_id[each.execution_id].setdefault(str(each.sha256), each)
    known: dict[str, Parent | None] = {}
    for child, parent in children:
        _check_parent(child, parent, by_id[parent.get("execution_id", "")], known)
    return found


def totals(states: Sequence[str]) -> str:
    """Return how many artifacts there are of each of the ``states``, without a full stop."""
    parts = []
    for state, (one, more) in _COUNTED.items():
        if number := states.count(state):
            parts.append(f"{number:,} {one if number == 1 else more}")
    return f"{len(states):,} artifact{'s' * (len(states) > 1)}: {', '.join(parts)}"


def _check_ids(whole: Iterable[Checked]) -> None:
    """Find different runs with the same id; a copy of a run, however it is laid out, is allowed."""
    by_id: dict[str | None, Checked] = {}
    for checked in whole:
        first = by_id.setdefault(checked.execution_id, checked)
        if first.content != checked.content:
            problem = f"it has the execution_id of {first.path}, but other content"
            checked.problems = [*checked.problems, problem]


def look_at(
    path: str,
    stdin: io.BufferedIOBase | None = None,
    signers: Signers | None = None,
) -> Checked:
    """Return what the file at ``path``, or ``stdin`` for ``-``, shows by itself, and who signed it.

    Args:
        signers: Those who may have signed it; None does not look for a signature.
    """
    try:
        data = read_bytes(path, stdin)
    except ArtifactError as exc:
        return unread(path, exc)
    return look_into(data, path, signers)


def look_into(data: bytes, path: str, signers: Signers | None) -> Checked:
    """Return what the ``data`` of the file at ``path`` shows, and which of ``signers`` signed it."""
    checked = check(data, path)
    if signers is not None:
        at = None if checked.artifact is None else checked.artifact.timestamp
        checked.signature = signers.look(path, data, at)
    return checked


def unread(path: str, why: ArtifactError) -> Checked:
    """Return what is found of the file at ``path``, which can't be read; ``why`` says the error."""
    return Checked(path, problems=[str(why)])


def held(path: str, sha256: str, execution_id: str, content: bytes) -> Checked:
    """Return what is found of an artifact that holds, where there is nothing else to say.

    ``path``, ``sha256``, ``execution_id`` and ``content`` are fields of ``Checked``.
    """
    return Checked(path, None, sha256, True, (), (), execution_id, None, content)


def check(data: bytes, path: str) -> Checked:
    """Return what the ``data`` of one artifact shows by itself; ``path`` is what it is called."""
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        document = parsed(data, shortens=True)
        check_parsed(document, len(data))
    except ValueError as exc:
        problem = f"it can't be used as an artifact: {str(exc).rstrip('.')}"
        return Checked(path, sha256=sha256, problems=[problem])
    artifact = artifact_of_checked(document)
    checked = Checked(path, artifact, sha256, is_sealed(document))
    provenance = artifact.provenance or {}
    checked.execution_id, checked.content = short(artifact.execution_id), _content(document)
    if isinstance(parent := provenance.get("parent"), dict):
        keys = ("execution_id", "sha256", "relation")
        checked.parent = {key: short(parent[key]) for key in keys if parent.get(key) is not None}
    unsealed = "it has no seal: nothing shows whether it was changed"
    checked.notes = [] if checked.is_sealed else [unsealed]
    checked.problems = [
        *(breaks(document) if checked.is_sealed else ()),
        *_message_problems(artifact.input.prompt, provenance),
        *_system_problems(artifact),
        *_text_problems(provenance),
        *_parent_problems(artifact.execution_id, provenance),
    ]
    return checked


def _message_problems(prompt: str, provenance: dict[str, Any]) -> Iterable[str]:
    messages = provenance.get("messages")
    if messages is None:
        return
    try:
        found = messages_digest(messages)
    except (KeyError, TypeError, ValueError):
        yield "provenance.messages is not a list of messages"
        return
    if found != provenance.get("messages_sha256"):
        yield "provenance.messages does not fit provenance.messages_sha256"
    if not messages or messages[-1]["content"] != prompt:
        yield "input.prompt is not the last of provenance.messages"


def _text_problems(provenance: dict[str, Any]) -> Iterable[str]:
    """Yield which of the texts of ``--artifact-full`` do not fit their hashes."""
    template = part(provenance, "chat_template")
    for name, text, sha256 in (
        ("rendered", provenance.get("rendered"), provenance.get("rendered_sha256")),
        ("chat_template.text", template.get("text"), template.get("sha256")),
    ):
        if text is not None and not (isinstance(text, str) and text_digest(text) == sha256):
            yield f"provenance.{name} does not fit its hash"


def _system_problems(artifact: ExecutionArtifact) -> Iterable[str]:
    try:
        kept_system_prompt(artifact)
    except ValueError as exc:
        yield str(exc)


def _parent_problems(execution_id: str, provenance: dict[str, Any]) -> Iterable[str]:
    parent = provenance.get("parent")
    if parent is not None and not isinstance(parent, dict):
        yield "provenance.parent is not an object"
    elif parent is not None and parent.get("execution_id") == execution_id:
        yield "it names itself as its parent"


def short(value: object) -> str:
    """Return ``value`` as a text; of one that is absurdly long its SHA-256, for thousands are kept.

    Two texts never become one: what looks like such a hash has its own.
    """
    text = value if isinstance(value, str) else f"{type(value).__name__} {json.dumps(value)}"
    is_hash = text.startswith(_HASHED) and len(text) == len(_HASHED) + 64
    return _HASHED + text_digest(text) if is_hash or len(text) > _LONGEST_ID else text


def _content(document: dict[str, Any]) -> bytes:
    """Return a hash of what an artifact says, however it is laid out."""
    known = (document.get("provenance") or {}).get(SELF)
    if not isinstance(known, str):
        known = json.dumps(document, sort_keys=True)
    return content_of(known)


def content_of(seal: str) -> bytes:
    """Return the hash of all that an artifact says, by its ``seal``."""
    return hashlib.sha256(seal.encode("utf-8", "surrogatepass")).digest()


def _check_parent(
    child: Checked,
    parent: dict[str, str],
    there: dict[str, Checked],
    known: dict[str, Parent | None],
) -> None:
    same = there.get(parent.get("sha256", ""))
    name = str(parent.get("execution_id"))
    if not name.replace("-", "").isalnum():  # it could read like words of ours
        name = json.dumps(name, ensure_ascii=False)
    problem, note = None, f"its parent {name} is not among these"
    if same is not None:
        if same.path not in known:
            original = read_again(same)
            known[same.path] = None if original is None else Parent.of(original)
        artifact, hashes = read_again(child), known[same.path]
        note = f"child of {same.path}"
        if artifact is None or hashes is None:
            problem = "it, or its parent, was changed meanwhile"
        elif problem := link_problem(artifact, parent.get("relation"), hashes):
            problem = f"{problem} of its parent {same.path}"
    elif there:
        first = next(iter(there.values()))
        problem = f"its parent {first.path} is not the artifact it was made from"
    if problem:
        child.problems = [*child.problems, problem]
    else:
        child.notes = [*child.notes, note]


def let_go(checked: Checked) -> None:
    """Let go of the artifact of what was ``checked``, where it can be read again: not from a pipe."""
    if checked.path != "-" and os.path.isfile(checked.path):
        checked.artifact = None


def read_again(checked: Checked) -> ExecutionArtifact | None:
    """Return the artifact that was ``checked``, read once more where it was not kept of it.

    None where it is another one now.
    """
    if checked.artifact is not None or checked.execution_id is None:
        return checked.artifact
    again = look_at(checked.path)
    return again.artifact if again.sha256 == checked.sha256 else None
