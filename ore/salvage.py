"""Finding the whole turns in a damaged session file.

A turn is a user's message with the assistant's right after it; a message with a damaged byte, or a
turn with damage between its two messages, is left out. Knows nothing about files or names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ore.session_json import STRICT, read_message
from ore.types import Message

_MESSAGE_START = re.compile(r'\{\s*"(?:role|content|timestamp)"\s*:')
_BETWEEN = re.compile(r"\s*,\s*")
_DAMAGE = re.compile("[\udc80-\udcff]")


def salvage_turns(data: bytes) -> list[Message]:
    """Return the messages of the whole turns in ``data``, in order, each once.

    Nothing is made up: every message is one that stood in the file, complete, and its answer is
    the one that followed it.
    """
    text = data.decode("utf-8", "surrogateescape")
    found = _messages(text)
    turns: list[Message] = []
    ids: set[str] = set()
    for (user, _, end), (assistant, start, _) in zip(found, found[1:]):
        is_turn = user.role == "user" and assistant.role == "assistant"
        if not is_turn or not _BETWEEN.fullmatch(text, end, start):
            continue
        if user.id == assistant.id or ids & {user.id, assistant.id}:
            continue
        ids |= {user.id, assistant.id}
        turns += [user, assistant]
    return turns


def _messages(text: str) -> list[tuple[Message, int, int]]:
    """Return every whole message with the places in ``text`` where it starts and ends."""
    decoder = json.JSONDecoder(**{**STRICT, "object_pairs_hook": _message_or_none})
    found: list[tuple[Message, int, int]] = []
    place = 0
    while match := _MESSAGE_START.search(text, place):
        start = match.start()
        try:
            message, place = decoder.raw_decode(text, start)
        except json.JSONDecodeError as exc:
            place = max(exc.pos, start + 1)  # what is whole after the damage is found from there
            continue
        except ValueError:  # a number that no session holds
            place = match.end()
            continue
        except RecursionError:  # no damage makes this; someone did
            break
        if message is not None and not _DAMAGE.search(text, start, place):
            found.append((message, start, place))
    return found


def _message_or_none(pairs: list[tuple[str, Any]]) -> Message | None:
    try:
        message = read_message(pairs)
    except ValueError:
        return None
    return message if isinstance(message, Message) else None
