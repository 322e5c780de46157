"""Files that are named: their text, or that of a folder's files, as context of a turn.

Naming a file grants reading it, a link too; naming a folder grants what is in it, and no link out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ore.errors import FileAccessError, UsageError
from ore.files import decode_text, read_confined, read_regular, reason
from ore.files.neutral import as_utf8, one_line
from ore.types import ToolResult
from ore.types.sent import listed

LARGEST_FILE = 1 << 20
"""The most bytes of a file."""

MOST_FILES, MOST_CHARACTERS = 1000, 16_000_000
"""How many text files of a folder are read at most, and their characters together."""

MOST_TOGETHER = 1 << 26
"""Characters of all that is named: as many as a prompt may have. One file may be named often."""

_MOST_LOOKED_AT, _MOST_IN_ALL = 20_000, 100_000
"""Files and folders of a folder, of whatever kind, and of all that is named; one may be named often."""
_MOST_IN_VAIN = 2 << 30
"""Bytes that are read, in all folders, of files that turn out not to be text."""

_MOST_NAMED = 3
_MOST_TOLD = 100  # folders whose contents are reported
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def read_files(
    paths: Iterable[Path | str], notice: Callable[[str], None] = lambda told: None
) -> list[ToolResult]:
    """Return the texts of files, and of the files of folders in order of name, as ``--file`` does.

    Each is the result of a tool ``file:PATH``, to be given to a turn; naming it was the permission.

    Args:
        paths: Files and folders, in the order in which they are read. In a folder, what is hidden, a
            link, no text or larger than ``LARGEST_FILE`` is left out.
        notice: Called for each folder with what was read of it, and what was left out.

    Raises:
        UsageError: An address: the network is no part of a turn; or ``paths`` is one path.
        FileAccessError: A file is not text, can't be read or is larger than ``LARGEST_FILE``; a
            folder has no text file, or too many; or all of them together are too much.
    """
    found, size, seen = list[ToolResult](), 0, _Seen()
    for path in (os.fspath(each) for each in listed("paths", paths)):
        if _ADDRESS.match(path) and not os.path.lexists(path):
            shown = re.sub("//.*@", "//…@", one_line(path))  # without a user and a password
            raise UsageError(
                f"{shown} is an address, and the network has no part in a turn: fetch it first "
                f"(curl ADDRESS > page.txt), then name that file."
            )
        if os.path.isdir(path):
            read = _read_folder(path, notice, seen)
        else:
            read = [_result(path, read_regular(path, LARGEST_FILE))]
        found += read
        size += sum(len(each.output) for each in read)
        if size > MOST_TOGETHER or len(found) > _MOST_LOOKED_AT:
            raise FileAccessError(
                f"The files that are named are more than {_MOST_LOOKED_AT:,}, or have more than "
                f"{MOST_TOGETHER >> 20} Mi characters together: name fewer.",
                path,
            )
    if seen.untold:
        notice(f"What was left out of further folders is not listed: {seen.untold:,}.")
    return found


class _Seen:
    """What was looked at in all folders that are named: how many files, and bytes that are no text.

    Attributes:
        untold: How many folders had something left out that was not reported.
    """

    def __init__(self) -> None:
        self._files = self._in_vain = self._told = self.untold = 0

    def tell(self, text: str, left_out: str, notice: Callable[[str], None]) -> None:
        """Say what was read of a folder and what was left out, unless many were reported already."""
        if self._told == _MOST_TOLD:
            self.untold += bool(left_out)
            return
        self._told += 1
        notice(text)

    def add(self, folder: str, files: int = 0, in_vain: int = 0) -> None:
        """Count so many more; ``FileAccessError`` is raised where they are too many."""
        self._files += files
        self._in_vain += in_vain
        if self._files > _MOST_IN_ALL or self._in_vain > _MOST_IN_VAIN:
            raise FileAccessError(
                f"The folders that are named have more than {_MOST_IN_ALL:,} files together, or more "
                f"than {_MOST_IN_VAIN >> 30} GiB that is not text: name files, or fewer folders.",
                folder,
            )


def _read_folder(folder: str, notice: Callable[[str], None], seen: _Seen) -> list[ToolResult]:
    shown, read, size = one_line(folder.rstrip("/") or "/"), list[ToolResult](), 0
    left_out: dict[str, list[str]] = {}
    for name, why in _names(folder, seen):
        result = None if why else _read_below(folder, name, seen)
        if isinstance(result, ToolResult):
            read.append(result)
            size += len(result.output)
        else:
            left_out.setdefault(result or why, []).append(one_line(name))
        if len(read) > MOST_FILES or size > MOST_CHARACTERS:
            raise FileAccessError(
                f"{shown} has more text than {MOST_FILES:,} files or {MOST_CHARACTERS:,} characters: "
                f"name files, or a folder with less in it.",
                folder,
            )
    said = "; ".join(f"{why} ({_listed(left_out[why])})" for why in sorted(left_out))
    if not read:
        why = f": {said}" if said else ""
        raise FileAccessError(f"{shown} has no text file to read{why}. Name another.", folder)
    files = "1 file is" if len(read) == 1 else f"{len(read):,} files are"
    left = f"; left out: {said}" if said else ""
    seen.tell(f"The folder {shown}: {files} read{left}.", left, notice)
    return read


def _read_below(folder: str, name: str, seen: _Seen) -> ToolResult | str:
    """Return the text of a file below a folder, or why it is left out."""
    try:
        data = read_confined(folder, name, LARGEST_FILE)
    except (FileAccessError, OSError):
        return "unreadable"
    try:
        if data.strip():
            return _result(os.path.join(folder, name), data)
        why = "empty"
    except FileAccessError:
        why = "not UTF-8 text"
    seen.add(folder, in_vain=len(data))
    return why


def _names(folder: str, all_seen: _Seen) -> Iterator[tuple[str, str]]:
    """Yield what is in a folder and below it, in order of name, and why it is left out, if it is."""
    waiting, seen = [""], 0
    while waiting:
        name = waiting.pop()
        path = os.path.join(folder, name)
        seen += 1
        all_seen.add(folder, files=1)
        if seen > _MOST_LOOKED_AT:
            raise FileAccessError(
                f"{one_line(folder)} has more than {_MOST_LOOKED_AT:,} files: name one with fewer.",
                folder,
            )
        try:
            status = os.lstat(path) if name else os.stat(path)
            if name and os.path.basename(name).startswith("."):
                yield name, "hidden"
            elif stat.S_ISDIR(status.st_mode):
                below = sorted(os.listdir(path), reverse=True)
                waiting += [os.path.join(name, each) for each in below]
            elif stat.S_ISLNK(status.st_mode):
                yield name, "link"
            elif not stat.S_ISREG(status.st_mode):
                yield name, "not a file"
            else:
                yield name, "too large" if status.st_size > LARGEST_FILE else ""
        except OSError as exc:
            if not name:
                raise FileAccessError(
                    f"{one_line(folder)} can't be read: {reason(exc)}.", folder
                ) from exc
            yield name, "unreadable"


def _result(path: str, data: bytes) -> ToolResult:
    shown = as_utf8(one_line(path))  # a name may have bytes that are not UTF-8
    return ToolResult(f"file:{shown}", decode_text(data, shown, path), "ok")


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
