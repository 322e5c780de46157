"""Terminals that take each byte by itself: there a part of a letter may be a command."""

from __future__ import annotations

import os
import termios
from collections.abc import Mapping
from contextlib import suppress

from ore.files.neutral import neutralise, visible

_IUTF8 = 0x4000  # of Linux and macOS: the driver of a terminal is told that it takes UTF-8
_TAKE_UTF8 = b"\x1b%G"  # of ISO 2022
_PYTHONS_OWN = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python puts into ``LC_CTYPE`` where the locale is C: https://peps.python.org/pep-0538."""


class _Shown(dict[int, str]):
    """How a character is shown there, as it is asked for."""

    def __missing__(self, code: int) -> str:
        data = chr(code).encode("utf-8", "replace")
        # A letter of more bytes would have more columns than any other.
        is_number = len(data) > 2 or any(0x80 <= each < 0xA0 for each in data)
        self[code] = visible(code) if is_number else chr(code)
        return self[code]


_SHOWN, _ARE_THERE = _Shown(), False


def look_for_bytewise(*streams: object, environ: Mapping[str, str]) -> None:
    """Find out whether one of the process's streams may be such a terminal."""
    global _ARE_THERE
    _ARE_THERE = any(
        [is_bytewise(each, environ) for each in streams]
    )  # each is asked to take UTF-8


def may_be_bytewise() -> bool:
    """Return what ``look_for_bytewise`` has found."""
    return _ARE_THERE


def on_terminal(text: str) -> str:
    """Return ``text`` as a terminal of this process may show it: neutral, and no byte is a command."""
    text = neutralise(text)
    return text if text.isascii() or not _ARE_THERE else text.translate(_SHOWN)


def is_bytewise(stream: object, environ: Mapping[str, str]) -> bool:
    """Tell whether a stream may be a terminal that takes each byte by itself, as a letter or a control.

    Neither its driver nor the locale says that it knows UTF-8. Of some that are called so without a
    locale, as in a container, it is asked for.
    """
    named = {each: environ.get(each, "") for each in ("LC_ALL", "LC_CTYPE", "LANG")}
    if named["LC_CTYPE"] in _PYTHONS_OWN:
        del named["LC_CTYPE"]
    locale = next(filter(None, named.values()), "C")
    if "utf8" in locale.replace("-", "").lower():
        return False
    with suppress(AttributeError, OSError, ValueError, termios.error):  # not a file, or no terminal
        number = stream.fileno()  # type: ignore[attr-defined]  # not in object
        if termios.tcgetattr(number)[0] & _IUTF8:
            return False
        obeys = environ.get("TERM", "").startswith(("xterm", "linux"))
        if obeys and locale in ("C", "POSIX"):
            os.write(number, _TAKE_UTF8)
            return False
        return True
    return False
