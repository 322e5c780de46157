"""The data contracts: what goes into a turn and what comes out of it.

Knows nothing about files, flags, terminals or backends. Field order and defaults are part of the
public interface.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "Message",
    "Response",
    "RoutingDecision",
    "RoutingTarget",
    "Session",
    "SkillMetadata",
    "ToolResult",
]


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: The text, verbatim.
        id: A UUID4 as text; it stays with the message when a session is saved or forked.
        timestamp: When the message was made, in Unix seconds.
    """

    role: str
    content: str
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Response:
    """What a reasoner answers to a list of messages.

    Attributes:
        content: The answer, verbatim.
        model_id: The model that answered.
        id: A UUID4 as text.
        timestamp: When the answer was complete, in Unix seconds.
        metadata: What the backend measured. ORE's own reasoners always set ``eval_count`` and
            ``prompt_eval_count`` (tokens), ``eval_duration`` and ``prompt_eval_duration``
            (nanoseconds), 0 where the backend left one out.
    """

    content: str
    model_id: str
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Session:
    """A conversation: user and assistant messages, oldest first, only ever appended to.

    The system message is never stored here. The id is the conversation's identity; the name
    under which a store keeps it is only a handle.
    """

    messages: list[Message] = field(default_factory=list)
    id: str = field(default_factory=_new_id)
    created_at: float = field(default_factory=time.time)


@dataclass(frozen=True)
class ToolResult:
    """What a tool returned: ``status`` is ``"ok"`` or ``"error"``, ``output`` is text."""

    tool_name: str
    output: str
    status: str
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SkillMetadata:
    """What is known of a skill before it is activated; ``path`` is the skill's folder."""

    name: str
    description: str
    hints: tuple[str, ...]
    path: Path


@dataclass(frozen=True)
class RoutingTarget:
    """Something a prompt can be routed to; ``target_type`` is ``"tool"`` or ``"skill"``."""

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
    """

    target: str | None
    target_type: str
    confidence: float
    args: dict[str, str]
    reasoning: str
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)
