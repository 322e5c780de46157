"""What untrusted text looks like on a terminal: shown, never obeyed.

One map from characters to visible text, so that it can't matter where a stream is cut into chunks.
"""

from __future__ import annotations

import re
from typing import Literal
from unicodedata import normalize

_CONTROLS = [*range(0x00, 0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_INVISIBLE = [
    *(0x061C, 0x070F, 0x200E, 0x200F),  # marks of direction: one alone turns a line around
    0x200B,  # zero width space; U+200C and U+200D stay, scripts and emoji need them
    *range(0x2028, 0x202F),  # line and paragraph separator, bidi embeddings and overrides
    *range(0x2060, 0x2070),  # word joiner, invisible operators, bidi isolates
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),  # tags
]

SHOWS_NOTHING = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
"""A pattern of letters and marks that show nothing: names that look the same must be the same."""

AT = "(?:[@\uff20\ufe6b]|%(?:25){0,4}40)"
"""A pattern of what ends a user name and a password in an address, in any of its widths."""


def _visible(code: int) -> str:
    if code < 0x20:
        return "^" + chr(code + 0x40)
    if code == 0x7F:
        return "^?"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_LONGEST_WORD = 40
_LONGEST_NAME = 300
_PIECE = re.compile(r"\S{1,256}[\u0300-\u036f\u0653-\u0655\u1160-\u11ff\u3099\u309a]{0,32}")
_LONG = re.compile(r"(?<!\S)\S{257,}")
_MAP = {code: _visible(code) for code in _CONTROLS + _INVISIBLE}


def neutralise(text: str) -> str:
    """Return ``text`` with every control, bidi and tag character shown; newline and tab stay.

    Bytes of a name that are not UTF-8 are, too: a stream would write each as six letters.
    """
    return text if text.isprintable() else as_utf8(text.translate(_MAP))


def one_line(text: str) -> str:
    """Return ``text`` neutralised and on one line, for a name or a reason inside a sentence."""
    return neutralise(text.replace("\n", "^J").replace("\t", "^I"))


def as_utf8(text: str) -> str:
    """Return ``text`` as it can be sent and kept: half a surrogate pair is written as its number."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def brief(text: str) -> str:
    """Return ``one_line`` of ``text``, cut where it is longer than any name: others may have chosen it.

    What we say to do stands between backticks, so that theirs become apostrophes.
    """
    shown = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
    return one_line(shown).replace("`", "'")


def value_shown(value: str) -> str:
    """Return a variable's value as a sentence shows it, but no address: it may hold a password."""
    is_address = "://" in value or ":" in value.rpartition("@")[0]
    return "an address" if is_address else repr(value)


def in_form(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Return ``text`` in a normal form of Unicode, in time in proportion to its length.

    Of a pile of marks the time is the square of its height, and no signal is heard meanwhile: so a word
    that is longer than any other is taken in pieces, each with the marks of its last letter.
    """
    if text.isascii():
        return text
    if form == "NFC" and not _LONG.search(text):
        return normalize(form, text)
    return _PIECE.sub(lambda found: normalize(form, found[0]), text)


def word(value: object, most: int = _LONGEST_WORD) -> str | None:
    """Return ``value`` where it is a word of at most ``most`` characters that can be kept, else None."""
    is_word = isinstance(value, str) and value.isprintable() and 0 < len(value) <= most
    return str(value) if is_word else None


def said_by(error: BaseException) -> str:
    """Return on one line what an error says that anyone's code has raised; ``""`` if it can't."""
    try:
        return one_line(" ".join(str(error).split()))
    except Exception:  # its text is theirs, too
        return ""
