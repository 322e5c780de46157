"""Execution artifacts at the edge: read with suspicion, written whole and only over their own kind.

What is written can always be read back. Knows nothing about flags, models or turns, and runs
nothing of what an artifact says.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from pathlib import Path

from ore.errors import (
    ArtifactError,
    FileAccessError,
    InvalidArtifactError,
    OreError,
    ReaderGoneError,
)
from ore.files import read_regular, reason, replace_file
from ore.files.neutral import one_line
from ore.types import ExecutionArtifact, strictjson

MAX_BYTES = 16 * 1024 * 1024
"""The largest artifact that is read, and so the largest that is written."""

NEW_FILE_MODE = 0o600
"""A new artifact is its owner's alone, for it holds a prompt and an answer."""

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,6})")


def read_artifact(path: Path | str, stdin: io.BufferedIOBase | None = None) -> ExecutionArtifact:
    """Return the artifact in a regular file, in a pipe that ``path`` names, or on stdin.

    Args:
        path: The file, or ``-`` for stdin. A named pipe is waited for, as ``cat`` would.
        stdin: A buffered binary stream, read to its end; None is a closed one.

    Raises:
        ArtifactError: It can't be read: missing, a folder, a device, a terminal.
        InvalidArtifactError: It was read, and is no artifact or larger than ``MAX_BYTES``.
    """
    source = "stdin" if str(path) == "-" else str(path)
    return parse_artifact(read_bytes(path, stdin), source)


def read_bytes(path: Path | str, stdin: io.BufferedIOBase | None = None) -> bytes:
    """Return what ``read_artifact`` would parse, at most one byte more than ``MAX_BYTES``.

    Raises:
        ArtifactError: It can't be read: missing, a folder, a device, a terminal.
    """
    return _read_stdin(stdin) if str(path) == "-" else _read_file(path)


def parse_artifact(data: bytes, source: str) -> ExecutionArtifact:
    """Return the artifact that ``data`` is; ``source`` names it in an error.

    Raises:
        InvalidArtifactError: It is none; one sentence that says why.
    """
    try:
        return ExecutionArtifact.from_dict(strictjson.parse(data, limit=MAX_BYTES))
    except ValueError as exc:
        raise InvalidArtifactError(
            f"{one_line(source)} can't be used as an artifact: {str(exc).rstrip('.')}; give one "
            f"that was written with --artifact-out."
        ) from exc


def encode_artifact(artifact: ExecutionArtifact) -> str:
    """Return the artifact as one JSON document: ASCII, indented, one newline at its end.

    Raises:
        ArtifactError: It holds what JSON can't (a reasoner's metadata may), or it could not be
            read back.
    """
    try:
        text = json.dumps(artifact.to_dict(), ensure_ascii=True, allow_nan=False, indent=2) + "\n"
        ExecutionArtifact.from_dict(strictjson.parse(text.encode("ascii"), limit=MAX_BYTES))
    except (TypeError, ValueError, RecursionError) as exc:
        why = reason(exc).rstrip(".")
        raise ArtifactError(f"The turn can't be kept as an artifact: {why}.") from exc
    return text


def check_output(path: Path | str) -> None:
    """Raise where ``write_artifact`` would refuse ``path``; to be asked before a model is called.

    Raises:
        ArtifactError: The folder is missing or read-only, or what is there must not be replaced.
    """
    if _descriptor(path) is None:
        _judge(path)


def write_artifact(artifact: ExecutionArtifact, path: Path | str) -> None:
    """Write an artifact to a file, whole or not at all, or into a pipe or device as it is.

    A new file gets the mode ``NEW_FILE_MODE``, one that is replaced keeps its own; both lose what
    the umask takes. What ``path`` names is judged again, for it may have changed.

    Raises:
        ArtifactError: Nothing was written to the file; what was there is as it was.
        ReaderGoneError: Nobody reads the pipe any more.
    """
    data = encode_artifact(artifact).encode("ascii")
    inherited = _descriptor(path)
    status = None if inherited is not None else _judge(path)
    try:
        if inherited is not None:
            _write_through(os.dup(inherited), data)
        elif status is None or stat.S_ISREG(status.st_mode):
            mode = NEW_FILE_MODE if status is None else stat.S_IMODE(status.st_mode) & 0o777
            replace_file(Path(path), [data], mode=mode)
        else:
            _write_through(os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), data)
    except BrokenPipeError as exc:
        raise ReaderGoneError(f"Nobody reads {_shown(path)} any more.") from exc
    except OSError as exc:
        raise _unwritable(path, reason(exc)) from exc


def is_artifact_of(execution_id: str, path: Path | str) -> bool:
    """Return whether a regular file holds the artifact of that run; what can't be read does not."""
    try:
        data = read_regular(Path(path), MAX_BYTES)
        return parse_artifact(data, str(path)).execution_id == execution_id
    except OreError:
        return False


def _read_stdin(stdin: io.BufferedIOBase | None) -> bytes:
    try:
        if stdin is None or stdin.isatty():
            raise ArtifactError("There is no artifact on stdin: pipe one in, or name its file.")
        return stdin.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        raise ArtifactError(f"The artifact on stdin can't be read: {reason(exc)}.") from exc


def _read_file(path: Path | str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            with open(path, "rb") as file:
                return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as exc:
        raise ArtifactError(f"{_shown(path)} can't be read: {reason(exc)}.") from exc
    kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a pipe"
    raise ArtifactError(f"{_shown(path)} can't be read: it is {kind}; name an artifact's file.")


def _descriptor(path: Path | str) -> int | None:
    """Return the number behind ``/dev/stdout`` or ``/dev/fd/N``, or None for any other path.

    Such a path is a link to whatever the shell opened. The descriptor itself is written to, so
    that ``>> file`` appends, and ``>(command)`` works wherever the shell has put its pipe.
    """
    text = os.fspath(path)
    found = _DESCRIPTOR.fullmatch(text)
    number = int(found[1]) if found else _STREAMS.get(text)
    if number is None or sys.platform == "win32":
        return None
    import fcntl

    try:
        writable = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError as exc:
        raise _unwritable(path, reason(exc)) from exc
    if not writable:
        raise _unwritable(path, "it is open for reading only")
    return number


def _judge(path: Path | str) -> os.stat_result | None:
    """Return what is at ``path``, None for nothing, or raise where it must not be written to."""
    status = _status(path)
    mode = 0 if status is None else status.st_mode
    if stat.S_ISLNK(mode):
        raise _unwritable(path, "it is a symbolic link; name the file itself")
    if stat.S_ISDIR(mode) or os.fspath(path).endswith(os.sep):
        raise _unwritable(path, "it is a folder; name a file in it")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise _unwritable(path, "it is neither a file nor a pipe; name a file")
    if status is not None and not os.access(path, os.W_OK):
        raise _unwritable(path, "permission denied")
    if status is None or stat.S_ISREG(mode):
        _judge_folder(Path(path).parent, path)
    if status is not None and stat.S_ISREG(mode) and status.st_size:
        _judge_content(path)
    return status


def _judge_folder(folder: Path, path: Path | str) -> None:
    if not os.path.isdir(folder):
        raise _unwritable(path, f"there is no folder {_shown(folder)}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(path, f"the folder {_shown(folder)} can't be written to")


def _judge_content(path: Path | str) -> None:
    try:
        parse_artifact(read_regular(path, MAX_BYTES, follow=False), str(path))
    except (FileAccessError, InvalidArtifactError) as exc:
        raise _unwritable(
            path, "it is there already and is no artifact; name another file"
        ) from exc


def _status(path: Path | str) -> os.stat_result | None:
    try:
        # Without a slash at its end, which would follow a link to a folder.
        return os.lstat(Path(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise _unwritable(path, reason(exc)) from exc


def _write_through(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(data)


def _unwritable(path: Path | str, why: str) -> ArtifactError:
    return ArtifactError(f"The artifact can't be written to {_shown(path)}: {why}.")


def _shown(path: Path | str) -> str:
    return one_line(os.fspath(path))
