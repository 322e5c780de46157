"""What a run over rows would ask, counted and not asked: ``--rows`` with ``--dry-run``."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from ore.backends.window import estimate
from ore.cli.runs import Run
from ore.files.strictjson import above_zero
from ore.glass.provenance import options_of
from ore.rows.looked_at import Looked
from ore.rows.row_turns import Asking
from ore.rows.tables import Table
from ore.rows.tally import FIRST_GUESS, duration

PLAN_VERSION = "ore.rows.v1"
_REDRAW_SECONDS = 0.2


def show_rows(run: Run, table: Table, looked: Looked, asking: Asking) -> None:
    """Show how many rows are there and how many are to be asked, with their tokens and their time.

    A table for a person on a terminal, else JSON.
    """
    plan = plan_of(run, table, looked, asking)
    console = run.console
    console.end_progress()
    if not console.stdout_is_terminal or run.options.json:
        console.json(plan)
        return
    tokens, seconds = plan["tokens"], plan["seconds"]
    rows = [
        ("rows", f"{plan['rows']:,}"),
        ("there already", f"{plan['there']:,}"),
        ("to ask", f"{plan['to_ask']:,}, {plan['jobs']} at once, of {plan['model_id']}"),
        (
            "tokens of their prompts",
            f"about {tokens['likely']:,}, between {tokens['least']:,} and {tokens['most']:,}",
        ),
        (
            "time",
            (
                ""
                if seconds is None
                else f"about {duration(seconds)}, if each takes as long as those there"
            ),
        ),
    ]
    if seconds is None:
        rows[-1] = ("time", f"not known before {FIRST_GUESS} rows are there")
    console.rows(rows)


def plan_of(run: Run, table: Table, looked: Looked, asking: Asking) -> dict[str, Any]:
    """Return the plan of the rows of ``table``; nothing is asked of a model."""
    there = asked = took = 0
    tokens = {"least": 0, "likely": 0, "most": 0}
    first: list[dict[str, str]] = []
    drawn = time.monotonic()
    for row in table.rows():
        found = asking.found(row)
        if found is not None:
            there += 1
            took += above_zero(found.metadata.get("total_duration")) or 0
        else:
            asked += 1
            messages = asking.question_of(row)[1]
            first = first or [asdict(each) for each in messages]
            size = estimate([each.content.encode() for each in messages])
            for name in tokens:
                tokens[name] += getattr(size, name)
        if time.monotonic() - drawn > _REDRAW_SECONDS:
            drawn = time.monotonic()
            run.console.bar(f"{there + asked:,} of {looked.rows:,} rows looked at")
    jobs = run.asked.settings.at_once or 1
    is_known = there >= FIRST_GUESS and took > 0
    return {
        "plan_version": PLAN_VERSION,
        "backend": run.backend.name,
        "model_id": run.model_id,
        "options": options_of(run.asked.settings),
        "jobs": jobs,
        "rows": looked.rows,
        "there": there,
        "to_ask": asked,
        "tokens": tokens,
        "seconds": round(took / there * asked / jobs / 1e9, 1) if is_known else None,
        "first": first,
    }
