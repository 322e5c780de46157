"""One turn as data, and what of it can be read back (``docs/artifact-schema.md``)."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ore.types.artifact_fields import (
    ARTIFACT_VERSION,
    SINGLE_TURN,
    check_fields,
    check_version,
    known,
)

if TYPE_CHECKING:
    from ore.types import Response, RoutingDecision


@dataclass(frozen=True)
class ExecutionArtifactInput:
    """What a turn was made of.

    Attributes:
        prompt: The user's text, verbatim.
        model_id: The model that was asked.
        mode: ``"single_turn"``, or ``"conversational"`` for a turn in a session.
        routing: The routing decision as an object, or None if nothing was routed.
        tools: The names of the tools that ran, or None.
        skills: The names of the skills that were active, or None.
    """

    prompt: str
    model_id: str
    mode: str = SINGLE_TURN
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
        mode: str = SINGLE_TURN,
    ) -> ExecutionArtifact:
        """Return the artifact of one turn: ``prompt``, as ``model_id`` answered it with ``response``.

        Args:
            routing: The routing decision, as such or as an artifact has it, or None.
            tools, skills: Their names; an empty list is kept as None.
            continuation_requested, continuation_reason: What the program declares.
            mode: ``"conversational"`` where the turn was taken in a session.
        """
        if routing is not None and not isinstance(routing, dict):
            routing = asdict(routing)
        return cls(
            artifact_version=ARTIFACT_VERSION,
            execution_id=response.id,
            timestamp=response.timestamp,
            input=ExecutionArtifactInput(
                prompt=prompt,
                model_id=model_id,
                mode=mode,
                routing=routing,
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

    def as_text(self) -> str:
        """Return the answer as a turn that goes on from it sends it: ``[Artifact:ID]`` and its text."""
        return f"[Artifact:{self.execution_id}]\n{self.output.content}"

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as a JSON object of its own; ``provenance`` only where there is one."""
        data = fields_of(self)
        try:
            return {key: _copy(value) for key, value in data.items()}
        except RecursionError:  # too deep, or a value within itself: whoever writes it says which
            return copy.deepcopy(data)

    @classmethod
    def from_dict(cls, data: Any) -> ExecutionArtifact:
        """Return the artifact that ``data``, a parsed JSON object, holds.

        Unknown keys are left out. The version is checked before anything else.

        Raises:
            ValueError: This version does not understand it; one sentence that says why.
        """
        check_version(data)
        check_fields(data)
        return artifact_of_checked(data)


def fields_of(artifact: ExecutionArtifact) -> dict[str, Any]:
    """Return what ``to_dict`` does, for reading only: the values are the artifact's own."""
    fields = vars(artifact) | {
        "input": vars(artifact.input),
        "output": vars(artifact.output),
        "continuation": vars(artifact.continuation),
    }
    if artifact.provenance is None:
        del fields["provenance"]
    return fields


def artifact_of_checked(data: dict[str, Any]) -> ExecutionArtifact:
    """Return the artifact that an object holds, whose version and fields were checked."""
    return ExecutionArtifact(
        artifact_version=ARTIFACT_VERSION,
        execution_id=data["execution_id"],
        timestamp=data["timestamp"],
        input=ExecutionArtifactInput(**known(data, "input")),
        output=ExecutionArtifactOutput(**known(data, "output")),
        continuation=ExecutionArtifactContinuation(**known(data, "continuation")),
        provenance=data.get("provenance"),
    )


def _copy(value: Any) -> Any:
    """Return a deep copy; of JSON, which it nearly always is, several times as fast as ``copy``'s."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if type(value) is dict:
        return {key: _copy(each) for key, each in value.items()}
    if type(value) is list:
        return [_copy(each) for each in value]
    return copy.deepcopy(value)
