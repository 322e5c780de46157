"""How far a run over rows is, and whether it is to stop; several threads add to it."""

from __future__ import annotations

import errno
import threading
import time

from ore.backends.turn_errors import NothingAnswersError
from ore.errors import (
    ArtifactError,
    CapabilityError,
    ExtraNotInstalledError,
    ModelNotFoundError,
    OreError,
    ServerUnreachableError,
)
from ore.rows.row_checks import not_expected
from ore.rows.row_turns import Outcome
from ore.rows.tables import rows_in_words

UNREACHABLE_IN_A_ROW = 10
"""After so many rows in a row for which nobody answers, or whose answers can't be kept, none is asked."""
FIRST_GUESS = 10
"""Rows that were asked before it is said how long the others will take."""

_FOR_ALL = (ModelNotFoundError, CapabilityError, ExtraNotInstalledError)
_NOBODY = (ServerUnreachableError, NothingAnswersError)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ESTALE)


class Tally:
    """Counts of outcomes.

    Args:
        rows: How many there are.
        most_failures: After how many the run stops; None is never.
        least: The least probability of a word that is chosen, or None.

    Attributes:
        done, there, failed: Rows that are done; of these, that an earlier run asked, and that failed.
        unexpected: Rows whose answer is not what was expected.
        halt: Why nothing more is to be asked, or None.
    """

    def __init__(
        self, rows: int, most_failures: int | None = None, least: float | None = None
    ) -> None:
        self.rows: int = rows
        self._most_failures, self._least = most_failures, least
        self.done: int = 0
        self.there: int = 0
        self.failed: int = 0
        self.unexpected: int = 0
        self.tokens: int = 0
        self.halt: OreError | None = None
        self._began = time.monotonic()
        self._unreachable = 0
        self._lock = threading.Lock()

    @property
    def asked(self) -> int:
        """How many rows were asked in this run."""
        return self.done - self.there

    def add(self, outcome: Outcome) -> None:
        """Take in what became of a row."""
        with self._lock:
            self.done += 1
            self.there += not outcome.is_new
            self.unexpected += bool(not_expected(outcome, self._least))
            count = outcome.metadata.get("eval_count") if outcome.is_new else 0
            self.tokens += count if isinstance(count, int) and 0 < count < 1e18 else 0
            is_for_many = isinstance(outcome.error, _NOBODY) or _is_unkept(outcome)
            self._unreachable = self._unreachable + 1 if is_for_many else 0
            if outcome.error is not None:
                self.failed += 1
                self.halt = self.halt or self._reason_to_stop(outcome.error)

    def seconds_left(self) -> float | None:
        """Return how long the rest may take; None where too few were asked to tell."""
        if self.asked < FIRST_GUESS:
            return None
        return (time.monotonic() - self._began) * (self.rows - self.done) / self.asked

    def in_words(self) -> str:
        """Return how far the run is, in a line."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        parts = [f"{self.done:,} of {self.rows:,} rows"]
        parts += [f"{self.there:,} already there"] if self.there else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.unexpected:,} not as expected"] if self.unexpected else []
        parts += [f"{self.tokens / seconds:.1f} tokens/s"] if self.tokens else []
        left = None if self.halt else self.seconds_left()
        if self.done < self.rows:
            parts += [] if left is None else [f"{duration(left)} left"]
        else:
            parts += [f"in {duration(seconds)}"]
        return ", ".join(parts)

    def _reason_to_stop(self, error: OreError) -> OreError | None:
        if isinstance(error, _FOR_ALL):
            return error
        cause = error.__cause__
        if getattr(cause, "errno", None) in _NO_ROOM:
            return error
        if isinstance(error, ArtifactError) and getattr(cause, "errno", None) in _NO_FOLDER:
            return error
        if self._unreachable >= UNREACHABLE_IN_A_ROW:
            return error
        if self._most_failures is not None and self.failed >= self._most_failures:
            rows = rows_in_words(self.failed)
            return OreError(f"Stopped after {rows} failed, as `most_failures=` says.")
        return None


def _is_unkept(outcome: Outcome) -> bool:
    """Return whether the system has refused to write down an answer, as it may refuse each."""
    error = outcome.error
    return isinstance(error, ArtifactError) and isinstance(error.__cause__, OSError)


def duration(seconds: float) -> str:
    """Return a time as people say it: ``42 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
