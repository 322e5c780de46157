"""The waiting indicator: a line that counts seconds until there is something to read.

Draws through the function it is given and takes away what it drew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST = 0.4
"""Seconds before the first line: an answer that is quick needs none."""
STALLED = 5.0
"""Seconds without output, in mid-answer, after which it is said."""
TICK = 0.2
ASK_EVERY = 1.0
"""Seconds between two looks at what the model is doing."""


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

    def output(self, write: Callable[[], None], is_answer: bool = True) -> None:
        """Take the line away and write a part of the answer, or something else; nothing is drawn in between."""
        with self._lock:
            self._clear()
            self._is_answering = self._is_answering or is_answer
            write()
            self._last_output = time.monotonic()

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
