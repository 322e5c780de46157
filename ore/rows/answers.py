"""What is written of each row: a line of JSON, or the row itself with its answer as one more column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ore.files.cells import csv_line, harmless
from ore.files.neutral import one_line
from ore.rows.judge import value_of
from ore.rows.row_checks import probability_of, verdict_on
from ore.rows.row_turns import Outcome

ANSWER = "answer"
"""The name of the column that ``--csv`` adds."""

_LONGEST_REASON = 300


def as_json(outcome: Outcome, *, key: str | None = None, parsed: bool = False) -> str:
    """Return an outcome as one line of ASCII.

    Args:
        key: The column whose value stands beside the row's number.
        parsed: Whether an answer is JSON, and stands there as that.
    """
    content: Any = outcome.content
    if parsed and content is not None:
        with suppress(ValueError):  # what an earlier run has kept may be anything
            content = value_of(content.removeprefix("\ufeff"))
    probability, verdict = probability_of(outcome), verdict_on(outcome)
    found = {
        "row": outcome.row.number,
        **({} if key is None else {"key": outcome.row.values.get(key)}),
        "content": content,
        **({} if probability is None else {"probability": probability}),
        **({} if verdict is None else {"holds": verdict["holds"]}),
        "artifact": None if outcome.artifact is None else str(outcome.artifact),
        "error": None if outcome.error is None else str(outcome.error),
    }
    return json.dumps(found, ensure_ascii=True, allow_nan=False)


def reason_of(outcome: Outcome) -> str:
    """Return which row has no answer, and why, on one line."""
    said = one_line(str(outcome.error))
    if len(said) > _LONGEST_REASON:
        said = f"{said[:_LONGEST_REASON]}…"
    return f"{outcome.row.shown}: {said}"


def as_csv(outcome: Outcome, columns: Mapping[str, None]) -> str:
    """Return the row as it was, and its answer, harmless; without an answer that cell is empty."""
    cells = [outcome.row.values.get(name, "") for name in columns]
    return csv_line([*cells, harmless(outcome.content or "")])
