"""One answer as it comes from a model: its text, and what the model thinks before it.

Bounded in size, and whatever arrives can be written as UTF-8. Knows nothing about backends.
"""

from __future__ import annotations

import io
from collections.abc import Callable

from ore.backends.http import REPLY_LIMIT, TooLarge
from ore.backends.thinking import ThinkSplitter

OnThinking = Callable[[str], None]
"""Called with each part of a model's thinking, as it arrives."""


def count(value: object) -> int:
    """Return a number of tokens or nanoseconds that a server gave, or 0 where it is none."""
    return value if type(value) is int and 0 <= value < 1 << 53 else 0  # else no JSON keeps it


class Answer:
    """Collects the parts of one answer.

    Thinking comes apart from the text (``think``), or within it, between ``<think>`` and
    ``</think>`` at its beginning; where it came apart first, marks in the text are text.

    Args:
        on_thinking: Told of the thinking; an exception of it goes through.
    """

    def __init__(self, on_thinking: OnThinking | None = None) -> None:
        self._text = io.StringIO()
        self._thinking = io.StringIO()
        self._on_thinking = on_thinking
        self._splitter: ThinkSplitter | None = ThinkSplitter()
        self._is_begun = False
        self._size = 0

    def think(self, text: str) -> None:
        """Take in a part of the thinking that came apart from the text.

        Raises:
            TooLarge: There is more than ``REPLY_LIMIT`` of the answer by now.
        """
        if not self._is_begun:
            self._splitter = None
        self._grow(len(text))
        self._note(_writable(text))

    def say(self, text: str) -> str:
        """Take in a part of the text and return what of the answer is certain now.

        Raises:
            TooLarge: There is more than ``REPLY_LIMIT`` of the answer by now.
        """
        self._is_begun = True
        self._grow(len(text))
        if not text.isascii():
            text = _writable(text)
        if self._splitter is not None:
            thinking, text = self._splitter.feed(text)
            self._note(thinking)
            if self._splitter.is_answering:
                self._splitter = None
        self._text.write(text)
        return text

    def end(self) -> str:
        """Return what was held back of the answer: no part follows."""
        if self._splitter is None:
            return ""
        thinking, text = self._splitter.end()
        self._note(thinking)
        self._text.write(text)
        return text

    @property
    def text(self) -> str:
        return self._text.getvalue()

    @property
    def thinking(self) -> str:
        return self._thinking.getvalue()

    def _note(self, thinking: str) -> None:
        if thinking:
            self._thinking.write(thinking)
            if self._on_thinking is not None:
                self._on_thinking(thinking)

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > REPLY_LIMIT:
            raise TooLarge("an answer", REPLY_LIMIT)


def _writable(text: str) -> str:
    """Return ``text`` with U+FFFD for half characters, which JSON can carry and no file can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
