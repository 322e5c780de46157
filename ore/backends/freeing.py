"""Room on ORE's own shelf: the blobs of a model that is gone, but for those that another one names."""

from __future__ import annotations

import stat
from contextlib import suppress

from ore.backends.manifest import Manifest
from ore.backends.shelf import BLOBS, Shelf
from ore.files.folder import Folder
from ore.files.locks import try_lock


def free(shelf: Shelf, gone: Manifest) -> int:
    """Remove what only a manifest named that is no longer on the shelf; return the bytes.

    What a pull is at work on stays.

    Raises:
        FileAccessError: A manifest can't be read, so nobody knows what it names; nothing is removed.
        OSError: A file can't be removed.
    """
    named = {layer.digest for name in shelf.names() for layer in shelf.manifest(name).all_layers()}
    freed = 0
    with Folder(shelf.root / BLOBS) as blobs:
        for layer in gone.all_layers():
            file = shelf.blob_path(layer).name
            if layer.digest in named or not blobs.has(file):
                continue
            status = blobs.stat(file)
            lock = try_lock(blobs, f".{file}.lock")
            if lock is not None:
                with suppress(FileNotFoundError):
                    if stat.S_ISREG(status.st_mode):
                        blobs.remove(file)
                        freed += status.st_size
                lock.remove(blobs)
    return freed
