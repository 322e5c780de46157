"""Sessions to test with, and the odd files that may stand in a session's place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ore.types import Message, Session


def turn(text: object = "hello") -> list[Message]:
    """Return one whole turn; its text says which."""
    return [Message("user", f"question {text}: naïve?"), Message("assistant", f"answer {text}")]


def plain(session: Session) -> bytes:
    """Return the session as the standard library writes it."""
    document = {
        "id": session.id,
        "created_at": session.created_at,
        "messages": [
            {"role": m.role, "content": m.content, "id": m.id, "timestamp": m.timestamp}
            for m in session.messages
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def blocking(home: Path, text: str = "Paris.") -> Callable[[object], str]:
    """Return a reply after which no session can be saved: a file stands where their folder was."""

    def block(_: object) -> str:
        shutil.rmtree(home / ".ore/sessions")
        (home / ".ore/sessions").write_text("in the way")
        return text

    return block


def make_special(path: Path, kind: str) -> None:
    """Put what is no regular file at ``path``; a link leads to ``elsewhere`` beside it."""
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        if kind == "link":
            path.with_name("elsewhere").write_bytes(b"private")
        path.symlink_to(path.with_name("elsewhere"))


SPECIAL = ("folder", "fifo", "link", "dangling link")
"""The kinds that ``make_special`` makes."""
