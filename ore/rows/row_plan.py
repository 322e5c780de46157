"""What a run over rows would ask, counted and not asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ore.backends.window import estimate
from ore.files.strictjson import above_zero
from ore.glass.provenance import Sourced, options_of
from ore.rows.row_turns import Asking
from ore.rows.tables import Table
from ore.rows.tally import FIRST_GUESS

PLAN_VERSION = "ore.rows.v1"


@dataclass(frozen=True)
class RowsPlan:
    """What a run over the rows of a table would ask.

    Attributes:
        backend: The name of the backend.
        model_id: The model.
        options: What is asked of it, as artifacts have it.
        jobs: How many turns are taken at once.
        rows: How many rows there are.
        there: How many of them an earlier run has asked.
        to_ask: How many are left.
        tokens: About how many tokens their prompts have: ``least``, ``likely`` and ``most``.
        seconds: About how long they take, if each takes as long as those there; None where too few are
            there to tell.
        first: The messages of the first row that is left, each with its source.
    """

    backend: str
    model_id: str
    options: dict[str, Any]
    jobs: int
    rows: int
    there: int
    to_ask: int
    tokens: dict[str, int]
    seconds: float | None
    first: tuple[Sourced, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the document that ``--rows`` writes with ``--dry-run``."""
        first = [asdict(each) for each in self.first]
        return {"plan_version": PLAN_VERSION, **vars(self), "first": first}


def plan_rows(table: Table, asking: Asking, rows: int, told: Callable[[int], None]) -> RowsPlan:
    """Return the plan of the rows of a table; nothing is asked of a model.

    Args:
        table: The table; it is read once.
        asking: What would ask them.
        rows: How many there are.
        told: Called after each row with how many were looked at.

    Raises:
        UsageError: A row can't be asked.
        ArtifactError: The artifact of one is there and can't be read.
        FileAccessError: The table can't be read.
    """
    there = asked = took = 0
    tokens = {"least": 0, "likely": 0, "most": 0}
    first: list[Sourced] = []
    for row in table.rows():
        question = asking.question_of(row)
        found = asking.found(question)
        if found is not None:
            there += 1
            took += above_zero(found.metadata.get("total_duration")) or 0
        else:
            asked += 1
            first = first or question.messages
            size = estimate([each.content.encode() for each in question.messages])
            for name in tokens:
                tokens[name] += getattr(size, name)
        told(there + asked)
    made = asking.made
    is_known = there >= FIRST_GUESS and took > 0
    return RowsPlan(
        backend=made.backend.name,
        model_id=made.model_id,
        options=options_of(made.settings),
        jobs=asking.jobs,
        rows=rows,
        there=there,
        to_ask=asked,
        tokens=tokens,
        seconds=round(took / there * asked / asking.jobs / 1e9, 1) if is_known else None,
        first=tuple(first),
    )
