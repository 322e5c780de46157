"""Messages joined, for templates that take one system message, or turns that alternate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ore.types import Message

BETWEEN = "\n\n"

Groups = list[list[int]]
"""Which messages became one, by their numbers from 0, in the order of what is sent."""


def joined(messages: Sequence[Message]) -> tuple[list[Message], Groups]:
    """Return the system messages as one, at the front, and neighbours of one role as one.

    The texts are whole and in their order.
    """
    system = [number for number, message in enumerate(messages) if message.role == "system"]
    groups = [system] if system else []
    for number, message in enumerate(messages):
        if message.role == "system":
            continue
        if groups and messages[groups[-1][-1]].role == message.role:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [_as_one([messages[number] for number in group]) for group in groups], groups


def _as_one(messages: Sequence[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    text = BETWEEN.join(message.content for message in messages)
    images = tuple(data for message in messages for data in message.images)
    return replace(messages[-1], content=text, images=images)
