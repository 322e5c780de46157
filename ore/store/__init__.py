"""Sessions on disk: one JSON file each, replaced whole, locked while it is open for saving.

A name is only a handle; a session's id is its identity.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from ore.errors import InvalidSessionError, SessionError, SessionExistsError, SessionNotFoundError
from ore.files.folder import Folder
from ore.files.trust import home_folder
from ore.store.beginnings import Beginning, copy_beginning, read_beginning, write_beginning
from ore.store.beside import RUNS, SIZES, TYPED, remove_along, take_along
from ore.store.facts import Found, Salvaged, SessionDetails, describe, search
from ore.store.names import check_name, salvaged_name
from ore.store.salvage import salvage_turns
from ore.store.session_files import SessionFiles, require_regular
from ore.store.session_locks import SessionLocks, saving
from ore.store.session_notes import add_runs, add_size, read_runs, read_sizes
from ore.types import Session

__all__ = [
    "Beginning",
    "FileSessionStore",
    "Found",
    "Salvaged",
    "SessionDetails",
    "SessionStore",
    "check_name",
]


class SessionStore(ABC):
    """Where sessions are kept, each under a name."""

    @abstractmethod
    def save(self, session: Session, name: str) -> None:
        """Keep ``session`` under ``name``; when this returns, it is kept."""

    @abstractmethod
    def load(self, name: str) -> Session:
        """Return the session that is kept under ``name``."""

    @abstractmethod
    def list(self) -> list[str]:
        """Return the names of the sessions there are, sorted."""


class FileSessionStore(SessionStore):
    """Sessions as JSON files in one private folder, which may be deleted at any time.

    An object of this class is for one thread.

    Args:
        root: The folder; None is ``sessions`` in ORE's home, looked up now.
        report: Called with one sentence for what did not stop an operation but should be known: a
            file that a list leaves out, a save that a power cut may undo.
        wait: How long a save that does not hold the lock waits for another process, in seconds.

    Raises:
        HomeError: No absolute home is known, or others can write to it.
    """

    def __init__(
        self,
        root: Path | str | None = None,
        *,
        report: Callable[[str], None] | None = None,
        wait: float = 10.0,
    ) -> None:
        self.root: Path = home_folder("sessions") if root is None else Path(root).absolute()
        self._report = report or (lambda sentence: None)
        self._wait = wait
        self._files = SessionFiles(self.root)
        self._locks = SessionLocks(self.root)

    def save(self, session: Session, name: str) -> None:
        """Write the whole session; when this returns, it is on disk.

        The file is made, or replaced if the session continues what it holds; nothing else is ever
        overwritten. SIGINT, SIGTERM and SIGHUP wait for the milliseconds that this takes. A save that
        does not hold the lock takes it for the moment.

        Raises:
            SessionNameError: The name is illegal.
            SessionChangedError: The file holds what the session does not continue.
            InvalidSessionError: The file can't be read, or the session could not be read again.
            SessionInUseError: Another process has it open for saving, and did not end in time.
            SessionNotSavedError: It could not be written; the file is as it was.
        """
        self._write(session, name, is_new=False)

    def create(self, session: Session, name: str) -> None:
        """Save ``session`` as ``save`` does, or raise ``SessionExistsError``: ``name`` must be free."""
        self._write(session, name, is_new=True)

    def load(self, name: str) -> Session:
        """Return the session of that name, read strictly; its file is never changed.

        Raises:
            SessionNameError: The name is illegal.
            SessionNotFoundError: There is no such session.
            InvalidSessionError: The file is not a session; the sentence says what is wrong, and where.
            SessionError: The system can't read it.
            FileAccessError: The folder can't be trusted.
        """
        name = check_name(name)
        with self._files.folder(name) as folder:
            return self._files.load(folder, name)

    def exists(self, name: str) -> bool:
        """Return whether ``name`` is taken, be it by a file that is not a session."""
        name = check_name(name)
        with suppress(SessionNotFoundError), self._files.folder(name) as folder:
            return folder.has(f"{name}.json")
        return False

    def refuse_existing(self, name: str) -> None:
        """Return where ``name`` is free.

        Raises:
            SessionExistsError: It is taken.
        """
        if self.exists(name):
            raise _taken(check_name(name))

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[None]:
        """Return a context in which no other process saves under ``name``; it need not exist yet.

        Args:
            name: The session's name.
            wait: How long to wait for another process that has it, in seconds.

        Raises:
            SessionInUseError: Another process, or this store, has it open; ``pid`` says which.
            SessionNotSavedError: No lock can be made, so nothing could be saved either.
        """
        return self._locks.hold(check_name(name), wait)

    def typed_file(self, name: str) -> Path:
        """Return where a REPL may keep what was typed into the session ``name``."""
        return self.root / (check_name(name) + TYPED)

    def beginning(self, name: str) -> Beginning | None:
        """Return what the session ``name`` was begun with, or None; raises ``InvalidSessionError``."""
        return read_beginning(self.root, check_name(name))

    def begin(self, name: str, beginning: Beginning) -> None:
        """Keep ``beginning`` beside the session ``name``, which is locked here; report a failure."""
        write_beginning(self.root, check_name(name), beginning, self._report)

    def runs(self, name: str) -> dict[str, str]:
        """Return of each recorded turn of ``name`` its artifact's SHA-256, by the id of its answer."""
        return read_runs(self.root / (check_name(name) + RUNS), self._report)

    def add_runs(self, name: str, runs: dict[str, str]) -> None:
        """Note ``runs``, as ``runs()`` returns them, beside ``name``; raises ``OSError``."""
        add_runs(self.root / (check_name(name) + RUNS), runs)

    def sizes(self, name: str) -> dict[str, tuple[int, str]]:
        """Return how many tokens prompts of ``name`` had, and what of, by the id of the answer."""
        return read_sizes(self.root / (check_name(name) + SIZES), self._report)

    def add_size(self, name: str, id: str, tokens: int, made_of: str) -> None:
        """Note that the prompt of the answer ``id`` had so many ``tokens``, beside ``name``.

        ``made_of`` is a hash of what it was made of. Raises ``OSError``.
        """
        add_size(self.root / (check_name(name) + SIZES), id, tokens, made_of)

    def details(self, name: str) -> SessionDetails:
        """Return what a list says of the session ``name``; raises what ``load`` raises."""
        name = check_name(name)
        with self._files.folder(name) as folder:
            session, status = self._files.read(folder, name)
        return describe(session, name, status.st_mtime)

    def details_of_all(self) -> list[SessionDetails]:
        """Return what a list says of every session, the last used first; report bad files."""
        found = [describe(session, name, status.st_mtime) for name, session, status in self._all()]
        return sorted(found, key=lambda details: (-details.last_used, details.name))

    def latest(self) -> str | None:
        """Return the name of the session that was saved last, or None; no file is read."""
        used = {}
        for name in self._files.names(self._report):
            with suppress(SessionNotFoundError), self._files.folder(name) as folder:
                status = folder.stat(f"{name}.json")
                if stat.S_ISREG(status.st_mode):
                    used[name] = status.st_mtime_ns
        return min(used, key=lambda name: (-used[name], name), default=None)

    def search(self, text: str) -> list[Found]:
        """Return the messages that hold ``text``, in any case, by name; report bad files."""
        return [*self.each_found(text)]

    def each_found(self, text: str) -> Iterator[Found]:
        """Yield the messages that hold ``text``, a session at a time, for all may be much."""
        return (found for name, session, _ in self._all() for found in search(session, name, text))

    def rename(self, old: str, new: str) -> None:
        """Give a session another name; its id, its messages and its age stay.

        Raises:
            SessionNotFoundError: There is no session ``old``.
            SessionExistsError: ``new`` is taken.
            SessionInUseError: Another process has one of the two open for saving.
            SessionError: It is not a regular file, or the system can't rename it.
        """
        old, new = check_name(old), check_name(new)
        with self._files.folder(old) as folder:
            require_regular(folder, old)
            with self._locks.locked(folder, old, 0.0):
                if old == new:
                    raise _taken(new)
                # Where the file system takes both names for one, there is one lock, and it is held.
                is_respelled = folder.is_same(f".{old}.lock", f".{new}.lock")
                with nullcontext() if is_respelled else self._locks.locked(folder, new, 0.0):
                    if not is_respelled and folder.has(f"{new}.json"):
                        raise _taken(new)
                    folder.rename(f"{old}.json", f"{new}.json")
                    take_along(folder, old, new, self._report)
                    self._report_sync(new, folder.sync())
        self._files.forget(old, new)

    def delete(self, name: str) -> None:
        """Remove the file of the session ``name``, whatever is in it.

        Raises:
            SessionNotFoundError: There is no such session.
            SessionInUseError: Another process has it open for saving.
            SessionError: It is not a regular file, or the system can't remove it.
        """
        name = check_name(name)
        with self._files.folder(name) as folder:
            require_regular(folder, name)
            with self._locks.locked(folder, name, 0.0):
                folder.remove(f"{name}.json")
                remove_along(folder, name, self._report)
                self._report_sync(name, folder.sync())
        self._files.forget(name)

    def salvage(self, name: str) -> Salvaged:
        """Copy the whole turns of the damaged session ``name`` into a new one; its file stays.

        The new session is ``NAME.salvaged``, ``NAME.salvaged-2``, ..., with an id of its own; the
        messages keep theirs.

        Raises:
            InvalidSessionError: There is no whole turn in it, or it is not a regular file.
            SessionError: What ``load`` and ``save`` raise.
        """
        name = check_name(name)
        with self._files.folder(name) as folder:
            data, _ = self._files.read_bytes(folder, name)
        messages = salvage_turns(data)
        if not messages:
            raise InvalidSessionError(
                f"Nothing was salvaged of the session '{name}': there is no complete turn in "
                f"{self.root / name}.json, which is left as it is.",
                name,
            )
        session, number = Session(messages), 1
        while True:
            new = salvaged_name(name, number)
            try:
                self.create(session, new)
                break
            except SessionExistsError:
                number += 1
        copy_beginning(self.root, name, new, session.id, self._report)
        return Salvaged(new, len(messages) // 2)

    def list(self) -> list[str]:
        """Return the names of the sessions that can be loaded, sorted; report the others."""
        return [name for name, _, _ in self._all()]

    def _write(self, session: Session, name: str, *, is_new: bool) -> None:
        name = check_name(name)
        with saving(name), Folder(self.root, make=True) as folder:
            with self._locks.locked(folder, name, self._wait):
                if is_new and folder.has(f"{name}.json"):
                    raise _taken(name)
                is_confirmed = self._files.write(folder, session, name)
        self._report_sync(name, is_confirmed)

    def _all(self) -> Iterator[tuple[str, Session, os.stat_result]]:
        for name in self._files.names(self._report):
            try:
                with self._files.folder(name) as folder:
                    session, status = self._files.read(folder, name)
            except SessionNotFoundError:  # removed meanwhile
                continue
            except SessionError as exc:
                self._report(str(exc))
                continue
            yield name, session, status

    def _report_sync(self, name: str, is_confirmed: bool) -> None:
        if not is_confirmed:
            self._report(
                f"The disk did not confirm the change of the session '{name}': it is made, but a "
                f"power cut may undo it."
            )


def _taken(name: str) -> SessionExistsError:
    return SessionExistsError(
        f"There is a session '{name}' already, and nothing is overwritten: resume it, or choose "
        f"another name.",
        name,
    )
