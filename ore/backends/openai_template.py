"""What the chat template of a server's model takes, where the server says it: llama.cpp's does."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise

from ore.backends.address import Host
from ore.backends.http import Deadline
from ore.backends.joining import Groups, joined
from ore.backends.openai_client import Call
from ore.errors import OreError
from ore.types import Message

_SECONDS = 2.0
_MARK = re.compile(r"\[mark:[0-9]+\]")
_REFUSED = (400, 500)
"""What a server answers whose template refuses the messages; others do not know the question."""


def arriving(
    messages: list[Message], host: Host, key: str | None, deadline: Deadline
) -> tuple[list[Message], Groups | None]:
    """Return the messages as they are to be sent, and which were joined; None where none was.

    Only where two neighbours have one role, the server is asked, once: not with the texts, but with
    a mark in the place of each. What goes wrong with that is no fault of the turn.

    Args:
        host, key: The server, and the key to send, or None.
        deadline: Of the turn.
    """
    if all(one.role != two.role for one, two in pairwise(messages)):
        return messages, None
    marks = [f"[mark:{number}]" for number in range(len(messages))]
    marked = [
        {"role": each.role, "content": mark} for each, mark in zip(messages, marks, strict=True)
    ]
    with closing(Call(host, key, deadline=deadline.within(_SECONDS))) as call:
        try:
            rendered = call.applied(marked)
        except OreError:
            return joined(messages) if call.status in _REFUSED else (messages, None)
    lost = set(marks).difference(_MARK.findall(rendered))
    return joined(messages) if lost else (messages, None)
