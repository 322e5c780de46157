"""The documentation as data: README.md and docs/*.md with their blocks, marks, links and anchors.

A fenced block may have an HTML comment right above it, its mark: ``<!-- not run: REASON -->`` or
``<!-- real model -->``. A ``text`` block right below a block is what that block prints. Knows nothing
about how a block is run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN = "not run: "
REAL_MODEL = "real model"
GENERATED = {"docs/interface-lock.md", "docs/performance.md"}
"""The pages that a program writes whole, or nearly so: what they show is not run."""

_MARK = re.compile(r"<!-- (?!begin )(.*) -->")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: The word after the fence, or ``""``.
        text: Its lines, each with its line end.
        line: The number of its first line, from 1.
        mark: What the comment above it says, or ``""``.
    """

    language: str
    text: str
    line: int
    mark: str

    @property
    def last_line(self) -> int:
        """The number of the closing fence."""
        return self.line + self.text.count("\n")


@dataclass(frozen=True)
class Page:
    """One page: its path, its text and its blocks in order."""

    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """The text with empty lines in the place of blocks, so that line numbers stay."""
        lines = self.text.split("\n")
        for block in self.blocks:
            for number in range(block.line - 2, block.last_line):
                lines[number] = ""
        return "\n".join(lines)

    @property
    def links(self) -> list[str]:
        """Every link's target, as it is written."""
        return _LINK.findall(re.sub(_SPAN, "", self.prose))

    @property
    def spans(self) -> list[str]:
        """Every piece of code within the prose."""
        return _SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """What ``#...`` may name: the headings, as GitHub and most renderers spell them."""
        found: set[str] = set()
        for heading in re.findall(r"^#+ +(.+?) *$", self.prose, re.MULTILINE):
            plain = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            number = 1
            anchor = plain
            while anchor in found:
                anchor, number = f"{plain}-{number}", number + 1
            found.add(anchor)
        return found

    def shown_below(self, block: Block) -> Block | None:
        """The ``text`` block that stands right below a block: what that one prints."""
        for other in self.blocks:
            if other.language == "text" and other.line == block.last_line + 3:
                return other
        return None


def read_page(path: Path) -> Page:
    """Read a page; a fence that is not closed is an error."""
    text = path.read_text(encoding="utf-8")
    lines, blocks, number = text.split("\n"), [], 0
    while number < len(lines):
        if lines[number].startswith("```"):
            end = lines.index("```", number + 1)
            mark = _MARK.fullmatch(lines[number - 1]) if number else None
            body = "".join(f"{line}\n" for line in lines[number + 1 : end])
            language = lines[number].removeprefix("```")
            blocks.append(Block(language, body, number + 2, mark[1] if mark else ""))
            number = end
        number += 1
    return Page(path, text, tuple(blocks))


@lru_cache
def pages() -> dict[str, Page]:
    """Every page by its name: README.md first, then those of docs/ in alphabetical order."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {page.name: page for page in map(read_page, paths)}
