"""What is seen while nothing can be read yet: seconds that count, a bar, the model's thinking.

Everything is drawn through the functions that are given, and taken away or ended again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ore.cli.terminal import style
from ore.cli.terminal.text import AnswerText, amount

FIRST = 0.4
"""Seconds before the first line: an answer that is quick needs none."""
STALLED = 5.0
"""Seconds without output, in mid-answer, after which it is said."""
TICK = 0.2
ASK_EVERY = 1.0
"""Seconds between two looks at what the model is doing."""
REDRAW_EVERY = 0.1
"""Seconds between two looks of the same bar."""

THINKING_LABEL = "[THINKING]: "


class Waiting:
    """Counts until ``stop``; what is written meanwhile goes through ``output``.

    Args:
        draw: Shows a text, and what must be seen of it in any case, its end, in the place of the
            one shown before; two empty texts take it away.
        phase: What is being waited for, in a few words; asked from the counting thread.
    """

    def __init__(self, draw: Callable[[str, str], None], phase: Callable[[], str]) -> None:
        self._draw = draw
        self._phase = phase
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._started = self._last_output = time.monotonic()
        self._is_answering = False
        self._is_drawn = False
        threading.Thread(target=self._count, name="waiting", daemon=True).start()

    def output(self, write: Callable[[], None]) -> None:
        """Take the line away and write; nothing is drawn in between."""
        with self._lock:
            self._clear()
            self._is_answering = True
            self._last_output = time.monotonic()
            write()

    def stop(self) -> None:
        """Take the line away and count no more; may be called twice."""
        self._stopped.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._is_drawn:
            self._draw("", "")
            self._is_drawn = False

    def _count(self) -> None:
        phase, asked = "waiting", self._started
        while not self._stopped.wait(TICK):
            now = time.monotonic()
            if not self._is_answering and now - asked >= ASK_EVERY:
                phase, asked = self._phase(), now
            with self._lock:
                if self._stopped.is_set():
                    return
                silent = time.monotonic() - self._last_output
                if silent < (STALLED if self._is_answering else FIRST):
                    continue
                if self._is_answering:
                    self._draw("[no output for", f" {silent:.0f} s]")
                else:
                    self._draw(phase, f" · {now - self._started:.0f} s")
                self._is_drawn = True


class ProgressBar:
    """How far something is, in bytes: a bar drawn over itself, else a line for each step.

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

    def show(self, step: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` bytes of a step are there; a total of 0 is not known."""
        now = time.monotonic()
        if step == self._step and (not self._can_redraw or now - self._drawn_at < REDRAW_EVERY):
            return
        self._step, self._drawn_at = step, now
        if not self._can_redraw:
            self._tell(step, "\n")
            return
        line = f"{step}: {amount(done, total)}"
        self._tell(line.ljust(self._width), "\r")
        self._width = len(line)

    def end(self) -> None:
        """Take the bar away, if one is shown."""
        if self._width:
            self._tell(" " * self._width, "\r")
        self._step, self._width = "", 0


class Trace:
    """The model's thinking as one block: a label before its first piece, a newline at its end.

    Args:
        lines: How it reads on a terminal; None leaves it as it is.
        has_colour: Whether the block is dim.
    """

    def __init__(self, lines: AnswerText | None, has_colour: bool) -> None:
        self._lines = lines
        self._has_colour = has_colour
        self._label = THINKING_LABEL
        self._ends_line = False

    def feed(self, text: str) -> str:
        """Return what to write for the text that came."""
        return self._painted(text if self._lines is None else self._lines.feed(text))

    def end(self) -> str:
        """Return what was held back, and the newline after the block where it has none."""
        rest = "" if self._lines is None else self._painted(self._lines.end())
        return rest if self._ends_line else rest + "\n"

    def _painted(self, text: str) -> str:
        if not text:
            return ""
        self._ends_line = text.endswith("\n")
        text, self._label = self._label + text, ""
        return style.paint(text, style.DIM) if self._has_colour else text
