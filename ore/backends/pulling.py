"""A model from a registry into ORE's own shelf: what the engine needs of it, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from ore.backends import Progress, weights
from ore.backends import registry_failures as failures
from ore.backends.download import Download
from ore.backends.freeing import check_room, check_way, free, on_disk, remove_files, sweep
from ore.backends.gguf import MAGIC
from ore.backends.local_models import LocalModel, OnShelf, check_unmended, own_shelves
from ore.backends.manifest import Layer, Manifest, parse_manifest
from ore.backends.model_names import ModelName, parse_name
from ore.backends.parts import Parts
from ore.backends.registry import Registry
from ore.backends.registry_failures import Tries, Trouble
from ore.backends.shelf import BLOBS, PARAMS_BYTES, Shelf
from ore.errors import BackendError, CapabilityError, FileAccessError, OreError
from ore.files import UnfitFileError, make_private, read_regular, reason, replace_file
from ore.files.folder import Folder
from ore.files.locks import holder, try_lock
from ore.files.neutral import one_line
from ore.files.signals import deferred_signals
from ore.files.trust import distrust

_SMALL_BYTES = 1 << 20
"""The largest layer that is read in one piece; all but the weights are smaller."""
_LOOK_SECONDS = 0.2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def pull(text: str, progress: Progress, *, insecure: bool = False) -> None:
    """Fetch a model by its name into ORE's shelf, or what is missing of it.

    What has come is kept however this ends, and the next call goes on from there; the model is
    listed when it is whole.

    Args:
        text: The name, as Ollama writes it.
        insecure: Whether a registry on another machine may be asked over http.

    Raises:
        UsageError: It is no name.
        CapabilityError: The engine can't run it, or it is not for everybody.
        BackendError: It can't be had.
        FileAccessError: It can't be written.
    """
    name, shelf = parse_name(text), Shelf(weights.models_folder(), is_own=True)
    with closing(Registry(name, insecure=insecure)) as registry, _writing(shelf, name):
        with suppress(FileAccessError):  # where not all can be listed, it gets a place of its own
            name = shelf.find(text) or name  # as it is spelled where it is: one name is one model
        check_way(shelf, name)
        progress("asking the registry", 0, 0)
        data = _patiently(registry.manifest, progress)
        try:
            manifest = parse_manifest(data)
        except ValueError as exc:
            raise failures.protocol_error(
                name.host, f"what it sent is not a manifest of {name}: {exc}"
            ) from exc
        if (other := _on_another_shelf(name, manifest)) is not None:
            progress(f"already there, in {other.root}, which the engine reads", 0, 0)
            return
        with Folder(shelf.root / BLOBS, make=True) as blobs, ExitStack() as held:
            sweep(blobs)
            large = {layer.digest for layer in manifest.of_kind("model")}
            small = [layer for layer in manifest.needed() if layer.digest not in large]
            check_room(shelf, name, _missing(small, blobs))
            for layer in small:
                with _alone(shelf, layer, blobs, progress):
                    _fetch_small(registry, layer, blobs, progress)
            if why := shelf.refusal(name, manifest) or _unfit_parameters(shelf, name, manifest):
                raise _refused(name, why)
            make_private(shelf.manifest_path(name).parent)  # some disks take no colon of a host
            for layer in manifest.of_kind("model"):
                held.enter_context(_alone(shelf, layer, blobs, progress))
                on_shelf = OnShelf(shelf, name, manifest)
                _fetch_weights(registry, on_shelf, layer, blobs, progress)
            # They are there, unless somebody made room meanwhile; now nobody does.
            for _, layer in sorted({layer.digest: layer for layer in small}.items()):
                held.enter_context(_alone(shelf, layer, blobs, progress))
                _fetch_small(registry, layer, blobs, progress)
            _place(shelf, name, data)


def _on_another_shelf(name: ModelName, manifest: Manifest) -> Shelf | None:
    """Return Ollama's shelf if the model is read from there and up to date; raise if it can't be run."""
    with suppress(FileAccessError):  # where one can't be read, ORE's own is what goes before it
        for shelf in own_shelves():
            if (found := shelf.find(str(name))) is not None:  # none behind it is looked at
                is_new = shelf.manifest(found).needed() == manifest.needed()
                if shelf.is_own or not (is_new and shelf.is_whole(manifest)):
                    return None
                path = shelf.weights(name, manifest)
                check_unmended(LocalModel(str(name), path, OnShelf(shelf, name, manifest)))
                return shelf
    return None


def _place(shelf: Shelf, name: ModelName, data: bytes) -> None:
    """Write the manifest, and let go of what only the one before it named."""
    path, before = shelf.manifest_path(name), None
    with suppress(FileAccessError):
        before = shelf.manifest(name)
    make_private(path.parent)
    with deferred_signals():  # in between, the old weights would stay where nothing lists them
        replace_file(path, [data])
        if before is not None:
            with suppress(FileAccessError):
                free(shelf, before)


def _patiently(ask: Callable[[], bytes], progress: Progress) -> bytes:
    """Ask, and ask again where the server says to wait; any other trouble is raised."""
    tries = Tries()
    while True:
        try:
            return ask()
        except Trouble as trouble:
            if trouble.seconds is None:
                raise trouble.error from trouble
            seconds = tries.wait_after(trouble)
            progress(f"waiting {seconds:g} s, as the registry asks", 0, 0)
            time.sleep(seconds)


def _fetch_small(registry: Registry, layer: Layer, blobs: Folder, progress: Progress) -> None:
    """Fetch a layer in one piece, unless it is there already; its lock is held."""
    if layer.size > _SMALL_BYTES:
        raise failures.protocol_error(
            registry.name.host, f"its {one_line(layer.kind)} layer has {layer.size:,} bytes"
        )
    with suppress(FileNotFoundError, UnfitFileError):
        if _is(blobs.read(layer.file, _SMALL_BYTES)[0], layer):
            return
    data = _patiently(lambda: registry.small(layer), progress)
    if len(data) != layer.size:
        raise failures.wrong_size_error(registry.name.host, len(data), layer.size)
    if not _is(data, layer):
        raise failures.wrong_bytes_error(registry.name.host, layer.digest)
    blobs.replace(layer.file, f".{layer.file}.tmp", [data], 0o600)


def _missing(small: list[Layer], blobs: Folder) -> int:
    """Return how many bytes the small layers take that are not there."""
    sizes = {layer.file: min(layer.size, _SMALL_BYTES) for layer in small}
    return sum(size for file, size in sizes.items() if not blobs.has(file))


def _is(data: bytes, layer: Layer) -> bool:
    return len(data) == layer.size and hashlib.sha256(data).hexdigest() == layer.hexadecimal


def _fetch_weights(
    registry: Registry, on_shelf: OnShelf, layer: Layer, blobs: Folder, progress: Progress
) -> None:
    """Fetch the weights, in parts, unless they are there already."""
    shelf, name = on_shelf.shelf, layer.file
    file, notes = f".{name}.part", f".{name}.notes"
    if _is_there(shelf, layer, blobs, progress):
        _require_gguf(shelf.blob_path(layer), on_shelf.name)
        return
    check_room(shelf, registry.name, layer.size - on_disk(blobs, file))
    _prepare(blobs, file, notes, layer)

    def look() -> None:
        """Go no further with a file that the engine would not read rightly."""
        try:
            check_unmended(LocalModel(str(on_shelf.name), shelf.root / BLOBS / file, on_shelf))
        except CapabilityError:
            remove_files(blobs, file, notes)
            raise
        except FileAccessError:  # its hash tells whether that is what it is
            return

    with closing(Parts(blobs, notes, layer.size)) as parts:
        has_begun = parts.there > 0
        found = Download(registry, layer, blobs, file, parts).run(progress, look)
    if found != layer.hexadecimal:
        remove_files(blobs, file, notes)
        if has_begun:  # it may be the disk that has lost some of it
            raise failures.wrong_rest_error(layer.digest)
        raise failures.wrong_bytes_error(registry.name.host, layer.digest)
    try:
        _require_gguf(shelf.root / BLOBS / file, on_shelf.name)
    except CapabilityError:
        remove_files(blobs, file, notes)
        raise
    blobs.rename(file, name)
    blobs.sync()
    remove_files(blobs, notes)
    weights.note_digest(shelf.blob_path(layer), found)


def _refused(name: ModelName, why: str) -> CapabilityError:
    return CapabilityError(f"{name} was not fetched, because the engine can't run it: {why}.")


def _require_gguf(path: Path, name: ModelName) -> None:
    if read_regular(path, sys.maxsize, head=len(MAGIC)) != MAGIC:  # or it says why it can't be read
        raise _refused(name, "its weights are not a GGUF file; name another build of it")


def _unfit_parameters(shelf: Shelf, name: ModelName, manifest: Manifest) -> str:
    """Return why no turn could read a model's parameters, as the end of a sentence; empty if one can."""
    why = ""
    if any(layer.size > PARAMS_BYTES for layer in manifest.of_kind("params")):
        why = f"they have more than {PARAMS_BYTES:,} bytes"
    try:
        shelf.parameters(name, manifest)
    except FileAccessError as exc:
        if isinstance(exc.__cause__, ValueError):  # else they were removed, and are fetched again
            why = one_line(str(exc.__cause__))
    return f"its parameters can't be used: {why}; name another build of it" if why else ""


@contextmanager
def _alone(
    shelf: Shelf, layer: Layer, blobs: Folder, progress: Progress
) -> Generator[None, None, None]:
    """Hold the lock of a blob; while another process fetches it, wait."""
    name = layer.file
    for each in (name, f".{name}.part", f".{name}.notes", lock_name := f".{name}.lock"):
        _check_place(blobs, each, shelf)
    while (lock := try_lock(blobs, lock_name)) is None:
        who = holder(blobs, lock_name)
        step = f"waiting for process {who}" if who else "waiting for another pull"
        progress(step, on_disk(blobs, f".{name}.part"), layer.size)
        time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        lock.remove(blobs)


def _is_there(shelf: Shelf, layer: Layer, blobs: Folder, progress: Progress) -> bool:
    """Return whether the blob is there with its bytes; one with others is fetched again."""
    path = shelf.blob_path(layer)
    if not blobs.has(path.name) or blobs.stat(path.name).st_size != layer.size:
        return False
    told = partial(progress, "checking what is there")
    try:
        if weights.file_digest(path, told=told) != layer.hexadecimal:
            return False
    except FileAccessError as exc:  # it can't be read, so another takes its place
        if isinstance(exc.__cause__, (TimeoutError, ConnectionError)):
            raise  # what a program's own handler raised says nothing of the file
        return False
    progress("already there", layer.size, layer.size)
    return True


def _check_place(blobs: Folder, name: str, shelf: Shelf) -> None:
    """Raise where what has a file's name is something else than a file."""
    try:
        mode = blobs.stat(name).st_mode
    except FileNotFoundError:  # or another pull has just removed it
        return
    if not stat.S_ISREG(mode):
        path = shelf.root / BLOBS / name
        raise FileAccessError(
            f"{path} is there and is not a file, so ORE does not replace it: move it away, then try "
            f"again.",
            path,
        )


def _prepare(blobs: Folder, file: str, notes: str, layer: Layer) -> None:
    """Make the file that the weights are written to, of their size; it takes no room yet."""
    with suppress(FileNotFoundError):
        status = blobs.stat(file)
        # A copy made of links, or a trap; or somebody else may change it after it was looked at.
        if status.st_nlink > 1 or distrust(status, blobs.path / file):
            remove_files(blobs, file, notes)
    descriptor = blobs.open(file, os.O_RDWR | os.O_CREAT)
    try:
        if os.fstat(descriptor).st_size != layer.size:
            remove_files(blobs, notes)
            os.ftruncate(descriptor, layer.size)
    finally:
        os.close(descriptor)


@contextmanager
def _writing(shelf: Shelf, name: ModelName) -> Generator[None, None, None]:
    """Turn what the system says of a file into a sentence."""
    try:
        yield
    except OreError:
        raise
    except OSError as exc:
        if exc.errno in _FULL:
            why = "is full: free some room"
            if exc.errno == errno.EFBIG:
                why = "can't hold a file that large: raise the limit (ulimit -f)"
            raise FileAccessError(
                f"{shelf.root} {why}, or name another folder with ORE_MODEL_DIR; then {failures.GO_ON}.",
                shelf.root,
            ) from exc
        if exc.errno in (errno.EMFILE, errno.ENFILE):
            raise BackendError(
                f"{name} can't be fetched: this process may open no more files; raise the limit (ulimit "
                f"-n), or close some, then {failures.GO_ON}."
            ) from exc
        raise FileAccessError(
            f"{name} can't be written to {shelf.root} ({reason(exc)}): check the folder, or name another "
            f"with ORE_MODEL_DIR.",
            shelf.root,
        ) from exc
