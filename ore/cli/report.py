"""``--report``: artifacts as a page to look at."""

from __future__ import annotations

import time

from ore.artifact.signers import Signers
from ore.artifact.verify import totals
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.pace import in_words
from ore.errors import UsageError
from ore.files.neutral import one_line
from ore.files.owned import check_owned, write_owned
from ore.report.collecting import collect
from ore.report.page import BEGIN, page_of

_WHAT = "The report"
_TOLD_EVERY = 200  # files, after which the bar is drawn anew


def report(options: Options, console: Console, *_: object) -> None:
    """Write a page on the artifacts at ``options.report`` to ``options.out``, or to stdout.

    What can't be read among them is in the page, and no error.
    """
    if options.out is not None:
        check_owned(options.out, BEGIN, _WHAT)
    elif console.stdout_is_terminal:
        raise UsageError(
            "A report is a page for a browser: name its file, as in --out report.html, or send it on "
            "with > or |."
        )
    begun = time.monotonic()

    def told(done: int, of: int) -> None:
        if done % _TOLD_EVERY == 0:
            left = (time.monotonic() - begun) / done * (of - done)
            console.bar(f"{done:,} of {of:,} read, {in_words(left)} left")

    try:
        signers = None if options.allowed_signers is None else Signers(options.allowed_signers)
        collected = collect(options.report, console.stdin, told, signers)
    finally:
        console.end_progress()
    page = page_of(collected)
    if options.out is None:
        console.document(page)
    else:
        write_owned(options.out, [page.encode("utf-8")], BEGIN, _WHAT, 0o600)
    where = "" if options.out is None else f" {one_line(options.out)} is a page for a browser."
    console.notice(f"{totals([run.state for run in collected.runs])}.{where}")
