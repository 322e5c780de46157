"""Which sessions this process has open for saving, and what to say when another process has.

Knows nothing about what is in a session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from ore.errors import FileAccessError, SessionError, SessionInUseError, SessionNotSavedError
from ore.files import reason
from ore.files.folder import Folder
from ore.files.locks import Lock, holder, try_lock

_PAUSE = 0.005
"""Between two tries for a lock, in seconds."""


class SessionLocks:
    """The locks on the sessions of one folder: ``.NAME.lock`` beside ``NAME.json``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, Lock] = {}

    @contextmanager
    def hold(self, name: str, wait: float) -> Iterator[None]:
        """Hold the session's lock while the block runs; ``locked`` in the block does not wait.

        Raises:
            SessionInUseError: Another process, or this object, has it, for ``wait`` seconds.
            SessionNotSavedError: The lock's file can't be made.
        """
        with Saving(name, "can't be saved"), Folder(self._root, make=True) as folder:
            lock = _acquire(folder, name, wait)
        self._held[name] = lock
        try:
            yield
        finally:
            self._let_go(self._held.pop(name), name)

    def locked(
        self, folder: Folder, name: str, wait: float, *, is_saved: bool = False
    ) -> AbstractContextManager[None]:
        """Return a context in which the session's lock is held, as it is in a block of ``hold``.

        Where the lock is held already but its file was deleted, it is made and locked again.

        Args:
            folder: The sessions' folder, open.
            name: The session's name.
            wait: How long to wait for another process that has it, in seconds.
            is_saved: Whether the session's file is there for certain when the block has not
                failed; else it is looked for, as a lock's file without one is litter.

        Raises:
            SessionInUseError: On entering: another process has it, for ``wait`` seconds.
            OSError: On entering: the system's reason.
        """
        return _Locked(self, folder, name, wait, is_saved)

    def acquire(self, folder: Folder, name: str, wait: float) -> Lock | None:
        """Return the session's lock, or None where a block of ``hold`` has it and will release it.

        Raises:
            SessionInUseError: Another process has it, for ``wait`` seconds.
            OSError: The system's reason.
        """
        held = self._held.get(name)
        if held is None or held.pid != os.getpid():
            return _acquire(folder, name, wait)
        if not held.is_current(folder):
            self._held[name] = _acquire(folder, name, 0.0)
            held.release()
        return None

    def _let_go(self, lock: Lock, name: str) -> None:
        try:
            with Folder(self._root) as folder:
                _release(lock, folder, name)
        except (OSError, FileAccessError):  # the folder is gone, and the lock's file with it
            lock.release()


class _Locked(AbstractContextManager[None]):
    """What ``SessionLocks.locked`` returns; a class, for a generator costs each save more time."""

    def __init__(
        self, locks: SessionLocks, folder: Folder, name: str, wait: float, is_saved: bool
    ) -> None:
        self._locks = locks
        self._folder = folder
        self._name = name
        self._wait = wait
        self._is_saved = is_saved

    def __enter__(self) -> None:
        self._lock = self._locks.acquire(self._folder, self._name, self._wait)

    def __exit__(self, kind: object, *_: object) -> None:
        if self._lock is None:
            return
        if self._is_saved and kind is None:
            self._lock.release()
        else:
            _release(self._lock, self._folder, self._name)


class Saving(AbstractContextManager[None]):
    """A context that says of any failure of the system in it that the session ``failed``.

    Raises:
        SessionNotSavedError: For an ``OSError`` or a ``FileAccessError``.
        SessionError: As it was raised.
    """

    def __init__(self, name: str, failed: str = "was not saved, and its file is as it was") -> None:
        self._name = name
        self._failed = failed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, exc: BaseException | None, *_: object) -> None:
        if isinstance(exc, SessionError):  # some of them are also an OSError
            return
        if isinstance(exc, (FileAccessError, OSError)):
            why = str(exc) if isinstance(exc, FileAccessError) else f"{reason(exc)}."
            sentence = f"The session '{self._name}' {self._failed}: {why}"
            raise SessionNotSavedError(sentence, self._name) from exc


def _acquire(folder: Folder, name: str, wait: float) -> Lock:
    deadline = time.monotonic() + wait
    file = f".{name}.lock"
    while (lock := try_lock(folder, file)) is None:
        if time.monotonic() >= deadline:
            pid = holder(folder, file)
            who = "another process" if pid is None else f"process {pid}"
            raise SessionInUseError(
                f"The session '{name}' is in use by {who}: end it there, or use another name.",
                name,
                pid,
            )
        time.sleep(_PAUSE)
    return lock


def _release(lock: Lock, folder: Folder, name: str) -> None:
    """Release a lock; a lock's file without its session would only be litter."""
    is_litter = False
    with suppress(OSError):
        is_litter = not folder.has(f"{name}.json")
    if is_litter:
        lock.remove(folder)
    else:
        lock.release()
