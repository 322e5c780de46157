"""A folder with one artifact for each row, named by the row's number and the hash of what is asked.

``FOLDER/00000001-00001000/00000042-0f1e2d3c4b5a6978.json``: at most a thousand rows a folder. What is
there and holds was asked before; another prompt, model or option has another name.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ore.artifact import MAX_ARTIFACT_BYTES, check_output
from ore.artifact.canonical import digest
from ore.artifact.verify import HOLDS, check
from ore.errors import ArtifactError, FileAccessError
from ore.files import make_private, read_regular, reason, replace_file
from ore.files.folder import Folder
from ore.files.home import is_address
from ore.files.locks import holder, try_lock
from ore.files.neutral import one_line
from ore.files.strictjson import is_object
from ore.glass.provenance import MadeWith
from ore.types import ExecutionArtifact

ROWS_A_FOLDER = 1000
_DIGITS, _HASH_DIGITS = 8, 16
_LOCK = ".rows.lock"
_PART = re.compile(r"\d{8,}-\d{8,}")


def asked_digest(provenance: Mapping[str, Any]) -> str:
    """Return the hash of what a turn asks: its messages, the model's digest, the options, and a chat
    template in the place of the model's own.

    Where the digest is not known, the model is its name. ``provenance`` is that of the turn's
    artifact, with ``model_id`` beside it.
    """
    names = ("backend", "messages_sha256", "options", "join_messages")
    asked = {name: provenance.get(name) for name in names}
    asked["model"] = provenance.get("model_digest") or provenance.get("model_id")
    if is_object(template := provenance.get("chat_template")):
        asked["chat_template"] = template.get("sha256")
    return digest(asked)[:_HASH_DIGITS]


def kept_otherwise(artifact: ExecutionArtifact, made: MadeWith) -> list[str]:
    """Return that an earlier run has kept other texts of a row than this one keeps, if that is so."""
    there = artifact.provenance or {}
    found = "messages" in there, there.get("system_prompt") is None
    if found == (made.is_full, made.system_prompt is None):
        return []
    return [
        "Its artifact is from an earlier run, which kept other texts than this one would: name "
        "another folder to get one that keeps what you ask for."
    ]


class RowFolder:
    """The folder ``root``; while ``held`` is entered, no other run has it."""

    def __init__(self, root: str) -> None:
        self.root: Path = Path(root)
        self._made: set[Path] = set()

    def check(self) -> None:
        """Raise ``ArtifactError`` where nothing can be written to it, as far as that shows now."""
        if is_address(str(self.root)):
            raise self._unwritable(self.root, "it is an address, and they are kept on this machine")
        try:
            with suppress(OSError):  # what is in its way is looked at next
                os.lstat(self.root)
        except ValueError as exc:  # a NUL, or half a character
            raise self._unwritable(self.root, "no folder has such a name") from exc
        there = next((p for p in (self.root, *self.root.parents) if os.path.lexists(p)), Path("."))
        try:
            is_folder = stat.S_ISDIR(os.stat(there).st_mode)
        except OSError as exc:
            raise self._unwritable(there, reason(exc)) from exc
        if not is_folder:
            raise self._unwritable(there, "it is a file, not a folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise self._unwritable(there, "it is not writable for you")
        if there != self.root:
            return
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    if _PART.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False):
                        raise self._unwritable(Path(entry.path), "a folder of ORE's has this name")
        except OSError as exc:
            raise self._unwritable(self.root, reason(exc)) from exc

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Make the folder, and keep other runs out of it for the block.

        Raises:
            ArtifactError: It can't be made, or another run has it.
        """
        try:
            with ExitStack() as stack:
                folder = stack.enter_context(Folder(self.root.resolve(), make=True, private=False))
                lock = try_lock(folder, _LOCK)
                if lock is None:
                    pid = holder(folder, _LOCK)
                    by = f"by the process {pid}" if pid else "by another process"
                    by = "by another run of this process" if pid == os.getpid() else by
                    raise self._unwritable(self.root, f"it is in use {by}; wait until that ends")
                stack.callback(lock.remove, folder)
                yield
        except FileAccessError as exc:
            raise ArtifactError(str(exc)) from exc
        except OSError as exc:
            raise self._unwritable(self.root, reason(exc)) from exc

    def path_of(self, number: int, asked: str) -> Path:
        """Return where the artifact of a row is; ``asked`` is what ``asked_digest`` returned."""
        first = (number - 1) // ROWS_A_FOLDER * ROWS_A_FOLDER + 1
        part = f"{first:0{_DIGITS}}-{first + ROWS_A_FOLDER - 1:0{_DIGITS}}"
        return self.root / part / f"{number:0{_DIGITS}}-{asked}.json"

    def find(self, path: Path, asked: str) -> ExecutionArtifact | None:
        """Return the artifact at ``path`` if it holds and is of what is asked; else None.

        Raises:
            ArtifactError: What is there can't be read, so that no other could take its place.
        """
        try:
            data = read_regular(path, MAX_ARTIFACT_BYTES, follow=False)
        except FileAccessError as exc:
            if isinstance(exc.__cause__, (FileNotFoundError, NotADirectoryError)):
                return None
            cause = exc if os.path.lexists(path) else exc.__cause__  # of its folder: a run stops
            step = _step(str(exc), "Move it away, or name another folder with `folder=`.")
            raise ArtifactError(f"{one_line(str(exc))} {step}") from cause
        found = check(data, str(path))
        artifact = found.artifact
        if found.state != HOLDS or artifact is None:
            return None
        known = {**(artifact.provenance or {}), "model_id": artifact.input.model_id}
        return artifact if asked_digest(known) == asked else None

    def write(self, path: Path, data: bytes) -> None:
        """Write an artifact whole, in the place of one that does not hold.

        Raises:
            ArtifactError: It can't be written; what was there is as it was.
        """
        if path.parent not in self._made:
            try:
                make_private(path.parent)
            except OSError as exc:
                raise self._unwritable(path.parent, reason(exc)) from exc
            self._made.add(path.parent)
        try:
            if os.path.lexists(path):
                check_output(path)
            # The same name each time: what a killed run has left behind is replaced.
            replace_file(path, [data], temporary=f".{path.name}.tmp")
        except OSError as exc:
            raise self._unwritable(path, reason(exc)) from exc

    def others(self, first: int, last: int, own: int) -> int:
        """Return how many artifacts of rows from ``first`` to ``last`` are there beside ``own``."""
        found = 0
        for number in range(first, last + 1, ROWS_A_FOLDER):
            try:
                with os.scandir(self.path_of(number, "").parent) as entries:
                    found += sum(entry.name.endswith(".json") for entry in entries)
            except OSError:
                continue
        return max(found - own, 0)

    def _unwritable(self, path: Path, why: str) -> ArtifactError:
        step = _step(why, "Name another folder with `folder=`.")
        return ArtifactError(f"Artifacts can't be written to {one_line(str(path))}: {why}. {step}")


def _step(why: str, usual: str) -> str:
    """Return what to do about a file: ``usual``, unless any other would fail in the same way."""
    if os.strerror(errno.EMFILE).lower() in why.lower():  # or none more in the whole system
        return "Take fewer turns at once, or raise the limit (ulimit -n)."
    return usual
