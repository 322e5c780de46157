"""The runs of a report as CSV, in which no text of a run is a formula."""

from __future__ import annotations

from collections.abc import Iterator

from ore.files.cells import csv_line, harmless
from ore.report.collecting import Collected
from ore.report.run_facts import RunFacts

_TEXTS = ("path", "execution_id", "model", "prompt", "answer", "state", "why", "seen")
_FIGURES = (
    *("timestamp", "prompt_tokens", "answer_tokens", "seconds", "first", "rate", "window", "used"),
    *("is_cut", "is_truncated", "holds", "chosen"),
)
COLUMNS = (*_TEXTS, *_FIGURES)
"""The columns, named as what ``RunFacts`` has."""


def csv_lines(collected: Collected) -> Iterator[str]:
    """Yield the header and a line for each run; what is not known is empty.

    Texts are as the page shows them: neutral, and cut where they are long.
    """
    yield csv_line(COLUMNS)
    for run in collected.runs:
        texts = [harmless(getattr(run, name)) for name in _TEXTS]
        yield csv_line([*texts, *(_figure(run, name) for name in _FIGURES)])


def _figure(run: RunFacts, name: str) -> str:
    value = getattr(run, name) if run.is_read else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else repr(value)
