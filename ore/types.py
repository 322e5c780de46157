"""The data contracts: what goes into a turn and what comes out of it.

Knows nothing about files, flags, terminals or backends. Field order and defaults are part of the
public interface.
"""

from __future__ import annotations

import copy
import time
import uuid
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from ore.artifact_schema import MODE, check_fields, kind_of
from ore.strictjson import check

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

ARTIFACT_VERSION = "ore.exec.v1"
"""The one version of the execution artifact that is written and read."""


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
        images: The bytes of the images that belong to it. A store keeps none of them.
    """

    role: str
    content: str
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)
    images: tuple[bytes, ...] = field(default=(), repr=False)


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


@dataclass(frozen=True)
class ExecutionArtifactInput:
    """What a turn was made of.

    Attributes:
        prompt: The user's text, verbatim.
        model_id: The model that was asked.
        mode: ``"single_turn"``, the only mode of this version.
        routing: The routing decision as an object, or None when nothing was routed.
        tools: The names of the tools that ran, with ``file:PATH`` for each named file, or None.
        skills: The names of the skills that were active, or None.
    """

    prompt: str
    model_id: str
    mode: str = MODE
    routing: dict[str, Any] | None = None
    tools: list[str] | None = None
    skills: list[str] | None = None


@dataclass(frozen=True)
class ExecutionArtifactOutput:
    """What the reasoner answered: the fields of ``Response``."""

    id: str
    content: str
    model_id: str
    timestamp: float
    metadata: dict[str, Any]


@dataclass(frozen=True)
class ExecutionArtifactContinuation:
    """Whether a follow-up was asked for, and why; declared by a program, never read from a text."""

    requested: bool = False
    reason: str | None = None


@dataclass(frozen=True)
class ExecutionArtifact:
    """One turn as data that can be kept, handed on and run again (``docs/artifact-schema.md``).

    Attributes:
        artifact_version: ``ARTIFACT_VERSION``.
        execution_id: The id of the response.
        timestamp: When the answer was complete, in Unix seconds.
        input: What the turn was made of.
        output: What was answered.
        continuation: Whether a follow-up was asked for.
        provenance: What else ORE knows of the turn, or None.
    """

    artifact_version: str
    execution_id: str
    timestamp: float
    input: ExecutionArtifactInput
    output: ExecutionArtifactOutput
    continuation: ExecutionArtifactContinuation
    provenance: dict[str, Any] | None = None

    @classmethod
    def from_response(
        cls,
        response: Response,
        prompt: str,
        model_id: str,
        routing: RoutingDecision | dict[str, Any] | None = None,
        tools: list[str] | None = None,
        skills: list[str] | None = None,
        continuation_requested: bool = False,
        continuation_reason: str | None = None,
    ) -> ExecutionArtifact:
        """Return the artifact of one turn; an empty ``tools`` or ``skills`` is kept as None."""
        decision = asdict(routing) if isinstance(routing, RoutingDecision) else routing
        return cls(
            artifact_version=ARTIFACT_VERSION,
            execution_id=response.id,
            timestamp=response.timestamp,
            input=ExecutionArtifactInput(
                prompt=prompt,
                model_id=model_id,
                routing=decision,
                tools=list(tools) if tools else None,
                skills=list(skills) if skills else None,
            ),
            output=ExecutionArtifactOutput(
                id=response.id,
                content=response.content,
                model_id=response.model_id,
                timestamp=response.timestamp,
                metadata=dict(response.metadata),
            ),
            continuation=ExecutionArtifactContinuation(continuation_requested, continuation_reason),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as a JSON object of its own; ``provenance`` only where there is one."""
        data = vars(self) | {
            "input": vars(self.input),
            "output": vars(self.output),
            "continuation": vars(self.continuation),
        }
        if self.provenance is None:
            del data["provenance"]
        return copy.deepcopy(data)

    @classmethod
    def from_dict(cls, data: Any) -> ExecutionArtifact:
        """Return the artifact that a parsed JSON object holds; keys that are not known are left out.

        Raises:
            ValueError: It is none that this version understands; one sentence that says why. The
                version is judged before anything else.
        """
        if not isinstance(data, dict):
            raise ValueError(f"An artifact is a JSON object, not {kind_of(data)}.")
        _check_version(data)
        try:
            check(data)
        except ValueError as exc:
            raise ValueError(f"The artifact can't be used: {exc}.") from exc
        check_fields(data)
        return cls(
            artifact_version=ARTIFACT_VERSION,
            execution_id=data["execution_id"],
            timestamp=data["timestamp"],
            input=_known(ExecutionArtifactInput, data["input"]),
            output=_known(ExecutionArtifactOutput, data["output"]),
            continuation=_known(ExecutionArtifactContinuation, data["continuation"]),
            provenance=data.get("provenance"),
        )


def _check_version(data: dict[str, Any]) -> None:
    version = data.get("artifact_version")
    if version == ARTIFACT_VERSION:
        return
    shown = repr(version[:40]) if isinstance(version, str) else kind_of(version)
    if "artifact_version" not in data:
        shown = "(there is none)"
    raise ValueError(f"Unsupported artifact version {shown}: this ORE reads {ARTIFACT_VERSION!r}.")


_Part = TypeVar(
    "_Part", ExecutionArtifactInput, ExecutionArtifactOutput, ExecutionArtifactContinuation
)


def _known(kind: type[_Part], data: dict[str, Any]) -> _Part:
    names = [field.name for field in fields(kind)]
    return kind(**{name: data[name] for name in names if name in data})
