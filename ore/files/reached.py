"""Whether it can be told what is at a path."""

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
