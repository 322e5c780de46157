"""Keeping the models of this machine in order: are their bytes what they must be, and removing one.

Nothing is removed but what ORE has fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ore.backends import Progress, local_models, weights
from ore.backends.freeing import check_way, free, named
from ore.backends.manifest import Manifest
from ore.backends.model_names import ModelName, shown_name, shown_names
from ore.backends.shelf import BLOBS, MANIFESTS, Shelf
from ore.errors import BackendError, FileAccessError, ModelNotFoundError, OreError
from ore.files import reason
from ore.files.folder import Folder
from ore.files.neutral import one_line
from ore.files.reached import why_unread
from ore.files.signals import deferred_signals


@dataclass(frozen=True)
class Checked:
    """What was found of one model: its SHA-256, and what is wrong, in a sentence; None if nothing is.

    ``is_known`` is whether there is something to compare its bytes with.
    """

    name: str
    digest: str | None
    problem: str | None
    is_known: bool


def check_models(told: Progress) -> Iterator[Checked]:
    """Read every model whole and compare it with the SHA-256 that it must have.

    ``told`` is given the step, the bytes that were read and how many there are.
    """
    for name, pinned in weights.PINNED.items():
        if weights.has_pinned_file(name):
            told(f"checking {name}", 0, pinned.file_bytes)
            yield _checked(name, partial(weights.check_pinned, name, anew=True), True)
    for name, path in weights.installed().items():
        if name not in weights.PINNED:
            step = partial(told, f"checking {one_line(name)}")
            yield _checked(name, partial(weights.file_digest, path, anew=True, told=step), False)
    known: dict[Path, str] = {}  # one blob may be of many models, and stand in one of them often
    for shelf in local_models.own_shelves():
        for each in sorted(shelf.every(), key=str):  # none that can't be looked at is passed over
            step = partial(told, f"checking {each}")
            step(0, 0)
            yield _checked(str(each), partial(_check_layers, shelf, each, step, known), True)


def _checked(name: str, check: Callable[[], str | None], is_known: bool) -> Checked:
    try:
        return Checked(name, check(), None, is_known)
    except OreError as exc:
        return Checked(name, None, str(exc), is_known)
    except OSError as exc:
        return Checked(name, None, f"{name} can't be read: {reason(exc)}.", is_known)


def _check_layers(
    shelf: Shelf, name: ModelName, told: weights.Told, known: dict[Path, str]
) -> str | None:
    """Compare each blob of a model with its hash, whether it can be run or not; return its weights'.

    Args:
        known: The hashes of the blobs that were read; those that are read now are added.
    """
    digest = None
    manifest = shelf.manifest(name)
    for layer in manifest.needed() if shelf.is_own else manifest.all_layers():
        path = shelf.check_blob(name, layer)
        is_model = layer.kind == "model"
        if path not in known and is_model:
            known[path] = weights.file_digest(path, anew=True, told=told)
        elif path not in known:
            known[path] = weights.sha256_of(path)
        if (found := known[path]) != layer.hexadecimal:
            do = f"weights of {name}, {path}, do"
            if not is_model:
                do = f"{one_line(layer.kind)} layer of {name}, {path}, does"
            raise FileAccessError(
                f"The {do} not have the SHA-256 that the name says: remove the file, then "
                f"{shelf.again(name)}.",
                path,
            )
        if is_model:
            digest = found
    return digest


def removable(name: str) -> str:
    """Return what a model that ORE has fetched is called; ``remove`` takes it.

    Raises:
        ModelNotFoundError: There is no such model.
        BackendError: It is not ORE's to remove.
        HomeError, FileAccessError: The folder can't be used.
    """
    if weights.has_pinned_file(name):
        return name
    own, *others = local_models.own_shelves()
    found, path = own.find(name), weights.installed().get(name)
    if found is not None and (path is None or str(found) == name):
        return str(found)
    if path is not None:  # it goes before a model whose name differs in case
        raise BackendError(f"{name} is a file of yours, {path}: remove it yourself.")
    for shelf in others:
        if (found := shelf.find(name)) is not None:
            raise BackendError(
                f"{found} is Ollama's, in {shelf.root}, where ORE writes nothing: remove it with "
                f"ollama rm {found}."
            )
    pinned = list(filter(weights.has_pinned_file, weights.PINNED))
    there = (*pinned, *map(str, own.names()))
    raise ModelNotFoundError(
        f"ORE has fetched no model '{shown_name(name)}' (ollama rm removes those of an Ollama "
        f"server), so there is nothing to remove: in {one_line(str(weights.models_folder()))} it has "
        f"{shown_names(there) or 'none'}.",
        model=name,
        available=there,
    )


def remove(name: str) -> int:
    """Remove a model that ``removable`` has named; return how many bytes that frees.

    Its manifest goes first, so that it is never listed in part; then the blobs that no other one names.

    Raises:
        FileAccessError: Something can't be removed, or a manifest can't be read: then nothing is.
    """
    try:
        if weights.has_pinned_file(name):
            path = weights.pinned_path(name)
            size = os.lstat(path).st_size
            path.unlink()
            return size
        own = local_models.own_shelves()[0]
        found = own.find(name)
        return 0 if found is None else _remove_from(own, found)
    except OSError as exc:
        raise FileAccessError(f"{name} can't be removed: {reason(exc)}.") from exc


def _remove_from(shelf: Shelf, name: ModelName) -> int:
    check_way(shelf, name)
    gone = _manifest(shelf, name)
    named(shelf, but=name)  # raises where it can't be told
    with suppress(FileNotFoundError), Folder(shelf.root / BLOBS):
        pass  # raises where no blob could be removed from it
    path, freed = shelf.manifest_path(name), 0
    with deferred_signals():  # in between, its weights would stay where nothing lists them
        path.unlink()
        with suppress(OSError):  # another process puts a model there, or removes one
            for folder in path.parents:
                if folder.name == MANIFESTS or any(folder.iterdir()):
                    break
                folder.rmdir()
        if gone is not None:
            freed = free(shelf, gone)
    return freed


def _manifest(shelf: Shelf, name: ModelName) -> Manifest | None:
    """Return a model's manifest, or None where what is there is none, and so names nothing.

    Raises:
        FileAccessError: The system doesn't read it: without it, its weights would stay, and nothing list them.
    """
    try:
        return shelf.manifest(name)
    except FileAccessError as exc:
        if why_unread(exc):
            raise
    return None
