"""A session as people read it: how many turns it has, what it was begun with, and its Markdown."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ore.files.neutral import one_line
from ore.store.beginnings import Beginning
from ore.types import Session
from ore.types.speakers import AYA, UNNAMED

_MOST, _LONGEST = 12, 80  # things that are said of a beginning, and characters of each


def session_markdown(session: Session, title: str, begun: Beginning | None = None) -> str:
    """Return a session as Markdown, as ``--export-session`` writes it: a heading for each message.

    Args:
        session: Its messages are written as they are.
        title: The first heading, as the name of the session.
        begun: What it was begun with, if that is known (``FileSessionStore.beginning``).
    """
    about = about_session(session)
    parts = [f"# {title}", about if begun is None else f"{about} with {in_words(begun)}"]
    if begun is not None and begun.system:
        parts += ["## System prompt", begun.system]
    for message in session.messages:
        speaker = "You" if message.role == "user" else speaker_of(begun)
        parts += [f"## {speaker[0].upper()}{speaker[1:]}", message.content]
    return "\n\n".join(parts)


def speaker_of(begun: Beginning | None) -> str:
    """Return whose answers a session has that was ``begun`` so; Aya's where nothing is known."""
    if begun is None or (begun.persona is None and begun.system is None):
        return AYA
    return begun.persona or UNNAMED


def in_words(begun: Beginning) -> str:
    """Return what a session was ``begun`` with, on one line."""
    model = [said_of_model(begun.model)] if begun.model else []
    return on_one_line([*model, *said_of_prompt(begun), *begun.options])


def about_session(session: Session) -> str:
    """Return how many turns a ``session`` has, and when it was begun."""
    answers = sum(message.role == "assistant" for message in session.messages)
    return f"{turns_in_words(answers)}, begun {time_in_words(session.created_at)}"


def turns_in_words(number: int) -> str:
    """Return a ``number`` of turns as people say it."""
    return "1 turn" if number == 1 else f"{number} turns"


def time_in_words(seconds: float) -> str:
    """Return a time, in Unix ``seconds``, as the clock of this machine shows it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def on_one_line(said: Sequence[str]) -> str:
    """Return what is ``said`` of a beginning on one line; of many things, and of long ones, a part."""
    shown = [each if len(each) <= _LONGEST else each[:_LONGEST] + "…" for each in said[:_MOST]]
    return one_line(", ".join([*shown, "…"] if len(said) > _MOST else shown))


def said_of_model(model: str) -> str:
    """Return how a ``model`` is written in the description of a beginning."""
    return f"the model {model}"


def said_of_prompt(begun: Beginning) -> list[str]:
    """Return how the system prompt that was ``begun`` with is described; nothing for the usual one."""
    if begun.persona is not None:
        return [f"the persona '{begun.persona}'"]
    if begun.system is None:
        return []
    return ["its system prompt" if begun.system else "no system prompt"]
