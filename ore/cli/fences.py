"""The last fenced code block of a Markdown text, as CommonMark reads it.

Fences in lists and quotes are found too. Code that is only indented is not fenced, and HTML is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE = r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+"
_FENCE = r"( {0,3})(?:(`{3,})[^`]*$|(~{3,}))"
_ITEM = r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?=[ \t]|$)"
_QUOTE = r" {0,3}> ?"
_TAB = 4
_DEEPEST = 32  # lists and quotes in each other; what stands deeper is text
_QUOTED = -1
"""Of a container that is a quote; of an item of a list, it is how far its text is indented."""


def last_code_block(text: str) -> str | None:
    """Return what stands in the last fenced code block of a text, or None where there is none.

    A block that is not closed goes to the end of what it stands in.
    """
    found: _Block | None = None
    containers: list[int] = []
    is_open = False
    for whole in re.findall(_LINE, text):
        line = whole.rstrip("\r\n")
        depth, rest = _within(line, containers)
        if is_open and found is not None and depth == len(containers):
            is_open = not found.ends_with(rest)
            if is_open:
                found.add(rest if containers or found.indent else line, whole[len(line) :])
            continue
        is_open = False
        del containers[depth:]
        rest = _entered(rest, containers)
        if fence := re.match(_FENCE, rest):
            found, is_open = _Block(fence[2] or fence[3], len(fence[1])), True
    return "".join(found.lines) if found is not None else None


@dataclass
class _Block:
    """A code block: its fence, how far that was indented, and its lines with their ends."""

    fence: str
    indent: int
    lines: list[str] = field(default_factory=list)

    def ends_with(self, line: str) -> bool:
        closing = line.strip(" \t")
        indent = len(line) - len(line.lstrip(" "))
        is_fence = closing == self.fence[0] * len(closing) and len(closing) >= len(self.fence)
        return is_fence and indent < _TAB

    def add(self, line: str, end: str) -> None:
        indent = len(line) - len(line.lstrip(" "))
        self.lines.append(line[min(indent, self.indent) :] + end)


def _within(line: str, containers: list[int]) -> tuple[int, str]:
    """Return how many of the containers a line goes on with, and what of it stands inside those."""
    rest = _spaced(line)
    for depth, container in enumerate(containers):
        if container == _QUOTED:
            quote = re.match(_QUOTE, rest)
            if quote is None:
                return depth, rest
            rest = _spaced(rest[quote.end() :])
        elif rest.strip() and len(rest) - len(rest.lstrip(" ")) < container:
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
            blanks = len(after) - len(after.lstrip(" "))
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
