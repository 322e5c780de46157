"""Personas: system prompts by name, of the user's own and of the package."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ore.core import AYA_PROMPT_PATH
from ore.errors import FileAccessError, PersonaError, SessionNameError, UsageError
from ore.files import read_confined, read_regular
from ore.files.trust import distrust, home_folder
from ore.store.names import MOST_FILE_BYTES, check_name

LONGEST_SYSTEM_PROMPT = 1 << 20
"""Bytes: the longest system prompt that is read from a file."""

_OWN, _PACKAGED = ".md", ".txt"
_MOST_NAMED = 20  # personas in one error


def load_persona(name: str) -> str:
    """Return the text of a persona: ``NAME.md`` in ``~/.ore/personas``, else the package's own.

    Args:
        name: Its name, without an ending.

    Raises:
        UsageError: It is not a name.
        PersonaError: There is no such persona, or its file can't be used.
    """
    try:
        name = check_name(name, "persona")
    except SessionNameError as exc:
        raise UsageError(str(exc)) from exc
    folder = personas_folder()
    apart = unicodedata.normalize("NFD", name)  # as files that come from a Mac may be called
    files = [
        each + _OWN for each in (name, apart) if len((each + _OWN).encode()) <= MOST_FILE_BYTES
    ]
    own = [(folder, file) for file in files]
    for root, file in (*own, (AYA_PROMPT_PATH.parent, name + _PACKAGED)):
        judge = distrust if root is folder else None
        try:
            data = read_confined(root, file, LONGEST_SYSTEM_PROMPT, judge=judge)
        except FileNotFoundError:
            continue
        except (PermissionError, FileAccessError) as exc:
            is_link = isinstance(exc, PermissionError)
            why = "it is a symbolic link" if is_link else str(exc).rstrip(".")
            raise PersonaError(
                f"The persona '{name}' can't be used ({why}): put a text file of your own at "
                f"{folder / (name + _OWN)}."
            ) from exc
        problem, text = _text_of(data)
        if problem:
            raise PersonaError(f"The persona in {root / file} can't be used: {problem}.")
        return text
    names = persona_names()
    known = ", ".join(f"'{each}'" for each in names[:_MOST_NAMED])
    known += f" (and {len(names) - _MOST_NAMED:,} more)" * (len(names) > _MOST_NAMED)
    raise PersonaError(
        f"There is no persona '{name}': write one to {folder / (name + _OWN)}, or use {known}."
    )


def read_system_prompt(path: str) -> str:
    """Return the system prompt in the file at ``path``, which ``--system @FILE`` names.

    Raises:
        UsageError: No file is named, or it is not text.
        FileAccessError: It can't be read.
    """
    if not path:
        raise UsageError("What follows @ does not name a file: write its path there, or a text.")
    problem, text = _text_of(read_regular(path, LONGEST_SYSTEM_PROMPT))
    if problem:
        raise UsageError(f"The system prompt in {path} can't be used: {problem}.")
    return text


def personas_folder() -> Path:
    """Return the folder of the user's own personas, which need not exist; see ``home_folder``."""
    return home_folder("personas")


def persona_names() -> list[str]:
    """Return the names of the personas there are, sorted, whatever is in their files."""
    return sorted(set(_names()))


def _names() -> Iterator[str]:
    for root, ending in ((AYA_PROMPT_PATH.parent, _PACKAGED), (personas_folder(), _OWN)):
        with suppress(OSError):  # most have no folder of their own
            for file in os.listdir(root):
                with suppress(SessionNameError):  # no flag could name it
                    if file.endswith(ending):
                        yield check_name(file.removesuffix(ending), "persona")


def _text_of(data: bytes) -> tuple[str, str]:
    """Return what is wrong with a system prompt's bytes, or ``""``, and its text."""
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as exc:
        return f"it is not UTF-8 at byte {exc.start}; convert it to UTF-8", ""
    return ("" if text else "it is empty; `system_prompt=''` sends no system prompt"), text
