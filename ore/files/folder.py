"""A private folder, opened once: its files are named relative to it, and no link is followed."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ore.errors import FileAccessError
from ore.files import (
    OPEN_FLAGS,
    UnfitFileError,
    close_quietly,
    make_private,
    read_file,
    replace_file,
    sync,
)
from ore.files.home import instead_of
from ore.files.neutral import one_line
from ore.files.trust import distrust, distrust_now

_LOOK_SECONDS = 0.005


class Folder:
    """A folder that belongs to this user and that nobody else can write to, open in a ``with`` block.

    Every method raises the ``OSError`` of the step that failed; leaving the block raises nothing.

    Args:
        path: The folder; its last component may not be a link.
        make: Whether entering the block makes it, and what is missing above it, for this user only.
        private: Whether it is refused where others can write to it.
    """

    def __init__(self, path: Path, *, make: bool = False, private: bool = True) -> None:
        self.path = path
        self._is_private = private
        self._make_missing = make
        self._descriptor: int  # there is none outside the block

    def __enter__(self) -> Folder:
        """Open it, or raise ``FileAccessError`` where it is a link or open to others."""
        try:
            self._descriptor = _open(self.path)
        except FileNotFoundError:
            if not self._make_missing:
                raise
            make_private(self.path)
            self._descriptor = _open(self.path)
        try:
            if self._is_private:
                _require_private(self.path, os.fstat(self._descriptor))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        close_quietly(self._descriptor)

    def take_turns(self, seconds: float) -> None:
        """Wait for others who take turns, ``seconds`` at most: the next comes when the block is left."""
        until, has_turn = time.monotonic() + seconds, False
        with suppress(OSError):  # a file system without locks
            while not has_turn and time.monotonic() < until:
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    has_turn = True
                except BlockingIOError:
                    time.sleep(_LOOK_SECONDS)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of a file of the folder; never through a link, never waiting."""
        return os.open(name, flags | OPEN_FLAGS, mode, dir_fd=self._descriptor)

    def read(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a regular file, and its status; else raise ``UnfitFileError``.

        One that others can write to, or that somebody else has made, is unfit, too.
        """
        data, status = read_file(name, limit, folder=self._descriptor, follow=False)
        if why := distrust(status, self.path / name):
            raise UnfitFileError(errno.EPERM, why)
        return data, status

    def stat(self, name: str) -> os.stat_result:
        """Return what the system says of a file, of a link itself."""
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name, of whatever kind."""
        try:
            self.stat(name)
        except FileNotFoundError:
            return False
        return True

    def is_same(self, first: str, second: str) -> bool:
        """Return whether two names are those of one file that is there."""
        try:
            return os.path.samestat(self.stat(first), self.stat(second))
        except FileNotFoundError:
            return False

    def names(self) -> list[str]:
        """Return the names of what is in the folder."""
        return os.listdir(self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; a file that has it already is replaced."""
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself."""
        os.unlink(name, dir_fd=self._descriptor)

    def replace(
        self, name: str, temporary: str, chunks: Iterable[bytes | bytearray], mode: int
    ) -> tuple[os.stat_result, bool]:
        """Write a file whole, as ``replace_file`` does; return its status, and whether its name is
        known to be on disk. If not, a power cut may bring the old file back.
        """
        status = replace_file(name, chunks, mode=mode, folder=self._descriptor, temporary=temporary)
        return status, self.sync()

    def sync(self) -> bool:
        """Put the folder's names on disk; return whether the disk confirmed it."""
        try:
            sync(self._descriptor)
        except OSError:
            return False
        return True


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | OPEN_FLAGS)
    except ValueError as exc:  # a NUL, or half a character
        raise FileAccessError(f"No folder can be called {one_line(str(path))}.", path) from exc
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise
        raise FileAccessError(
            f"{one_line(str(path))} is a symbolic link or not a folder: move it away, or "
            f"{instead_of(path)} another folder.",
            path,
        ) from exc


def _require_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise FileAccessError(
            f"{one_line(str(path))} belongs to another user: {instead_of(path)} a folder of yours, or "
            f"for models set ORE_MODEL_DIR to one.",
            path,
        )
    if why := distrust(status, path) or distrust_now(path):  # or a link on its way
        raise FileAccessError(f"Nothing in {one_line(str(path))} is used: {why}.", path)
