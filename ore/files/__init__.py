"""Opening files that others may have prepared, and replacing files whole.

Every read is of a regular file, bounded, and judged on the opened descriptor, never on a path that
can change in between. Knows nothing about what a text says.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ore.errors import FileAccessError

_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
# A folder that is passed through needs no permission to be listed, where the system can tell.
_FOLDER_FLAGS = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_CAN_WALK = os.open in os.supports_dir_fd and bool(_NO_FOLLOW)
_CHUNK = 1 << 20  # bytes asked for at once


def read_regular(path: Path | str, limit: int, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes.

    Args:
        path: The file. A FIFO, device, socket or folder is refused without waiting on it.
        limit: The most bytes to accept; a larger file is an error, never a cut.
        follow: Whether the last component may be a symbolic link.

    Raises:
        FileAccessError: One sentence that names the path and the reason.
    """
    try:
        if not follow and is_link(path):
            raise OSError(errno.ELOOP, "it is a symbolic link")
        descriptor = os.open(path, _READ_FLAGS if follow else _READ_FLAGS | _NO_FOLLOW)
    except (OSError, ValueError) as exc:
        raise _unreadable(path, _why(exc)) from exc
    return _read_opened(descriptor, path, limit)


def read_confined(root: Path | str, relative: str, limit: int, *, head: int | None = None) -> bytes:
    """Return the bytes of a regular file below ``root``, following no link at any component.

    A hard link can't be told from the file itself and is read.

    Args:
        root: The folder to stay in; it may itself be a link that the user placed.
        relative: A path below it, with ``/`` between its components.
        limit: The most bytes to accept.
        head: How many bytes to return at most, from the beginning; None returns all.

    Raises:
        PermissionError: The path leads out of ``root`` or through a symbolic link.
        FileNotFoundError: There is no such file.
        FileAccessError: It is there and can't be read.
    """
    parts = _confined_parts(relative)
    shown = Path(root, *parts)
    try:
        descriptor = open_below(root, parts) if _CAN_WALK else open_checked(root, parts)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as exc:
        if getattr(exc, "errno", None) == errno.ELOOP:
            raise PermissionError(errno.ELOOP, "leads through a symbolic link", str(shown)) from exc
        raise _unreadable(shown, _why(exc)) from exc
    return _read_opened(descriptor, shown, limit, head)


def _confined_parts(relative: str) -> list[str]:
    parts = [part for part in relative.replace(os.sep, "/").split("/") if part not in ("", ".")]
    outside = relative.startswith("/") or os.path.isabs(relative) or ".." in parts
    if outside or not parts or os.path.splitdrive(relative)[0]:
        raise PermissionError(errno.EACCES, "leads out of the folder", relative)
    return parts


def open_below(root: Path | str, parts: list[str]) -> int:
    """Open ``parts`` below ``root`` for reading, one component at a time, each held open.

    Nothing that is renamed meanwhile can lead elsewhere.

    Raises:
        OSError: From the step that failed; with ``ELOOP`` where a component is a symbolic link.
    """
    folder = os.open(root, _FOLDER_FLAGS)
    try:
        for part in parts[:-1]:
            below = _open_in(folder, part, _FOLDER_FLAGS)
            os.close(folder)
            folder = below
        return _open_in(folder, parts[-1], _READ_FLAGS)
    finally:
        os.close(folder)


def _open_in(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags | _NO_FOLLOW, dir_fd=folder)
    except OSError as exc:
        # What the system answers to a link differs: ELOOP, EMLINK, ENOTDIR, EFTYPE.
        if _is_link_in(folder, name):
            raise OSError(errno.ELOOP, "is a symbolic link", name) from exc
        raise


def _is_link_in(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def open_checked(root: Path | str, parts: list[str]) -> int:
    """Open ``parts`` below ``root`` for reading where no component can be held open (Windows).

    Every component is looked at before and after, and the opened file is compared with the name;
    someone who swaps them quickly enough between the looks is not stopped.

    Raises:
        OSError: From the step that failed; with ``ELOOP`` where a component is a link.
    """
    path = Path(root, *parts)
    components = [path, *path.parents][: len(parts)]
    _refuse_links(components)
    descriptor = os.open(path, _READ_FLAGS)
    try:
        _refuse_links(components)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise OSError(errno.ELOOP, "was replaced while it was opened", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_links(components: list[Path]) -> None:
    for component in components:
        if is_link(component):
            raise OSError(errno.ELOOP, "is a symbolic link", str(component))


def is_link(path: Path | str) -> bool:
    """Return whether a path's last component is a symbolic link or, on Windows, a junction."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return False
    junction = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return stat.S_ISLNK(status.st_mode) or (
        junction is not None and getattr(status, "st_reparse_tag", 0) == junction
    )


def _read_opened(descriptor: int, path: Path | str, limit: int, head: int | None = None) -> bytes:
    try:
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _unreadable(path, "it is no regular file")
            most = limit + 1 if head is None else head
            data = b"" if status.st_size > limit else _read_at_most(descriptor, most)
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise _unreadable(path, reason(exc)) from exc
    if status.st_size > limit or len(data) > limit:
        raise _unreadable(path, f"it is larger than {limit:,} bytes")
    return data


def decode_text(data: bytes, shown: str, path: str) -> str:
    """Return a file's bytes as text, without the byte order mark that may begin them.

    Args:
        data: The bytes.
        shown: What the file is called in an error.
        path: The file's path, for the error's ``path``.

    Raises:
        FileAccessError: They are not UTF-8, or hold a NUL, which no text has.
    """
    if b"\0" in data:
        at = data.index(0)
        raise FileAccessError(
            f"{shown} is no text: it has a NUL at byte {at}; name a text file.", path
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        raise FileAccessError(
            f"{shown} is not UTF-8 at byte {exc.start}: convert it to UTF-8 first.", path
        ) from exc


def _read_at_most(descriptor: int, size: int) -> bytes:
    chunks = []
    while size > 0 and (chunk := os.read(descriptor, min(size, _CHUNK))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _why(exc: Exception) -> str:
    return reason(exc) if isinstance(exc, OSError) else "no file can have that name"


def _unreadable(path: Path | str, why: str) -> FileAccessError:
    shown = str(path)
    if not shown.isprintable():
        shown = repr(shown)
    return FileAccessError(f"{shown} can't be read: {why}.", path)


def replace_file(path: Path, chunks: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write ``chunks`` to ``path`` so that a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file beside it and are on disk before it takes the name; on any
    failure the temporary file is removed and ``path`` is as it was. The one exception is an error
    of the last step, putting the folder on disk: then ``path`` is the new file already.

    Raises:
        OSError: From the step that failed.
    """
    # A name of its own each time: what a killed process has left never stands in the way.
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, _WRITE_FLAGS, mode)
    try:
        with open(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk; where that can't be asked for, do nothing.

    Windows opens no folders, a folder may be writable and not readable, and some network file
    systems sync files only.

    Raises:
        OSError: The disk failed.
    """
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def reason(exc: BaseException) -> str:
    """Return why an operation on a file failed, in the system's words, for use in a sentence."""
    text = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    return text[:1].lower() + text[1:]
