"""What is typed while an answer comes: not shown, not lost, and a paste stays one piece.

Knows nothing about who reads it afterwards, or about what the answer is.
"""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

try:
    import termios
except ImportError:  # pragma: no cover  # not tested: Windows has none
    termios = None  # type: ignore[assignment]  # asked for before it is used

_PASTE_ON = "\x1b[?2004h"
_PASTE_OFF = "\x1b[?2004l"
_LOCAL = 3
"""Where the local modes stand in what ``termios`` says of a terminal."""


@contextmanager
def unseen(
    stdin: io.BufferedIOBase | None, show: Callable[[str], None], *, is_edited: bool
) -> Iterator[None]:
    """Keep the terminal from showing what is typed in the block; who reads next gets it.

    Ctrl-C and Ctrl-Z work as ever.

    Args:
        stdin: The terminal; anything else is left alone.
        show: Writes to the terminal, at once.
        is_edited: Whether the next reader edits lines itself. Then the terminal does not, and it
            marks where a paste begins and ends (bracketed paste).
    """
    before = _modes(stdin)
    if before is None or stdin is None:
        yield
        return
    hidden = list(before)
    hidden[_LOCAL] &= ~(termios.ECHO | (termios.ICANON if is_edited else 0))

    def stop(*_: object) -> None:
        _set_modes(stdin, before)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # goes on here when it is continued
        signal.signal(signal.SIGTSTP, stop)
        _set_modes(stdin, hidden)

    try:
        _set_modes(stdin, hidden)
        if is_edited:
            show(_PASTE_ON)
        with on_ctrl_z(stop):
            yield
    finally:
        _set_modes(stdin, before)
        if is_edited:
            show(_PASTE_OFF)


@contextmanager
def on_ctrl_z(handler: Callable[..., None]) -> Iterator[None]:
    """Have ``handler`` called in the block where Ctrl-Z would have stopped the process."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTSTP) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTSTP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def _set_modes(stdin: io.BufferedIOBase, modes: list[Any]) -> None:
    try:
        termios.tcsetattr(stdin.fileno(), termios.TCSANOW, modes)
    except (OSError, ValueError, termios.error):
        pass  # the terminal is gone


def _modes(stdin: io.BufferedIOBase | None) -> list[Any] | None:
    """Return the terminal's modes, or None where there is no terminal or no such thing as modes."""
    if termios is None or stdin is None:
        return None
    try:
        return termios.tcgetattr(stdin.fileno())
    except (OSError, ValueError, termios.error):
        return None
