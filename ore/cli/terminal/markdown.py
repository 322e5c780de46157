"""Markdown on a terminal, a block at a time, through the optional package ``rich``.

What an answer makes a renderer write is text and colours, never a character or a link that a
terminal would obey.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ore.cli.terminal.bytewise import on_terminal
from ore.cli.terminal.documents import laying_out
from ore.cli.terminal.labels import LABELS
from ore.cli.terminal.text import AnswerText
from ore.errors import ExtraNotInstalledError
from ore.files.bounded import Bounded
from ore.files.extras import install_command

if TYPE_CHECKING:
    from rich.markdown import Markdown as Source
    from rich.segment import Segment

MOST_CHARACTERS = 1 << 16
"""The longest block that is laid out."""
MOST_SECONDS = 3.0
"""How long laying out all of an answer may take; one block, half of it."""
DEEPEST = 19
"""The level from which on the parser of Markdown drops what a quote or an item of a list holds."""

_USUAL_COLUMNS = 80
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LANGUAGE = re.compile(r"\s*[\w+#-]*\s*")
"""What stands behind a fence and need not be shown; a path or a text is more than a language."""
_GOES_ON = re.compile(r"[ \t]|[-*+>|][ \t]|\d{1,9}[.)][ \t]")
"""What a line begins with that goes on with a list, a quote or a table after a blank line."""


def check_rich() -> None:
    """Raise ``ExtraNotInstalledError`` where ``rich`` is missing; does not import it."""
    if find_spec("rich") is None:
        raise ExtraNotInstalledError(
            f"--render needs the package rich: {install_command('rich')}", "rich"
        )


class Markdown:
    """Markdown that becomes text on a terminal, block by block, as its blocks are complete.

    A block that is very long, or of which a part would be left out, is shown as it was written; so is
    the rest of an answer that takes long to lay out.

    Args:
        width: The terminal's columns, 0 where it does not tell them; may be set at any time.
        has_colour: Whether it shows colours.
        labels: What may not stand at its left edge, in lower case.
        show: What lays a block out, as ``shown`` does; it may raise ``OSError`` or ``ValueError``.

    Attributes:
        is_plain: Whether something was shown as it was written.
    """

    def __init__(
        self,
        width: int,
        has_colour: bool,
        labels: Sequence[str] = LABELS,
        show: Callable[..., Any] | None = None,
    ) -> None:
        self.width = width
        self.is_plain: bool = False
        self._labels = list(labels)
        self._show = show or shown
        self._has_colour = has_colour
        self._pending: list[str] = []  # of a line, the pieces that came
        self._lines: list[str] = []
        self._complete = 0  # of the lines, those of blocks that will not be laid out
        self._fence = ""
        self._seconds_left = MOST_SECONDS

    def feed(self, text: str) -> str:
        """Return the blocks that ``text`` has completed, each after a line end."""
        self._pending.append(text)
        if "\n" not in text:
            return ""
        *lines, rest = "".join(self._pending).split("\n")
        self._pending = [rest]
        done = "".join(self._line(line.removesuffix("\r")) for line in lines)
        if not self._complete:
            return done
        lines, fence = self._lines[self._complete :], self._fence
        del self._lines[self._complete :]
        done += self._block()
        self._lines, self._fence, self._complete = lines, fence, 0
        return done

    def end(self) -> str:
        """Return what is left."""
        pending, self._pending = "".join(self._pending), []
        return self._line(pending) + self._block()

    def _line(self, line: str) -> str:
        line = on_terminal(line)
        fence = _FENCE.match(line)
        is_after_blank = bool(self._lines) and not self._lines[-1].strip() and not self._fence
        done = ""
        if is_after_blank and line.strip() and not _GOES_ON.match(line):
            if self._seconds_left > 0:
                done = self._block()
            else:  # together with others: each by itself takes many times as long
                self._complete = len(self._lines)
        if fence and not self._fence:
            self._fence = fence[1]
        elif fence and fence[1].startswith(self._fence) and line.strip() == fence[1]:
            self._fence = ""
        self._lines.append(line)
        return done

    def _block(self) -> str:
        """Return the lines so far as they look on the terminal, and begin a new block."""
        source, self._lines, self._fence = "\n".join(self._lines), [], ""
        if not source.strip():
            return ""
        if self._seconds_left > 0 and len(source) <= MOST_CHARACTERS:
            began = time.monotonic()
            try:
                block: str = self._show(source, self.width, self._has_colour, self._labels)
                if block:
                    return block
            except (OSError, ValueError):
                self._seconds_left = 0
            finally:
                self._seconds_left -= time.monotonic() - began
        self.is_plain = True
        plain = "".join(laying_out(source, lambda: self.width, "", self._labels))
        return "\n" + plain.strip("\n") + "\n"


def bounded() -> Callable[..., Any]:
    """Return a ``shown`` that ends in time, also over what takes a lexer for ever."""
    child = Bounded(f"{__name__}:shown", MOST_SECONDS / 2)
    with suppress(OSError):  # then it is found out later
        child.start()  # while the model is at work
    return child


def shown(source: str, width: int, has_colour: bool, labels: Sequence[str] = LABELS) -> str:
    """Return a block of Markdown as it looks on a terminal, after a line end and with one.

    Nothing is returned where laying it out would leave a part out.
    """
    from markdown_it import MarkdownIt
    from rich import markdown as rich

    class Cell(rich.TableDataElement):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.content.overflow = "fold"  # a long word goes on below; else the end of it is cut

    class Block(rich.Markdown):
        elements = {**rich.Markdown.elements, "th_open": Cell, "td_open": Cell}

    # What a browser would not show as text is shown: tags, the addresses of images, and references.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    block = Block("", hyperlinks=False)
    block.parsed = parser.disable(["reference", "image"]).parse(source)
    if _drops(block, source.split("\n")) or _counts_anew(block):
        return ""
    rendered = _rendered(block, width or _USUAL_COLUMNS)
    if _characters(_texts(block)) - _characters(s.text for line in rendered for s in line):
        return ""
    lines = [_styled(line, width, has_colour, labels) for line in rendered]
    return "\n" + "\n".join(lines) + "\n"


def _drops(block: Source, lines: Sequence[str]) -> bool:
    """Return whether a part is left out before a block is laid out.

    That is what is nested too deep, cells beyond a table's columns (a ``|`` in code begins one, too),
    and what stands behind a fence and is no language.
    """
    columns = 0
    for token in block.parsed:
        if token.type in ("blockquote_open", "list_item_open") and token.level >= DEEPEST:
            return True
        if token.type == "fence" and not _LANGUAGE.fullmatch(token.info):
            return True
        columns = 0 if token.type == "table_open" else columns + (token.type == "th_open")
        if token.type == "tr_open" and columns and token.map and token.map[0] < len(lines):
            row = lines[token.map[0]].lstrip("> \t").removeprefix("|")
            if any(cell.strip() for cell in _BETWEEN_CELLS.split(row)[columns:]):
                return True
    return False


def _counts_anew(block: Source) -> bool:
    """Return whether items would get other numbers than they have, as of a list of years.

    Those that all have 1, or 0, are meant to be counted.
    """
    found: dict[int, list[int]] = {}  # by level
    for token in block.parsed:
        if token.type == "ordered_list_open":
            found[token.level + 1] = []
        elif token.type == "list_item_open" and token.info:
            found[token.level].append(int(token.info))
        elif token.type == "ordered_list_close":
            numbers = found[token.level + 1]
            counted = [*range(numbers[0], numbers[0] + len(numbers))]
            if numbers != counted and set(numbers) not in ({0}, {1}):
                return True
    return False


def _texts(block: Source) -> Iterator[str]:
    """Yield what a block says: its words and its code, the addresses of links and their titles."""
    for token in block.parsed:
        for part in token.children or [token]:
            yield part.content if part is not token or token.type != "inline" else ""
            yield from map(str, part.attrs.values()) if part.type == "link_open" else ()


def _characters(texts: Iterable[str]) -> Counter[str]:
    """Return how often each visible character stands in texts."""
    return Counter(filter(str.isprintable, "".join("".join(texts).split())))


def _styled(line: list[Segment], width: int, has_colour: bool, labels: Sequence[str]) -> str:
    text = "".join(segment.text for segment in line)
    plain = AnswerText(width, "", labels, wraps=False)
    as_text = plain.feed(text) + plain.end()
    if plain.found:  # a forged label
        return as_text.rstrip()
    if not has_colour:
        return on_terminal(text).rstrip()
    return "".join(_painted(segment) for segment in line)


def _rendered(block: Source, width: int) -> list[list[Segment]]:
    from rich import console, segment

    terminal = console.Console(
        width=width, color_system="256", force_terminal=True, legacy_windows=False, _environ={}
    )
    lines = terminal.render_lines(block, pad=False)
    lines = [[s for s in segment.Segment.simplify(line) if not s.control] for line in lines]
    full = [number for number, line in enumerate(lines) if not _is_empty(line)]
    return lines[full[0] : full[-1] + 1] if full else []


def _is_empty(line: list[Segment]) -> bool:
    """Whether a line shows nothing; a line of a code block has a background."""
    return all(not s.text.strip() and not (s.style and s.style.bgcolor) for s in line)


def _painted(segment: Segment) -> str:
    """Return a segment with its colours; an entity such as ``&#27;`` is neutralised here."""
    from rich.color import ColorSystem

    text, style = on_terminal(segment.text), segment.style
    if style is None:
        return text
    return style.update_link(None).render(text, color_system=ColorSystem.EIGHT_BIT)
