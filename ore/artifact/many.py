"""Folders of artifacts: each file is read once, by several processes, and little is kept of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

from ore.artifact import ENDING, read_bytes
from ore.artifact.alike import Alike
from ore.artifact.verify import (
    HOLDS,
    Checked,
    content_of,
    held,
    let_go,
    look_into,
    short,
    unread,
)
from ore.errors import ArtifactError, Terminated
from ore.files import reason
from ore.files.bounded import usable_processors
from ore.files.neutral import one_line
from ore.files.signals import deferred_signals

if TYPE_CHECKING:  # where no signature is asked for, nothing of it is loaded
    from ore.artifact.signers import Signers

Found = TypeVar("Found")

ALONE = 500
"""Up to how many files one process reads them: to start others takes longer."""
MOST_PROCESSES = 8
_AT_ONCE = 64
_READ_AHEAD = 1 << 20  # bytes
_GRACE = 2.0
"""Seconds in which a process that is told to end, ends a program that it waits for."""

_Held = tuple[str, str, bytes]
"""What is kept of an artifact that holds, alone: SHA-256, id, and the hash of its content."""


def has_folder(paths: Iterable[str]) -> bool:
    """Return whether one of the paths is a folder."""
    return any(path != "-" and os.path.isdir(path) for path in paths)


def files_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths; for a folder, those of its ``.json`` files, and of the folders in it, sorted.

    Names that begin with a dot are left out, and so are links, and FIFOs, which would be waited for.

    Raises:
        ArtifactError: A folder can't be read, or has no such file.
    """
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        is_empty = True
        for each in _below(path):
            is_empty = False
            yield each
        if is_empty:
            shown = one_line(path)
            raise ArtifactError(f"{shown} has no file that ends in {ENDING}: name another folder.")


def _below(folder: str) -> Iterator[str]:
    left = [(folder, True)]  # the next one is the last; no recursion, for folders can be very deep
    while left:
        path, is_folder = left.pop()
        if is_folder:
            left += reversed(_entries(path))
        else:
            yield path


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Return the folders and the ``.json`` files in a folder, and whether each is a folder."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            kinds = [
                (each, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False))
                for each in found
            ]
    except OSError as exc:
        shown = one_line(folder)
        raise ArtifactError(f"The folder {shown} can't be read: {reason(exc)}.") from exc
    return [
        (entry.path, is_folder)
        for entry, is_folder, is_file in kinds
        if not entry.name.startswith(".") and (is_folder or is_file and entry.name.endswith(ENDING))
    ]


def check_each(
    paths: Sequence[str], told: Callable[[int], None], signers: Signers | None = None
) -> Iterator[Checked]:
    """Yield what each file shows by itself, in the order of ``paths``.

    Of each no more is kept than the chain needs, so that a hundred thousand of them take some tens of
    megabytes.

    Args:
        told: Called with how many have been read.
        signers: Those who may have signed them; None does not look for signatures.

    Raises:
        ArtifactError: A process that reads them was ended.
    """
    look = partial(_look_at_all, signers=signers, alike=Alike() if signers is None else None)
    for number, (path, each) in enumerate(zip(paths, _in_parts(paths, look), strict=True), 1):
        told(number)
        yield held(path, *each) if isinstance(each, tuple) else each


def looked_at(paths: Sequence[str], look: Callable[[str], Found]) -> Iterator[Found]:
    """Yield what ``look`` returns for each path, in their order; many are read by several processes.

    Args:
        look: Called where the file is read: in another process, which sends what it returns.

    Raises:
        ArtifactError: A process that reads them was ended.
    """
    return _in_parts(paths, partial(map, look))


def _in_parts(
    paths: Sequence[str], look: Callable[[Sequence[str]], Iterable[Found]]
) -> Iterator[Found]:
    """Yield what ``look`` returns for a part of the paths after the other: see ``looked_at``."""
    processes = min(usable_processors(), MOST_PROCESSES)
    if multiprocessing.current_process().daemon:  # a worker of a pool may start none
        processes = 1
    parts = [paths[at : at + _AT_ONCE] for at in range(0, len(paths), _AT_ONCE)]
    if len(paths) <= ALONE or processes == 1:
        for part in parts:
            yield from look(part)
        return
    children: list[tuple[BaseProcess, Connection]] = []
    is_done = False
    try:
        # The system gives no more of them, or a subinterpreter none: this one reads what is left.
        with suppress(OSError, RuntimeError):
            for number in range(processes):
                # Else nobody might know of it, and it might take a signal as its parent would.
                with deferred_signals(starts_threads=True):
                    children.append(_begun(parts[number::processes], look))
        for number, part in enumerate(parts):
            reader = number % processes
            yield from _received(children[reader][1]) if reader < len(children) else look(part)
        is_done = True
    finally:
        _end(children, 0.0 if is_done else _GRACE)


def _end(children: Sequence[tuple[BaseProcess, Connection]], seconds: float) -> None:
    """End the processes; each has so long to end what it has started itself."""
    until = time.monotonic() + seconds
    for process, _ in children if seconds else ():
        process.terminate()
    for process, pipe in children:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()
        process.join()
        pipe.close()


def _begun(
    parts: Sequence[Sequence[str]], look: Callable[[Sequence[str]], Iterable[Any]]
) -> tuple[BaseProcess, Connection]:
    """Start a process that reads; ``OSError`` or ``RuntimeError`` where there can be none."""
    fork = multiprocessing.get_context("fork")
    found, there = fork.Pipe(duplex=False)
    try:
        child = fork.Process(target=_read, args=(parts, look, found, there), daemon=True)
        child.start()
    except (OSError, RuntimeError):
        found.close()
        raise
    finally:
        there.close()
    return child, found


def _received(found: Connection) -> list[Any]:
    try:
        part: list[Any] = found.recv()
    except (EOFError, OSError) as exc:
        raise ArtifactError(
            "A process that reads artifacts ended too early, perhaps because memory ran out: name "
            "fewer of them at once."
        ) from exc
    return part


def _read(
    parts: Sequence[Sequence[str]],
    look: Callable[[Sequence[str]], Iterable[Any]],
    found: Connection,
    there: Connection,
) -> None:
    """Be a process that reads: it ends when nobody waits for what it sends."""
    found.close()
    signal.set_wakeup_fd(-1)  # an event loop of the program's would take what ends this for its own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for this one ends it
    ends = (signal.SIGTERM, signal.SIGHUP)
    for number in ends:
        signal.signal(number, _leave)
    with suppress(OSError, MemoryError, Terminated):  # the process that waits sees the pipe's end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
        for part in parts:
            there.send([*look(part)])
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: object) -> None:
    """Stop the work in order: a program that it waits for is ended, too."""
    raise Terminated


def _look_at_all(
    paths: Sequence[str], signers: Signers | None, alike: Alike | None
) -> Iterator[Checked | _Held]:
    """Yield what is found of each artifact; some are read, then checked: faster than each in turn."""
    left = [*reversed(paths)]
    while left:
        read: list[tuple[str, bytes | ArtifactError]] = []
        size = 0
        while left and size < _READ_AHEAD:
            path = left.pop()
            try:
                data = read_bytes(path)
            except ArtifactError as exc:
                read.append((path, exc))
            else:
                read.append((path, data))
                size += len(data)
        for path, found in read:
            if isinstance(found, ArtifactError):
                yield unread(path, found)
            else:
                yield _look_into(path, found, signers, alike)


def _look_into(
    path: str, data: bytes, signers: Signers | None, alike: Alike | None
) -> Checked | _Held:
    """Check one artifact; return no more of it than the chain needs, and of most three hashes.

    Args:
        alike: What is known of others; what is laid out as they are is not parsed. Without ``signers``.
    """
    if alike is not None and (found := alike.seal_of(data)):
        return sha256(data).hexdigest(), short(found[0]), content_of(found[1])
    checked = look_into(data, path, signers)
    if alike is not None and checked.state == HOLDS and not checked.notes:
        alike.learn(data)
    is_plain = checked.is_sealed and not checked.problems and not checked.notes
    if is_plain and checked.parent is None and checked.signature is None:
        return str(checked.sha256), str(checked.execution_id), checked.content
    let_go(checked)
    return checked
