"""Terminals that take each byte by itself: there a part of a letter may be a command."""

from __future__ import annotations

import _locale  # a part of `locale`, which takes long to import
import io
import termios
from collections.abc import Mapping
from contextlib import suppress

from ore.files import whole
from ore.files.neutral import neutralise

_IUTF8 = 0x4000  # of Linux and macOS: the driver of a terminal is told that it takes UTF-8
_TAKE_UTF8 = "\x1b%G"  # of ISO 2022
_PYTHONS_OWN = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python puts into ``LC_CTYPE`` where the locale is C: https://peps.python.org/pep-0538."""

_ARE_THERE = False
_UNASKED = list[object]()
"""Terminals that are asked for UTF-8 before the first text that needs it: programs read JSON of one, too."""


def look_for_bytewise(*streams: object, environ: Mapping[str, str]) -> None:
    """Find out whether one of the process's streams may be such a terminal."""
    global _ARE_THERE
    _UNASKED.clear()
    found = _locale.setlocale(_locale.LC_CTYPE)  # sets nothing
    # Each of them may have to be asked.
    _ARE_THERE = any([is_bytewise(each, environ, found) for each in streams])


def may_be_bytewise() -> bool:
    """Return what ``look_for_bytewise`` has found."""
    return _ARE_THERE


def on_terminal(text: str) -> str:
    """Return ``text`` as a terminal of this process may show it: neutral, and no byte is a command.

    Where it takes bytes, each letter that is not ASCII is a number: programs between it and the person may
    disagree over how many columns such a letter has.
    """
    text = neutralise(text)
    return text.encode("ascii", "backslashreplace").decode() if _ARE_THERE else text


def is_bytewise(stream: object, environ: Mapping[str, str], found: str) -> bool:
    """Tell whether a stream may be a terminal that takes each byte by itself, as a letter or a control.

    Neither its driver nor the locale says that it knows UTF-8. Some are called so without a locale, as in
    a container: they will be asked for it. The driver of a window of ``screen`` says what that of the
    terminal around it does, whatever the window takes.

    Args:
        found: The locale that Python has found for characters. Of one that is not installed it is C's, or
            the one that Python puts in its place.
    """
    named = {each: environ.get(each, "") for each in ("LC_ALL", "LC_CTYPE", "LANG")}
    if named["LC_CTYPE"] in _PYTHONS_OWN:
        del named["LC_CTYPE"]
    locale = next(filter(None, named.values()), "C")
    with suppress(AttributeError, OSError, ValueError, termios.error):  # not a file, or no terminal
        number = stream.fileno()  # type: ignore[attr-defined]  # not in object
        if termios.tcgetattr(number)[0] & _IUTF8 and not environ.get("STY"):
            return False
        if "utf8" in locale.replace("-", "").lower():
            if _is_installed(locale, found):
                return False
            locale = "C"  # as screen and xterm take it
        obeys = environ.get("TERM", "").startswith(("xterm", "linux"))
        if obeys and locale in ("C", "POSIX"):
            _UNASKED.append(stream)
            return False
        return True
    return False


def _is_installed(locale: str, found: str) -> bool:
    return found not in ("C", "POSIX") and (found not in _PYTHONS_OWN or locale in _PYTHONS_OWN)


def ask_for_utf8(stream: io.TextIOBase | None) -> None:
    """Ask a terminal for UTF-8, where it was found that it has to be asked, and was not."""
    left = [each for each in _UNASKED if each is not stream]
    if stream is not None and len(left) < len(_UNASKED):
        _UNASKED[:] = left
        with suppress(OSError, ValueError):  # nobody takes it: the text that follows says so
            whole.write_text(stream, _TAKE_UTF8)


def write_text(stream: io.TextIOBase, text: str, flush: bool = True) -> None:
    """Write a text as ``whole.write_text`` does, and ask its terminal for UTF-8 where the text needs it."""
    if _UNASKED and not text.isascii():
        ask_for_utf8(stream)
    whole.write_text(stream, text, flush)
