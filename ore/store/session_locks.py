"""Which sessions this process has open for saving, and what to say when another process has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ore.errors import FileAccessError, SessionError, SessionInUseError, SessionNotSavedError
from ore.files import reason
from ore.files.folder import Folder
from ore.files.home import instead_of
from ore.files.locks import Lock, holder, try_lock
from ore.files.neutral import one_line

_PAUSE = 0.005
"""Between two tries for a lock, in seconds."""


class SessionLocks:
    """The locks on the sessions of one folder: ``.NAME.lock`` beside ``NAME.json``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held: dict[str, Lock] = {}

    @contextmanager
    def hold(self, name: str, wait: float) -> Iterator[None]:
        """Hold the session's lock while the block runs; ``locked`` in the block does not wait."""
        with saving(name, "can't be saved", self._root), Folder(self._root, make=True) as folder:
            lock = _acquire(folder, name, wait)
        self._held[name] = lock
        try:
            yield
        finally:
            lock = self._held.pop(name)
            try:
                # The folder may be gone, and the lock's file with it.
                with suppress(OSError, FileAccessError), Folder(self._root) as folder:
                    _release(lock, folder, name)
            finally:
                lock.release()

    @contextmanager
    def locked(self, folder: Folder, name: str, wait: float) -> Iterator[None]:
        """Hold the session's lock while the block runs, be it in a block of ``hold`` or not."""
        held = self._held.get(name)
        if held is not None and held.pid == os.getpid():  # not the parent's
            if not held.is_current(folder):  # its file was deleted
                self._held[name] = _acquire(folder, name, 0.0)
                held.release()
            yield
            return
        lock = _acquire(folder, name, wait)
        try:
            yield
        finally:
            try:
                _release(lock, folder, name)
            finally:  # an interrupt may have come before anything was done
                lock.release()


@contextmanager
def saving(
    name: str,
    failed: str = "was not saved, and what was there is as it was",
    folder: Path | None = None,
) -> Iterator[None]:
    """Say of any failure of the system in the block that the session ``failed``, and in which folder."""
    try:
        yield
    except SessionError:  # some of them are also an OSError
        raise
    except (FileAccessError, OSError) as exc:
        why = f"{reason(exc)}."
        if isinstance(exc, FileAccessError):
            why = str(exc)
        elif folder is not None:
            shown = one_line(str(folder))
            why = f"{reason(exc)} ({shown}). See to it, or {instead_of(folder)} another folder."
        raise SessionNotSavedError(f"The session '{name}' {failed}: {why}", name) from exc


def _acquire(folder: Folder, name: str, wait: float) -> Lock:
    deadline = time.monotonic() + wait
    file = f".{name}.lock"
    while (lock := try_lock(folder, file)) is None:
        if time.monotonic() >= deadline:
            pid = holder(folder, file)
            who, to_do = "another process" if pid is None else f"process {pid}", "end it there"
            if pid == os.getpid():  # another thread's, or a handler's
                who, to_do = "this process", "wait until it is done there"
            raise SessionInUseError(
                f"The session '{name}' is in use by {who}: {to_do}, or use another name.",
                name,
                pid,
            )
        time.sleep(_PAUSE)
    return lock


def _release(lock: Lock, folder: Folder, name: str) -> None:
    """Release a lock; a lock's file without its session would only be litter."""
    try:
        with suppress(OSError):
            if not folder.has(f"{name}.json"):
                lock.remove(folder)
    finally:
        lock.release()
