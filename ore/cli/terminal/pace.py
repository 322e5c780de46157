"""How far something is, how fast it comes, and how long it still takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

REDRAW_SECONDS, LOG_SECONDS = 0.2, 60.0
"""How often a bar is drawn anew; how often a line says the same where none can be drawn."""

_WINDOW_SECONDS = 10.0
_LEAST_SECONDS = 1.0


def amount(done: int, total: int, pace: str = "", room: int = 60) -> str:
    """Return how far something is, in bytes, and at what pace.

    With a bar where it is known how much there is, and where ``room``, in columns, is enough for one.
    """
    if total <= 0:
        return f"{size(done)}{pace}" if done else "…"
    part = min(done / total, 1.0)
    said = f"{part:4.0%} of {size(total)}{pace}"
    width = min(room - len(said) - 3, 30)
    if width < 5:
        said = said.lstrip()
        return said if len(said) <= room else said.removesuffix(pace)[: max(room, 1)]
    return f"[{('#' * round(part * width)).ljust(width, '.')}] {said}"


def size(count: float) -> str:
    """Return a number of bytes as a person writes it."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


class Pace:
    """The speed of one step, from what came of it in the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def after(self, now: float, done: int, total: int) -> str:
        """Return the speed and the time left, to be put after an amount; nothing while they are not known.

        Args:
            now: The time, in seconds.
            done: The bytes that are there by then.
            total: The bytes expected; 0 where that is not known.
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_SECONDS:
            self._seen.popleft()
        begun, before = self._seen[0]
        if now - begun < _LEAST_SECONDS or done <= before:
            return ""
        speed = (done - before) / (now - begun)
        left = f", {in_words((total - done) / speed)} left" if done < total else ""
        return f", {speed / 1e6:.1f} MB/s{left}"


class Counted:
    """How many of how many are done, and the time left: shown as a bar that is drawn anew now and then.

    Args:
        show: What shows a bar's text.
        done: What each one is, when it is done: "read".
        clock: What tells the time, in seconds.
    """

    def __init__(
        self,
        show: Callable[[str], object],
        done: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show, self._done, self._clock = show, done, clock
        self._begun = self._drawn = clock()

    def __call__(self, number: int, of: int) -> None:
        """Show that ``number`` are done, where the bar is not as good as new."""
        if (now := self._clock()) - self._drawn > REDRAW_SECONDS:
            self._drawn, left = now, (now - self._begun) / number * (of - number)
            self._show(f"{number:,} of {of:,} {self._done}, {in_words(left)} left")


def in_words(seconds: float) -> str:
    """Return how long something takes, as a person says it."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 100 * 60:
        return f"{round(whole / 60)} min"
    return f"{whole / 3600:.0f} h" if whole < 100 * 3600 else f"{whole / 86400:.0f} days"
