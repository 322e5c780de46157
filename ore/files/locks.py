"""A lock between processes: a file beside what it guards, locked by the system, not by being there.

The system lets go of it when the process ends, however it ends. Knows nothing about what is
guarded.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

from ore.files.folder import Folder

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TAKEN = (errno.EACCES, errno.EDEADLK) if sys.platform == "win32" else (errno.EWOULDBLOCK,)
_SIGNATURE_BYTES = 20
_LOCKED_BYTE = 1 << 30
"""On Windows a locked byte can't be read, so it is one far behind the process id."""


class Lock:
    """A lock that this process holds until ``release``."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.pid = os.getpid()
        self._descriptor = descriptor
        self._status: os.stat_result

    def take(self) -> bool:
        """Lock the file and write this process's id into it; return False when it is taken."""
        self._status = os.fstat(self._descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            raise OSError(errno.EINVAL, f"{self.name} is not a regular file")
        if not _lock(self._descriptor):
            return False
        _sign(self._descriptor, self.pid)
        return True

    def is_current(self, folder: Folder) -> bool:
        """Return whether the locked file is still the one that others find in the folder."""
        try:
            return os.path.samestat(folder.stat(self.name), self._status)
        except FileNotFoundError:
            return False

    def remove(self, folder: Folder) -> None:
        """Remove the lock's file and release it; who waits for it finds out and starts anew."""
        with suppress(OSError):
            if self.is_current(folder):
                folder.remove(self.name)
        self.release()

    def release(self) -> None:
        """Let others have the lock.

        Closed, not unlocked: unlocking would take it from a parent process that shares it. That
        closing fails, which it can on a network, changes nothing for what the lock guarded.
        """
        try:
            os.close(self._descriptor)
        except OSError:
            pass


def try_lock(folder: Folder, name: str) -> Lock | None:
    """Return the lock on a file of the folder, or None when another holds it.

    The file is made when it is missing, and holds the process id of its holder. A file that was
    removed between opening and locking guards nothing, so its lock is not taken.

    Raises:
        OSError: The file can't be made, or the file system has no locks.
    """
    while True:
        lock = Lock(name, folder.open(name, os.O_RDWR | os.O_CREAT))
        is_ours = is_locked = False
        try:
            is_locked = lock.take()
            is_ours = is_locked and lock.is_current(folder)
        finally:
            if not is_ours:
                lock.release()
        if is_ours or not is_locked:
            return lock if is_ours else None


def holder(folder: Folder, name: str) -> int | None:
    """Return the process id in a lock's file, or None where it can't be told."""
    try:
        descriptor = folder.open(name, os.O_RDONLY)
    except OSError:
        return None
    try:
        text = _signature(descriptor).strip()
    finally:
        os.close(descriptor)
    return int(text) if text.isdigit() else None


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno not in _TAKEN:
            raise
        return False
    return True


def _sign(descriptor: int, pid: int) -> None:
    # Never truncated: a file system may then write the file out at once, which takes its time.
    signature = f"{pid:{_SIGNATURE_BYTES - 1}}\n".encode()
    if _signature(descriptor) != signature:
        with suppress(OSError):  # a courtesy to who has to wait: a full disk must not cost the lock
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, signature)


def _signature(descriptor: int) -> bytes:
    """Return what an open file begins with, of which nothing was read yet."""
    try:
        return os.read(descriptor, _SIGNATURE_BYTES)
    except OSError:
        return b""
