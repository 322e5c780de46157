"""The data contracts: what goes into a turn and what comes out of it.

Field order and defaults are part of the public interface.
"""

from __future__ import annotations

import copy
import time
import uuid
from dataclasses import FrozenInstanceError, asdict, dataclass, field
from pathlib import Path
from typing import Any

from ore.types.artifact_fields import ARTIFACT_VERSION, MODE, check_fields, check_version, known
from ore.types.strictjson import check

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

    The system message is never stored here; ``id`` and ``created_at`` can't be assigned.

    Attributes:
        messages: With the roles ``"user"`` and ``"assistant"``, in turns.
        id: A UUID4 as text: its identity; the name under which a store keeps it is only a handle.
        created_at: When the conversation began, in Unix seconds.
    """

    messages: list[Message] = field(default_factory=list)
    id: str = field(default_factory=_new_id)
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
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)
    metadata: dict[str, Any] = field(default_factory=dict)


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
    id: str = field(default_factory=_new_id)
    timestamp: float = field(default_factory=time.time)


@dataclass(frozen=True)
class ExecutionArtifactInput:
    """What a turn was made of.

    Attributes:
        prompt: The user's text, verbatim.
        model_id: The model that was asked.
        mode: ``"single_turn"``, the only mode of this version.
        routing: The routing decision as an object, or None if nothing was routed.
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
    """What the reasoner answered.

    ``id``, ``content``, ``model_id``, ``timestamp`` and ``metadata`` are those of the ``Response``.
    """

    id: str
    content: str
    model_id: str
    timestamp: float
    metadata: dict[str, Any]


@dataclass(frozen=True)
class ExecutionArtifactContinuation:
    """Whether a follow-up was ``requested``, and the ``reason`` or None.

    A program declares it; it is never read from a text.
    """

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
        """Return the artifact of one turn: ``prompt``, as ``model_id`` answered it with ``response``.

        Args:
            routing: The routing decision, as such or as an artifact has it, or None.
            tools, skills: Their names; an empty list is kept as None.
            continuation_requested, continuation_reason: What the program declares.
        """
        return cls(
            artifact_version=ARTIFACT_VERSION,
            execution_id=response.id,
            timestamp=response.timestamp,
            input=ExecutionArtifactInput(
                prompt=prompt,
                model_id=model_id,
                routing=asdict(routing) if isinstance(routing, RoutingDecision) else routing,
                tools=list(tools) if tools else None,
                skills=list(skills) if skills else None,
            ),
            output=ExecutionArtifactOutput(
                response.id,
                response.content,
                response.model_id,
                response.timestamp,
                dict(response.metadata),
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
        """Return the artifact that ``data``, a parsed JSON object, holds.

        Unknown keys are left out. The version is checked before anything else.

        Raises:
            ValueError: This version does not understand it; one sentence that says why.
        """
        check_version(data)
        try:
            check(data)
        except ValueError as exc:
            raise ValueError(f"The artifact can't be used: {exc}.") from exc
        check_fields(data)
        return cls(
            artifact_version=ARTIFACT_VERSION,
            execution_id=data["execution_id"],
            timestamp=data["timestamp"],
            input=ExecutionArtifactInput(**known(data, "input")),
            output=ExecutionArtifactOutput(**known(data, "output")),
            continuation=ExecutionArtifactContinuation(**known(data, "continuation")),
            provenance=data.get("provenance"),
        )
