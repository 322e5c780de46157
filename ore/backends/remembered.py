"""What was found out about a model's file, remembered for as long as the file stays as it is.

It stands beside ORE's models, in ``.digests.json``, and never beside Ollama's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ore.files import make_private, read_file, replace_file, strictjson
from ore.files.trust import distrust

NAME = ".digests.json"
_LIMIT = 1 << 20
_EVERY = 1.0  # seconds between two writes, where many files are looked at


class _Many:
    """What is remembered in a folder, while many files are looked at: read when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, dict[str, Any]] | None = None
        self._written_at = time.monotonic()
        self._is_new = False

    def known(self) -> dict[str, dict[str, Any]]:
        if self._known is None:
            self._known = _known(self.folder)
        return self._known

    def note(self) -> None:
        self._is_new = True
        if time.monotonic() - self._written_at > _EVERY:
            self.write()

    def write(self) -> None:
        if self._is_new:
            _write(self.folder, self.known())
            self._is_new, self._written_at = False, time.monotonic()


_MANY: ContextVar[_Many | None] = ContextVar("MANY", default=None)


@contextmanager
def of_many(folder: Path) -> Iterator[None]:
    """While it is entered, what is remembered is read once, and written now and then and at the end.

    Doing both for each file would take a time that grows with the square of their number. Within
    itself it is one.
    """
    many = _MANY.get()
    if many is not None and many.folder == folder:
        yield
        return
    many = _Many(folder)
    token = _MANY.set(many)
    try:
        yield
    finally:
        _MANY.reset(token)
        many.write()


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
    many = _MANY.get()
    if many is not None and many.folder != folder:
        many = None
    known = _known(folder) if many is None else many.known()
    entry = known.get(name, {})
    if any(entry.get(key) != value for key, value in facts.items()):
        entry = {}
    found = entry.get(what)
    if isinstance(found, str) and not anew:
        return found
    try:
        found = find(path)
    except TimeoutError:
        raise
    except OSError:  # what is remembered of it would say that it is whole
        if known.pop(name, None) is not None:
            _keep(folder, known, many)
        raise
    known.pop(name, None)  # so that it stands at the end
    known[name] = {**entry, **facts, what: found}
    _keep(folder, known, many)
    return found


def _keep(folder: Path, known: dict[str, dict[str, Any]], many: _Many | None) -> None:
    if many is None:
        _write(folder, known)
    else:
        many.note()


def _write(folder: Path, known: dict[str, dict[str, Any]]) -> None:
    """Remember what is known; where it is more than is read, the newer half of it."""
    data = json.dumps(known, indent=2).encode()
    while len(data) > _LIMIT:
        known = dict([*known.items()][(len(known) + 1) // 2 :])
        data = json.dumps(known, indent=2).encode()
    with suppress(OSError, UnicodeEncodeError):
        make_private(folder)
        replace_file(folder / NAME, [data])


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is noted of the files that are still there; nothing, where that is damaged.

    What others may have written is not believed: a pin would hold for whatever they put there.
    """
    try:
        data, status = read_file(folder / NAME, _LIMIT, follow=False)
        entries = strictjson.parse(data, limit=_LIMIT).items()
    except (OSError, ValueError, AttributeError):
        return {}
    if distrust(status, folder / NAME):
        return {}
    return {name: e for name, e in entries if isinstance(e, dict) and os.path.exists(name)}
