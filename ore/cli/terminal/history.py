"""What was typed, kept in ``~/.ore/history`` for the next run: one entry a line, oldest first.

A file that can't be read or written is no reason to stop. Knows nothing about terminals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ore.errors import OreError
from ore.files.folder import Folder
from ore.files.home import ore_home

MOST_ENTRIES = 1000
MOST_BYTES = 16 * 1024
"""The longest entry that is kept, in bytes as written."""

_NAME = "history"
_LIMIT = 2 * MOST_ENTRIES * MOST_BYTES
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}


class History:
    """The entries of earlier runs, and a place for the next one.

    Args:
        environ: ``ORE_NO_HISTORY``, if it is set to anything, keeps the file unread and unwritten.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = None
        if not environ.get("ORE_NO_HISTORY"):
            try:
                self._path = ore_home(environ)
            except OreError:
                pass  # there is nowhere to keep it

    def entries(self) -> list[str]:
        """Return the last ``MOST_ENTRIES`` entries, oldest first; a longer file is cut to them."""
        if self._path is None:
            return []
        try:
            with Folder(self._path) as folder:
                data, _ = folder.read(_NAME, _LIMIT)
                lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
                if len(lines) > MOST_ENTRIES:
                    lines = lines[-MOST_ENTRIES:]
                    _rewrite(folder, lines)
        except (OSError, OreError, ValueError):
            return []
        return [_decode(line) for line in lines if line]

    def add(self, entry: str) -> None:
        """Put an entry at the end of the file, which only this user can read."""
        line = (_encode(entry) + "\n").encode("utf-8", "replace")
        if self._path is None or len(line) > MOST_BYTES:
            return
        try:
            with Folder(self._path, make=True) as folder:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                descriptor = folder.open(_NAME, flags, 0o600)
                try:
                    if hasattr(os, "fchmod"):  # pragma: no branch  # Windows has none
                        os.fchmod(descriptor, 0o600)
                    os.write(descriptor, line)
                finally:
                    os.close(descriptor)
        except (OSError, OreError):
            self._path = None  # it would fail again


def _rewrite(folder: Folder, lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode("utf-8")
    folder.replace(_NAME, f".{_NAME}.{os.getpid()}.tmp", [data], 0o600)


def _encode(entry: str) -> str:
    """Return an entry as one line of a file."""
    return entry.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _decode(line: str) -> str:
    return re.sub(r"\\[\\nr]", lambda found: _ESCAPES[found[0]], line)
