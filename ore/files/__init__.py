"""Reading files that others may have prepared, and replacing files whole.

What is read is a regular file, bounded, and judged on the opened descriptor, never on a path that
can change in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ore.errors import FileAccessError

if TYPE_CHECKING:  # --version and --help do without
    from pathlib import Path

OPEN_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""With these, no link is followed, and opening waits for nobody and has no effects."""

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A folder that is passed through needs no permission to be listed, where the system (Linux) can tell.
_FOLDER_ON_THE_WAY = _FOLDER | os.O_NOFOLLOW | getattr(os, "O_PATH", 0)
_CHUNK = 1 << 16  # bytes asked for at once, where a file does not say its size


class UnfitFileError(OSError):
    """What is there is a link, is not a regular file, or is too large; ``strerror`` says which."""


def read_regular(
    path: Path | str,
    limit: int,
    *,
    follow: bool = True,
    head: int | None = None,
    pipe: bool = False,
) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: The file. A FIFO, device, socket or folder is refused without opening it.
        limit: The most bytes to accept; a larger file is an error, never a cut.
        follow: Whether the last component may be a symbolic link.
        head: How many bytes to return at most, from the beginning; None returns all.
        pipe: Whether a FIFO is read, too, and waited for.

    Raises:
        FileAccessError: One sentence that names the path and the reason.
    """
    try:
        return read_file(path, limit, follow=follow, head=head, pipe=pipe)[0]
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from exc


def begins_with(path: Path | str, start: bytes) -> bool:
    """Return whether a regular file that can be read begins with some bytes; raises nothing."""
    with suppress(FileAccessError):
        return read_regular(path, sys.maxsize, head=len(start)) == start
    return False


def read_confined(
    root: Path | str,
    relative: str,
    limit: int,
    *,
    head: int | None = None,
    judge: Callable[[os.stat_result, str], str] | None = None,
) -> bytes:
    """Return the bytes of a regular file below ``root``, following no link at any component.

    Each folder on the way is held open: nothing that is renamed meanwhile leads elsewhere. ``root``
    may be a link, and a hard link is a file. What ``judge`` says of ``root``, of a folder on the way
    or of the file, if anything, is why it is not read: see ``ore.files.trust.distrust``.

    Raises:
        PermissionError: The path leads out of ``root`` or through a symbolic link.
        FileNotFoundError: There is no such file.
        FileAccessError: It is there and can't be read.
    """

    def require(opened: int | os.stat_result, *below: str) -> None:
        if judge is not None:
            path = os.path.join(root, *below).removeprefix("./")
            status = os.fstat(opened) if isinstance(opened, int) else opened
            if why := judge(status, path):
                raise FileAccessError(f"{_shown(path)} is not used: {why}.", path)

    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if relative.startswith("/") or ".." in parts or not parts:
        raise PermissionError(errno.EACCES, "leads out of the folder", relative)
    shown = os.path.join(root, *parts).removeprefix("./")
    try:
        folder = os.open(root, _FOLDER_ON_THE_WAY & ~os.O_NOFOLLOW)
        try:
            require(folder)
            for number, part in enumerate(parts[:-1], 1):
                below = _open_folder(part, folder)
                close_quietly(folder)
                folder = below
                require(folder, *parts[:number])
            data, status = read_file(parts[-1], limit, folder=folder, follow=False, head=head)
            require(status, *parts)
            return data
        finally:
            close_quietly(folder)
    except (FileNotFoundError, FileAccessError):
        raise
    except (OSError, ValueError) as exc:
        if getattr(exc, "errno", None) == errno.ELOOP:
            raise PermissionError(errno.ELOOP, "leads through a symbolic link", shown) from exc
        raise _unreadable(shown, exc) from exc


def _open_folder(name: str, above: int) -> int:
    """Return a descriptor of a folder in an open one; a link is refused."""
    try:
        return os.open(name, _FOLDER_ON_THE_WAY, dir_fd=above)
    except OSError:
        _refuse_link(os.stat(name, dir_fd=above, follow_symlinks=False))
        raise


def read_file(
    name: Path | str,
    limit: int,
    *,
    folder: int | None = None,
    follow: bool = True,
    head: int | None = None,
    pipe: bool = False,
) -> tuple[bytes, os.stat_result]:
    """Do what ``read_regular`` does, below an open ``folder``; return the file's status, too.

    Raises:
        OSError: An ``UnfitFileError``, or the system's reason.
        ValueError: No file can have that name.
    """
    # Looked at first, for opening a device can have effects.
    _judge(os.stat(name, dir_fd=folder, follow_symlinks=follow), pipe)
    allowed = (os.O_NONBLOCK if pipe else 0) | (os.O_NOFOLLOW if follow else 0)
    descriptor = os.open(name, os.O_RDONLY | OPEN_FLAGS & ~allowed, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        _judge(status, pipe)
        left = limit + 1 if head is None else head
        asked = status.st_size + 1 if status.st_size else _CHUNK
        chunks = []
        while status.st_size <= limit and left > 0:
            if not (chunk := os.read(descriptor, min(left, asked))):
                break
            chunks.append(chunk)
            left -= len(chunk)
    finally:
        close_quietly(descriptor)
    data = b"".join(chunks)
    if max(status.st_size, len(data)) > limit:
        raise UnfitFileError(errno.EFBIG, f"it is larger than {limit:,} bytes")
    return data, status


def _judge(status: os.stat_result, pipe: bool) -> None:
    _refuse_link(status)
    if not stat.S_ISREG(status.st_mode) and not (pipe and stat.S_ISFIFO(status.st_mode)):
        raise UnfitFileError(errno.EINVAL, "it is not a regular file")


def _refuse_link(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UnfitFileError(errno.ELOOP, "it is a symbolic link")


def _unreadable(path: Path | str, exc: Exception) -> FileAccessError:
    why = reason(exc) if isinstance(exc, OSError) else "no file can have that name"
    return FileAccessError(f"{_shown(path)} can't be read: {why}.", path)


def _shown(path: Path | str) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))


def decode_text(data: bytes, shown: str, path: str) -> str:
    """Return a file's bytes as text, without a byte order mark; ``shown`` names it in an error.

    Raises:
        FileAccessError: They are not UTF-8, or hold a NUL, which no text has.
    """
    try:
        if (at := data.find(0)) >= 0 and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            why = f"is not text: it has a NUL at byte {at}; name a text file"
        else:
            return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        why = f"is not UTF-8 at byte {exc.start}: convert it to UTF-8 first"
    if data.startswith(b"%PDF-"):
        why = "is a PDF: turn it into text first, for example with pdftotext"
    raise FileAccessError(f"{shown} {why}.", path)


def replace_file(
    path: Path | str,
    chunks: Iterable[bytes | bytearray],
    *,
    mode: int = 0o600,
    folder: int | None = None,
    temporary: str | None = None,
) -> os.stat_result:
    """Write ``chunks`` to ``path`` so that a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file beside it and are on disk before it takes the name. On any
    failure the temporary file is removed and ``path`` is as it was; but where only putting the
    folder on disk failed, ``path`` is the new file already. A failed sync is never tried again:
    the system may have dropped the bytes and would then report success.

    Args:
        path: The file.
        chunks: The bytes.
        mode: The new file's permissions.
        folder: An open folder, which ``path`` is below; it is not put on disk.
        temporary: A name beside it that nobody else writes to meanwhile, where what is there is
            removed; else there is a new name each time.

    Returns:
        The new file's status.
    """
    parent, name = os.path.split(path)
    beside = os.path.join(parent, temporary or f".{name[:40]}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(beside, _WRITE, mode, dir_fd=folder)
    except FileExistsError:  # left behind by a process that was killed
        os.unlink(beside, dir_fd=folder)
        descriptor = os.open(beside, _WRITE, mode, dir_fd=folder)
    try:
        try:
            for chunk in chunks:
                _write(descriptor, chunk)
            sync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    if folder is None:
        sync_folder(parent or ".")
    return status


def _write(descriptor: int, chunk: bytes | bytearray) -> None:
    with memoryview(chunk) as view:
        written = 0
        while written < len(view):
            count = os.write(descriptor, view[written:])
            if count == 0:
                raise OSError(errno.EIO, "the system wrote nothing")
            written += count


def make_private(folder: Path) -> None:
    """Make a folder and what is missing above it, for this user only, and put them on disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        sync_folder(path.parent)


def sync_folder(folder: Path | str) -> None:
    """Put a folder's entries on disk, where that can be asked for.

    A folder may be writable and not readable, and some network file systems sync files only.
    """
    try:
        descriptor = os.open(folder, _FOLDER)
    except PermissionError:
        return
    try:
        sync(descriptor)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Put an open file or folder on disk."""
    if sys.platform == "darwin":  # where fsync stops at the drive's cache
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as exc:
            if exc.errno not in (errno.ENOTSUP, errno.EINVAL):
                raise
    os.fsync(descriptor)


def close_quietly(descriptor: int) -> None:
    """Close a descriptor that nothing was written through, so that an error has no meaning."""
    with suppress(OSError):
        os.close(descriptor)


def reason(exc: BaseException) -> str:
    """Return why an operation on a file failed, in the system's words, for use in a sentence."""
    text = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
