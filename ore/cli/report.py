"""``--report``: artifacts as a page to look at, or a table."""

from __future__ import annotations

import os

from ore.artifact.signers import Signers
from ore.artifact.verify import totals
from ore.cli.advice import said
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import counted
from ore.errors import UsageError
from ore.files.cells import csv_line
from ore.files.neutral import one_line
from ore.files.owned import check_owned, write_owned
from ore.report.as_table import COLUMNS, csv_lines
from ore.report.collecting import Collected, collect
from ore.report.page import BEGIN, page_of, require_jinja

_WHAT = "The report"


def report(options: Options, console: Console, *_: object) -> None:
    """Write a page on the artifacts at ``options.report``, or with ``options.csv`` a table of them.

    It goes to ``options.out``, else to stdout. What can't be read among them is in it, and no error.
    """
    begin = csv_line(COLUMNS).encode("ascii") if options.csv else BEGIN
    if not options.csv:
        require_jinja()
    if options.out is not None:
        check_owned(options.out, begin, _WHAT)
    elif console.stdout_is_terminal and not options.csv:
        raise UsageError(
            "A report is a page for a browser: name its file, as in --out report.html, or send it on "
            "with > or |."
        )
    with counted(console, "read") as told:
        signers = None if options.allowed_signers is None else Signers(options.allowed_signers)
        collected = collect(options.report, console.stdin, told, signers)
    _leave_logins_out(collected)
    text = "\n".join(csv_lines(collected)) + "\n" if options.csv else page_of(collected)
    if options.out is None:
        console.document(text)
    else:
        write_owned(options.out, [text.encode("utf-8")], begin, _WHAT, 0o600)
    cut = sum(run.prompt_is_cut + run.answer_is_cut for run in collected.runs)
    if options.csv and cut:
        texts = "1 text is" if cut == 1 else f"{cut:,} texts are"
        console.warning(f"{texts} cut in the table, and whole in the artifacts.")
    kind = "a table" if options.csv else "a page for a browser"
    where = "" if options.out is None else f" {one_line(options.out)} is {kind}."
    console.notice(f"{totals([run.state for run in collected.runs])}.{where}")


def _leave_logins_out(collected: Collected) -> None:
    """Leave user names and passwords out of addresses that were named and are no files."""
    hidden = {each: said(each) for each in collected.named if not os.path.lexists(each)}
    collected.named = [hidden.get(each, each) for each in collected.named]
    for run in collected.runs:
        if run.path in hidden:
            run.path, run.why = hidden[run.path], said(run.why)
