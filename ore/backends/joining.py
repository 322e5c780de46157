"""Messages joined, for templates that take one system message, or turns that alternate."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from ore.backends.http import shorten
from ore.files.neutral import one_line
from ore.reasoner import Reasoner
from ore.types import Message, Response

BETWEEN = "\n\n"
_SHOWN = 60  # characters of a message that can't be given

Groups = list[list[int]]
"""Which messages became one, by their numbers from 0, in the order of what is sent."""


class JoiningReasoner(Reasoner):
    """Asks another reasoner with messages that are joined, whatever its model's template takes.

    Where that makes fewer of them, ``metadata["joined"]`` says which became one.

    Args:
        inner: The reasoner that answers; it is closed with this one.
    """

    def __init__(self, inner: Reasoner) -> None:
        self.inner = inner

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner."""
        fewer, groups = joined(messages)
        return _noted(self.inner.reason(fewer), groups)

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer's text as it arrives; closing the generator stops the model."""
        fewer, groups = joined(messages)
        with closing(self.inner.stream_reason(fewer)) as chunks:
            response = yield from chunks
        return _noted(response, groups)

    def close(self) -> None:
        """Close the inner reasoner."""
        self.inner.close()


def _noted(response: Response, groups: Groups | None) -> Response:
    if isinstance(response, Response) and groups is not None:
        response.metadata["joined"] = groups
    return response


def joined(messages: list[Message]) -> tuple[list[Message], Groups | None]:
    """Return the system messages as one, at the front, and neighbours of one role as one.

    The texts are whole and in their order. With them comes which messages became one; None where
    there were no two of them, and the messages are as they were.
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
    if len(groups) == len(messages):
        return messages, None
    return [_as_one([messages[number] for number in group]) for group in groups], groups


def _as_one(messages: Sequence[Message]) -> Message:
    if len(messages) == 1:
        return messages[0]
    text = BETWEEN.join(message.content for message in messages)
    images = tuple(data for message in messages for data in message.images)
    return replace(messages[-1], content=text, images=images)


def left_out(message: Message, *, has_given_template: bool = False, is_blank: bool = False) -> str:
    """Return the sentence that a chat template has no place for a message.

    Args:
        has_given_template: Whether the template was given in the place of the model's own.
        is_blank: Whether it writes nothing at all of the turn.
    """
    step, whose = _step(message.role), "The" if has_given_template else "The model's"
    other = f"use another {'template' if has_given_template else 'model'}."
    if is_blank:
        return f"{whose} chat template writes nothing, so the model was not asked: {other}"
    text = one_line(shorten(message.content))
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return (
        f"{whose} chat template leaves out a message of the role "
        f"'{message.role}' ({text!r}), so the model was not asked: {step}, or {other}"
    )


def not_read(role: str) -> str:
    """Return the sentence, without its end, that a template left out what a model was asked with."""
    return (
        f"The model's chat template leaves out messages of the role '{role}', so the model has not "
        f"read all of the prompt: {_step(role)}"
    )


def fewer_read(tokens: int) -> str:
    """Return the sentence, without its end, that a prompt has more tokens, where no window is known."""
    return (
        f"The server counted {tokens} token{'s' * (tokens != 1)}, fewer than the prompt has. It "
        f"did not fit the context window, or the model's chat template leaves a part of it out"
    )


def _step(role: str) -> str:
    if role == "system":
        return (
            "leave the system prompt and the skills out (`system_prompt=''`), or put them into the "
            "prompt"
        )
    return "begin a new conversation" if role == "assistant" else "leave it out"
