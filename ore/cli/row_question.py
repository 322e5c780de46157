"""What ``--rows`` asks of every row: a prompt with a place for a column, or a run file."""

from __future__ import annotations

from dataclasses import replace

from ore.cli.context import parse_arguments
from ore.cli.options import Options
from ore.cli.run_files import with_file
from ore.errors import UsageError
from ore.files import read_regular
from ore.files.neutral import one_line
from ore.glass.planned import MOST_BYTES, is_plan
from ore.rows.given import Given, expected
from ore.rows.looked_at import require_place, usual_template
from ore.rows.placeholders import parse_template, quoted
from ore.rows.row_turns import Question
from ore.rows.run_file import parse_run_file
from ore.rows.tables import Table


def read_question(options: Options, table: Table) -> tuple[Options, Question, Given | None]:
    """Return what all rows are asked, and the options with what a run file says.

    Raises:
        UsageError: There is no prompt, or it has no place for a row.
    """
    if options.run_file is not None:
        return _from_run_file(options)
    text = options.prompt or usual_template(table)
    if text is None:
        raise UsageError(
            f"There is no prompt for the rows of {table.shown}: write one with a {{{{column}}}} in it."
        )
    template = parse_template(text)
    require_place(template, {})
    return options.replace(prompt=text), Question(template), None


def _from_run_file(options: Options) -> tuple[Options, Question, Given]:
    path = str(options.run_file)
    data = read_regular(path, MOST_BYTES)
    if is_plan(data, path):
        raise UsageError(
            f"{one_line(path)} is JSON, as the plan of a turn is: --rows takes a prompt or a run file."
        )
    file = parse_run_file(data, path)
    values = parse_arguments(options.values, "--set", file.template.names)
    if unused := file.template.unused(values):
        raise UsageError(f"{file.shown} has no place for {quoted(unused)}: leave it out.")
    merged = with_file(options, file)
    require_place(file.template, values, file.shown)
    given = Given(
        file.path,
        file.sha256,
        prompt=path,
        typed="",
        expectation=expected(file, chooses=merged.choose is not None),
        says_system=merged.system_flag != options.system_flag,
    )
    kept = replace(given, values=values).kept(is_full=options.artifact_full)
    question = Question(file.template, values=values, more={"run_file": kept})
    return merged.replace(prompt=path), question, given
