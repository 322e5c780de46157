"""The system prompt of a run: Aya's, another text, a saved persona, or none.

Knows nothing about models or turns: what is read here is given to ``ORE(system_prompt=...)``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ore.cli.options import Options
from ore.core import AYA_PROMPT_PATH
from ore.errors import FileAccessError, PersonaError, SessionNameError, UsageError
from ore.files import read_confined, read_regular
from ore.files.home import ore_home
from ore.store.names import check_name

LARGEST = 1 << 20
"""The most bytes of a system prompt."""

_OWN, _PACKAGED = ".md", ".txt"


def system_prompt_of(options: Options) -> str | None:
    """Return the system prompt that the flags ask for; None is Aya's, ``""`` is none at all.

    Raises:
        PersonaError: There is no such persona, or it is empty or no text.
        FileAccessError: The file that ``--system @FILE`` names can't be read.
        UsageError: The file is empty or no text, or the name is no persona's.
    """
    if options.no_system:
        return ""
    if options.persona is not None:
        return load_persona(options.persona)
    if options.system is None or not options.system.startswith("@"):
        return options.system
    path = options.system[1:]
    if not path:
        raise UsageError("--system @ names no file: write --system @FILE, or a text.")
    problem, text = _text_of(read_regular(path, LARGEST))
    if problem:
        raise UsageError(f"The system prompt in {path} can't be used: {problem}.")
    return text


def load_persona(name: str) -> str:
    """Return the text of a persona: ``NAME.md`` in ``~/.ore/personas``, else the package's own.

    Raises:
        UsageError: The name is no name.
        PersonaError: There is no such persona, or it can't be used.
    """
    try:
        name = check_name(name, "persona")
    except SessionNameError as exc:
        raise UsageError(str(exc)) from exc
    folder = ore_home() / "personas"
    for root, file in ((folder, name + _OWN), (AYA_PROMPT_PATH.parent, name + _PACKAGED)):
        try:
            data = read_confined(root, file, LARGEST)
        except FileNotFoundError:
            continue
        except (PermissionError, FileAccessError) as exc:
            can_not = isinstance(exc, FileAccessError)
            why = str(exc).rstrip(".") if can_not else "it is a symbolic link"
            raise PersonaError(
                f"The persona '{name}' can't be used ({why}): put a text file of your own at "
                f"{folder / (name + _OWN)}."
            ) from exc
        problem, text = _text_of(data)
        if problem:
            raise PersonaError(f"The persona in {root / file} can't be used: {problem}.")
        return text
    raise PersonaError(
        f"There is no persona '{name}': write one to {folder / (name + _OWN)}, or use "
        f"{_names(folder)}."
    )


def _text_of(data: bytes) -> tuple[str, str]:
    """Return what is wrong with a prompt's bytes, or ``""``, and its text."""
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as exc:
        return f"it is not UTF-8 at byte {exc.start}", ""
    return ("" if text else "it is empty; --no-system sends no system prompt"), text


def _names(folder: Path) -> str:
    found: set[str] = set()
    for root, ending in ((AYA_PROMPT_PATH.parent, _PACKAGED), (folder, _OWN)):
        with suppress(OSError):  # most have no folder of their own
            files = (file for file in os.listdir(root) if file.endswith(ending))
            found.update(file.removesuffix(ending) for file in files)
    return ", ".join(f"'{name}'" for name in sorted(found) if name.isprintable())
