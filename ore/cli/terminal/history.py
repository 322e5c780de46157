"""What was typed at a terminal, as one private file: one entry a line, oldest first."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ore.errors import OreError
from ore.files import reason
from ore.files.folder import Folder
from ore.files.trust import distrust_now

MOST_ENTRIES = 1000
MOST_BYTES = 16 * 1024
"""The longest history entry that is kept, in bytes as written."""
_TURN_SECONDS = 3.0
"""How long another REPL is waited for, which may have been stopped while it adds an entry."""
_ESCAPED = re.compile(r"\\[\\nr]")
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}


class History:
    """The entries of a file, for the next run.

    A file that can't be read, written or trusted is left as it is, and is no reason to stop: from then
    on nothing is kept.

    Args:
        path: The file; None keeps nothing.

    Attributes:
        path: The file that entries are kept in; None where there is none, or none any more.
        problem: Why ``entries`` has read none, as a sentence; or ``""``.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem: str = ""

    def entries(self) -> list[str]:
        """Return the last ``MOST_ENTRIES`` entries, oldest first, but none that ``add`` would not keep."""
        if self.path is None:
            return []
        try:
            with self._folder() as folder:
                lines = self._lines(folder)
        except FileNotFoundError:  # the folder, too, is made with the first entry
            return []
        except (OSError, OreError) as exc:
            is_sentence = isinstance(exc, OreError)
            self.problem = str(exc) if is_sentence else f"{self.path} is not used: {reason(exc)}."
            self.path = None
            return []
        kept = (line for line in lines[-MOST_ENTRIES:] if len(line) < MOST_BYTES)
        texts = (line.decode("utf-8", "replace") for line in kept)
        return [_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text) for text in texts if text]

    def add(self, entry: str) -> None:
        """Put an entry at the end; the file is replaced whole, and only this user can read it."""
        text = entry.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        line = text.encode("utf-8", "replace")
        if self.path is None or len(line) >= MOST_BYTES:
            return
        try:
            with self._folder(make=True) as folder:
                folder.take_turns(_TURN_SECONDS)
                lines = [*self._lines(folder), line][-MOST_ENTRIES:]
                data = b"".join(each + b"\n" for each in lines)
                folder.replace(self.path.name, f".typed.{os.getpid()}.tmp", [data], 0o600)
        except (OSError, OreError):
            self.path = None  # it would fail again

    def _folder(self, *, make: bool = False) -> Folder:
        """Return the folder of the file, to be opened; a link of one's own may lead there."""
        assert self.path is not None
        if why := distrust_now(self.path.parent):
            raise OSError(why)
        return Folder(self.path.parent.resolve(), make=make)

    def _lines(self, folder: Folder) -> list[bytes]:
        """Return what the file holds now: another REPL may have added to it."""
        assert self.path is not None
        try:
            data, _ = folder.read(self.path.name, 2 * MOST_ENTRIES * MOST_BYTES)
        except FileNotFoundError:
            return []
        return data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n")
