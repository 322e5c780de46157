"""What goes out and what comes back: messages as they are sent, one answer as it comes.

An answer is bounded in size and can always be written as UTF-8; a model's thinking is kept apart from it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ore.backends.http import REPLY_LIMIT, TooLarge
from ore.backends.window import LARGER_WINDOW, ends_answer
from ore.errors import UsageError
from ore.types import Message

COUNTS = ("eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration")
"""What every response's metadata holds: tokens, and nanoseconds."""

OnThinking = Callable[[str], None]
"""Called with each part of a model's thinking, as it arrives."""

OPEN = "<think>"
CLOSE = "</think>"
_MOST_BLANKS = 256
"""Characters of white space before ``OPEN`` after which a text is an answer like any other."""


def encoded(messages: Iterable[Message]) -> list[bytes]:
    """Return the text of each message in UTF-8.

    Raises:
        UsageError: A text holds half a character (a lone surrogate), which can't be sent.
    """
    texts = []
    for message in messages:
        try:
            texts.append(message.content.encode("utf-8"))
        except UnicodeEncodeError as exc:
            raise UsageError(
                f"A message of the role '{message.role}' holds half a character (a lone "
                f"surrogate at position {exc.start}), which can't be sent: take it out."
            ) from exc
    return texts


def hashes(messages: Iterable[Message]) -> list[str]:
    """Return the SHA-256 of every image in the messages, in hexadecimal, in their order."""
    return [hashlib.sha256(data).hexdigest() for message in messages for data in message.images]


def count(value: object) -> int:
    """Return a number of tokens or nanoseconds that a server gave, or 0 for anything else."""
    return known_count(value) or 0


def known_count(value: object) -> int | None:
    """Return a number of tokens or nanoseconds that a server gave, or None for anything else."""
    return value if type(value) is int and 0 <= value < 1 << 53 else None  # else no JSON keeps it


def limit_of(asked: object, fit: Mapping[str, Any], written: int, *, advises: bool = True) -> str:
    """Return which limit cut an answer off, as far as the counts tell.

    Args:
        asked: The ``num_predict`` that was asked for, if one was.
        fit: ``window`` and ``prompt_tokens``, in tokens, where they are known.
        written: How many tokens the answer has; 0 is not known.
        advises: Whether to say what sets another limit, too.
    """
    window, is_asked = fit.get("window"), isinstance(asked, int) and asked >= 0
    if is_asked and written == (asked or 1):  # one comes where none may
        return f"`options[num_predict={asked}]`"
    if window and ends_answer(window, fit.get("prompt_tokens", 0), written):
        what = f"the context window of {window} tokens"
        return f"{what}, which {LARGER_WINDOW}, may make larger" if advises else what
    if is_asked:
        return f"`options[num_predict={asked}]`, the context window, or the server's own"
    count = "1 token" if written == 1 else f"{written} tokens"
    own = f"the model's or the server's own{f' after {count}' if written else ''}"
    advice = "`options['num_predict']` sets another" if advises else ""
    if not (window and written and fit.get("prompt_tokens")):
        return f"{own}{f' ({advice})' if advice else ''}, or the context window"
    return f"{own}{f'; {advice}' if advice else ''}"


class Answer:
    """Collects the parts of one answer; ``TooLarge`` is raised beyond ``REPLY_LIMIT``.

    Thinking comes apart from the text (``think``), or within it, between ``<think>`` and
    ``</think>`` at its beginning; where it came apart first, marks in the text are text.

    Args:
        on_thinking: Told of the thinking; an exception of it goes through.

    Attributes:
        asks_for_tools: Whether the model has asked for tools, as who takes in its parts notes here.
    """

    def __init__(self, on_thinking: OnThinking | None = None) -> None:
        self._text = io.StringIO()
        self._thinking = io.StringIO()
        self._on_thinking = on_thinking
        self._splitter: ThinkSplitter | None = ThinkSplitter()
        self._said, self._thought = _Characters(), _Characters()
        self.asks_for_tools = False
        self._is_begun = False
        self._size = 0

    def think(self, text: str) -> None:
        """Take in a part of the thinking that came apart from the text."""
        if not self._is_begun:
            self._splitter = None
        self._grow(len(text))
        self._note(self._thought.take(text))

    def say(self, text: str) -> str:
        """Take in a part of the text and return what of the answer is certain now."""
        self._is_begun = True
        self._grow(len(text))
        return self._told(self._said.take(text))

    def _told(self, text: str) -> str:
        if self._splitter is not None:
            thinking, text = self._splitter.feed(text)
            self._note(thinking)
            if self._splitter.is_answering:
                self._splitter = None
        self._text.write(text)
        return text

    def end(self) -> str:
        """Return what was held back of the answer: no part follows."""
        self._note(self._thought.end())
        said = self._told(self._said.end())
        if self._splitter is None:
            return said
        thinking, text = self._splitter.end()
        self._note(thinking)
        self._text.write(text)
        return said + text

    @property
    def is_begun(self) -> bool:
        """Whether any of it has come, or of the thinking."""
        return self._size > 0

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


class _Characters:
    """Makes whole characters of the parts of a text, which JSON can cut into surrogates.

    The second half may come with the next part. A half that stays alone, which no file can hold, is
    U+FFFD.
    """

    def __init__(self) -> None:
        self._half = ""

    def take(self, text: str) -> str:
        """Return what of the text is certain now."""
        text, self._half = self._half + text, ""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            if "\ud800" <= text[-1] <= "\udbff":
                text, self._half = text[:-1], text[-1]
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def end(self) -> str:
        """Return what was held back: no part follows."""
        return "\ufffd" if self._half else ""


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
