"""Every row of a table looked at before the first is asked: what would fail is found here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ore.errors import UsageError
from ore.files.cells import begins_like_formula
from ore.rows.placeholders import Template, named_in, quoted
from ore.rows.row_turns import Question
from ore.rows.tables import LINE, Row, Table, rows_in_words

MOST_SHOWN = 20
"""Rows that are named in one error."""


@dataclass
class Looked:
    """What was seen: how many ``rows`` there are, and how many cells a spreadsheet may run."""

    rows: int = 0
    formulas: int = 0
    problems: list[str] = field(default_factory=list[str])
    bad: int = 0

    def add(self, row: Row, problem: str) -> None:
        """Note that a row can't be asked."""
        self.bad += 1
        if self.bad <= MOST_SHOWN:
            self.problems.append(f"line {row.line}: {problem.rstrip('.')}")


def usual_template(table: Table) -> str | None:
    """Return the prompt where none was given: of plain text, the line itself."""
    return "{{" + LINE + "}}" if table.format == "text" else None


def look_at(
    table: Table,
    question: Question,
    *,
    key: str | None = None,
    counts_formulas: bool = False,
    seen: Callable[[Row], None] = lambda row: None,
) -> Looked:
    """Read the whole table, and fill the prompt of every row.

    Args:
        key: A column that is to be there.
        counts_formulas: Whether cells that a spreadsheet may run are counted.
        seen: Called with each row that can be asked.

    Raises:
        UsageError: A row can't be asked; of many, the first are named with their lines.
    """
    found = Looked()
    is_fixed = table.format != "jsonl"
    for row in table.rows():
        found.rows += 1
        if found.rows == 1 and is_fixed:
            _require_columns(table, question, key)
        if problem := _problem(row, question, key):
            found.add(row, problem)
            continue
        if counts_formulas:
            found.formulas += sum(map(begins_like_formula, row.values.values()))
        seen(row)
    if not found.rows and is_fixed:
        _require_columns(table, question, key)
    if found.bad:
        raise UsageError(_in_words(table, found))
    return found


def require_place(template: Template, values: Mapping[str, str], shown: str = "The prompt") -> None:
    """Refuse a ``template``, which ``shown`` names, that has no place beside those of ``values``.

    Raises:
        UsageError: It has no place for a row.
    """
    if set(template.names) - set(values):
        return
    names = quoted(template.names)
    filled = f" left: `values=` fills {names}, so leave out what is a column, or" if names else ":"
    raise UsageError(
        f"{shown} has no place for a row{filled} write {{{{column}}}} where its value goes, with the "
        f"name of the column."
    )


def refuse_places(system_prompt: str, table: Table, question: Question) -> None:
    """Refuse a system prompt with a place for a column, or for a value: nothing is filled in there.

    Raises:
        UsageError: It has one.
    """
    places = named_in(system_prompt)
    if named := [name for name in [*table.columns, *question.values] if name in places]:
        raise UsageError(
            f"The system prompt has a place for {quoted(named)}: it is the same for all rows; put "
            f"the place into the prompt."
        )


def _require_columns(table: Table, question: Question, key: str | None) -> None:
    there = [*table.columns, *question.values]
    if twice := [name for name in question.values if name in table.columns]:
        raise UsageError(
            f"`values=` gives {quoted(twice)}, and so does {table.shown}: leave one out."
        )
    if missing := question.template.missing(there):
        is_joined = table.format == "csv" and any(set(";\t") & set(each) for each in table.columns)
        commas = "; a CSV file has commas between its cells" if is_joined else ""
        raise UsageError(
            f"{table.shown} has no column {quoted(missing)}: it has {quoted(table.columns)}{commas}."
        )
    if key is not None and key not in table.columns:
        raise UsageError(
            f"{table.shown} has no column {quoted([key])} for `key=`: it has "
            f"{quoted(table.columns)}."
        )


def _problem(row: Row, question: Question, key: str | None) -> str | None:
    if row.problem is not None:
        return row.problem
    there = {**question.values, **row.values}
    if twice := [name for name in question.values if name in row.values]:
        return f"it has {quoted(twice)}, which `values=` gives"
    missing = [*question.template.missing(there), *([key] if key and key not in there else [])]
    if missing:
        return f"it has no {quoted(dict.fromkeys(missing))}"
    try:
        question.prompt_of(row)
    except UsageError as exc:
        return str(exc)
    return None


def _in_words(table: Table, found: Looked) -> str:
    rows = rows_in_words(found.bad)
    what = "this line, or leave it out" if found.bad == 1 else "these lines, or leave them out"
    said = f"{table.shown} has {rows} that can't be asked, so nothing was sent. Correct {what}:"
    lines = [said, *(f"  {problem}" for problem in found.problems)]
    if found.bad > len(found.problems):
        lines.append(f"  and {found.bad - len(found.problems):,} more")
    return "\n".join(lines)
