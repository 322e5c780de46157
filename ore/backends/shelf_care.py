"""Keeping the models of this machine in order: are their bytes what they must be, and removing one.

Nothing is removed but what ORE has fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from ore.backends import local_models, weights
from ore.backends.freeing import free, named
from ore.backends.local_models import LocalModel
from ore.backends.model_names import ModelName
from ore.backends.shelf import MANIFESTS, Shelf
from ore.errors import BackendError, FileAccessError, OreError
from ore.files import reason

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Checked:
    """What was found of one model: its SHA-256, and what is wrong, in a sentence; None if nothing is.

    ``is_known`` is whether there is something to compare its bytes with.
    """

    name: str
    digest: str | None
    problem: str | None
    is_known: bool


def check_models(told: Told) -> Iterator[Checked]:
    """Read every model whole and compare it with the SHA-256 that it must have.

    ``told`` is given the step, the bytes that were read and how many there are.
    """
    for name, pinned in weights.PINNED.items():
        path = weights.pinned_path(name)
        if os.path.lexists(path):
            told(f"checking {name}", 0, pinned.file_bytes)
            is_right = weights.is_trusted(path, pinned, anew=True)
            said = (
                f"{path} does not have the bytes that ORE trusts: move it away, then --pull {name}."
            )
            yield Checked(
                name, pinned.file_sha256 if is_right else None, None if is_right else said, True
            )
    for name in local_models.names():
        if name in weights.installed() and name in weights.PINNED:
            continue
        try:
            model = local_models.find(name)
            told(f"checking {name}", 0, model.path.stat().st_size)
            digest = local_models.check_bytes(model, anew=True)
            _check_others(model)
        except (OreError, OSError) as exc:
            problem = str(exc) if isinstance(exc, OreError) else f"{name}: {reason(exc)}."
            yield Checked(name, None, problem, True)
        else:
            yield Checked(name, digest, None, model.on_shelf is not None)


def _check_others(model: LocalModel) -> None:
    """Compare what stands beside a model's weights with its hashes, too."""
    if model.on_shelf is None:
        return
    shelf, name = model.on_shelf.shelf, model.on_shelf.name
    for layer in model.on_shelf.manifest.needed():
        if layer.kind == "model":
            continue
        path = shelf.check_blob(name, layer)
        if weights.sha256_of(path) != layer.hexadecimal:
            raise FileAccessError(
                f"The {layer.kind} layer of {name}, {path}, does not have the SHA-256 that its name "
                f"says: {shelf.again(name)}.",
                path,
            )


def removable(name: str) -> str:
    """Return what a model that ORE has fetched is called; ``remove`` takes it.

    Raises:
        ModelNotFoundError: There is no such model.
        BackendError: It is not ORE's to remove.
        HomeError, FileAccessError: The folder can't be used.
    """
    if name in weights.PINNED and os.path.lexists(weights.pinned_path(name)):
        return name
    own, *others = local_models.own_shelves()
    if (found := own.find(name)) is not None:
        return str(found)
    if name in weights.installed():
        path = weights.installed()[name]
        raise BackendError(f"{name} is a file of yours, {path}: remove it yourself.")
    for shelf in others:
        if (found := shelf.find(name)) is not None:
            raise BackendError(
                f"{found} is Ollama's, in {shelf.root}, where ORE writes nothing: remove it with "
                f"ollama rm {found}."
            )
    raise weights.not_found_error(name, tuple(local_models.names()))


def remove(name: str) -> int:
    """Remove a model that ``removable`` has named; return how many bytes that frees.

    Its manifest goes first, so that it is never listed in part; then the blobs that no other one names.

    Raises:
        FileAccessError: Something can't be removed, or another manifest can't be read: then nothing is.
    """
    try:
        if name in weights.PINNED and os.path.lexists(weights.pinned_path(name)):
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
    gone = None
    with suppress(FileAccessError):  # a manifest that is none names nothing
        gone = shelf.manifest(name)
    still_named = named(shelf, but=name)
    path = shelf.manifest_path(name)
    path.unlink()
    for folder in path.parents:
        if folder.name == MANIFESTS or any(folder.iterdir()):
            break
        folder.rmdir()
    return 0 if gone is None else free(shelf, gone, still_named)
