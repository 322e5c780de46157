"""The session files of one folder: read strictly, written only as a continuation.

Knows nothing about locks: whoever writes holds the session's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from ore.store.names import check_name
from ore.store.session_text import MAX_BYTES, SessionText, decode, is_continuation
from ore.types import Session

_MOST_REMEMBERED = 4


@dataclass
class _Remembered:
    """What is known of a file, so that it need not be read, nor its messages encoded, again.

    A file with this ``fingerprint`` holds ``loaded``, or the first ``written`` messages of ``text``.
    """

    fingerprint: tuple[int, ...] | None = None
    loaded: Session | None = None
    text: SessionText | None = None
    written: int = 0


class SessionFiles:
    """``NAME.json`` for every session, and ``.NAME.tmp`` while one is being replaced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._remembered: dict[str, _Remembered] = {}

    @contextmanager
    def folder(self, name: str) -> Iterator[Folder]:
        """Yield the folder for a session that should be there.

        Raises:
            SessionNotFoundError: The folder is missing, or a file in the block.
            SessionError: For any other ``OSError`` in the block.
            FileAccessError: The folder can't be trusted.
        """
        try:
            with Folder(self._root) as folder:
                yield folder
        except SessionError:  # some of them are also an OSError
            raise
        except FileNotFoundError as exc:
            raise SessionNotFoundError(
                f"There is no session '{name}' in {self._root}: --list-sessions shows those there "
                f"are.",
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
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise FileAccessError(
                f"{self._root} can't be read: {reason(exc)}.", self._root
            ) from exc
        names = set()
        for file in files:
            if file.startswith(".") or not file.endswith(".json"):
                continue
            try:
                names.add(check_name(file.removesuffix(".json")))
            except SessionNameError:
                report(f"{file!r} in {self._root} is left out: its name is no session's.")
        return sorted(names)

    def load(self, folder: Folder, name: str) -> Session:
        """Return the session, and remember its file so that continuing it need not read it."""
        session, status = self.read(folder, name)
        known = self._recall(name)
        known.fingerprint = _fingerprint(status)
        known.loaded = Session(list(session.messages), session.id, session.created_at)
        return session

    def read(
        self, folder: Folder, name: str, failed: str = "can't be read"
    ) -> tuple[Session, os.stat_result]:
        """Return the session and what the system says of the file.

        Raises:
            InvalidSessionError: The file is no session; ``failed`` is what did not work.
            OSError: The system's reason.
        """
        data, status = self.read_bytes(folder, name, failed)
        try:
            return decode(data), status
        except ValueError as exc:
            raise InvalidSessionError(
                f"The session '{name}' {failed}: {exc}. The file {self._path(name)} is left as it "
                f"is; --salvage-session {name} copies its whole turns to a new session.",
                name,
            ) from exc

    def read_bytes(
        self, folder: Folder, name: str, failed: str = "can't be read"
    ) -> tuple[bytes, os.stat_result]:
        """Return what is in a session's file, which may be damaged; raises what ``read`` raises."""
        try:
            return folder.read(f"{name}.json", MAX_BYTES)
        except UnfitFileError as exc:
            raise InvalidSessionError(
                f"The session '{name}' {failed}: {reason(exc)}. {self._path(name)} is left as it is; "
                f"choose another name, or move it away.",
                name,
            ) from exc

    def write(self, folder: Folder, session: Session, name: str) -> bool:
        """Write a session whose lock is held; return whether the disk confirmed it.

        Raises:
            SessionChangedError: The file holds what the session does not continue.
            InvalidSessionError: The file is no session, or the session could not be read again.
            SessionNotSavedError: The session is too large to be read again.
            OSError: It could not be written; the file is as it was.
        """
        file, mode = f"{name}.json", 0o600
        known = self._recall(name)
        is_grown = known.text is not None and known.text.grows_into(session)
        try:
            status = folder.stat(file)
            if known.fingerprint != _fingerprint(status):
                known.loaded, status = self.read(folder, name, "was not saved, for its file is bad")
                known.fingerprint = _fingerprint(status)
            _require_continuation(session, known, is_grown, name)
            mode &= status.st_mode
        except FileNotFoundError:  # it was not there, or was removed meanwhile
            pass
        try:
            text, data = _encoded(session, known.text if is_grown else None, name)
        except BaseException:  # an interrupt may have left the text half grown
            self.forget(name)
            raise
        with deferred_signals():
            status, is_confirmed = folder.replace(file, f".{name}.tmp", [data], mode)
            known.fingerprint, known.loaded = _fingerprint(status), None
            known.text, known.written = text, len(text)
        return is_confirmed

    def forget(self, *names: str) -> None:
        """Forget what is known of files that were renamed or removed."""
        for name in names:
            self._remembered.pop(name, None)

    def _recall(self, name: str) -> _Remembered:
        """Return what is known of a file; what was not asked for lately is forgotten."""
        known = self._remembered.pop(name, None) or _Remembered()
        self._remembered[name] = known
        if len(self._remembered) > _MOST_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return known

    def _path(self, name: str) -> Path:
        return self._root / f"{name}.json"


def _require_continuation(session: Session, known: _Remembered, is_grown: bool, name: str) -> None:
    stored = known.loaded
    if stored is None:
        if is_grown:
            return
        assert known.text is not None, "a file that is known was loaded or written"
        stored = known.text.beginning(known.written)
    if not is_continuation(session, stored):
        raise SessionChangedError(
            f"The session '{name}' changed on disk: not saved. What was to be saved does not "
            f"continue what is there now; save it under another name.",
            name,
        )


def _encoded(
    session: Session, text: SessionText | None, name: str
) -> tuple[SessionText, bytearray]:
    try:
        text = SessionText(session) if text is None else text
        data = text.extend(session)
    except ValueError as exc:
        raise InvalidSessionError(
            f"The session '{name}' was not saved, for it could not be read again: {exc}.", name
        ) from exc
    if len(data) > MAX_BYTES:
        raise SessionNotSavedError(
            f"The session '{name}' was not saved: it is larger than {MAX_BYTES:,} bytes. Go on in "
            f"a new session.",
            name,
        )
    return text, data


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
