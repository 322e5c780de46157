"""A private folder, opened once: its files are named relative to it, and no link is followed.

What differs between systems is here (no ``dir_fd`` on Windows, a full sync on macOS). Knows nothing
about what the files mean.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ore.errors import FileAccessError
from ore.files import sync_folder

if sys.platform != "win32":
    import fcntl

_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_HAS_DIR_FD = os.open in os.supports_dir_fd
_FULL_SYNC = None if sys.platform == "win32" else getattr(fcntl, "F_FULLFSYNC", None)


class Folder:
    """A folder that belongs to this user and that nobody else can write to, open in a ``with`` block.

    Every method raises the ``OSError`` of the step that failed; leaving the block raises nothing.

    Args:
        path: The folder; its last component may not be a link.
        make: Whether entering the block makes it, and what is missing above it, for this user only.
    """

    def __init__(self, path: Path, *, make: bool = False) -> None:
        self.path = path
        self._make_missing = make
        self._descriptor: int | None  # there is none outside the block, and on Windows it is None

    def __enter__(self) -> Folder:
        """Open the folder.

        Raises:
            FileNotFoundError: It is not there, and was not to be made.
            FileAccessError: It is a link, no folder, or open to others.
            OSError: The system's reason.
        """
        if not _HAS_DIR_FD:
            if self._make_missing:
                _make(self.path)
            self._descriptor = None
            return self
        try:
            self._descriptor = _open(self.path)
        except FileNotFoundError:
            if not self._make_missing:
                raise
            _make(self.path)
            self._descriptor = _open(self.path)
        try:
            _require_private(self.path, os.fstat(self._descriptor))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            try:
                os.close(self._descriptor)
            except OSError:  # nothing was written through it
                pass

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of a file of the folder; never through a link, never waiting."""
        if self._descriptor is None and os.path.islink(self.path / name):
            raise OSError(errno.ELOOP, "is a symbolic link", name)
        return os.open(self._path(name), flags | _FLAGS, mode, dir_fd=self._descriptor)

    def read(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """Return the bytes of a regular file, and what the system said of the file that was read.

        Raises:
            ValueError: It is no regular file, or larger than ``limit`` bytes; the reason, as the
                end of a sentence.
        """
        if not stat.S_ISREG(self.stat(name).st_mode):  # opening a device can have effects
            raise ValueError("it is no regular file")
        with open(self.open(name, os.O_RDONLY), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no regular file")
            if status.st_size > limit:
                raise ValueError(f"it is larger than {limit:,} bytes")
            return file.readall(), status

    def stat(self, name: str) -> os.stat_result:
        """Return what the system says of a file, of a link itself."""
        return os.stat(self._path(name), dir_fd=self._descriptor, follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name, of whatever kind."""
        try:
            self.stat(name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """Return the names of what is in the folder."""
        return os.listdir(self.path if self._descriptor is None else self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; a file that has it already is replaced."""
        os.replace(
            self._path(old),
            self._path(new),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself."""
        os.unlink(self._path(name), dir_fd=self._descriptor)

    def replace(
        self, name: str, temporary: str, chunks: Iterable[bytes | bytearray], mode: int
    ) -> tuple[os.stat_result, bool]:
        """Write a file whole: a reader sees the old one or the new one, never a part.

        The bytes are on disk before the file takes the name. On any failure before that the
        temporary file is removed and the file is as it was. A failed sync is never tried again on
        the same file: the system may have dropped the bytes and would then report success.

        Args:
            name: The file.
            temporary: A name that nobody else writes to meanwhile; what is there is removed.
            chunks: The bytes.
            mode: The new file's permissions.

        Returns:
            What the system says of the new file, and whether its name is known to be on disk. If
            not, the file is complete, but a power cut may bring the old one back.
        """
        descriptor = self._make(temporary, mode)
        try:
            try:
                for chunk in chunks:
                    _write(descriptor, chunk)
                _sync(descriptor)
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            self.rename(temporary, name)
        except BaseException:
            with suppress(OSError):
                self.remove(temporary)
            raise
        try:
            self.sync()
        except OSError:
            return status, False
        return status, True

    def sync(self) -> None:
        """Put the folder's names on disk; Windows has no such call."""
        if self._descriptor is not None:
            _sync(self._descriptor)

    def _make(self, name: str, mode: int) -> int:
        try:
            return self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:  # left behind by a process that was killed
            self.remove(name)
        return self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def _path(self, name: str) -> str | Path:
        return name if self._descriptor is not None else self.path / name


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    except OSError as exc:
        if exc.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise
        raise FileAccessError(
            f"{path} is a symbolic link or no folder: move it away, or set ORE_HOME to another "
            f"folder.",
            path,
        ) from exc


def _require_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise FileAccessError(
            f"{path} belongs to another user: set ORE_HOME to a folder of yours.", path
        )
    if status.st_mode & 0o022:
        raise FileAccessError(
            f"Others can write to {path}, so its files can't be trusted: run chmod 700 on it.", path
        )


def _make(path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        sync_folder(folder.parent)


def _write(descriptor: int, chunk: bytes | bytearray) -> None:
    with memoryview(chunk) as view:
        written = 0
        while written < len(view):
            count = os.write(descriptor, view[written:])
            if count == 0:
                raise OSError(errno.EIO, "the system wrote nothing")
            written += count


def _sync(descriptor: int) -> None:
    if _FULL_SYNC is not None:  # macOS: fsync stops at the drive's cache
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
        except OSError as exc:
            if exc.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
    os.fsync(descriptor)
