"""Opening files that others may have prepared, and replacing files whole.

Every read is of a regular file, bounded, and judged on the opened descriptor, never on a path that
can change in between. Knows nothing about what the bytes mean.
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
_CAN_WALK = os.open in os.supports_dir_fd and bool(_NO_FOLLOW)


def read_regular(path: Path | str, limit: int, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file of at most ``limit`` bytes.

    Args:
        path: The file. A FIFO, device, socket or folder is refused without waiting on it.
        limit: The most bytes to accept; a larger file is an error, never a cut.
        follow: Whether the last component may be a symbolic link.

    Raises:
        FileAccessError: One sentence that names the path and the reason.
    """
    flags = _READ_FLAGS if follow else _READ_FLAGS | _NO_FOLLOW
    try:
        if not follow and os.path.islink(path):
            raise OSError(errno.ELOOP, "is a symbolic link")
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as exc:
        raise FileAccessError(f"{path} can't be read: {reason(exc)}.", path) from exc
    return _read_opened(descriptor, path, limit)


def read_confined(root: Path | str, relative: str, limit: int) -> bytes:
    """Return the bytes of a regular file below ``root``, following no link at any component.

    Args:
        root: The folder to stay in; it may itself be a link that the user placed.
        relative: A path below it, with ``/`` between its components.
        limit: The most bytes to accept.

    Raises:
        PermissionError: The path leads out of ``root`` or through a symbolic link.
        FileNotFoundError: There is no such file.
        FileAccessError: It is there and can't be read.
    """
    parts = _confined_parts(relative)
    shown = Path(root, *parts)
    try:
        descriptor = _open_below(root, parts)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as exc:
        if isinstance(exc, OSError) and _is_link(exc, shown):
            raise PermissionError(errno.ELOOP, "leads through a symbolic link", str(shown)) from exc
        raise FileAccessError(f"{shown} can't be read: {reason(exc)}.", shown) from exc
    return _read_opened(descriptor, shown, limit)


def _confined_parts(relative: str) -> list[str]:
    parts = [part for part in relative.replace(os.sep, "/").split("/") if part not in ("", ".")]
    outside = relative.startswith("/") or os.path.isabs(relative) or ".." in parts
    if outside or not parts or os.path.splitdrive(relative)[0]:
        raise PermissionError(errno.EACCES, "leads out of the folder", relative)
    return parts


def _is_link(exc: OSError, path: Path) -> bool:
    # O_NOFOLLOW answers ELOOP on Linux and macOS, EMLINK on FreeBSD; with O_DIRECTORY, ENOTDIR.
    if exc.errno in (errno.ELOOP, errno.EMLINK):
        return True
    return exc.errno == errno.ENOTDIR and any(parent.is_symlink() for parent in path.parents)


def _open_below(root: Path | str, parts: list[str]) -> int:
    if not _CAN_WALK:  # Windows: no dir_fd; a check on names is the best there is
        path = Path(root, *parts)
        for component in [path, *path.parents][: len(parts)]:
            if component.is_symlink():
                raise OSError(errno.ELOOP, "is a symbolic link", str(component))
        return os.open(path, _READ_FLAGS)
    folder = os.open(root, _READ_FLAGS | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, _READ_FLAGS | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1], _READ_FLAGS | _NO_FOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _read_opened(descriptor: int, path: object, limit: int) -> bytes:
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileAccessError(f"{path} can't be read: it is no regular file.", path)
        try:
            data = file.read(limit + 1)
        except OSError as exc:
            raise FileAccessError(f"{path} can't be read: {reason(exc)}.", path) from exc
    if len(data) > limit:
        raise FileAccessError(f"{path} can't be read: it is larger than {limit:,} bytes.", path)
    return data


def replace_file(path: Path, chunks: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write ``chunks`` to ``path`` so that a reader sees the old file or the new one, never a part.

    The bytes go to a temporary file beside it and are on disk before it takes the name; on any
    failure the temporary file is removed and ``path`` is as it was.

    Raises:
        OSError: From the step that failed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, mode)
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
    """Put a folder's entries on disk; where folders can't be opened (Windows), do nothing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(exc: BaseException) -> str:
    """Return why an operation on a file failed, in the system's words, for use in a sentence."""
    text = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    return text[:1].lower() + text[1:]
