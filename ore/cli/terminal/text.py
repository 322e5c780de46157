"""How texts read on a terminal: neutral, words whole, and no line that passes for one of ORE's.

Takes text in any pieces and returns what to show; also lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from unicodedata import category, east_asian_width, normalize

from ore.cli.terminal.bytewise import on_terminal
from ore.cli.terminal.labels import (
    LABELS,
    ascii_of,
    in_either_case,
    is_young,
    label_begun,
    labels_in,
    may_hold_label,
    may_turn,
    turned,
    turns,
)

NARROWEST = 20
"""Columns below which words are not kept whole: there is no room to choose."""

PREVIEW = 60
"""How many characters of a text a list shows."""

WIDEST_COLUMN, LONGEST_CELL = 60, 500
"""How wide a list's columns are made, and how many characters of one of their cells are shown."""

_TAB, _INDENT = 8, " "
_WIDEST = 2
"""Columns that a terminal gives to one character at most; ASCII ones have exactly one."""
_FILLERS = "\u115f\u3164\u302e\u302f"
"""Wide letters that some terminals show as nothing, and wide marks that some put over another letter."""


class AnswerText:
    """Text that becomes lines on a terminal, piece by piece.

    A word is held until it is complete; one that does not fit begins a new line, and one that is
    longer than a line is left to the terminal to cut. A label that may stand at the terminal's left
    edge is indented, on a line of its own where its line has begun. Terminals differ in how wide a
    character is that is not ASCII: for this it may have any width to two columns, and less than none.

    Args:
        width: The terminal's columns; may be set at any time. 0 keeps lines, which may end anywhere.
        before: What stands in the line before the text.
        labels: What may not stand at the edge, in lower case.
        wraps: Whether a word that does not fit begins a new line; else the terminal cuts lines.

    Attributes:
        found: Whether a label was indented.
        is_moved: Set by whoever knows that the cursor was moved to the left edge.
        is_lost: Set with it where what was being written then goes on there.
    """

    def __init__(
        self,
        width: int = 0,
        before: str = "",
        labels: Sequence[str] = LABELS,
        wraps: bool = True,
    ) -> None:
        self.width = width
        self._wraps = wraps
        self.found: bool = False
        self.is_moved: bool = False
        self.is_lost: bool = False
        self._labels = in_either_case(labels)
        self._turned = turned(self._labels)
        own = "".join(each + normalize("NFD", each) for each in labels)
        self._unbroken = _FILLERS + own  # wide, and may be inside a label
        before = on_terminal(before)
        self._column = sum(map(width_of, before))
        self._begins_line = not before
        self._least, self._most = _range_of(before)  # columns since the last line end
        self._is_turned = turns(before)  # whether what follows may be shown to the left of the line
        self._word: list[str] = []
        self._word_width, self._seen_width = 0, width
        self._is_cut, self._return, self._out = False, "", list[str]()

    def feed(self, text: str) -> str:
        """Return what can be shown of the text that came so far and was not returned before."""
        self._follow_move()
        text = (self._return + text).replace("\r\n", "\n")
        self._return = "\r" if text.endswith("\r") else ""  # it may be half of a line's end
        for character in on_terminal(text.removesuffix("\r")):
            if character.isspace():
                self._end_word()
                self._space(character)
            else:
                self._letter(character)
        return self._taken()

    def end(self) -> str:
        """Return what was held."""
        self._follow_move()
        for character in on_terminal(self._return):
            self._letter(character)
        self._return = ""
        self._end_word()
        return self._taken()

    @property
    def begins_line(self) -> bool:
        """Whether the next text begins a line."""
        return self._begins_line

    @property
    def may_fill_line(self) -> bool:
        """Whether the cursor may wait at the right edge: what is cleared there is a letter."""
        return self._has_edge_in(max(self._least, 1), self._most)

    def _has_edge_in(self, least: int, most: int) -> bool:
        if self.width == 0:
            return most >= NARROWEST
        if self.width <= len(_INDENT):
            return False
        # A wide character may leave the last column of a line free.
        most += min(most - least, most // (self.width - 1))
        return most - most % self.width >= least

    def _follow_move(self) -> None:
        if self.width != self._seen_width:  # terminals differ in where the cursor is then
            self._least, self._most = 0, max(self.width, self._seen_width) if self._most else 0
            self._seen_width = self.width
        if self.is_moved:
            if self.is_lost:
                self._out.append("\n")
            self._column = self._least = self._most = 0
            self._begins_line, self._is_cut, self._is_turned = True, False, False
            self.is_moved = self.is_lost = False

    def _taken(self) -> str:
        taken, self._out = "".join(self._out), []
        return taken

    @property
    def _edge(self) -> int:
        return self.width if self._wraps and self.width >= NARROWEST else 0

    def _put(self, text: str, size: int) -> None:
        least, most = _range_of(text)
        self._out.append(text)
        self._column += size
        self._least += least
        self._most += max(most, self.width) if text == "\t" else most  # its stops may be any
        self._begins_line = False
        self._is_turned = turns(text, self._is_turned)

    def _break(self) -> None:
        self._out.append("\n")
        self._column, self._begins_line, self._is_turned = 0, True, False
        self._least = self._most = 0

    def _space(self, character: str) -> None:
        if character == "\n":
            self._break()
            return
        size = _TAB - self._column % _TAB if character == "\t" else width_of(character)
        if self._edge and self._column + size > self._edge:
            self._column = self._edge  # left out: the next word begins a line
            return
        self._put(character, size)

    def _letter(self, character: str) -> None:
        size = width_of(character)
        if size == 2:  # scripts of wide characters have no spaces to break at
            if self._is_word_itself(character):
                self._end_word()
        elif size == 0 and not self._word and not self._begins_line:
            self._put(character, 0)  # belongs to the character before it
            return
        room = self._edge - (self._column if self._is_cut else 0)
        if self._edge and self._word_width + size > room:
            self._cut_word()
        self._word.append(character)
        self._word_width += size
        if size == 2 and self._is_word_itself(character):
            self._end_word()

    def _is_word_itself(self, character: str) -> bool:
        """Whether a wide character is a word; those that may be in a label, or nothing, are not."""
        if character in self._unbroken or is_young(character):
            return False
        return category(character) == "Lo" or not ascii_of(character)

    def _cut_word(self) -> None:
        """Show the part of a word that fills the line; the terminal goes on in the next one."""
        if not self._is_cut and self._column:
            self._break()
        self._is_cut = True
        held = label_begun(self._word, self._labels + self._turned)
        kept = [self._word.pop() for _ in range(held)][::-1]
        self._word_width -= held
        if self._word:
            self._show_word("".join(kept))
        self._word, self._word_width = kept, held
        if self._least != self._most:  # nobody knows where the terminal would go on
            self._break()
            return
        self._column %= self._edge
        self._begins_line = self._column == 0

    def _end_word(self) -> None:
        if self._word:
            if self._edge and self._column and self._column + self._word_width > self._edge:
                self._break()
            self._show_word()
        self._is_cut = False

    def _show_word(self, rest: str = "") -> None:
        """Show a word, or a part of one of which ``rest`` goes on."""
        word = "".join(self._word)
        if may_hold_label(word + rest):
            word = self._indented(word, rest)
        self._put(word, self._word_width)
        self._word, self._word_width = [], 0

    def _indented(self, word: str, rest: str) -> str:
        """Indent what may be a label at the edge; return what is left to show of the word."""
        is_mixed, whole = self._is_turned or may_turn(word), word + rest
        start, turned_ones = 0, set(labels_in(whole, self._turned) if is_mixed else ())
        places = turned_ones.union(labels_in(whole, self._labels))
        for place in sorted(at for at in places if at < len(word)):
            piece, start = word[start:place], place
            size = sum(map(width_of, piece))
            self._word_width -= size
            is_turned = turns(piece, self._is_turned)
            first = whole[place : place + 2]
            if not is_turned and (place in turned_ones or not self._is_edge_after(piece, first)):
                self._put(piece, size)
                continue
            self.found = True
            if self._begins_line and not (is_turned or self._is_edge_after(_INDENT + piece, first)):
                self._put(_INDENT + piece, len(_INDENT) + size)
            else:
                self._put(piece, size)
                self._break()
                self._put(_INDENT, len(_INDENT))
        return word[start:]

    def _is_edge_after(self, text: str, first: str) -> bool:
        """Whether the terminal, which breaks lines too, may begin one after a text, before ``first``."""
        least, most = _range_of(text)
        least, most = self._least + least, self._most + most
        free = 0 if first.isascii() else 1  # the last column: for no letter that is or gets wide
        return least <= 0 or any(self._has_edge_in(least + n, most + n) for n in (0, free))


def laid_out(text: str, width: int = 0, before: str = "", labels: Sequence[str] = LABELS) -> str:
    """Return a whole text as the lines of an ``AnswerText``."""
    lines = AnswerText(width, before, labels)
    return lines.feed(text) + lines.end()


def _range_of(text: str) -> tuple[int, int]:
    """Return how many columns a text has on a terminal, at least and at most.

    At least those of its ASCII: a terminal may drop any other. One that is younger than it is takes a
    column away in xterm, which adds up what the C library says of widths: -1 where it knows none.
    """
    if text.isascii():
        return (len(text), len(text)) if "\t" not in text else (len(text) - 1, len(text) + _TAB)
    known = sum(map(str.isascii, text))
    return known - sum(map(is_young, text)), known + _WIDEST * (len(text) - known)


def most_columns(text: str) -> int:
    """Return how many columns a text without tabs has on a terminal, at most."""
    return _range_of(text)[1]


def cut_to(text: str, room: int) -> str:
    """Return the beginning of a text that has no more columns than ``room`` on any terminal."""
    ends = accumulate(map(most_columns, text))
    return text[: sum(end <= room for end in ends)]


def width_of(character: str) -> int:
    """Return how many columns a printable character takes: 0, 1 or 2."""
    if character.isascii():
        return 1
    kind = category(character)
    if kind in ("Mn", "Me", "Cf"):
        return 0
    if kind == "Cn":  # Unicode has not given it a width yet
        return 1
    return 2 if east_asian_width(character) in "WF" else 1


def preview(text: str) -> str:
    """Return the beginning of a text, on one line, as a list shows it."""
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW else line[: PREVIEW - 1] + "…"


def list_lines(rows: Sequence[Sequence[str]], is_terminal: bool) -> list[str]:
    """Return a list's rows as lines: aligned columns on a terminal, tab-separated ones elsewhere.

    On a terminal, columns but the last are bounded: what is longer is cut, and ends with ``…``.
    """
    rows = [[" ".join(cell.split()) for cell in row] for row in rows]
    if not is_terminal:
        return ["\t".join(row).rstrip() for row in rows]
    columns = [[on_terminal(cell) for cell in column] for column in zip(*rows)]
    shown = [*map(_aligned, columns[:-1]), *columns[-1:]]
    return ["  ".join(row).rstrip() for row in zip(*shown)]


def _aligned(cells: list[str]) -> list[str]:
    cells = [cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL - 1]}…" for cell in cells]
    sizes = [sum(map(width_of, cell)) for cell in cells]
    width = min(max(sizes), WIDEST_COLUMN)
    return [cell + " " * (width - size) for cell, size in zip(cells, sizes)]
