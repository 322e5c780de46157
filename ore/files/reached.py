"""Whether it can be told what is at a path, or in it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ore.files import reason


def why_unknown(path: Path | str) -> str:
    """Return why it can't be told whether there is something at ``path``; "" where it can."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError as exc:
        return "" if exc.errno == errno.ENAMETOOLONG else reason(exc)
    return ""


def why_unread(error: BaseException) -> str:
    """Return why the system did not give what is in a file; "" where the file itself is at fault.

    Args:
        error: What reading it raised, made of what the system said.
    """
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno in (None, errno.ELOOP, errno.ENOENT):
        return ""
    return reason(cause) if cause.strerror == os.strerror(cause.errno) else ""
