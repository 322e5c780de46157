"""The last fenced code block of a Markdown text, as CommonMark reads it.

Fences in lists and quotes are found too. Code that is only indented is not fenced, and HTML is text.
"""

from __future__ import annotations

import re
from contextlib import closing

from ore.errors import CheckFailedError
from ore.files.bounded import Bounded

LONG, SECONDS = 1 << 18, 4.0
"""From how many characters on a text is looked through for so long at most."""

_LINE = r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+"
_FENCE = r"( {0,3})(?:(`{3,})[^`]*$|(~{3,}))"
_ITEM = r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t]|$)"
_QUOTE = r" {0,3}> ?"
_TAB = 4
_DEEPEST = 32  # lists and quotes in each other; what stands deeper is text
_QUOTED = -1
"""A container that is a quote; one that is an item of a list is how far its text is indented."""


def code_block_in_time(text: str) -> str | None:
    """Return what ``last_code_block`` does of ``text``, in time: millions of lines take a minute.

    Args:
        text: The answer, in Markdown.

    Raises:
        CheckFailedError: It takes longer.
    """
    if len(text) < LONG:
        return last_code_block(text)
    with closing(Bounded(f"{__name__}:last_code_block", SECONDS)) as look:
        try:
            found: str | None = look(text)
        except OSError as exc:
            raise CheckFailedError(
                f"The answer has {len(text):,} characters, in which no code block can be looked for "
                f"({exc}): ask for the whole answer."
            ) from exc
    return found


def last_code_block(text: str) -> str | None:
    """Return what stands in the last fenced code block of ``text``, or None where there is none.

    A block that is not closed goes to the end of what it stands in.
    """
    lines: list[str] | None = None  # of the last block that was found
    fence, indent = "", 0
    containers: list[int] = []
    for whole in (found[0] for found in re.finditer(_LINE, text)):
        line = whole.rstrip("\r\n")
        depth, rest = _within(line, containers)
        if fence and lines is not None and depth == len(containers):
            if _closes(rest, fence):
                fence = ""
            else:
                rest = rest if containers or indent else line  # with its tabs
                lines.append(rest[min(_indent(rest), indent) :] + whole[len(line) :])
            continue
        del containers[depth:]
        rest = _entered(rest, containers)
        opening = re.match(_FENCE, rest)
        fence = "" if opening is None else opening[2] or opening[3]
        if opening is not None:
            lines, indent = [], len(opening[1])
    return "".join(lines) if lines is not None else None


def _closes(line: str, fence: str) -> bool:
    """Return whether a line ends the block that a fence has begun."""
    closing = line.strip(" \t")
    is_fence = closing == fence[0] * len(closing) and len(closing) >= len(fence)
    return is_fence and _indent(line) < _TAB


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _within(line: str, containers: list[int]) -> tuple[int, str]:
    """Return how many of the containers a line goes on with, and what of it stands inside those."""
    rest = _spaced(line)
    for depth, container in enumerate(containers):
        if container == _QUOTED:
            quote = re.match(_QUOTE, rest)
            if quote is None:
                return depth, rest
            rest = _spaced(rest[quote.end() :])
        elif rest.strip() and _indent(rest) < container:
            return depth, rest
        else:
            rest = rest[container:]
    return len(containers), rest


def _entered(rest: str, containers: list[int]) -> str:
    """Add the containers that a line begins, and return what stands inside them."""
    while len(containers) < _DEEPEST:
        if quote := re.match(_QUOTE, rest):
            containers.append(_QUOTED)
            rest = _spaced(rest[quote.end() :])
        elif item := re.match(_ITEM, rest):
            after = _spaced(" " * item.end() + rest[item.end() :])[item.end() :]
            blanks = _indent(after)
            indent = blanks if 0 < blanks <= _TAB and after.strip() else 1
            containers.append(item.end() + indent)
            rest = after[indent:]
        else:
            break
    return rest


def _spaced(line: str) -> str:
    """Return a line with spaces in place of the tabs that it begins with."""
    text = line.lstrip(" \t")
    return line[: len(line) - len(text)].expandtabs(_TAB) + text
