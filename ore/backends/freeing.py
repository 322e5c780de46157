"""Room on ORE's own shelf: the blobs of a model that is gone, but for those that another one names."""

from __future__ import annotations

from contextlib import suppress

from ore.backends.manifest import Manifest
from ore.backends.model_names import ModelName
from ore.backends.shelf import BLOBS, Shelf
from ore.files.folder import Folder
from ore.files.locks import try_lock


def named(shelf: Shelf, but: ModelName | None = None) -> set[str]:
    """Return the digests of all that the models of a shelf name, but for one of them.

    Raises:
        FileAccessError: A manifest can't be read, so nobody knows what it names.
    """
    manifests = [shelf.manifest(name) for name in shelf.names() if name != but]
    return {layer.digest for manifest in manifests for layer in manifest.all_layers()}


def free(shelf: Shelf, gone: Manifest, still_named: set[str]) -> int:
    """Remove the blobs of a manifest that is gone, unless they are still named; return the bytes.

    What a pull is at work on stays.

    Raises:
        FileAccessError: The folder is not this user's alone.
        OSError: A file can't be removed.
    """
    freed = 0
    with suppress(FileNotFoundError), Folder(shelf.root / BLOBS) as blobs:
        for layer in gone.all_layers():
            file = shelf.blob_path(layer).name
            if layer.digest in still_named or not blobs.has(file):
                continue
            lock = try_lock(blobs, f".{file}.lock")
            if lock is not None:
                freed += blobs.stat(file).st_size
                blobs.remove(file)
                lock.remove(blobs)
    return freed
