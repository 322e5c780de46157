"""What a turn has sent, noted with its response for whoever records it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from uuid import uuid4

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


def note_sent(response: Response, sent: Sent) -> Response:
    """Note with a response what its turn sent, and return it; no field of it, so no comparison has it.

    Of one that another turn has returned too, as a cache does, this notes it with a copy that has an id
    of its own, so that each is recorded with what its own turn sent.
    """
    if vars(response).setdefault("_sent", sent) is not sent:
        response = copy(response)
        vars(response).update(id=str(uuid4()), _sent=sent)
    return response


def sent_with(response: Response) -> Sent | None:
    """Return what the turn sent that ``response`` answers; None where no engine returned it."""
    return vars(response).get("_sent")
