"""A shelf of models in Ollama's layout, read without trusting a byte of it and without a write.

Below its root::

    manifests/HOST/NAMESPACE/MODEL/TAG   which blobs a model is made of, as JSON
    blobs/sha256-HEX                     the blobs, each named by the SHA-256 of its bytes

``shelves`` are those of this machine: ORE's own, where ``--pull`` puts models, and Ollama's, which
nothing of ORE ever writes to. No link below a root is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ore.backends.manifest import MANIFEST_BYTES, Layer, Manifest, parse_manifest
from ore.backends.model_names import ModelName, legal_name, parse_name
from ore.errors import CapabilityError, FileAccessError, HomeError, OreError, UsageError
from ore.files import UnfitFileError, read_confined, reason, strictjson
from ore.files.neutral import one_line, value_shown

MANIFESTS, BLOBS = "manifests", "blobs"
SERVICE_ROOT = Path("/usr/share/ollama/.ollama/models")
"""Where the service of Ollama's installer keeps its models; most users may not read it."""

PARAMS_BYTES = 1 << 16
"""The most that a layer of parameters may have."""
_CONFIG_BYTES, _TEXT_BYTES = 1 << 20, 1 << 20


class Shelf(NamedTuple):
    """One folder of models.

    Attributes:
        root: The folder that holds ``manifests`` and ``blobs``; it need not exist.
        is_own: Whether it is ORE's own; any other is never written to.
    """

    root: Path
    is_own: bool = False

    def names(self) -> list[ModelName]:
        """Return the names of all models that have a manifest, in order.

        What else is there is passed over, and a folder in it that this user may not list.

        Raises:
            FileAccessError: The folder is there and can't be listed.
        """
        return sorted(self.every(PermissionError), key=lambda name: (str(name).casefold(), name))

    def is_empty(self) -> bool:
        """Return whether ``names`` would find none; raises what it raises."""
        return next(self.every(PermissionError), None) is None

    def every(self, *passed: type[OSError]) -> Iterator[ModelName]:
        """Yield what ``names`` returns, in no order; only failures that are ``passed`` leave a folder out."""
        folder = self.root / MANIFESTS
        try:
            if folder.is_symlink():
                raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
            for parts in _paths(folder, 4, *passed):
                if (name := legal_name(*parts)) is not None:
                    yield name
        except FileNotFoundError:
            return
        except OSError as exc:
            at = exc.filename or self.root
            raise FileAccessError(f"{at} can't be listed: {reason(exc)}.", self.root) from exc

    def find(self, text: str) -> ModelName | None:
        """Return the name of the model that ``text`` names, as its folders spell it; None without it.

        Raises:
            FileAccessError: The folder is there and can't be listed.
        """
        try:
            wanted = parse_name(text)
        except UsageError:
            return None
        if os.path.isfile(self.manifest_path(wanted)):
            return wanted
        same = (name for name in self.every() if name.is_same(wanted))
        return min(same, default=None)

    def manifest_path(self, name: ModelName) -> Path:
        """Return where the manifest of a model is kept."""
        return Path(self.root, MANIFESTS, *name)

    def blob_path(self, layer: Layer) -> Path:
        """Return where a blob is kept; whether it is there, ``check_blob`` says."""
        return Path(self.root, BLOBS, layer.file)

    def manifest(self, name: ModelName) -> Manifest:
        """Return the manifest of a model.

        Raises:
            FileAccessError: It is not there, can't be read, or is not a manifest.
        """
        data = self._read(os.path.join(MANIFESTS, *name), MANIFEST_BYTES, name)
        try:
            return parse_manifest(data)
        except ValueError as exc:
            path = self.manifest_path(name)
            raise FileAccessError(
                f"{path} is not a model's manifest: {one_line(str(exc))}; {self.again(name)}.", path
            ) from exc

    def weights(self, name: ModelName, manifest: Manifest | None = None) -> Path:
        """Return the GGUF file of a model, its size compared with its manifest's.

        Raises:
            FileAccessError: The manifest, or the file, is not as it has to be.
            CapabilityError: The model is made of what the engine can't run.
        """
        manifest = manifest or self.manifest(name)
        models = manifest.of_kind("model")
        if why := self.refusal(name, manifest):
            raise CapabilityError(f"The model {name} can't be run by the embedded engine: {why}.")
        return self.check_blob(name, models[0])

    def check_blob(self, name: ModelName, layer: Layer) -> Path:
        """Return the file of one blob of a model; it is a regular file of the size that it must have.

        Raises:
            FileAccessError: It is not.
        """
        path = self.blob_path(layer)
        try:
            if stat.S_ISLNK(os.lstat(os.path.join(self.root, BLOBS)).st_mode):
                raise OSError(
                    errno.ELOOP,
                    f"{BLOBS} is a symbolic link, which ORE does not follow; put the folder in its place",
                )
            if why := _not_a_blob(os.lstat(path), layer):
                why = f"{why}; {self.again(name)}"
        except FileNotFoundError:
            why = f"it is not there; {self.again(name)}"
        except OSError as exc:
            why = reason(exc)
        if why:
            kind = "weights" if layer.kind == "model" else f"{one_line(layer.kind)} layer"
            raise FileAccessError(f"The {kind} of {name}, {path}, can't be used: {why}.", path)
        return path

    def is_whole(self, manifest: Manifest) -> bool:
        """Return whether every blob that the engine needs is there with its size."""
        try:
            return not any(
                _not_a_blob(os.lstat(self.blob_path(layer)), layer) for layer in manifest.needed()
            )
        except OSError:
            return False

    def config(self, name: ModelName, manifest: Manifest) -> dict[str, Any]:
        """Return what a model's config says (``model_type``, ``file_type`` ...); nothing if unreadable."""
        if manifest.config is None:
            return {}
        with suppress(OreError, ValueError):
            return self._read_object(name, manifest.config, _CONFIG_BYTES)
        return {}

    def parameters(self, name: ModelName, manifest: Manifest) -> dict[str, Any]:
        """Return the options that a model sets, as its ``params`` layers write them, unjudged.

        Raises:
            FileAccessError: A layer can't be read, or is no JSON object.
        """
        found: dict[str, Any] = {}
        for layer in manifest.of_kind("params"):
            try:
                found |= self._read_object(name, layer, PARAMS_BYTES)
            except ValueError as exc:
                path = self.blob_path(layer)
                raise FileAccessError(
                    f"The parameters of {name}, {path}, can't be used: {one_line(str(exc))}; "
                    f"{self.again(name)}.",
                    path,
                ) from exc
        return found

    def texts(self, name: ModelName, manifest: Manifest, kind: str) -> list[str]:
        """Return a model's layers of one kind as texts (``license``, ``template``, ``system``).

        Bytes that are no UTF-8 are replaced.

        Raises:
            FileAccessError: A layer can't be read, or has more than a MiB.
        """
        blobs = (self._read_blob(name, layer, _TEXT_BYTES) for layer in manifest.of_kind(kind))
        return [data.decode("utf-8", "replace") for data in blobs]

    def again(self, name: ModelName) -> str:
        """Return what brings a model back, as the end of a sentence."""
        way = f"`EmbeddedBackend.pull('{name}')`" if self.is_own else f"ollama pull {name}"
        return f"fetch it again with {way}"

    def refusal(self, name: ModelName, manifest: Manifest) -> str:
        """Return why the engine can't run what a model is made of, as the end of a sentence."""
        models = manifest.of_kind("model")
        if manifest.of_kind("adapter"):
            return (
                "it has an adapter, without which it is another model; run it with Ollama, or name "
                "one whose adapter is merged"
            )
        if len(models) == 1:
            return ""
        if len(models) > 1:
            return (
                f"its weights are in {len(models)} parts; run it with Ollama, or name a GGUF file "
                f"of it"
            )
        if manifest.of_kind("tensor"):
            return (
                "its weights are single tensors (safetensors) and not a GGUF file; run it with "
                "Ollama, or fetch a build of it in that format"
            )
        if self.config(name, manifest).get("remote_host"):
            return "it has no weights, because it runs on another machine (Ollama's cloud); name another"
        return "its manifest names no weights; name another model"

    def _read_object(self, name: ModelName, layer: Layer, limit: int) -> dict[str, Any]:
        """Return a blob parsed as a JSON object; ``ValueError`` where it is not one."""
        found = strictjson.parse(self._read_blob(name, layer, limit), limit=limit)
        if not strictjson.is_object(found):
            raise ValueError("it is not a JSON object")
        return found

    def _read_blob(self, name: ModelName, layer: Layer, limit: int) -> bytes:
        return self._read(f"{BLOBS}/{layer.file}", limit, name)

    def _read(self, relative: str, limit: int, name: ModelName) -> bytes:
        path = self.root / relative
        try:
            return read_confined(self.root, relative, limit)
        except FileNotFoundError as exc:
            raise FileAccessError(f"{path} is not there: {self.again(name)}.", path) from exc
        except PermissionError as exc:
            raise FileAccessError(
                f"{path} is not read: it {exc.strerror}, which ORE does not follow; put what it "
                f"leads to in its place.",
                path,
            ) from exc
        except FileAccessError as exc:
            if not isinstance(exc.__cause__, UnfitFileError):
                raise
            raise FileAccessError(f"{str(exc).rstrip('.')}; {self.again(name)}.", path) from exc


def shelves(
    models_folder: Path, environ: Mapping[str, str], service: Path = SERVICE_ROOT
) -> list[Shelf]:
    """Return ORE's shelf in ``models_folder``, then Ollama's: what is in the first goes before.

    Ollama's is ``OLLAMA_MODELS``, else ``~/.ollama/models``; and the service's. Of those that nobody
    named, one that may not be listed is left out.

    Raises:
        HomeError: ``OLLAMA_MODELS`` is not an absolute path.
    """
    roots, unnamed = [models_folder], [service]
    if named := environ.get("OLLAMA_MODELS", "").strip().strip("\"'"):  # as Ollama reads it
        if not os.path.isabs(named):
            raise HomeError(
                f"OLLAMA_MODELS is {value_shown(named)}, which is not an absolute path: set it to the full path "
                f"of the folder that holds Ollama's models, or unset it."
            )
        roots.append(Path(named))
    elif os.path.isabs(home := environ.get("HOME", "")):
        unnamed.insert(0, Path(home, ".ollama", "models"))
    roots += [root for root in unnamed if os.access(root / MANIFESTS, os.R_OK | os.X_OK)]
    found: list[Shelf] = []
    for root in roots:
        if not any(_is_same(root, shelf.root) for shelf in found):
            found.append(Shelf(root, is_own=not found))
    return found


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one == other or os.path.samefile(one, other)
    return False


def _not_a_blob(status: os.stat_result, layer: Layer) -> str:
    """Return why a file is not the blob that it has to be; empty where it may be."""
    if stat.S_ISLNK(status.st_mode):
        return "it is a link, which ORE does not follow; put its target there, or move it away"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file; move it away"
    if status.st_size != layer.size:
        return f"it has {status.st_size:,} bytes, and its manifest says {layer.size:,}"
    return ""


def _paths(folder: Path | str, depth: int, *passed: type[OSError]) -> Iterator[tuple[str, ...]]:
    """Yield the ways to the regular files that lie ``depth`` folders below; through no link."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if depth == 1:
                if entry.is_file(follow_symlinks=False):
                    yield (entry.name,)
            elif entry.is_dir(follow_symlinks=False):
                with suppress(FileNotFoundError, NotADirectoryError, *passed):  # just removed
                    for below in _paths(entry.path, depth - 1, *passed):
                        yield (entry.name, *below)
