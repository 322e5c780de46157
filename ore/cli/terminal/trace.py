"""The model's thinking as it reads on stderr: one labelled block, dim where colours are shown.

Takes text in any pieces and returns what to write. Knows nothing about streams.
"""

from __future__ import annotations

from ore.cli.terminal import style
from ore.cli.terminal.answer_text import AnswerText

LABEL = "[THINKING]: "


class Trace:
    """Text that becomes a block: the label before its first piece, a newline at its end.

    Args:
        is_terminal: Whether control characters are shown, and no line may pass for ORE's.
        has_colour: Whether the block is dim.
        width: The terminal's columns, at whose edge words are kept whole; 0 keeps lines as they are.
    """

    def __init__(self, is_terminal: bool, has_colour: bool, width: int = 0) -> None:
        self._lines = AnswerText(width, len(LABEL)) if is_terminal else None
        self._has_colour = has_colour
        self._label = LABEL
        self._ends_line = False

    def feed(self, text: str) -> str:
        """Return what to write for the text that came."""
        return self._painted(text if self._lines is None else self._lines.feed(text))

    def end(self) -> str:
        """Return what was held back, and the newline after the block where it has none."""
        rest = "" if self._lines is None else self._painted(self._lines.end())
        return rest if self._ends_line else rest + "\n"

    def _painted(self, text: str) -> str:
        if not text:
            return ""
        self._ends_line = text.endswith("\n")
        text, self._label = self._label + text, ""
        return style.paint(text, style.QUIET) if self._has_colour else text
