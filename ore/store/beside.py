"""What stands beside ``NAME.json``: renamed and deleted with it, and not needed to read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ore.files import reason
from ore.files.folder import Folder
from ore.store.names import META, MOST_FILE_BYTES

TYPED, RUNS, SIZES = ".typed", ".runs", ".sizes"
_SUFFIXES = (TYPED, RUNS, SIZES, META)


def files_beside(name: str) -> list[str]:
    """Return the files that may stand beside a session's; the longest of all names have fewer."""
    files = [name + suffix for suffix in _SUFFIXES]
    return [file for file in files if len(file.encode()) <= MOST_FILE_BYTES]


def take_along(folder: Folder, old: str, new: str, report: Callable[[str], None]) -> None:
    """Rename what stands beside the session ``old``; report what can't be renamed."""
    for file in files_beside(old):
        renamed = new + file.removeprefix(old)
        try:
            folder.rename(file, renamed)
        except FileNotFoundError:
            with suppress(OSError):  # what a session that is gone has left
                folder.remove(renamed)
        except OSError as exc:
            report(f"{folder.path / file} was not renamed with its session: {reason(exc)}.")


def remove_along(folder: Folder, name: str, report: Callable[[str], None]) -> None:
    """Remove what stands beside the session ``name``; report what can't be removed."""
    for file in (f".{name}.tmp", *files_beside(name)):
        try:
            folder.remove(file)
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as exc:
            report(f"{folder.path / file} was not removed with its session: {reason(exc)}.")
