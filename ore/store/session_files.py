"""The session files of one folder: read strictly, written only as a continuation.

Whoever writes holds the session's lock.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ore.errors import (
    FileAccessError,
    InvalidSessionError,
    SessionChangedError,
    SessionError,
    SessionNameError,
    SessionNotFoundError,
    SessionNotSavedError,
)
from ore.files import UnfitFileError, reason
from ore.files.folder import Folder
from ore.files.signals import deferred_signals
from ore.store.names import META, check_name
from ore.store.session_text import LARGEST_SESSION, decode, encode, is_continuation
from ore.types import Session

_MOST_KNOWN = 4


@dataclass(frozen=True)
class _Known:
    """What is known of a file, so that it need not be read, nor its messages encoded, again.

    A file with this ``fingerprint`` holds ``session``; where it was written here, ``text`` and
    ``ids`` are what ``encode`` made of it.
    """

    fingerprint: tuple[int, ...]
    session: Session
    text: bytearray = field(default_factory=bytearray)
    ids: set[str] = field(default_factory=set[str])


class SessionFiles:
    """``NAME.json`` for every session, and ``.NAME.tmp`` while one is replaced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, _Known] = {}

    @contextmanager
    def folder(self, name: str) -> Iterator[Folder]:
        """Yield the folder for a session that should be there; name it in a failure of the block."""
        try:
            with Folder(self._root) as folder:
                yield folder
        except SessionError:  # some of them are also an OSError
            raise
        except FileNotFoundError as exc:
            raise SessionNotFoundError(
                f"There is no session '{name}' in {self._root}: `FileSessionStore.list()` shows "
                f"those there are.",
                name,
            ) from exc
        except OSError as exc:
            raise SessionError(
                f"The session '{name}' can't be used: {reason(exc)} ({self._path(name)}).", name
            ) from exc

    def names(self, report: Callable[[str], None]) -> list[str]:
        """Return the names of the session files, sorted; report files that no name can reach."""
        try:
            with Folder(self._root) as folder:
                files = sorted(folder.names())
                unreached = {file for file in files if not _is_reached(folder, file)}
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise FileAccessError(
                f"{self._root} can't be read: {reason(exc)}.", self._root
            ) from exc
        names, there = set(), {file.casefold() for file in files}  # a disk may take both for one
        for file in files:
            if file.startswith(".") or not file.endswith(".json"):
                continue
            if file.endswith(META) and f"{file.removesuffix(META)}.json".casefold() in there:
                continue
            try:
                name = check_name(file.removesuffix(".json"))
            except SessionNameError:
                report(f"{file!r} in {self._root} is left out: it is not a session's name.")
                continue
            if file in unreached:
                report(
                    f"{file!r} in {self._root} is left out: its letters and accents are stored apart, "
                    f"as macOS does it, so no name finds it here; give the file another name."
                )
                continue
            names.add(name)
        return sorted(names)

    def load(self, folder: Folder, name: str) -> Session:
        """Return the session, and remember its file so that continuing it need not read it."""
        session, status = self.read(folder, name)
        self._remember(name, _Known(_fingerprint(status), _copy(session)))
        return session

    def read(
        self, folder: Folder, name: str, failed: str = "can't be read"
    ) -> tuple[Session, os.stat_result]:
        """Return the session and its file's status; ``failed`` says what a bad file led to."""
        data, status = self.read_bytes(folder, name, failed)
        try:
            return decode(data), status
        except ValueError as exc:
            rescue = "delete the session, or choose another name"
            if b'"assistant"' in data:
                salvage = f"`FileSessionStore.salvage('{name}')`"
                rescue = f"{salvage} copies its complete turns to a new session"
            raise InvalidSessionError(
                f"The session '{name}' {failed}: {exc}. The file {self._path(name)} is left as it "
                f"is; {rescue}.",
                name,
            ) from exc

    def read_bytes(
        self, folder: Folder, name: str, failed: str = "can't be read"
    ) -> tuple[bytes, os.stat_result]:
        """Return what is in a session's file, which may be damaged, and the file's status."""
        try:
            return folder.read(f"{name}.json", LARGEST_SESSION)
        except UnfitFileError as exc:
            raise InvalidSessionError(
                f"The session '{name}' {failed}: {reason(exc)}. {self._path(name)} is left as it "
                f"is; choose another name, or move it away.",
                name,
            ) from exc

    def write(self, folder: Folder, session: Session, name: str) -> bool:
        """Write a session whose lock is held; return whether the disk confirmed it."""
        file, mode, text, ids = f"{name}.json", 0o600, bytearray(), set[str]()
        with suppress(FileNotFoundError):  # it was not there, or was removed meanwhile
            status = folder.stat(file)
            known = self._known.get(name)
            if known is None or known.fingerprint != _fingerprint(status):
                stored, status = self.read(folder, name, "was not saved, because its file is bad")
                known = _Known(_fingerprint(status), stored)
            if not is_continuation(session, known.session):
                raise SessionChangedError(
                    f"The session '{name}' changed on disk: not saved. What was to be saved does "
                    f"not continue what is there now; save it under another name.",
                    name,
                )
            text, ids = known.text, known.ids
            mode &= status.st_mode
        try:
            end = _encode(session, text, ids, name)
            written = _copy(session)
            with deferred_signals():
                status, is_confirmed = folder.replace(file, f".{name}.tmp", [text, end], mode)
                self._remember(name, _Known(_fingerprint(status), written, text, ids))
        except BaseException:  # an interrupt, too, may have left the text half grown
            self.forget(name)
            raise
        return is_confirmed

    def forget(self, *names: str) -> None:
        """Forget what is known of files that were renamed or removed."""
        for name in names:
            self._known.pop(name, None)

    def _remember(self, name: str, known: _Known) -> None:
        """Note what is known of a file; what was not used lately is forgotten."""
        self.forget(name)
        self._known[name] = known
        if len(self._known) > _MOST_KNOWN:
            self.forget(next(iter(self._known)))

    def _path(self, name: str) -> Path:
        return self._root / f"{name}.json"


def require_regular(folder: Folder, name: str) -> None:
    """Raise ``SessionError`` where the session's file is not a regular one."""
    if not stat.S_ISREG(folder.stat(f"{name}.json").st_mode):
        raise SessionError(
            f"The session '{name}' is not a regular file and is left as it is: see to "
            f"{folder.path / name}.json yourself.",
            name,
        )


def _is_reached(folder: Folder, file: str) -> bool:
    """Return whether the one spelling that names have leads to a file, as on disks that take all for one."""
    spelled = unicodedata.normalize("NFC", file)
    try:
        return spelled == file or folder.is_same(spelled, file)
    except OSError:  # no file can have that name
        return False


def _encode(session: Session, text: bytearray, ids: set[str], name: str) -> bytes:
    try:
        end = encode(session, text, ids)
    except ValueError as exc:
        raise InvalidSessionError(
            f"The session '{name}' was not saved, because it could not be read again: {exc}.", name
        ) from exc
    if len(text) + len(end) > LARGEST_SESSION:
        raise SessionNotSavedError(
            f"The session '{name}' was not saved: it is larger than {LARGEST_SESSION:,} bytes. Go "
            f"on in a new session.",
            name,
        )
    return end


def _copy(session: Session) -> Session:
    return Session(list(session.messages), session.id, session.created_at)


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
