"""The data contracts: what goes into a turn and what comes out of it.

Field order and defaults are part of the public interface.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import FrozenInstanceError, dataclass, field
from pathlib import Path
from typing import Any

from ore.types.artifact_fields import ARTIFACT_VERSION
from ore.types.execution import (
    ExecutionArtifact,
    ExecutionArtifactContinuation,
    ExecutionArtifactInput,
    ExecutionArtifactOutput,
)

__all__ = [
    "ARTIFACT_VERSION",
    "ExecutionArtifact",
    "ExecutionArtifactContinuation",
    "ExecutionArtifactInput",
    "ExecutionArtifactOutput",
    "Message",
    "Response",
    "RoutingDecision",
    "RoutingTarget",
    "Session",
    "SkillMetadata",
    "ToolResult",
]


_SHOWN_CHARACTERS = 60  # of an answer, where it stands for itself


def new_id() -> str:
    """Return a new UUID4 as text."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: The text, verbatim.
        id: A UUID4 as text; it stays with the message when a session is saved or forked.
        timestamp: When the message was made, in Unix seconds.
        images: The bytes of the images that belong to it. A store keeps none of them.
    """

    role: str
    content: str
    id: str = field(default_factory=new_id)
    timestamp: float = field(default_factory=time.time)
    images: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, repr=False)
class Response:
    """What a reasoner answers to a list of messages.

    Attributes:
        content: The answer, verbatim.
        model_id: The model that answered.
        id: A UUID4 as text.
        timestamp: When the answer was complete, in Unix seconds.
        metadata: What the backend measured. ORE's own reasoners always set ``eval_count`` and
            ``prompt_eval_count`` (tokens), ``eval_duration`` and ``prompt_eval_duration``
            (nanoseconds); of one that a server left out Ollama's says 0 and openai's None.
    """

    content: str
    model_id: str
    id: str = field(default_factory=new_id)
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        """Return one short line: the beginning of the answer, and who gave it."""
        text, cut = str(self.content), _SHOWN_CHARACTERS
        begins = repr(text if len(text) <= cut else f"{text[:cut]}…")
        return f"<Response of {str(self.model_id)[:cut]!r}: {begins}>"

    def _repr_markdown_(self) -> str:
        """Return the answer, as notebooks show it (IPython's display protocol)."""
        return self.content


@dataclass
class Session:
    """A conversation: user and assistant messages, oldest first, only ever appended to.

    The system message is never stored here; ``id`` and ``created_at`` can't be assigned.

    Attributes:
        messages: With the roles ``"user"`` and ``"assistant"``, in turns.
        id: A UUID4 as text: its identity; the name under which a store keeps it is only a handle.
        created_at: When the conversation began, in Unix seconds.
    """

    messages: list[Message] = field(default_factory=list[Message])
    id: str = field(default_factory=new_id)
    created_at: float = field(default_factory=time.time)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("id", "created_at") and "created_at" in vars(self):  # the field set last
            raise FrozenInstanceError(f"cannot assign to field '{name}'")
        super().__setattr__(name, value)


@dataclass(frozen=True)
class ToolResult:
    """What a tool returned.

    Attributes:
        tool_name: The tool's name.
        output: The text that the model gets, or the sentence that says what failed.
        status: ``"ok"`` or ``"error"``.
        id: A UUID4 as text.
        timestamp: When the result was made, in Unix seconds.
        metadata: What the tool and the gate say of the run besides.
    """

    tool_name: str
    output: str
    status: str
    id: str = field(default_factory=new_id)
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class SkillMetadata:
    """What is known of a skill before it is activated.

    Attributes:
        name: What it is called; its identity.
        description: What it is for, in its author's words.
        hints: The phrases that route a prompt to it.
        path: Its folder.
    """

    name: str
    description: str
    hints: tuple[str, ...]
    path: Path


@dataclass(frozen=True)
class RoutingTarget:
    """Something that a prompt can be routed to: a tool or a skill.

    Attributes:
        name: Its name.
        target_type: ``"tool"`` or ``"skill"``.
        description: One line for people.
        hints: The phrases that a prompt for it has.
    """

    name: str
    target_type: str
    description: str
    hints: tuple[str, ...]


@dataclass(frozen=True)
class RoutingDecision:
    """What the router chose for one prompt, and why.

    Attributes:
        target: The chosen name; for a fallback the best candidate below the threshold, or None.
        target_type: ``"tool"``, ``"skill"`` or ``"fallback"``.
        confidence: 0.0 to 1.0.
        args: Arguments for a chosen tool.
        reasoning: One line that says why.
        id: A UUID4 as text.
        timestamp: When the decision was made, in Unix seconds.
    """

    target: str | None
    target_type: str
    confidence: float
    args: dict[str, str]
    reasoning: str
    id: str = field(default_factory=new_id)
    timestamp: float = field(default_factory=time.time)
