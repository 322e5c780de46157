"""What a turn has sent, noted with its response for whoever records it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

from ore.errors import UsageError
from ore.types import ExecutionArtifact, Message, Response, Session, ToolResult, new_id

Given = TypeVar("Given")


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


def listed(name: str, given: Iterable[Given] | None) -> list[Given]:
    """Return what the argument ``name`` gives, which may be read once only.

    Raises:
        UsageError: It is one text, path or image, where a list of them is taken: each of its letters
            would be taken for one, and the slash of a path for the folder of all others.
    """
    if isinstance(given, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise UsageError(
            f"{name} must be a list: put brackets around what you gave. Nothing was done."
        )
    return [] if given is None else list(given)


def count_of_messages(session: Session | None) -> int | None:
    """Return how many messages a session has, or None without one.

    Raises:
        UsageError: It could not be added to, once the model has answered.
    """
    if session is None:
        return None
    messages: object = session.messages
    if not isinstance(messages, list) or not all(isinstance(each, Message) for each in messages):
        raise UsageError("The messages of a session are a list of Message: nothing was sent.")
    return len(session.messages)


def note_sent(response: Response, sent: Sent) -> Response:
    """Note with a response what its turn sent, and return it; no field of it, so no comparison has it.

    Of one that another turn has returned too, as a cache does, this notes it with a copy that has an id
    of its own, so that each is recorded with what its own turn sent.
    """
    if vars(response).setdefault("_sent", sent) is not sent:
        response = copy(response)
        vars(response).update(id=new_id(), _sent=sent)
    return response


def sent_with(response: Response) -> Sent | None:
    """Return what the turn sent that ``response`` answers; None where no engine returned it."""
    return vars(response).get("_sent")
