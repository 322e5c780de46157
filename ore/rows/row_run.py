"""A run over the rows of a table: asked by threads, what becomes of each in their order, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from ore.errors import ArtifactError, CheckFailedError, OreError
from ore.glass.provenance import known_of
from ore.reasoner.closing import Closing
from ore.rows.in_order import MOST_AHEAD, in_order
from ore.rows.kept import RowFolder
from ore.rows.row_plan import RowsPlan, plan_rows
from ore.rows.row_turns import Asking, Outcome
from ore.rows.tables import Row, Table, rows_in_words
from ore.rows.tally import Tally

_SIZED = frozenset({dict, list, str, tuple})
_OF_OTHERS = 32  # bytes of a number, and of what is a program's own
KEEPERS = 2
"""Threads besides those that ask: artifacts are written while the next rows are asked."""
PATIENCE = 3.0
"""Seconds that a run which was stopped waits for artifacts that are being written."""


class RowRun(Closing):
    """The rows of one run: ``outcomes`` asks them, and ``error`` says how it ended.

    As a context manager it has the folder of its artifacts for itself.

    Args:
        table: The table; each of its rows was looked at.
        asking: What asks a row.
        rows: How many there are.
        folder: Where each row has its artifact, or None.
        most_failures: After how many rows that failed no more is asked; None is never.
        least: The least probability of a word that is chosen, or None.

    Attributes:
        tally: How far the run is: rows that are ``done``, ``there``, ``failed`` and ``unexpected``.
    """

    def __init__(
        self,
        table: Table,
        asking: Asking,
        rows: int,
        *,
        folder: RowFolder | None,
        most_failures: int | None,
        least: float | None,
    ) -> None:
        self._new_tally = partial(Tally, rows, most_failures, least)
        self.tally: Tally = self._new_tally()
        self._table, self._asking, self._folder = table, asking, folder
        self._is_read = False
        self._held = ExitStack()

    def __enter__(self) -> RowRun:
        if self._folder is not None:
            self._held.enter_context(self._folder.held())
        return self

    def close(self) -> None:
        """Let other runs have the folder. May be called twice."""
        self._held.close()

    def plan(self, told: Callable[[int], None] = lambda done: None) -> RowsPlan:
        """Return what the run would ask, counted; nothing is asked of a model.

        Args:
            told: Called after each row with how many were looked at.

        Raises:
            OreError: What reading the table raises.
        """
        return plan_rows(self._table, self._asking, self.tally.rows, told)

    def outcomes(
        self, *, tick: Callable[[], None] = lambda: None, every: float = 1.0
    ) -> Generator[Outcome, None, None]:
        """Ask every row that is not there yet, several at once, and yield what became of each in order.

        Once ``tally.halt`` is there, no further row is asked. Closing the generator begins nothing
        more, and waits some seconds for artifacts that are being written. Each call asks and counts anew.

        Args:
            tick: Called now and then while a row is waited for.
            every: Seconds between two calls of it.

        Raises:
            FileAccessError: The table can't be read, or was changed since it was looked at.
        """
        threads = min(self._asking.jobs, self.tally.rows) + KEEPERS  # no more than have work
        if self._is_read:
            self.tally = self._new_tally()
        self._is_read, tally = True, self.tally  # a row of an earlier call may still be under way
        one = partial(self._one, tally)
        wanted = self._wanted(tally)
        weight = self._asking.size_of
        found = in_order(wanted, one, threads, tick=tick, every=every, size=_size, weight=weight)
        try:
            with closing(found):
                yield from (outcome for outcome in found if outcome is not None)
        except BaseException:
            self._asking.wait_for_files(PATIENCE)
            raise

    def error(self, where: str = "their outcomes say why") -> OreError | None:
        """Return what a run that has ended is to raise; None where each row is as it was to be.

        An ``ArtifactError`` where no artifact can be kept, a ``CheckFailedError`` where every row has
        an answer and one is not what was expected, else an ``OreError``: a row has no answer.

        Args:
            where: Where it is said what went wrong, as the end of a clause.
        """
        tally = self.tally
        if tally.halt is not None:
            kind = ArtifactError if isinstance(tally.halt, ArtifactError) else OreError
            return kind(f"{tally.halt} {self.how_to_go_on}")
        if tally.failed:
            return OreError(f"{rows_in_words(tally.failed)} failed, {where}. {self.how_to_go_on}")
        if tally.unexpected:
            rows, are = rows_in_words(tally.rows), "is" if tally.unexpected == 1 else "are"
            return CheckFailedError(
                f"{tally.unexpected:,} of {rows} {are} not what was expected: {where}."
            )
        return None

    @property
    def how_to_go_on(self) -> str:
        """The sentence that says how a run that has stopped goes on."""
        if self._folder is not None:
            return "Run it again to go on: what is there is not asked again."
        return "Add `folder=FOLDER/` to go on from where a run has stopped."

    def is_other_model(self) -> bool:
        """Return whether the model's name is another one's by now; asks the backend, if rows were asked.

        Artifacts name the model as it was before the first row, and some answers may be the other one's.
        """
        made = self._asking.made
        before = (made.known or {}).get("model_digest")
        if before is None or self.tally.asked <= self.tally.failed:
            return False
        now = known_of(made.backend, made.settings, made.model_id).get("model_digest")
        return now not in (None, before)

    def others(self) -> int:
        """Return how many artifacts of other questions the folder has for the same rows.

        It is 0 where not every row has an answer: what is there may be of a question of this run.
        """
        tally = self.tally
        if self._folder is None or tally.failed or tally.done < tally.rows:
            return 0
        return self._folder.others(1, tally.rows, tally.rows)

    def _wanted(self, tally: Tally) -> Iterator[Row]:
        for row in self._table.rows():
            if tally.halt is not None:
                return
            yield row

    def _one(self, tally: Tally, row: Row) -> Outcome | None:
        if tally.halt is not None:
            return None
        outcome = self._asking.outcome_of(row)
        tally.add(outcome)
        return outcome


def _size(outcome: Outcome | None) -> int:
    """Return about how many bytes an answer and its metadata take; counting stops where it is much."""
    size, left = 0, [] if outcome is None else [outcome.content, dict(outcome.metadata)]
    while left and size <= MOST_AHEAD:
        value: Any = left.pop()
        kind = type(value)
        if kind is dict:
            left += value
            left += value.values()
        elif kind is list or kind is tuple:
            left += value
        size += sys.getsizeof(value) if kind in _SIZED else _OF_OTHERS
    return size
