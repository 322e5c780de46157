"""For programs: the texts that ``--report`` writes besides its page."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ore.errors import UsageError
from ore.report.as_table import csv_lines
from ore.report.collecting import collect
from ore.report.form_facts import gather
from ore.report.forms import NAMES, filled


def report_table(paths: Iterable[os.PathLike[str] | str]) -> str:
    """Return the runs of files and folders as CSV, as ``--report --csv`` writes it.

    Of a prompt or an answer it has 20,000 characters, fewer of very many: the artifacts have all.

    Args:
        paths: Artifacts, or folders of them.

    Raises:
        ArtifactError: A folder can't be read or has no artifact; or there is none in all of them.
        UsageError: There are too many files, or one is stdin; or ``paths`` is one path.
    """
    return "\n".join(csv_lines(collect(paths))) + "\n"


def report_form(name: str, paths: Iterable[os.PathLike[str] | str]) -> str:
    """Return a published form as Markdown, filled from artifacts, as ``--report --as`` writes it.

    Args:
        name: One of ``ore.report.forms.NAMES``.
        paths: Artifacts, or folders of them.

    Raises:
        ArtifactError: There is none, or a folder can't be read.
        UsageError: There is no such form, or one of the paths is stdin; or ``paths`` is one path.
    """
    if name not in NAMES:
        raise UsageError(f"{name!r} is not a form: use one of {', '.join(NAMES)}.")
    return filled(name, gather(paths))
