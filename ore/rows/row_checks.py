"""Rows that are checked: what is expected of each, whether it holds, and what of it is told to CI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

from ore.errors import CheckFailedError, UsageError
from ore.files.neutral import one_line
from ore.rows.expectations import VERDICT, Expectation, Judging, seen
from ore.rows.junit import ERROR, FAILURE, PASSED, Case
from ore.rows.row_turns import Outcome
from ore.rows.tables import Row, Table
from ore.types import Response

EXPECTED = "expected"
"""The column of a table that says what each answer is to be."""

_DURATIONS = ("load_duration", "prompt_eval_duration", "eval_duration")


@dataclass(frozen=True)
class Pair:
    """A row, and the text that its answer is to be; None where the row can't be used."""

    row: Row
    expected: str | None


def with_expected(rows: Iterable[Row], table: Table, key: str | None = None) -> Iterator[Pair]:
    """Yield each row with what is expected of it: row for row, as both tables are written.

    A row without its like in the other table is one with a problem, and so is one whose key is another
    one there.

    Args:
        rows: What is asked.
        table: What is expected: its column ``expected``. It may be the same table.
        key: A column that both have, which tells one row from another; None compares none.

    Raises:
        UsageError: ``table`` has no such column, or more rows than there are.
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


def _pair(row: Row, there: Row | None, table: Table, key: str | None) -> Pair:
    if row.problem is not None:
        return Pair(row, None)
    if there is None:
        return _unfit(row, f"{table.shown} has no row {row.number:,}")
    if there.problem is not None:
        return _unfit(row, f"of {table.shown}, line {there.line}: {there.problem}")
    if EXPECTED not in there.values:
        if table.format != "jsonl":
            raise UsageError(
                f"{table.shown} has no column '{EXPECTED}': name the one so that says what each "
                f"answer is to be."
            )
        return _unfit(row, f"{table.shown} has no '{EXPECTED}' in line {there.line}")
    if key is not None and key in there.values and there.values[key] != row.values.get(key):
        found = one_line(there.values[key][:40])
        return _unfit(row, f"line {there.line} of {table.shown} is of another row, '{found}'")
    return Pair(row, there.values[EXPECTED])


def _unfit(row: Row, problem: str) -> Pair:
    return Pair(replace(row, problem=problem), None)


def judged(response: Response, expected: str) -> Response:
    """Return a response with the verdict on it: that its text is the one that is expected.

    What was judged of it before stays a part of the verdict.
    """
    with closing(Judging(Expectation({"equals": expected}))) as judging:
        verdict = judging.verdict(response)
    before = response.metadata.get(VERDICT) or {"wanted": {}, "failed": []}
    failed = [each for each in before["failed"] if each["kind"] != "equals"] + verdict["failed"]
    both = {
        "wanted": before["wanted"] | verdict["wanted"],
        "holds": not failed,
        "failed": failed,
    }
    return replace(response, metadata={**response.metadata, VERDICT: both})


def not_expected(outcome: Outcome) -> str:
    """Return what was seen of an answer that is not what was expected; ``""`` where it holds."""
    verdict = _verdict(outcome)
    return seen(verdict) if verdict is not None and not verdict["holds"] else ""


def case_of(outcome: Outcome, table: str, key: str | None = None) -> Case:
    """Return a row as JUnit has it; an answer that is not what was asked for is a failure.

    Args:
        outcome: What became of the row.
        table: What its table is called.
        key: The column that tells it from others, or None.
    """
    row = outcome.row
    name = f"row {row.number}"
    if key is not None and key in row.values:
        name += f": {row.values[key]}"
    known = [outcome.metadata.get(each) for each in _DURATIONS]
    seconds = sum(each for each in known if isinstance(each, (int, float))) / 1e9
    result, why = PASSED, not_expected(outcome)
    if outcome.error is not None:
        is_check = isinstance(outcome.error, CheckFailedError)
        result, why = FAILURE if is_check else ERROR, str(outcome.error)
    elif why:
        result = FAILURE
    at = f"Line {row.line} of {table}. " if why else ""
    return Case(name, table, seconds, result, why, at + why, outcome.content or "")


def _verdict(outcome: Outcome) -> dict[str, Any] | None:
    """Return the verdict on an answer; one that an earlier run has kept is somebody's file."""
    found = outcome.metadata.get(VERDICT)
    is_one = isinstance(found, dict) and isinstance(found.get("failed"), list)
    if not is_one or not isinstance(found, dict):
        return None
    failed = [each for each in found["failed"] if isinstance(each, dict)]
    texts = [{"kind": str(each.get("kind")), "seen": str(each.get("seen"))} for each in failed]
    return {"holds": found.get("holds") is True, "failed": texts}
