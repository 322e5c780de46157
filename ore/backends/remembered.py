"""What was found out about a model's file, remembered for as long as the file stays as it is.

It stands beside ORE's models, in ``.digests.json``, and never beside Ollama's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ore.errors import FileAccessError
from ore.files import make_private, read_regular, replace_file, strictjson

NAME = ".digests.json"
_LIMIT = 1 << 20


def of_file(
    folder: Path, path: Path, what: str, find: Callable[[Path], str], *, anew: bool = False
) -> str:
    """Return ``find(path)``, or what it returned before of a file of this size and these times.

    One of them, when anything of the file was changed, nobody can set: who puts the other back, or brings
    what is remembered with the file, is found out.

    Args:
        folder: Where it is remembered; where nothing can be written there, it costs time only.
        what: What is found out, in a word.
        anew: Whether it is found out again, whatever is remembered.

    Raises:
        OSError: The file can't be looked at, or read.
    """
    status, name = path.stat(), os.path.realpath(path)
    names = ("size", "mtime_ns", "ctime_ns")
    facts = {each: getattr(status, f"st_{each}") for each in names}
    known = _known(folder)
    entry = known.get(name, {})
    if any(entry.get(key) != value for key, value in facts.items()):
        entry = {}
    found = entry.get(what)
    if isinstance(found, str) and not anew:
        return found
    found = find(path)
    known[name] = {**entry, **facts, what: found}
    with suppress(OSError, UnicodeEncodeError):
        make_private(folder)
        replace_file(folder / NAME, [json.dumps(known, indent=2).encode()])
    return found


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is noted of the files that are still there; nothing, where that is damaged."""
    try:
        data = read_regular(folder / NAME, _LIMIT, follow=False)
        entries = strictjson.parse(data, limit=_LIMIT).items()
    except (FileAccessError, ValueError, AttributeError):
        return {}
    return {name: e for name, e in entries if isinstance(e, dict) and os.path.exists(name)}
