"""The private folder of an engine's process: its log, its socket, and what a killed ORE left."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from typing import BinaryIO

from ore.errors import BackendError
from ore.files import read_file
from ore.files.locks import is_locked
from ore.files.signals import deferred_signals, end_with_program

SOCKET, LOG = "engine.sock", "engine.log"
_PREFIX = "ore-engine-"  # not what a script calls a folder of its own
_LONGEST_SOCKET_PATH = 100  # bytes; the system's limit is 108, or 104
_LOG_BYTES = 1 << 20  # the most that the engine may write
_STALE_SECONDS = 60.0
"""How old a folder is that another process is not just making."""


def private_folder() -> str:
    """Make a folder that nobody else can enter, with a path that is short enough for a socket.

    What a process that was killed has left of such folders is removed.
    """
    end_with_program()  # else nobody would remove it
    is_long = False
    try:
        with deferred_signals():  # a handler that makes one, too, would wait for the package's lock
            folder = tempfile.mkdtemp(prefix=_PREFIX)
        if is_long := len(os.fsencode(folder)) + len(SOCKET) >= _LONGEST_SOCKET_PATH:
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
        if os.lstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(folder, stat.S_IRWXU)  # an odd umask keeps its owner out
        _remove_stale(folder)
    except OSError as exc:
        raise _no_room_error(exc, is_long) from exc
    return folder


def _no_room_error(exc: OSError, is_long: bool = False) -> BackendError:
    where, way = "", "free some room, or name another folder with TMPDIR"
    if is_long:  # that of TMPDIR
        where, way = " in /tmp", "name a folder with a shorter path with TMPDIR"
    return BackendError(
        f"The embedded engine needs a folder for its socket and its log, and none can be made{where} "
        f"({exc.strerror or exc}): {way}."
    )


def open_log(folder: str) -> BinaryIO:
    """Make the log, locked for as long as a process has it open: the folder is in use.

    Raises:
        BackendError: There is no room for it.
        OSError: It can't be made for another reason.
    """
    try:
        log = open(os.path.join(folder, LOG), "xb")
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _no_room_error(exc) from exc
    with suppress(OSError):  # what an odd umask leaves can't be read
        os.fchmod(log.fileno(), 0o600)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return log


def read_log(folder: str) -> str:
    """Return what the log says; ``OSError`` where it is gone, or something else is in its place."""
    said, _ = read_file(os.path.join(folder, LOG), _LOG_BYTES, follow=False)
    return said.decode("utf-8", "replace")


def remove(folder: str) -> None:
    """Remove an engine's folder with what is made in it, and nothing else; raises ``OSError``."""
    for name in (SOCKET, LOG):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    os.rmdir(folder)


def _remove_stale(made: str) -> None:
    """Remove what is stale beside a folder that was ``made`` just now.

    Ages are told by when that was for its disk, whose clock may be another one than the system's.
    """
    with suppress(OSError), os.scandir(os.path.dirname(made)) as entries:
        now = os.stat(made).st_mtime
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove_if_stale(entry, now)


def _remove_if_stale(entry: os.DirEntry[str], now: float) -> None:
    """Remove a folder of this user's own whose log nobody has open, and nothing else."""
    status = entry.stat(follow_symlinks=False)
    is_private = stat.S_ISDIR(status.st_mode) and status.st_mode & 0o777 == 0o700
    is_mine = is_private and status.st_uid == os.getuid()
    if not is_mine or abs(now - status.st_mtime) < _STALE_SECONDS:
        return
    if set(os.listdir(entry.path)) <= {SOCKET, LOG} and not is_locked(
        os.path.join(entry.path, LOG)
    ):
        remove(entry.path)
