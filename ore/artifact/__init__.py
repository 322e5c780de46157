"""Execution artifacts as files: read with suspicion, written whole and only over their own kind.

What is written can always be read back, and nothing that an artifact says is run.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ore.errors import (
    ArtifactError,
    FileAccessError,
    InvalidArtifactError,
    OreError,
    ReaderGoneError,
)
from ore.files import read_regular, reason, replace_file, strictjson
from ore.files.neutral import one_line
from ore.files.reached import why_unread
from ore.files.trust import kept_mode, may_be_planted
from ore.files.whole import make_blocking, write_whole
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import MAX_VALUES, check_parsed
from ore.types.execution import artifact_of_checked, fields_of

MAX_ARTIFACT_BYTES = 16 * 1024 * 1024
"""The largest artifact that is read, and so the largest that is written."""

ENDING = ".json"
"""What is looked for in a folder ends in this; what ends so is a file, and no FIFO that is waited for."""

NEW_FILE_MODE = 0o600
"""A new artifact is its owner's alone, for it holds a prompt and an answer."""

_DESCRIPTOR = re.compile(r"/dev/(stdout|stderr)|/(?:dev|proc/self)/fd/([0-9]{1,6})")


def parsed(data: bytes, *, shortens: bool = False) -> Any:
    """Return what the JSON of an artifact holds.

    Args:
        data: The JSON; what surely holds too many values is not read.
        shortens: As for ``strictjson.parse``.

    Raises:
        ValueError: As ``strictjson.parse`` does.
    """
    most = 2 * MAX_VALUES  # an object counts as two
    return strictjson.parse(data, limit=MAX_ARTIFACT_BYTES, most=most, shortens=shortens)


def read_artifact(path: Path | str, stdin: io.BufferedIOBase | None = None) -> ExecutionArtifact:
    """Return the artifact in a regular file, in a pipe that ``path`` names, or on stdin.

    Args:
        path: The file, or ``-`` for stdin. A named pipe is waited for, as ``cat`` would, unless its name ends
            in ``.json``.
        stdin: A buffered binary stream, read to its end; None is a closed one.

    Raises:
        ArtifactError: It can't be read: missing, a folder, a device, a terminal.
        InvalidArtifactError: It is not an artifact, or larger than ``MAX_ARTIFACT_BYTES``.
    """
    source = "stdin" if str(path) == "-" else str(path)
    return parse_artifact(read_bytes(path, stdin), source)


def read_bytes(path: Path | str, stdin: io.BufferedIOBase | None = None) -> bytes:
    """Return the bytes that ``read_artifact`` would parse, at most one more than it accepts.

    Args:
        path: The file, or ``-`` for stdin.
        stdin: A buffered binary stream; None is a closed one.

    Raises:
        ArtifactError: They can't be read.
    """
    most = MAX_ARTIFACT_BYTES + 1
    try:
        if str(path) != "-":
            # One that was found in a folder may have become a FIFO since.
            is_file = os.fspath(path).endswith(ENDING)
            return read_regular(path, sys.maxsize, head=most, pipe=not is_file)
        if stdin is None or stdin.isatty():
            raise ArtifactError("There is no artifact on stdin: pipe one in, or name its file.")
        return stdin.read(most)
    except FileAccessError as exc:
        raise ArtifactError(str(exc)) from exc
    except (OSError, ValueError) as exc:
        raise ArtifactError(f"The artifact on stdin can't be read: {reason(exc)}.") from exc


def parse_artifact(data: bytes, source: str) -> ExecutionArtifact:
    """Return the artifact that ``data`` is; ``source`` names it in an error.

    Raises:
        InvalidArtifactError: It is not an artifact, or larger than ``MAX_ARTIFACT_BYTES``.
    """
    try:
        document = parsed(data)
        check_parsed(document, len(data))
    except ValueError as exc:
        raise InvalidArtifactError(
            f"{one_line(source)} can't be used as an artifact: {str(exc).rstrip('.')}; give one "
            f"that was written with `ORE.record()`."
        ) from exc
    return artifact_of_checked(document)


def encode_artifact(artifact: ExecutionArtifact) -> str:
    """Return an ``artifact`` as one JSON document: ASCII, indented, one newline at its end.

    Raises:
        ArtifactError: It holds what JSON can't (a reasoner's metadata may), or it could not be
            read back.
    """
    try:
        text = json.dumps(fields_of(artifact), ensure_ascii=True, allow_nan=False, indent=2) + "\n"
        data = text.encode("ascii")
        check_parsed(parsed(data), len(data))
    except (TypeError, ValueError, RecursionError) as exc:
        raise not_keepable(exc) from exc
    return text


def not_keepable(exc: Exception) -> ArtifactError:
    """Return the error for a turn that has no JSON, or could not be read back, as ``exc`` says."""
    why = reason(exc).rstrip(".")
    return ArtifactError(f"The turn can't be kept as an artifact: {why}.")


def check_output(path: Path | str) -> None:
    """Raise the ``ArtifactError`` that ``write_artifact`` would of ``path``; ask before a model is called."""
    if _descriptor(path) is None:
        _judge(path)


def write_artifact(artifact: ExecutionArtifact, path: Path | str) -> None:
    """Write an artifact to a file, whole or not at all, or into a pipe or device as it is.

    A new file gets the mode ``NEW_FILE_MODE``, and so does one that replaces another user's; one that
    replaces this user's keeps its mode. All lose what the umask takes. A file that is there is replaced
    where it is an artifact, or empty.

    Args:
        artifact: What is written.
        path: The file; what it names is judged anew, for it may have changed.

    Raises:
        ArtifactError: Nothing was written to the file; what was there is as it was.
        ReaderGoneError: Nobody reads the pipe any more.
    """
    write_encoded(encode_artifact(artifact).encode("ascii"), path)


def write_encoded(data: bytes, path: Path | str) -> None:
    """Write ``data``, what ``encode_artifact`` returned, to ``path``, as ``write_artifact`` does.

    Raises:
        ArtifactError: Nothing was written to the file; what was there is as it was.
        ReaderGoneError: Nobody reads the pipe any more.
    """
    inherited = _descriptor(path)
    status = _judge(path) if inherited is None else None
    try:
        if inherited is not None:
            _write(os.dup(inherited), data)
        elif status is None or stat.S_ISREG(status.st_mode):
            mode = kept_mode(status, NEW_FILE_MODE) if status else NEW_FILE_MODE
            replace_file(path, [data], mode=mode)
        else:
            _write(os.open(path, os.O_WRONLY | os.O_NOCTTY), data)
    except BrokenPipeError as exc:
        raise ReaderGoneError(f"Nobody reads {_shown(path)} any more.") from exc
    except OSError as exc:
        raise _unwritable(path, reason(exc)) from exc


def is_artifact_of(execution_id: str, path: Path | str) -> bool:
    """Return whether the file at ``path`` holds the artifact of the run ``execution_id``.

    It does not where it is not a regular file, or can't be read.
    """
    try:
        data = read_regular(Path(path), MAX_ARTIFACT_BYTES)
        return parse_artifact(data, str(path)).execution_id == execution_id
    except OreError:
        return False


def _descriptor(path: Path | str) -> int | None:
    """Return the number behind ``/dev/stdout`` or ``/dev/fd/N``, or None for any other path.

    Such a path is a link to whatever the shell opened. The descriptor itself is written to, so
    that ``>> file`` appends, and ``>(command)`` works wherever the shell has put its pipe.
    """
    found = _DESCRIPTOR.fullmatch(os.fspath(path))
    if found is None:
        return None
    number = int(found[2]) if found[2] else {"stdout": 1, "stderr": 2}[found[1]]
    try:
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError as exc:
        raise _unwritable(path, reason(exc)) from exc
    if access == os.O_RDONLY:
        raise _unwritable(path, "it is open for reading only")
    return number


def _judge(path: Path | str) -> os.stat_result | None:
    """Return what is at ``path``, None for nothing, or raise where it must not be written to."""
    status, folder = None, Path(path).parent
    try:
        with suppress(FileNotFoundError):
            # Without a slash at its end, which would follow a link to a folder.
            status = os.lstat(Path(path))
        has_folder = folder.is_dir()
    except (OSError, ValueError) as exc:
        raise _unwritable(path, reason(exc)) from exc
    mode = status.st_mode if status else stat.S_IFREG
    if stat.S_ISLNK(mode):
        raise _unwritable(path, "it is a symbolic link; name the file itself")
    if stat.S_ISDIR(mode) or os.fspath(path).endswith(os.sep):
        raise _unwritable(path, "it is a folder; name a file in it")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise _unwritable(path, "it is neither a file nor a pipe; name a file")
    if status and not os.access(path, os.W_OK):
        raise _unwritable(path, "permission denied")
    if status and stat.S_ISFIFO(mode) and may_be_planted(status, folder):
        raise _unwritable(path, "it is another user's pipe, in a folder for all; name another")
    if stat.S_ISREG(mode) and not has_folder:
        raise _unwritable(path, f"there is no folder {_shown(folder)}; make it first")
    if stat.S_ISREG(mode) and not os.access(folder, os.W_OK | os.X_OK):
        cause = PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # a run over rows stops
        raise _unwritable(path, f"the folder {_shown(folder)} can't be written to") from cause
    if stat.S_ISREG(mode) and status and status.st_size:
        _require_artifact(path)
    return status


def _require_artifact(path: Path | str) -> None:
    try:
        parse_artifact(read_regular(path, MAX_ARTIFACT_BYTES, follow=False), str(path))
    except (FileAccessError, InvalidArtifactError) as exc:
        why = "it is there already and is not an artifact, or not a whole one; move it away, or name another"
        if unread := why_unread(exc):
            why = f"it is there already and can't be read ({unread}); name another"
        raise _unwritable(path, why) from exc


def _write(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        make_blocking(file)
        write_whole(file, data)


def _unwritable(path: Path | str, why: str) -> ArtifactError:
    return ArtifactError(f"The artifact can't be written to {_shown(path)}: {why}.")


def _shown(path: Path | str) -> str:
    return one_line(os.fspath(path))
