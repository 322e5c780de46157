"""Files that are replaced only where they are of the kind that is written, or empty."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress

from ore.errors import FileAccessError, OutputError
from ore.files import read_regular, reason, replace_file
from ore.files.neutral import one_line
from ore.files.trust import kept_mode


def check_owned(path: str, begin: bytes, what: str) -> None:
    """Raise ``OutputError`` where a file can't be written to ``path``.

    Args:
        path: The file.
        begin: What every file of its kind begins with.
        what: The beginning of a sentence: what is written.
    """
    if why := _why_not(path, begin):
        raise OutputError(f"{what} can't be written to {one_line(path)}: {why}.", path)


def write_owned(path: str, chunks: Iterable[bytes], begin: bytes, what: str, mode: int) -> None:
    """Write a file whole, in the place of one of its kind, with the permissions of ``kept_mode``.

    Args:
        path, begin, what: As ``check_owned`` has them; it is asked once more.
        chunks: The bytes.
        mode: The permissions of a new file.

    Raises:
        OutputError: It can't be written; what was there is as it was.
    """
    check_owned(path, begin, what)
    with suppress(OSError):  # a new one, as a rule
        mode = kept_mode(os.lstat(path), mode)
    try:
        replace_file(path, chunks, mode=mode)
    except OSError as exc:
        raise OutputError(
            f"{what} can't be written to {one_line(path)}: {reason(exc)}.", path
        ) from exc


def _why_not(path: str, begin: bytes) -> str:
    folder = os.path.dirname(path) or "."
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            return f"there is no folder {one_line(folder)}; make it first"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {one_line(folder)} can't be written to"
        return ""
    except (OSError, ValueError) as exc:
        return reason(exc)
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file; name another"
    if not os.access(path, os.R_OK):
        return "it is there already and can't be read; name another file"
    try:
        is_own = not status.st_size or read_regular(path, sys.maxsize, head=len(begin)) == begin
    except FileAccessError as exc:
        why = reason(exc.__cause__ or exc)
        return f"it is there already and can't be read ({why}); name another file"
    return (
        "" if is_own else "it is there already and is not such a report of ORE's; name another file"
    )
