"""How an answer reads on a terminal: neutral, its words whole, and no line that passes for ORE's.

Takes text in any pieces and returns what to show. Knows nothing about streams or colours.
"""

from __future__ import annotations

from collections.abc import Sequence

from ore.files.neutral import neutralise

LABELS = ("[aya]:", "you:", "[metadata]:", "[route]:", "[thinking]:", "ore:")
"""What ORE's own lines begin with, in lower case."""

NARROWEST = 20
"""Columns below which words are not kept whole: there is no room to choose."""

_TAB = 8
_INDENT = " "


class AnswerText:
    """Text that becomes lines on a terminal, piece by piece.

    A word is held until it is complete; one that does not fit begins a new line, and one that is
    longer than a line is left to the terminal to cut. A word that begins a line, also a line that
    only the edge has made, and that is one of ``LABELS`` is indented.

    Args:
        width: The terminal's columns; may be set at any time. 0 keeps lines as they are.
        column: The column in which the text begins.
    """

    def __init__(self, width: int = 0, column: int = 0) -> None:
        self.width = width
        self._column = column
        self._begins_line = column == 0
        self._word: list[str] = []
        self._word_width = 0
        self._is_cut = False
        self._return = ""

    def feed(self, text: str) -> str:
        """Return what can be shown of the text that came so far and was not returned before."""
        out: list[str] = []
        text = (self._return + text).replace("\r\n", "\n")
        self._return = "\r" if text.endswith("\r") else ""  # it may be half of a line's end
        for character in neutralise(text.removesuffix("\r")):
            if character == "\n":
                self._end_word(out)
                out.append("\n")
                self._begin_line()
            elif character.isspace():
                self._end_word(out)
                self._space(character, out)
            else:
                self._letter(character, out)
        return "".join(out)

    def end(self) -> str:
        """Return what was held."""
        out: list[str] = []
        for character in neutralise(self._return):
            self._letter(character, out)
        self._end_word(out)
        self._return = ""
        return "".join(out)

    @property
    def _edge(self) -> int:
        return self.width if self.width >= NARROWEST else 0

    def _begin_line(self) -> None:
        self._column = 0
        self._begins_line = True

    def _space(self, character: str, out: list[str]) -> None:
        size = _TAB - self._column % _TAB if character == "\t" else width_of(character)
        if self._edge and self._column + size > self._edge:
            self._column = self._edge  # left out: the next word begins a line
            return
        out.append(character)
        self._column += size
        self._begins_line = False

    def _letter(self, character: str, out: list[str]) -> None:
        size = width_of(character)
        if size == 2:  # scripts of wide characters have no spaces to break at
            self._end_word(out)
        if size == 0 and not self._word:
            out.append(character)  # belongs to the character before it
            return
        room = self._edge - (self._column if self._is_cut else 0)
        if self._edge and self._word_width + size > room:
            self._cut(out)
        self._word.append(character)
        self._word_width += size
        if size == 2:
            self._end_word(out)

    def _cut(self, out: list[str]) -> None:
        """Show the part of a word that fills the line; the terminal goes on in the next one."""
        if not self._is_cut and self._column:
            self._break(out)
        self._show(out)
        self._is_cut = True
        self._column = max(self._column - self._edge, 0)
        self._begins_line = self._column == 0

    def _end_word(self, out: list[str]) -> None:
        if self._word:
            does_not_fit = self._edge and self._column + self._word_width > self._edge
            if does_not_fit and self._column:
                self._break(out)
            self._show(out)
        self._is_cut = False

    def _break(self, out: list[str]) -> None:
        out.append("\n")
        self._begin_line()

    def _show(self, out: list[str]) -> None:
        word = "".join(self._word)
        if self._begins_line and _passes_for_ours(word):
            out.append(_INDENT)
            self._column += len(_INDENT)
        out.append(word)
        self._column += self._word_width
        self._begins_line = False
        self._word, self._word_width = [], 0


def laid_out(text: str, width: int = 0, column: int = 0) -> str:
    """Return a whole text as the lines of an ``AnswerText``."""
    lines = AnswerText(width, column)
    return lines.feed(text) + lines.end()


def _passes_for_ours(word: str) -> bool:
    if ":" not in word:
        return False
    seen = word if word.isascii() else "".join(c for c in word if width_of(c))
    return seen.casefold().startswith(LABELS)


def width_of(character: str) -> int:
    """Return how many columns a printable character takes: 0, 1 or 2."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def list_lines(rows: Sequence[Sequence[str]], is_terminal: bool) -> list[str]:
    """Return a list's rows as lines: aligned columns on a terminal, tab-separated ones elsewhere."""
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    if not is_terminal:
        return ["\t".join(row).rstrip() for row in rows]
    return columns([[neutralise(cell) for cell in row] for row in rows])


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of neutral texts as lines whose columns stand below each other."""
    sizes = [[sum(map(width_of, cell)) for cell in row] for row in rows]
    widest = [max(column) for column in zip(*sizes)]
    return [
        "  ".join(
            cell + " " * (most - size) for cell, size, most in zip(row, taken, widest)
        ).rstrip()
        for row, taken in zip(rows, sizes)
    ]
