"""What a session may be called: a word that a person types, and a file's name on every system."""

from __future__ import annotations

import os
import re
import unicodedata

from ore.errors import SessionNameError
from ore.files.neutral import SHOWS_NOTHING

MOST_CHARACTERS = 100
MOST_NAME_BYTES = 249
"""In UTF-8: a file's name has at most 255 bytes, and ``.NAME.lock`` takes six of them."""

MOST_FILE_BYTES = 255
"""The longest name of a file, in UTF-8."""

META = ".meta.json"
"""What follows a session's name in the file that says what it was begun with."""

_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\.|$)", re.IGNORECASE)


def check_name(name: str, what: str = "session") -> str:
    """Return the name of a session, or of ``what`` else, in its one spelling (Unicode NFC).

    A name has letters and digits of any script with their marks, ``.``, ``-`` and ``_``; it starts
    with a letter or digit and does not end with a dot; it has at most 100 characters and 249
    bytes; it is not a device of Windows (``CON``, ``NUL``, ...). A session's does not end in
    ``.meta``: the file of such a name would be another session's.

    Raises:
        SessionNameError: One sentence that says which rule is broken.
    """
    if not isinstance(name, str):
        raise SessionNameError(f"A {what}'s name is text, not {type(name).__name__}.", repr(name))
    if len(name) <= 4 * MOST_CHARACTERS:  # normalising may join characters, so judge afterwards
        name = unicodedata.normalize("NFC", name)
    if what == "session" and f"{name}.json".casefold().endswith(META):
        raise SessionNameError(
            f"{name[-60:]!r} can't be a session's name: what the session without '.meta' was begun "
            f"with is kept in a file of that name. Choose another one.",
            name,
        )
    if (problem := _problem(name)) is not None:
        shown = name if len(name) <= 60 else name[:60] + "…"
        raise SessionNameError(
            f"{shown!r} can't be a {what}'s name: {problem}. A name has letters, digits, '.', "
            f"'-' and '_'.",
            name,
        )
    try:
        os.fsencode(name)
    except UnicodeError as exc:
        raise SessionNameError(
            f"{name!r} can't be a {what}'s name here: Python's locale has no such letters for files. "
            f"Set PYTHONUTF8=1 before the program begins, or choose another name.",
            name,
        ) from exc
    return name


def salvaged_name(name: str, number: int) -> str:
    """Return ``NAME.salvaged`` for 1, ``NAME.salvaged-2`` for 2, ..., cut to a legal length."""
    suffix = ".salvaged" if number == 1 else f".salvaged-{number}"
    stem = name[: MOST_CHARACTERS - len(suffix)].encode()[: MOST_NAME_BYTES - len(suffix)]
    return stem.decode(errors="ignore") + suffix


def _problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MOST_CHARACTERS:
        return f"it is longer than {MOST_CHARACTERS} characters"
    kinds = ["?" if re.match(SHOWS_NOTHING, each) else unicodedata.category(each) for each in name]
    for character, kind in zip(name, kinds):
        if kind[0] not in "LM" and kind != "Nd" and character not in ".-_":
            return f"it holds {character!r}"
    if kinds[0][0] != "L" and kinds[0] != "Nd":
        return "it does not start with a letter or a digit"
    if name.endswith("."):
        return "it ends with a dot"
    if len(name.encode()) > MOST_NAME_BYTES:
        return f"it is longer than {MOST_NAME_BYTES} bytes, which is too long for a file's name"
    if _DEVICE.match(name):
        return "Windows keeps it for a device"
    return None
