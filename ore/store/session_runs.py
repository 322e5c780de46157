"""Which turns of a session are recorded: a line for each, the id of the run and its artifact's hash.

The file is only appended to. A line that is not whole, or whose turn the session does not have, means
nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ore.errors import FileAccessError
from ore.files import OPEN_FLAGS, read_regular

_LINE = re.compile(rb"([0-9A-Za-z_-]{1,100}) ([0-9a-f]{64})")
_LIMIT = 1 << 24


def read_runs(path: Path) -> dict[str, str]:
    """Return the SHA-256 of the artifact of each run that the file names; none where it can't be read."""
    try:
        lines = read_regular(path, _LIMIT, follow=False).split(b"\n")
    except FileAccessError:
        return {}
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    return {match[1].decode(): match[2].decode() for match in found}


def add_runs(path: Path, runs: dict[str, str]) -> None:
    """Append a line for each run; raises ``OSError``. The folder must be there.

    A last line that is not whole, as a full disk leaves one, is ended first.
    """
    text = "".join(f"{execution_id} {sha256}\n" for execution_id, sha256 in runs.items())
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | OPEN_FLAGS
    with open(os.open(path, flags, 0o600), "r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            text = text if file.read() == b"\n" else f"\n{text}"
        file.write(text.encode("utf-8", "backslashreplace"))
