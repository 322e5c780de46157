"""Documents on a terminal: their lines stay as they are, and none of them passes for one of ORE's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ore.cli.terminal.labels import ascii_of, has_label, turned
from ore.cli.terminal.text import AnswerText
from ore.files.neutral import neutralise

_PART = 1 << 16  # characters that are laid out before they are written


def document_parts(text: str, width: int, labels: Sequence[str]) -> Iterator[str]:
    """Yield a text in parts, for 16 MiB of labels take half a minute.

    Its lines are as they are, neutral, and no label is at the terminal's left edge.
    """
    known = [ascii_of(label) for label in labels]
    known += turned(known)
    held, size, end = list[str](), 0, ""
    for line in neutralise(text).split("\n"):
        held.append(end)
        for part in _kept(line, width, labels) if has_label(line, known) else (line,):
            held.append(part)
            if (size := size + len(part) + 1) > _PART:
                yield "".join(held)
                held, size = [], 0
        end = "\n"
    yield "".join(held)


def _kept(line: str, width: int, labels: Sequence[str]) -> Iterator[str]:
    kept = AnswerText(width, "", labels, wraps=False)
    for at in range(0, len(line), _PART):
        yield kept.feed(line[at : at + _PART])
    yield kept.end()


def json_encoder() -> Callable[[object], str]:
    """Return what writes a value as JSON in ASCII, with no number that JSON does not have."""
    import json  # most runs write none

    return json.JSONEncoder(indent=2, allow_nan=False).encode
