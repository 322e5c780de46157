"""What is noted of a session's turns, a line for each, which begins with the id of the answer.

``NAME.runs`` has the hash of the artifact of each turn that is recorded. ``NAME.sizes`` has how many
tokens a prompt was counted, where none before it had more, and a hash of what it was made of.
The files are only appended to. A line that is not whole, or whose turn the session does not have, means
nothing.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ore.files import OPEN_FLAGS, UnfitFileError, read_file, reason, replace_file
from ore.files.neutral import one_line
from ore.files.trust import distrust, distrust_now

_RUN = re.compile(rb"([0-9A-Za-z_-]{1,100}) ([0-9a-f]{64})")
_SIZE = re.compile(rb"([0-9A-Za-z_-]{1,100}) ([1-9][0-9]{0,15}) ([0-9a-f]{64})")
_LIMIT = 1 << 24


def read_runs(path: Path, report: Callable[[str], None]) -> dict[str, str]:
    """Return the SHA-256 of the artifact of each run that the file names.

    Empty, with a report of the reason, where it can't be read or trusted.
    """
    return {run[1].decode(): run[2].decode() for run in _lines(path, _RUN, report)}


def add_runs(path: Path, runs: dict[str, str]) -> None:
    """Append a line for each run; raises ``OSError``. The folder must be there."""
    _append(path, "".join(f"{execution_id} {sha256}\n" for execution_id, sha256 in runs.items()))


def read_sizes(path: Path, report: Callable[[str], None]) -> dict[str, tuple[int, str]]:
    """Return how many tokens each prompt had that the file names, and the hash of what it was made of.

    Empty, with a report of the reason, where it can't be read or trusted.
    """
    lines = _lines(path, _SIZE, report)
    return {each[1].decode(): (int(each[2]), each[3].decode()) for each in lines}


def add_size(path: Path, id: str, tokens: int, made_of: str) -> None:
    """Append the line of one answer's prompt; raises ``OSError``. The folder must be there."""
    _append(path, f"{id} {tokens} {made_of}\n")


def _lines(
    path: Path, pattern: re.Pattern[bytes], report: Callable[[str], None]
) -> Iterator[re.Match[bytes]]:
    why = ""
    try:
        data, status = read_file(path, _LIMIT, follow=False)
        why = distrust_now(path.parent) or distrust(status, path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    except OSError as exc:
        why = reason(exc)
    if why:
        report(f"{one_line(str(path))} is not used: {why}.")
        return
    yield from (match for line in data.split(b"\n") if (match := pattern.fullmatch(line)))


def _append(path: Path, text: str) -> None:
    """Append ``text``. A last line that is not whole, as a full disk leaves one, is ended first."""
    if why := distrust_now(path.parent):
        raise PermissionError(errno.EPERM, f"nothing in its folder is used: {why}")
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise UnfitFileError(errno.EINVAL, "it is not a regular file")
        if found.st_nlink > 1:
            # A copy made of links, or a trap: what else has those bytes is not ours to change.
            replace_file(path, [read_file(path, _LIMIT, follow=False)[0]])
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | OPEN_FLAGS
    with open(os.open(path, flags, 0o600), "r+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            text = text if file.read() == b"\n" else f"\n{text}"
        file.write(text.encode("utf-8", "backslashreplace"))
