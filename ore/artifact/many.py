"""Folders of artifacts: each file is read once, by several processes, and little is kept of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

from ore.artifact.verify import Checked, in_chain, look_at
from ore.errors import ArtifactError
from ore.files import reason

ENDING = ".json"
ALONE = 500
"""Up to how many files one process reads them: to start others takes longer."""
MOST_PROCESSES = 8
_AT_ONCE = 64


def has_folder(paths: Iterable[str]) -> bool:
    """Return whether one of the paths is a folder."""
    return any(path != "-" and os.path.isdir(path) for path in paths)


def files_of(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths; for a folder, those of its ``.json`` files, and of the folders in it, sorted.

    What begins with a dot is left out, and no symbolic link below a folder is followed.

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
            raise ArtifactError(f"{path} has no file that ends in {ENDING}: name another folder.")


def _below(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as exc:
        raise ArtifactError(f"The folder {folder} can't be read: {reason(exc)}.") from exc
    for entry in found:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _below(entry.path)
        elif entry.name.endswith(ENDING):
            yield entry.path


def verify_many(paths: Sequence[str], told: Callable[[int], None]) -> list[Checked]:
    """Check the artifacts in files, and their chain; return what was found, in the order of ``paths``.

    Of each no more is kept than the chain needs, so that a hundred thousand of them take some tens of
    megabytes.

    Args:
        told: Called with how many have been read.
    """
    found = []
    for each in _looked_at(paths):
        found.append(each)
        told(len(found))
    return in_chain(found)


def _looked_at(paths: Sequence[str]) -> Iterator[Checked]:
    processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
    if len(paths) <= ALONE or processes == 1:
        yield from map(_look, paths)
        return
    with multiprocessing.get_context("fork").Pool(processes, _ignore_interrupts) as pool:
        yield from pool.imap(_look, paths, _AT_ONCE)


def _look(path: str) -> Checked:
    checked = look_at(path)
    checked.artifact = None
    return checked


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for this one ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
