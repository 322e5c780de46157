"""Where each message of a run came from, as its artifact says; who answered; its system prompt; its parent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ore.artifact.canonical import digest, text_digest
from ore.files.strictjson import is_list
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import has_uncounted_images, other_model

PERSONA, SYSTEM = "persona", "system"
"""The two sources of a system prompt: a persona, Aya's too, or a text of the user's own."""

SESSION = "session"
"""The source of a message of the conversation: ``session:NAME#1``, ``session#1`` if it has no name."""

ANSWER, PROMPT = "answer", "prompt"
"""What a turn has of its parent: its answer, or its prompt; or, as ``SESSION``, its turn."""

ANSWER_OF = "artifact:"
"""What stands before the id of a run, where its answer was sent as a message."""

MAY_BE_UNREAD = "the model may not have read them"
"""Said beside a run's images: the server counted too few tokens for any (``images_read``), or none at all."""


def answered_by(artifact: ExecutionArtifact) -> str:
    """Return the name of the model that answered: as the server said it, where it is another one."""
    output = artifact.output
    return other_model(output.model_id, output.metadata) or output.model_id


def doubt_of_images(artifact: ExecutionArtifact) -> str | None:
    """Return what to say beside a run's images, or None."""
    metadata = artifact.output.metadata
    is_doubted = metadata.get("images_read") is False or has_uncounted_images(metadata)
    return MAY_BE_UNREAD if is_doubted else None


def hashed_sources(artifact: ExecutionArtifact) -> list[tuple[str, str]]:
    """Return the source of each message and the SHA-256 of its content, ``""`` where there is none.

    In an artifact that somebody has changed, what is not a source is left out.
    """
    found = (artifact.provenance or {}).get("sources")
    entries = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    pairs = [(each.get("source"), each.get("sha256")) for each in entries]
    return [
        (source, sha256 if isinstance(sha256, str) else "")
        for source, sha256 in pairs
        if isinstance(source, str)
    ]


def sources_of(artifact: ExecutionArtifact) -> list[str]:
    """Return the source of each message."""
    return [source for source, _ in hashed_sources(artifact)]


def joined_messages(artifact: ExecutionArtifact) -> list[Any]:
    """Return which messages of a run were sent as one, by their numbers from 1; ``[]`` if none were.

    In an artifact that somebody has changed, what is not a source of a message stays as it is.
    """
    numbers: dict[Any, int] = {}
    for number, source in enumerate(sources_of(artifact), 1):
        numbers.setdefault(source, number)
    found = (artifact.provenance or {}).get("joined")
    groups = [each for each in found if is_list(each)] if is_list(found) else []
    return [
        [numbers.get(each, each) if isinstance(each, str) else each for each in group]
        for group in groups
    ]


def messages_digest(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return the SHA-256 over the canonical JSON of the role and content of each message.

    Raises:
        ValueError: One can't be sent; the end of a sentence says why.
    """
    try:
        return digest([{"role": each["role"], "content": each["content"]} for each in messages])
    except UnicodeEncodeError as exc:
        raise ValueError("a message of it holds half a character, which can't be sent") from exc


def is_of_session(source: str) -> bool:
    """Return whether a message is one of the conversation before its turn."""
    return source.startswith((f"{SESSION}:", f"{SESSION}#"))


def kept_system_prompt(artifact: ExecutionArtifact) -> str | None:
    """Return the text of the system prompt, None where the artifact does not keep it.

    Raises:
        ValueError: It is not the text that was sent; the end of a sentence says why.
    """
    text = (artifact.provenance or {}).get("system_prompt")
    if text is None:
        return None
    hashes = [sha for source, sha in hashed_sources(artifact) if source in (PERSONA, SYSTEM)]
    if not isinstance(text, str) or text_digest(text) not in hashes:
        raise ValueError("provenance.system_prompt does not fit its hash in provenance.sources")
    return text


@dataclass(frozen=True, slots=True)
class Parent:
    """The hashes of what a child may have of its parent, which may be large and have many children."""

    execution_id: str
    prompt: str
    content: str
    as_text: str

    @classmethod
    def of(cls, artifact: ExecutionArtifact) -> Parent:
        """Return those of an artifact."""
        content, prompt = artifact.output.content, artifact.input.prompt
        return cls(artifact.execution_id, *map(text_digest, (prompt, content, artifact.as_text())))


def link_problem(artifact: ExecutionArtifact, relation: object, parent: Parent) -> str | None:
    """Return what an artifact does not have of its parent, as it should, or None."""
    if relation in (None, PROMPT):
        is_that = text_digest(artifact.input.prompt) == parent.prompt
        return None if is_that else "its prompt is not that"
    sent = hashed_sources(artifact)
    if relation == ANSWER:
        wanted = (ANSWER_OF + parent.execution_id, parent.as_text)
        return None if wanted in sent else "it was not asked with the answer"
    if relation == SESSION:
        kept = [sha256 for source, sha256 in sent if is_of_session(source)]
        is_kept = (parent.prompt, parent.content) in pairwise(kept)
        return None if is_kept else "its conversation does not hold the turn"
    return "it does not say what it has"
