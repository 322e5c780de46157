"""How far something is, in bytes: a bar that is drawn over itself where that can be, else lines.

Writes through the function it is given. Knows nothing about streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ore.cli.terminal.measures import amount

_TICK = 0.1  # seconds between two looks of the same bar


class Progress:
    """Shows steps, and within a step how much of it is done.

    Args:
        tell: Writes a text and its end.
        can_redraw: Whether a line can be drawn again.
    """

    def __init__(self, tell: Callable[[str, str], None], can_redraw: bool) -> None:
        self._tell = tell
        self._can_redraw = can_redraw
        self._step = ""
        self._drawn_at = 0.0
        self._width = 0

    def show(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` bytes of a step are there; a total of 0 is not known."""
        now = time.monotonic()
        if what == self._step and (not self._can_redraw or now - self._drawn_at < _TICK):
            return
        self._step, self._drawn_at = what, now
        if not self._can_redraw:
            self._tell(what, "\n")
            return
        line = f"{what}: {amount(done, total)}"
        self._tell(line.ljust(self._width), "\r")
        self._width = len(line)

    def end(self) -> None:
        """Take the bar away, if one is shown."""
        if self._width:
            self._tell(" " * self._width, "\r")
        self._step, self._width = "", 0
