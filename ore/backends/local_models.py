"""The models that the embedded engine can run, wherever they are: one way to find and describe them.

They are the files of the models folder, then what stands on ORE's shelf, then Ollama's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ore.backends import (
    Model,
    Progress,
    gguf,
    gguf_kinds,
    mended,
    preferred_of,
    remembered,
    weights,
)
from ore.backends.manifest import Manifest
from ore.backends.model_names import ModelName, is_name
from ore.backends.shelf import Shelf, shelves
from ore.errors import CapabilityError, FileAccessError, ModelNotFoundError, OreError
from ore.files import read_regular, reason
from ore.files.neutral import word
from ore.files.reached import why_unknown

if TYPE_CHECKING:  # a list of models asks nobody
    from ore.backends.http import Deadline

_MOST_WORDS, _LONGEST_REPOSITORY = 12, 80


class OnShelf(NamedTuple):
    """A model of a shelf: which shelf it is, and what the model is called and made of there."""

    shelf: Shelf
    name: ModelName
    manifest: Manifest


class LocalModel(NamedTuple):
    """A model that is there.

    Attributes:
        name: What it is called, in an artifact, too: never a path of this machine.
        path: Its GGUF file; of a split one, the first.
        on_shelf: Where it stands, for one of a shelf.
    """

    name: str
    path: Path
    on_shelf: OnShelf | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether its bytes are those of a model that ORE pins."""
        return self.on_shelf is None and self.name in weights.PINNED


def own_shelves() -> list[Shelf]:
    """Return the shelves of this machine, ORE's own first."""
    return shelves(weights.models_folder(), os.environ)


def names(files: Mapping[str, Path] | None = None) -> list[str]:
    """Return the names of the models that are there, the pinned one first.

    Args:
        files: What ``weights.installed`` returns, where that is known.
    """
    files = weights.installed() if files is None else files
    return [*files, *(str(name) for name, _ in _on_shelves(files))]


def is_empty() -> bool:
    """Return whether there is no model."""
    return not weights.installed() and all(shelf.is_empty() for shelf in own_shelves())


def has(name: str) -> bool:
    """Return whether there is a model of that name, whether it can be run or not; a path is not a name."""
    return name in weights.installed() or any(shelf.find(name) for shelf in own_shelves())


def find(model_id: str, files: Mapping[str, Path] | None = None) -> LocalModel:
    """Return a model, given its name or the path of its file.

    Args:
        model_id: The name, or the path.
        files: What ``weights.installed`` returns, where that is known: many are looked for at once.

    Raises:
        ModelNotFoundError: There is no such model; the message says how to get it.
        FileAccessError: It is there and can't be read, or is not as it has to be.
        CapabilityError: It is made of what the engine can't run.
    """
    found = _located(model_id, files)
    if model_id not in weights.PINNED:
        check_unmended(found)
    return found


def find_again(model_id: str, found: LocalModel) -> LocalModel:
    """Return a model as it is now, as ``find`` does; for a file that is where it was, nothing is listed."""
    is_there = found.on_shelf is None and not found.is_pinned and os.path.isfile(found.path)
    return find(model_id, {model_id: found.path} if is_there else None)


def _located(model_id: str, files: Mapping[str, Path] | None) -> LocalModel:
    """Return a model as ``find`` does, also where Ollama would mend it; no file here takes its place."""
    file: Path | ModelNotFoundError
    try:
        file = weights.find(model_id, files)
    except ModelNotFoundError as exc:
        file = exc
    is_path = model_id.lower().endswith(".gguf") or not is_name(model_id)
    is_here = not is_path and model_id not in (files or ()) and file == Path(model_id)
    for shelf in own_shelves() if is_here or isinstance(file, ModelNotFoundError) else ():
        if (name := shelf.find(model_id)) is not None:
            manifest = shelf.manifest(name)
            path = shelf.weights(name, manifest)
            gguf.check_kind(path)
            return LocalModel(str(name), path, OnShelf(shelf, name, manifest))
    if isinstance(file, ModelNotFoundError):
        raise _missing(model_id, file) from None
    return LocalModel(os.path.basename(model_id), file)


def check_unmended(model: LocalModel) -> None:
    """Refuse a file that only Ollama reads rightly, for it mends it while it loads it.

    Raises:
        CapabilityError: It is such a file; the sentence says where the same model is as it must be.
        FileAccessError: It can't be read.
    """
    head = gguf.read_head(model.path)
    if not mended.is_suspect(head):
        return
    folder = weights.models_folder()
    try:
        why = remembered.of_file(folder, model.path, mended.RULES, mended.why_mended)
    except OSError as exc:
        raise FileAccessError(f"{model.path} can't be read: {reason(exc)}.", model.path) from exc
    if why:
        raise CapabilityError(
            f"{model.name} is a file that Ollama repairs while it loads it, and the embedded engine "
            f"does not ({why}): run it with Ollama, or fetch the same model as llama.cpp expects it, "
            f"{_elsewhere(model, head)} (USER is whoever publishes it there)."
        )


def check_bytes(model: LocalModel, *, deadline: Deadline | None = None) -> str:
    """Return the SHA-256 of a model's file; of one of a shelf, it is the one that its name says.

    A file is read once, as ``weights.file_digest`` says.

    Raises:
        FileAccessError: It is another, or the file can't be read.
        TimeoutError: The deadline has passed.
    """
    digest = weights.file_digest(model.path, deadline=deadline)
    if model.on_shelf is None:
        return digest
    shelf, name = model.on_shelf.shelf, model.on_shelf.name
    (layer,) = model.on_shelf.manifest.of_kind("model")
    if digest != layer.hexadecimal:
        raise FileAccessError(
            f"The weights of {name}, {model.path}, do not have the SHA-256 that their name says, but "
            f"{digest}: the file was changed or damaged. Remove it, then {shelf.again(name)}.",
            model.path,
        )
    return digest


def same_as(name: str, digest: str | None) -> str | None:
    """Return what the model of that digest is called here, else ``name`` if it is here, else None.

    Where several are the same, the one of that name goes before.
    """
    files = weights.installed()
    there = names(files)
    ordered = sorted(there, key=lambda each: each != name)
    with remembered.of_many(weights.models_folder()):
        for each in ordered if digest is not None else ():
            with suppress(OreError):  # a file that can't be read is not the one
                if _digest_of(find(each, files)) == digest:
                    return each
    return name if has(name) else None


def licenses(model_id: str) -> list[str]:
    """Return the licences that stand beside a model on a shelf, whether it can be run or not.

    Raises:
        ModelNotFoundError: There is no such model.
        FileAccessError: One can't be read.
    """
    for shelf in own_shelves():
        if (name := shelf.find(model_id)) is not None:
            return shelf.texts(name, shelf.manifest(name), "license")
    try:
        weights.find(model_id)
    except ModelNotFoundError as exc:
        raise _missing(model_id, exc) from None
    return []


def _missing(model_id: str, error: ModelNotFoundError) -> ModelNotFoundError:
    """Return the error for a model that is on no shelf; of a file, ``error`` says that it is not there.

    Raises:
        FileAccessError: A file of that name can't be read.
    """
    if model_id.lower().endswith(".gguf"):
        return error
    named = weights.models_folder() / model_id
    if os.sep not in model_id and (os.path.isfile(named) or why_unknown(named)):
        read_regular(named, sys.maxsize, head=1)
    return weights.not_found_error(model_id, tuple(names()))


def _digest_of(model: LocalModel) -> str:
    """Return a model's SHA-256; of one of a shelf, the one that its file is checked for."""
    if model.on_shelf is None:
        return weights.file_digest(model.path)
    return model.on_shelf.manifest.of_kind("model")[0].hexadecimal


def _elsewhere(model: LocalModel, head: dict[str, Any]) -> str:
    """Return how the same model is named where its files are made for llama.cpp."""
    named, kind = head.get("general.name"), gguf.quantization(head)
    if not isinstance(named, str) or not named.strip():
        named = model.on_shelf.name.model if model.on_shelf is not None else model.name
    words = "-".join(re.findall(r"[A-Za-z0-9_.]+", named)[:_MOST_WORDS])
    return f"hf.co/USER/{words[:_LONGEST_REPOSITORY]}-GGUF{f':{kind}' if kind else ''}"


def described(*, whole: bool = False, progress: Progress | None = None) -> list[Model]:
    """Return what is known of each model that is there, in the order of ``names``.

    Args:
        whole: Its digest and its template too, for which the files are read.
        progress: Told how far a file is that is read whole.
    """
    found: list[tuple[Model, Path | None]] = []
    for name, path in weights.installed().items():
        found.append((gguf_kinds.described(name, path)._replace(where=str(path.parent)), path))
    files = {model.name for model, _ in found}
    found.extend(_described(shelf, named) for named, shelf in _on_shelves(files))
    if not whole:
        return [model for model, _ in found]
    read = import_module("ore.backends.whole_files").with_digests
    with remembered.of_many(weights.models_folder()):
        return [model if path is None else read(model, path, progress) for model, path in found]


def default(there: Sequence[str] | None = None) -> str | None:
    """Return the best model that can answer: one of ``PREFERRED_MODELS``, the pinned one, the first.

    Args:
        there: What ``names`` returns, where that is known.
    """
    files = weights.installed()
    there = names(files) if there is None else there
    pinned = [name for name in there if name in weights.PINNED]
    with remembered.of_many(weights.models_folder()):
        for name in (*preferred_of(there), *pinned, *there):
            with suppress(OreError):
                path = find(name, files).path
                if not gguf_kinds.why_silent(path, gguf.read_head(path)):
                    return name
    return None


def _on_shelves(files: Collection[str]) -> Iterator[tuple[ModelName, Shelf]]:
    """Yield what ``find`` takes from a shelf: no file is called so, and no shelf before has it.

    The case of a file's name counts; that of a shelf's does not.
    """
    known: set[str] = set()
    for shelf in own_shelves():
        for name in shelf.names():
            folded = str(name).casefold()
            if str(name) not in files and folded not in known:
                known.add(folded)
                yield name, shelf


def _described(shelf: Shelf, name: ModelName) -> tuple[Model, Path | None]:
    """Return what is known of a model of a shelf, and its file; of one that can't be run, why."""
    where = str(shelf.root)
    try:
        manifest = shelf.manifest(name)
        path = shelf.weights(name, manifest)
        found = gguf_kinds.described(str(name), path)
        if found.window is None:
            gguf.check_kind(path)
    except OreError as exc:
        return Model(str(name), capabilities=(), where=where, problem=str(exc)), None
    said: dict[str, Any] = {}
    if found.parameters is None or found.quantization is None:
        said = shelf.config(name, manifest)
    return (
        found._replace(
            parameters=found.parameters or word(said.get("model_type")),
            quantization=found.quantization or word(said.get("file_type")),
            where=where,
        ),
        path,
    )
