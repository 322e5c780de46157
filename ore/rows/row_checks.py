"""Rows that are checked: what is expected of each, whether it holds, and how CI reports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from ore.errors import CheckFailedError, UsageError
from ore.files.neutral import brief, one_line
from ore.files.strictjson import is_list, is_object, part
from ore.rows.expectations import VERDICT
from ore.rows.judge import seen
from ore.rows.junit import ERROR, FAILURE, PASSED, Case
from ore.rows.row_turns import Outcome
from ore.rows.tables import Row, Table

EXPECTED = "expected"
"""The column of a table that says what each answer is to be."""

_DURATIONS = ("load_duration", "prompt_eval_duration", "eval_duration")


def with_expected(rows: Iterable[Row], table: Table, key: str | None = None) -> Iterator[Row]:
    """Yield each row with what is expected of it: row for row, as both tables are written.

    A row whose like in the other table has a problem is one with a problem, and so is one whose key is
    another one there.

    Args:
        rows: What is asked.
        table: What is expected: its column ``expected``. It may be the same table.
        key: A column that both have, which tells one row from another; None compares none.

    Raises:
        UsageError: ``table`` has no such column, or more rows than there are, or fewer.
        FileAccessError: It can't be read.
    """
    number = 0
    wanted: Iterator[Row | None] = chain(table.rows(), repeat(None))
    for number, (row, there) in enumerate(zip(rows, wanted), 1):
        yield _pair(row, there, table, key)
    if (more := next(wanted)) is not None:
        raise UsageError(
            f"{table.shown} has more rows than are asked, from line {more.line} on: it needs "
            f"{number:,}, one for each."
        )


def _pair(row: Row, there: Row | None, table: Table, key: str | None) -> Row:
    if row.problem is not None:
        return row
    if there is None:
        raise UsageError(
            f"{table.shown} has fewer rows than are asked: it has no row {row.number:,}, and needs one "
            f"for each."
        )
    if there.problem is not None:
        return replace(row, problem=f"of {table.shown}, line {there.line}: {there.problem}")
    if EXPECTED not in there.values:
        if table.format != "jsonl":
            raise UsageError(
                f"{table.shown} has no column '{EXPECTED}': give that name to the column that "
                f"says what each answer should be."
            )
        return replace(row, problem=f"{table.shown} has no '{EXPECTED}' in line {there.line}")
    if key is not None and key in there.values and there.values[key] != row.values.get(key):
        found = brief(there.values[key][:40])
        return replace(
            row, problem=f"line {there.line} of {table.shown} is for another row, '{found}'"
        )
    return replace(row, expected=there.values[EXPECTED])


class CheckedTable(Table):
    """A table whose rows say what is expected of them, as another table has it.

    Args:
        table: The table; it stays open as long as this one.
        wanted: What is expected of its rows: see ``with_expected``.
        key: A column that both have, or None.
    """

    def __init__(self, table: Table, wanted: Table, key: str | None) -> None:
        self.shown: str = table.shown
        self.format: str = table.format
        self._table, self._wanted, self._key = table, wanted, key

    @property
    def columns(self) -> dict[str, None]:  # type: ignore[override]  # known while it is read
        """The names of its columns: see ``Table``."""
        return self._table.columns

    def rows(self) -> Iterator[Row]:
        """Yield every row, from the first: see ``Table``."""
        yield from with_expected(self._table.rows(), self._wanted, self._key)


def not_expected(outcome: Outcome, least: float | None = None) -> str:
    """Return what was seen of an answer that is not what was expected; ``""`` where it holds.

    Args:
        outcome: What became of the row.
        least: The least probability of a word that was chosen, or None.
    """
    verdict = verdict_on(outcome)
    if verdict is not None and not verdict["holds"]:
        return seen(verdict)
    if least is None or not outcome.is_answered:
        return ""
    if (probability := probability_of(outcome)) is None:
        return f"nothing says how likely '{one_line((outcome.content or '')[:40])}' is"
    if probability < least:
        return f"'{outcome.content}' has a probability of {probability:.4f}, less than {least:g}"
    return ""


def case_of(
    outcome: Outcome, table: str, key: str | None = None, least: float | None = None
) -> Case:
    """Return a row as JUnit has it; an answer that is not what was asked for is a failure.

    Args:
        outcome: What became of the row.
        table: What its table is called.
        key: The column that tells it from others, or None.
        least: The least probability of a word that was chosen, or None.
    """
    row = outcome.row
    name = f"row {row.number}"
    if key is not None and key in row.values:
        name += f": {row.values[key]}"
    known = [outcome.metadata.get(each) for each in _DURATIONS]
    seconds = (
        sum(each for each in known if isinstance(each, (int, float)) and 0 < each < 1e18) / 1e9
    )
    result, why = PASSED, not_expected(outcome, least)
    if outcome.error is not None:
        is_check = isinstance(outcome.error, CheckFailedError)
        result, why = FAILURE if is_check else ERROR, str(outcome.error)
    elif why:
        result = FAILURE
    at = f"Line {row.line} of {table}. " if why else ""
    return Case(name, table, seconds, result, why, at + why, outcome.content or "")


def probability_of(outcome: Outcome) -> float | None:
    """Return how likely a chosen word is, None where nothing says so; an earlier run may have kept it."""
    found = part(outcome.metadata, "choice").get("probability")
    is_one = isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found <= 1
    return found if is_one else None


def verdict_on(outcome: Outcome) -> dict[str, Any] | None:
    """Return the verdict on an answer, None where there is none; an earlier run may have kept it."""
    found = outcome.metadata.get(VERDICT)
    is_one = is_object(found) and is_list(found.get("failed"))
    if not is_one or not is_object(found):
        return None
    failed = [each for each in found["failed"] if is_object(each)]
    texts = [{"kind": str(each.get("kind")), "seen": str(each.get("seen"))} for each in failed]
    return {"holds": found.get("holds") is True, "failed": texts}
