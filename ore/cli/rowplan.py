"""What a run over rows would ask, shown and not asked: ``--rows`` with ``--dry-run``."""

from __future__ import annotations

import time

from ore.cli.runs import Run
from ore.cli.terminal.pace import REDRAW_SECONDS
from ore.rows.row_plan import RowsPlan
from ore.rows.row_run import RowRun
from ore.rows.tally import FIRST_GUESS, duration


def show_rows(run: Run, rows: RowRun) -> None:
    """Show how many rows are there and how many are to be asked, with their tokens and their time.

    A table for a person on a terminal, else JSON.
    """
    console, drawn = run.console, time.monotonic()

    def told(done: int) -> None:
        nonlocal drawn
        if time.monotonic() - drawn > REDRAW_SECONDS:
            drawn = time.monotonic()
            console.bar(f"{done:,} of {rows.tally.rows:,} rows looked at")

    plan = rows.plan(told)
    console.end_progress()
    if not console.stdout_is_terminal or run.options.json:
        console.json(plan.to_dict())
    else:
        console.rows(_table(plan))


def _table(plan: RowsPlan) -> list[tuple[str, str]]:
    least, likely, most = (plan.tokens[name] for name in ("least", "likely", "most"))
    took = f"not known until {FIRST_GUESS} rows are done"
    if plan.seconds is not None:
        took = f"about {duration(plan.seconds)}, if each takes as long as those that are done"
    return [
        ("rows", f"{plan.rows:,}"),
        ("there already", f"{plan.there:,}"),
        ("to ask", f"{plan.to_ask:,}, {plan.jobs} at once, of {plan.model_id}"),
        ("tokens of their prompts", f"about {likely:,}, between {least:,} and {most:,}"),
        ("time", took),
    ]
