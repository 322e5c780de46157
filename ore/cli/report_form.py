"""``--report … --as NAME``: a published form, filled from artifacts."""

from __future__ import annotations

import os

from ore.artifact.verify import totals
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import counted
from ore.errors import OutputError
from ore.files.neutral import one_line
from ore.files.owned import check_owned, write_owned
from ore.report.form_facts import gather
from ore.report.forms import begin_of, filled

_WHAT = "The form"


def fill_form(options: Options, console: Console, *_: object) -> None:
    """Write the form ``options.form``, filled from ``options.report``, to ``options.out`` or to stdout.

    Raises:
        OutputError: There is a file already: it may have what was written by hand.
    """
    name, out = str(options.form), options.out
    begin = begin_of(name)
    if out is not None:
        if os.path.isfile(out) and os.path.getsize(out):
            raise OutputError(
                f"{_WHAT} can't be written to {one_line(out)}: it is there already, and may have what "
                f"you wrote by hand; name another file.",
                out,
            )
        check_owned(out, begin, _WHAT)
    with counted(console, "read") as told:
        facts = gather(options.report, options.allowed_signers, told)
    page = filled(name, facts)
    if out is None:
        console.document(page)
    else:
        write_owned(out, [page.encode("utf-8")], begin, _WHAT, 0o600)
    is_less = facts.runs < len(facts.checked)
    left_out = " What can't be read is left out, and so are copies of a run." if is_less else ""
    console.notice(f"{totals([each.state for each in facts.checked])}.{left_out}")
