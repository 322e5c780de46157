"""Where each message of a run came from, as its artifact says, and the system prompt that it keeps."""

from __future__ import annotations

from ore.artifact.canonical import text_digest
from ore.types import ExecutionArtifact

PERSONA, SYSTEM = "persona", "system"
"""The two sources of a system prompt: a persona, Aya's too, or a text of the user's own."""

SESSION = "session"
"""The source of a message of the conversation: ``session:NAME#1``, ``session#1`` if it has no name."""

ANSWER_OF = "artifact:"
"""What stands before the id of a run, where its answer was sent as a message."""


def hashed_sources(artifact: ExecutionArtifact) -> list[tuple[str, str]]:
    """Return the source of each message and the SHA-256 of its content, ``""`` where there is none.

    What is no source, for somebody changed the artifact, is left out.
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
