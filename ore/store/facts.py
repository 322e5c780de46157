"""What can be said of sessions without showing them whole: lists and search results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ore.files.neutral import in_form
from ore.types import Message, Session


@dataclass(frozen=True)
class SessionDetails:
    """What a list says of a session.

    Attributes:
        name: Its name.
        turns: How many answers it holds.
        last_used: When it was last saved, in Unix seconds, from the file.
        first_prompt: The user's first message, verbatim; ``""`` when there is none.
    """

    name: str
    turns: int
    last_used: float
    first_prompt: str


@dataclass(frozen=True)
class Found:
    """A message that holds a text that was searched for; ``number`` is its place, from 1."""

    name: str
    number: int
    message: Message


@dataclass(frozen=True)
class Salvaged:
    """A session that was made of what was whole in a damaged one."""

    name: str
    turns: int


def describe(session: Session, name: str, last_used: float) -> SessionDetails:
    """Return what a list says of a session that was last saved at ``last_used``."""
    turns = sum(message.role == "assistant" for message in session.messages)
    prompts = (message.content for message in session.messages if message.role == "user")
    return SessionDetails(name, turns, last_used, next(prompts, ""))


def search(session: Session, name: str, text: str) -> Iterator[Found]:
    """Yield the messages that hold ``text``, whatever the case or the spelling of accents."""
    wanted = _folded(text)
    for number, message in enumerate(session.messages, 1):
        if wanted in _folded(message.content):
            yield Found(name, number, message)


def _folded(text: str) -> str:
    return in_form("NFC", in_form("NFC", text).casefold())
