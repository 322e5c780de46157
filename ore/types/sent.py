"""What a turn has sent, noted with its response for whoever records it."""

from __future__ import annotations

from dataclasses import dataclass

from ore.types import ExecutionArtifact, Message, Response, ToolResult


@dataclass(frozen=True)
class Sent:
    """What a turn sent.

    Attributes:
        messages: In their order: system, skills, tools, an artifact's answer, session, prompt.
        system_prompt: The text of the first one; empty where none was sent.
        skills: The texts that were sent as skills.
        tools: What tools returned, and was sent.
        after: The run whose answer was sent, or None.
        earlier: How many messages came from the session; None without a session.
    """

    messages: tuple[Message, ...]
    system_prompt: str
    skills: tuple[str, ...] = ()
    tools: tuple[ToolResult, ...] = ()
    after: ExecutionArtifact | None = None
    earlier: int | None = None


def note_sent(response: Response, sent: Sent) -> None:
    """Note with a response what its turn sent; no field of it, so that no comparison or copy has it."""
    vars(response)["_sent"] = sent


def sent_with(response: Response) -> Sent | None:
    """Return what the turn sent that ``response`` answers; None where no engine returned it."""
    return vars(response).get("_sent")
