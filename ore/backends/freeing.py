"""Room on ORE's own shelf: whether there is enough, and what is removed, as what no model names."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from ore.backends.manifest import Manifest
from ore.backends.model_names import ModelName
from ore.backends.shelf import BLOBS, Shelf
from ore.errors import FileAccessError
from ore.files.folder import Folder
from ore.files.locks import try_lock
from ore.files.reached import why_unknown

_STALE_SECONDS = 7 * 24 * 3600
_FULL = (errno.ENOSPC, errno.EDQUOT)


def named(shelf: Shelf, but: ModelName | None = None) -> set[str]:
    """Return the blobs' files that the models of a shelf name, but for one of them.

    Raises:
        FileAccessError: A manifest can't be read, so nobody knows what it names.
    """
    found: set[str] = set()
    for name in shelf.every():
        if name == but:
            continue
        try:
            found.update(layer.file for layer in shelf.manifest(name).all_layers())
        except FileAccessError:
            path = shelf.manifest_path(name)
            if os.path.lexists(path) or why_unknown(path):  # else it was just removed
                raise
    return found


def check_way(shelf: Shelf, name: ModelName) -> None:
    """Raise where a folder on the way to a model's manifest is a link: nothing is changed behind it."""
    for folder in shelf.manifest_path(name).parents:
        if folder == shelf.root:
            return
        if folder.is_symlink():
            raise FileAccessError(
                f"{folder} is a symbolic link, which ORE does not follow: move it away, then try again.",
                folder,
            )


def free(shelf: Shelf, gone: Manifest) -> int:
    """Remove the blobs of a manifest that is gone, unless another names them; return the bytes.

    What a pull is at work on stays. It holds the blobs' locks until its manifest is in its place,
    so what is named is looked up once they are held here.

    Raises:
        FileAccessError: The folder is not this user's alone, or a manifest can't be read.
        OSError: A file can't be removed.
    """
    freed = 0
    with suppress(FileNotFoundError), Folder(shelf.root / BLOBS) as blobs, ExitStack() as held:
        alone = []
        for file in dict.fromkeys(layer.file for layer in gone.all_layers()):
            if blobs.has(file) and _is_unused(blobs, file, held):
                alone.append(file)
        kept = named(shelf)
        for file in alone:
            if file not in kept and blobs.has(file) and not stat.S_ISDIR(blobs.stat(file).st_mode):
                freed += blobs.stat(file).st_size
                blobs.remove(file)
    return freed


def _is_unused(blobs: Folder, file: str, held: ExitStack) -> bool:
    """Return whether no pull is at work on a blob; where its lock can be made, it is ``held`` here."""
    try:
        lock = try_lock(blobs, f".{file}.lock")
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        return True  # there is no lock, and nobody can make one: room is made here
    if lock is not None:
        held.callback(lock.remove, blobs)
    return lock is not None


def check_room(shelf: Shelf, name: ModelName, missing: int) -> None:
    """Raise ``FileAccessError`` where so many bytes more of a model have no room."""
    left = room(shelf.root)
    if missing > left:
        raise FileAccessError(
            f"{shelf.root} has too little room for {name}: it takes {_size(missing)} more, and "
            f"{_size(left)} are free; free some, or name another folder with ORE_MODEL_DIR.",
            shelf.root,
        )


def room(folder: Path) -> int:
    """Return how many bytes are free on a folder's disk; as many as any, where it does not tell."""
    usage = shutil.disk_usage(folder)
    return usage.free if usage.total else sys.maxsize


def on_disk(blobs: Folder, file: str) -> int:
    """Return how many bytes of a file with gaps take room."""
    with suppress(OSError):
        return blobs.stat(file).st_blocks * 512
    return 0


def sweep(blobs: Folder) -> None:
    """Remove what was begun and left for a week, unless somebody is at it."""
    for file in blobs.names():
        if not (file.startswith(".sha256-") and file.endswith(".part")):
            continue
        stem = file.removesuffix(".part")
        with suppress(OSError):  # another process may be quicker
            if time.time() - blobs.stat(file).st_mtime < _STALE_SECONDS:
                continue
            lock = try_lock(blobs, f"{stem}.lock")
            if lock is not None:
                remove_files(blobs, file, f"{stem}.notes")
                lock.remove(blobs)


def remove_files(blobs: Folder, *names: str) -> None:
    """Remove what is there of some files."""
    for name in names:
        with suppress(FileNotFoundError):
            blobs.remove(name)


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 10_000_000 else f"{count:,} bytes"
