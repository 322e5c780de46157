"""Documents on a terminal: their lines stay as they are, and none of them passes for one of ORE's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import ne

from ore.cli.terminal.bytewise import on_terminal
from ore.cli.terminal.labels import COLONS, has_label, in_either_case, turned
from ore.cli.terminal.text import AnswerText

_PART = 1 << 13  # characters that are laid out before they are written
_MOST_WRAPPED = 1 << 18  # characters of a text that are laid out word by word: half a second
_MOST_LAID_OUT = 1 << 21  # characters of a document's lines that hold labels: some three seconds
_BEYOND_ASCII = 8  # how many times as long a line takes that is not ASCII, at most
_LOOKED_AT = 4  # how many times faster one is looked at that holds no label
_BEGINNING = 16  # how many characters take as long as a line by itself
_COLON = re.compile('(?<!"):')  # in a text of JSON: the colon behind a key follows a quote


def laying_out(
    text: str, width: Callable[[], int], before: str, labels: Sequence[str]
) -> Iterator[str]:
    """Yield a text as the lines of an ``AnswerText``, in parts; behind 256 KiB, as those of a document.

    The terminal's ``width`` is asked for before each part: it may change meanwhile.
    """
    head, rest = beginning_and_rest(text)
    lines = AnswerText(width(), before, labels)
    for part in in_parts(head):
        lines.width = width()
        yield lines.feed(part)
    yield lines.end()
    if rest:
        yield "" if lines.begins_line else "\n"
        yield from document_parts(rest, width, labels)


def beginning_and_rest(text: str) -> tuple[str, str]:
    """Return what is laid out word by word of a text, and what is behind it, which is a document."""
    text = text.replace("\r\n", "\n")
    if len(text) <= _MOST_WRAPPED:
        return text, ""
    end = text.rfind("\n", 0, _MOST_WRAPPED + 1) + 1 or _MOST_WRAPPED
    return text[:end], text[end:]


def in_parts(text: str) -> Iterator[str]:
    """Yield a text in parts of what is laid out, and written, at once."""
    return (text[at : at + _PART] for at in range(0, len(text), _PART))


def document_parts(
    text: str, width: Callable[[], int], labels: Sequence[str], is_json: bool = False
) -> Iterator[str]:
    """Yield a text in parts, as they are laid out.

    Its lines are as they are, neutral, and no label is at the terminal's left edge, whose ``width`` is
    asked for as the lines are laid out: it may change meanwhile. In JSON, which has to stay that, the colon
    of such a label is a number instead. Behind two MiB of lines with labels, which take seconds, no colon
    stays beside its word; what is not ASCII takes longer, and counts for more, and some without labels.
    Any other line counts for one character.
    """
    known = in_either_case(labels)
    known += turned(known)
    lines = on_terminal(text).split("\n")
    held, size, laid_out = list[str](), 0, 0
    for place, line in enumerate(lines):
        parts: Iterable[str] = (line,)
        cost = _BEGINNING + len(line)
        if has_label(line, known):
            laid_out += cost * (1 if line.isascii() else _BEYOND_ASCII)
            parts = _kept(line, width, labels, is_json)
        elif not line.isascii():
            laid_out += cost // _LOOKED_AT
        else:
            laid_out += 1
        if laid_out > _MOST_LAID_OUT:
            parts = in_parts(_apart("\n".join(lines[place:]), is_json))
        held.append("\n" if place else "")
        for part in parts:
            held.append(part)
            if (size := size + len(part) + 1) > _PART:
                yield "".join(held)
                held, size = [], 0
        if laid_out > _MOST_LAID_OUT:
            break
    yield "".join(held)


def _kept(
    line: str, width: Callable[[], int], labels: Sequence[str], is_json: bool = False
) -> Iterator[str]:
    if is_json:
        has_edge = any(map(ne, chain.from_iterable(_kept(line, width, labels)), line))
        yield _apart(line, is_json) if has_edge else line
        return
    kept = AnswerText(width(), "", labels, wraps=False)
    for part in in_parts(line):
        kept.width = width()
        yield kept.feed(part)
    yield kept.end()


def _apart(line: str, is_json: bool) -> str:
    if is_json:
        return _COLON.sub(r"\\u003a", line)
    for colon in f":{COLONS}":  # a pattern takes many times as long
        line = line.replace(colon, f" {colon} ")
    return line


def json_encoder() -> Callable[[object], str]:
    """Return what writes a value as JSON in ASCII, with no number that JSON does not have."""
    import json  # most runs write none

    return json.JSONEncoder(indent=2, allow_nan=False).encode
