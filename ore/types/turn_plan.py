"""What a turn would send and what its model would read of it, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

PLAN_VERSION = "ore.plan.v1"

TEMPLATE = "template"
"""The source of what no message holds: the chat template put it there, or the tokenizer."""


@dataclass(frozen=True)
class PlannedMessage:
    """A message as it would be sent.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: Its text.
        source: Where it came from, as artifacts name it.
        images: The SHA-256 of each of its images.
    """

    role: str
    content: str
    source: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedPart:
    """A stretch of what the model would read.

    Attributes:
        source: That of its message; of messages that were joined, theirs with `` + `` between; or
            ``TEMPLATE``.
        text: The text.
        tokens: How many tokens begin in it; None is not known.
    """

    source: str
    text: str
    tokens: int | None = None


@dataclass(frozen=True)
class Plan:
    """A turn that was not taken.

    Attributes:
        backend, model_id: What would answer.
        options: What was set of the model's options, ``think``, ``format`` and ``choices``.
        messages: What would be sent, in order.
        messages_sha256: Of their roles and contents, as an artifact of the turn would have it.
        parts: What the model would read, in order.
        tokens: How many tokens that is, as far as it is known.
        tokens_least, tokens_most: The bounds; the same number thrice where they were counted.
        window: The context window in tokens; None is not known.
        fits: Whether it fits with room for an answer; None is not known.
        left: How many tokens of the window the answer has, at least; None is not known.
        answer_limit: The most tokens that the answer may have; None is what is left.
        joined: The sources of messages that would be sent as one; None where none are joined.
        rendered: The text after the chat template, or None.
        not_rendered: Why there is no rendered text, or no count, as a sentence.
        notes: What to know of the way from the messages to the text, in sentences.
        chat_template: The SHA-256 of a template in the place of the model's own, or None.
        about: What the server says of the model: its ``template``, its ``parameters``.
        more: What else the command line plans: ``persona``, ``grants``, ``system_from``,
            ``expect``, ``routing``; ``join_messages`` where they are never joined.
    """

    backend: str
    model_id: str
    options: Mapping[str, Any]
    messages: tuple[PlannedMessage, ...]
    messages_sha256: str
    parts: tuple[PlannedPart, ...]
    tokens: int
    tokens_least: int
    tokens_most: int
    window: int | None = None
    fits: bool | None = None
    left: int | None = None
    answer_limit: int | None = None
    joined: list[list[str]] | None = None
    rendered: str | None = None
    not_rendered: str | None = None
    notes: tuple[str, ...] = ()
    chat_template: str | None = None
    about: Mapping[str, str] = field(default_factory=dict[str, str])
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def exact(self) -> bool:
        """Whether the tokens were counted, by the model's own tokenizer."""
        return self.tokens_least == self.tokens_most

    @property
    def rendered_sha256(self) -> str | None:
        """The SHA-256 of ``rendered`` in UTF-8, or None."""
        return self.rendered and sha256(self.rendered.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``--dry-run`` writes."""
        more = dict(self.more)
        usual: dict[str, Any] = {"persona": None, "grants": [], "system_from": None}
        return {
            "plan_version": PLAN_VERSION,
            "backend": self.backend,
            "model_id": self.model_id,
            "options": dict(self.options),
            **{name: more.pop(name, value) for name, value in usual.items()},
            "chat_template": self.chat_template and {"sha256": self.chat_template},
            "messages": [_as_sent(message) for message in self.messages],
            "messages_sha256": self.messages_sha256,
            **more,
            "exact": self.exact,
            "tokens": self.tokens,
            "tokens_least": self.tokens_least,
            "tokens_most": self.tokens_most,
            "parts": [_as_read(part) for part in self.parts],
            "window": self.window,
            "fits": self.fits,
            "left": self.left,
            "answer_limit": self.answer_limit,
            "joined": self.joined,
            "rendered": self.rendered,
            "rendered_sha256": self.rendered_sha256,
            "not_rendered": self.not_rendered,
            "notes": list(self.notes),
            **self.about,
        }


def _as_sent(message: PlannedMessage) -> dict[str, Any]:
    kept = {"role": message.role, "content": message.content, "source": message.source}
    return kept | ({"images": list(message.images)} if message.images else {})


def _as_read(part: PlannedPart) -> dict[str, Any]:
    text = {"text": part.text} if part.source == TEMPLATE else {}
    return {"source": part.source, "tokens": part.tokens, **text}
