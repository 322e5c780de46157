"""Telling a model's thinking from its answer where both come in one text: ``<think>…</think>``.

Works on text in any pieces. Knows nothing about models, messages or streams.
"""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"
_MOST_BLANKS = 256
"""Characters of white space before ``OPEN`` after which a text is an answer like any other."""


class ThinkSplitter:
    """Splits one text as it comes; where its pieces are cut makes no difference.

    Only a text that begins with ``OPEN``, after a little white space at most, holds thinking: it
    ends at the first ``CLOSE``, or with the text. White space right after either mark belongs to
    nobody. Every other text is an answer, verbatim, whatever marks it holds further on.
    """

    def __init__(self) -> None:
        self._held = ""
        self._take = self._beginning

    def feed(self, text: str) -> tuple[str, str]:
        """Return the thinking, and the answer, that are certain now."""
        return self._take(text)

    @property
    def is_answering(self) -> bool:
        """Whether all that follows is the answer, as it is."""
        return self._take is self._answer

    def end(self) -> tuple[str, str]:
        """Return the thinking, and the answer, that were held back: nothing follows."""
        held, self._held = self._held, ""
        return (held, "") if self._take == self._thinking else ("", held)

    def _beginning(self, text: str) -> tuple[str, str]:
        self._held += text
        begun = self._held.lstrip()
        if len(self._held) - len(begun) <= _MOST_BLANKS:
            if begun.startswith(OPEN):
                self._held, self._take = "", self._before_thinking
                return self._take(begun[len(OPEN) :])
            if OPEN.startswith(begun):
                return "", ""
        whole, self._held, self._take = self._held, "", self._answer
        return "", whole

    def _before_thinking(self, text: str) -> tuple[str, str]:
        text = text.lstrip()
        if not text:
            return "", ""
        self._take = self._thinking
        return self._take(text)

    def _thinking(self, text: str) -> tuple[str, str]:
        text = self._held + text
        thinking, found, rest = text.partition(CLOSE)
        if found:
            self._held, self._take = "", self._before_answer
            return thinking, self._take(rest)[1]
        kept = _begun_mark(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], ""

    def _before_answer(self, text: str) -> tuple[str, str]:
        text = text.lstrip()
        if text:
            self._take = self._answer
        return "", text

    @staticmethod
    def _answer(text: str) -> tuple[str, str]:
        return "", text


def _begun_mark(text: str) -> int:
    """Return how many characters at the end of ``text`` may be the beginning of ``CLOSE``."""
    for length in range(len(CLOSE) - 1, 0, -1):
        if text.endswith(CLOSE[:length]):
            return length
    return 0
