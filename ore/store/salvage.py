"""Finding the whole turns in a damaged session file.

A turn is a user's message with the assistant's right after it; a message that is not whole, or a
turn with anything between its two messages, is left out.
"""

from __future__ import annotations

import re

from ore.store.session_text import read_json
from ore.types import Message

# A message has no inner objects, so a pattern finds it, in time that grows with the text only. The
# quotes of a text that looks like a message are escaped, so none is found inside another. A byte
# that was not UTF-8 is a lone surrogate here, and keeps its message from being found.
_SPACE = r"[ \t\n\r]*"
_TEXT = r'"[^"\\\x00-\x1f\udc80-\udcff]*(?:\\.[^"\\\x00-\x1f\udc80-\udcff]*)*"'
_FIELD = (
    rf'(?:"(?:role|content|id)"{_SPACE}:{_SPACE}{_TEXT}'
    rf'|"timestamp"{_SPACE}:{_SPACE}[-+.0-9eE]+){_SPACE}'
)
_MESSAGE = re.compile(rf"\{{{_SPACE}{_FIELD}(?:,{_SPACE}{_FIELD}){{3}}\}}")
_BETWEEN = re.compile(rf"{_SPACE},{_SPACE}")


def salvage_turns(data: bytes) -> list[Message]:
    """Return the messages of the whole turns in ``data``, in order, each once.

    Every message stood in the file like this, and its answer was the next after it.
    """
    text = data.decode("utf-8", "surrogateescape")
    found = _messages(text)
    turns: list[Message] = []
    ids: set[str] = set()
    for (user, _, end), (assistant, start, _) in zip(found, found[1:]):
        if (user.role, assistant.role) != ("user", "assistant"):
            continue
        if not _BETWEEN.fullmatch(text, end, start):
            continue
        if user.id == assistant.id or ids & {user.id, assistant.id}:
            continue
        ids |= {user.id, assistant.id}
        turns += [user, assistant]
    return turns


def _messages(text: str) -> list[tuple[Message, int, int]]:
    """Return every whole message, with the places in ``text`` where it starts and ends."""
    found = []
    for match in _MESSAGE.finditer(text):
        try:
            message = read_json(match.group())
        except ValueError:  # a wrong escape, a key twice, a malformed number
            continue
        if isinstance(message, Message):
            found.append((message, match.start(), match.end()))
    return found
