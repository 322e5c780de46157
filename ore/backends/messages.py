"""Messages as they are sent: their texts as bytes, and what of them a server sees.

Knows nothing about what a server or a model makes of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ore.errors import UsageError
from ore.types import Message

Sent = tuple[str, str, tuple[bytes, ...]]
"""Role, content and images: what a server is sent of a message."""


def encoded(messages: Iterable[Message]) -> list[bytes]:
    """Return the text of each message in UTF-8.

    Raises:
        UsageError: A text holds half a character (a lone surrogate), which can't be sent.
    """
    texts = []
    for message in messages:
        try:
            texts.append(message.content.encode("utf-8"))
        except UnicodeEncodeError as exc:
            raise UsageError(
                f"A message of the role '{message.role}' holds half a character (a lone "
                f"surrogate at position {exc.start}), which can't be sent: take it out."
            ) from exc
    return texts


def sent(messages: list[Message]) -> list[Sent]:
    """Return what a server is sent of each message; ids and times are ORE's own."""
    return [(message.role, message.content, message.images) for message in messages]
