"""A lock between processes: a file beside what it guards, locked by the system, not by being there.

The system lets go of it when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from contextlib import suppress
from pathlib import Path

from ore.files import OPEN_FLAGS, close_quietly
from ore.files.folder import Folder

_SIGNATURE_BYTES = 20
_MOST_TRIES = 100
"""How often others may remove a lock's file, or give it another name, just before it is locked."""


class Lock:
    """A lock that this process holds until ``release``; ``file`` is its file, locked."""

    def __init__(self, name: str, file: io.FileIO) -> None:
        self.name = name
        self.pid: int = os.getpid()
        self._file = file  # it is closed once, however often it is asked to
        self._status = os.fstat(file.fileno())

    @property
    def has_other_names(self) -> bool:
        """Whether what is written to the lock's file stands under another name, too."""
        return self._status.st_nlink > 1

    def is_current(self, folder: Folder) -> bool:
        """Return whether the locked file is still the one that others find in the folder."""
        try:
            return os.path.samestat(folder.stat(self.name), self._status)
        except FileNotFoundError:
            return False

    def remove(self, folder: Folder) -> None:
        """Remove the lock's file and release it; who waits for it finds out and starts anew."""
        with suppress(OSError):
            if self.pid == os.getpid() and self.is_current(folder):
                folder.remove(self.name)
        self.release()

    def release(self) -> None:
        """Let others have the lock. May be called twice."""
        with suppress(OSError):
            # A child that was forked meanwhile has the file open, too, and never takes it from its parent.
            if self.pid == os.getpid() and not self._file.closed:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        with suppress(OSError):
            self._file.close()


def try_lock(folder: Folder, name: str) -> Lock | None:
    """Return the lock on a file of the folder, or None when another holds it.

    The file is made when it is missing, and holds the process id of its holder. A file that was
    removed between opening and locking guards nothing, so its lock is not taken. A hard link in its
    place is replaced by a file of its own: nothing is written through it.

    Raises:
        OSError: It can't be made, or locked; or the disk shows each file as another one, or with more names.
    """
    for _ in range(_MOST_TRIES):
        lock = None
        file = io.FileIO(folder.open(name, os.O_RDWR | os.O_CREAT), "r+")
        descriptor = file.fileno()
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, f"{name} is not a regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = Lock(name, file)
            if found.has_other_names:  # a copy made of links, or a trap: another file is not ours
                if found.is_current(folder):
                    folder.remove(name)
                continue
            if found.is_current(folder):
                _sign(descriptor)
                lock = found
                return lock
        except BlockingIOError:
            return None
        finally:
            if lock is None:
                with suppress(OSError):
                    file.close()
    raise OSError(errno.ENOLCK, "its file is replaced again and again, so it can't be locked")


def holder(folder: Folder, name: str) -> int | None:
    """Return the process id in a lock's file, or None where it can't be told."""
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except OSError:
        return None
    try:
        text = _signature(descriptor).strip()
    finally:
        close_quietly(descriptor)
    return int(text) if text.isdigit() else None


def _sign(descriptor: int) -> None:
    # Never truncated: a file system may then write the file out at once, which takes its time.
    signature = f"{os.getpid():{_SIGNATURE_BYTES - 1}}\n".encode()
    if _signature(descriptor) != signature:
        with suppress(OSError):  # a courtesy to who has to wait: a full disk must not cost the lock
            os.pwrite(descriptor, signature, 0)


def _signature(descriptor: int) -> bytes:
    try:
        return os.pread(descriptor, _SIGNATURE_BYTES, 0)
    except OSError:
        return b""


def is_locked(path: Path | str) -> bool:
    """Return whether a process has the file at ``path`` open and locked; not if it is not there.

    Raises:
        OSError: The system does not tell.
    """
    try:
        file = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
