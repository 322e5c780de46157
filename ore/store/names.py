"""What a session may be called.

A name is a word that a person types and, with a suffix, a file's name on every system. Knows
nothing about which sessions there are.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from ore.errors import SessionNameError

MAX_CHARACTERS = 100
MAX_BYTES = 249
"""In UTF-8: a file's name has at most 255 bytes, and ``.NAME.lock`` takes six of them."""

_PUNCTUATION = frozenset(".-_")
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL"]
    + [f"{port}{digit}" for port in ("COM", "LPT") for digit in range(10)]
)
# Letters and marks that show nothing: two names that look the same must be the same.
_INVISIBLE = frozenset(
    map(
        chr,
        [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0]
        + [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)],
    )
)


def check_name(name: str, what: str = "session") -> str:
    """Return the name of a session, or of ``what`` else, in its one spelling (Unicode NFC).

    A name has letters and digits of any script with their marks, ``.``, ``-`` and ``_``; it starts
    with a letter or digit and does not end with a dot; it has at most 100 characters and 249
    bytes; it is no device of Windows (``CON``, ``NUL``, ...).

    Raises:
        SessionNameError: One sentence that says which rule is broken.
    """
    if not isinstance(name, str):
        raise SessionNameError(f"A {what}'s name is text, not {type(name).__name__}.", repr(name))
    return _checked(name, what)


@lru_cache(maxsize=64)  # the same few are asked for at every save
def _checked(name: str, what: str) -> str:
    if len(name) <= 4 * MAX_CHARACTERS:  # normalising may join characters, so judge afterwards
        name = unicodedata.normalize("NFC", name)
    if (problem := _problem(name)) is not None:
        shown = name if len(name) <= 60 else name[:60] + "…"
        raise SessionNameError(
            f"{shown!r} can't be a {what}'s name: {problem}. A name has letters, digits, '.', "
            f"'-' and '_'.",
            name,
        )
    return name


def salvaged_name(name: str, number: int) -> str:
    """Return ``NAME.salvaged`` for 1, ``NAME.salvaged-2`` for 2, ..., cut to a legal length."""
    suffix = ".salvaged" if number == 1 else f".salvaged-{number}"
    stem = name[: MAX_CHARACTERS - len(suffix)]
    while len((stem + suffix).encode()) > MAX_BYTES:
        stem = stem[:-1]
    return stem + suffix


def _problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_CHARACTERS:
        return f"it is longer than {MAX_CHARACTERS} characters"
    for character in name:
        if not _is_allowed(character):
            return f"it holds {character!r}"
    if not _is_letter_or_digit(name[0]):
        return "it does not start with a letter or a digit"
    if name.endswith("."):
        return "it ends with a dot"
    if len(name.encode()) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes, which is too long for a file's name"
    if name.split(".")[0].upper() in _DEVICES:
        return "Windows keeps it for a device"
    return None


def _is_letter_or_digit(character: str) -> bool:
    category = unicodedata.category(character)
    return (category[0] == "L" or category == "Nd") and character not in _INVISIBLE


def _is_allowed(character: str) -> bool:
    if character in _PUNCTUATION or _is_letter_or_digit(character):
        return True
    return unicodedata.category(character)[0] == "M" and character not in _INVISIBLE
