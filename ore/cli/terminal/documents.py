"""Documents on a terminal: their lines stay as they are, and none of them passes for one of ORE's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ore.cli.terminal.labels import LABELS, ascii_of, has_label
from ore.cli.terminal.text import AnswerText
from ore.files.neutral import neutralise


def document_of(text: str, width: int, labels: Sequence[str] = LABELS) -> str:
    """Return a text with its lines as they are, neutral, and no label at the terminal's left edge."""
    known = [ascii_of(label) for label in labels]
    lines = neutralise(text).split("\n")
    for at, line in enumerate(lines):
        if has_label(line, known):
            kept = AnswerText(width, "", labels, wraps=False)
            lines[at] = kept.feed(line) + kept.end()
    return "\n".join(lines)


def json_encoder() -> Callable[[object], str]:
    """Return what writes a value as JSON in ASCII, with no number that JSON does not have."""
    import json  # most runs write none

    return json.JSONEncoder(indent=2, allow_nan=False).encode
