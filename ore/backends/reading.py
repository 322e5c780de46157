"""What a model reads of a turn, as far as it is known before the answer: its text and its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, islice
from typing import Any

from ore.backends.window import Estimate

TEMPLATE = None
"""The message of a part that belongs to no message: the template, or the tokenizer, put it there."""
_TELLING = 12
"""Characters of a text that a template hardly has by chance."""
_MOST_MISSED = 100
"""How many texts that are not there are looked for, each in the whole prompt."""
_LONGEST_TOKEN = 4096  # bytes: what a server lists of thousands is kept
_SWITCHES = {"/think", "/no_think", "/system_override"}
"""Words that steer a chat template, as to thinking: one that knows them takes them out of a text."""
_SALTED, _MARK = re.compile(r"\[(0+):"), re.compile(r"\[0+:[0-9]+\]")


@dataclass(frozen=True)
class Part:
    """A stretch of what the model reads.

    Attributes:
        message: Which message it is of, counted from 0, or ``TEMPLATE``.
        text: The text.
        tokens: How many tokens begin in it; None is not known.
    """

    message: int | None
    text: str
    tokens: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a model reads of a turn.

    Attributes:
        size: How many tokens it has: three times the same number where they were counted.
        parts: What it is made of, in order; without ``rendered`` one part for each message.
        window: The context window in tokens; None is not known.
        limit: The most tokens that the answer may have; None is what the window has left.
        rendered: The text after the chat template, or None.
        why: Why there is no rendered text, or no count, as a sentence.
        groups: Which messages were joined, by their numbers from 0; None where none was. A part's
            message is then a group's number.
        notes: What is to be known of the way from the messages to the text, in sentences.
        about: What the server says of the model's template and parameters.
    """

    size: Estimate
    parts: tuple[Part, ...]
    window: int | None = None
    limit: int | None = None
    rendered: str | None = None
    why: str | None = None
    groups: list[list[int]] | None = None
    notes: tuple[str, ...] = ()
    about: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def fits(self) -> bool | None:
        """Whether it fits the window with room for an answer; None is not known."""
        if self.window is None or self.size.least < self.window <= self.size.most:
            return None
        return self.size.most < self.window

    @property
    def left(self) -> int | None:
        """How many tokens of the window the answer has, at least; None is not known."""
        return None if self.window is None else max(self.window - self.size.most, 0)


def parts_of(
    texts: Sequence[str], render: Callable[[Sequence[str]], str], refusal: type[Exception]
) -> list[Part]:
    """Return the parts of the prompt that ``render`` makes of messages with these texts.

    ``refusal`` is what it raises where it does not take the texts; for these it is passed on.
    """
    rendered = render(texts)
    salt = _salt_beside([*texts, rendered])
    marks = [f"[{salt}:{number}]" for number in range(len(texts))]
    try:
        marked = render(marks)
    except refusal:  # it wants other texts than these
        marked = ""
    return found_in(rendered, texts, marked, marks)


def found_in(rendered: str, texts: Sequence[str], marked: str, marks: Sequence[str]) -> list[Part]:
    """Return the parts of a rendered prompt; a message that is in none of them did not arrive.

    A template may take the white space around a text away. Where the same messages with other
    texts, ``marks``, are rendered, what is not a mark is the template's; one that looks at the texts
    may not keep to it, and then they are looked for one after the other.
    """
    order, between = _split_at(marks, marked)
    parts, end = [Part(TEMPLATE, between[0])], len(between[0])
    if rendered.startswith(between[0]):
        for number, after in zip(order, between[1:], strict=True):
            for text in _trimmed(texts[number]):
                if rendered.startswith(text + after, end):
                    break
            else:
                return _one_after_the_other(rendered, texts, order)
            parts += [Part(number, text), Part(TEMPLATE, after)]
            end += len(text + after)
        if end == len(rendered):
            return [part for part in parts if part.text]
    return _one_after_the_other(rendered, texts, order)


def _salt_beside(texts: Iterable[str]) -> str:
    """Return as few zeros as will do for marks that none of the texts has."""
    taken = {len(zeros) for text in texts for zeros in _SALTED.findall(text)}
    return "0" * next(number for number in count(1) if number not in taken)


def _split_at(marks: Sequence[str], marked: str) -> tuple[list[int], list[str]]:
    """Return the numbers of the marks in a text, in their order, and what stands around them."""
    known = {mark: number for number, mark in enumerate(marks)}
    order, between, end = list[int](), list[str](), 0
    for found in _MARK.finditer(marked):
        if (number := known.get(found[0])) is not None:
            order.append(number)
            between.append(marked[end : found.start()])
            end = found.end()
    return order, [*between, marked[end:]]


def _trimmed(text: str) -> Iterable[str]:
    return text, text.strip(), text.rstrip(), text.lstrip()


def _one_after_the_other(rendered: str, texts: Sequence[str], order: Iterable[int]) -> list[Part]:
    """Return the parts where the texts are, whatever white space is between their words.

    A short one that may be the template's is not one. Where many are not there, the rest is not
    looked for.
    """
    squeezed = " " * rendered[:1].isspace() + " ".join(rendered.split())
    stretches, marked = re.finditer(r"\s+", rendered), set(order)
    parts, end, at, longer, missed = list[Part](), 0, 0, 0, 0
    for number, text in enumerate(texts):
        words = " ".join(text.split())
        if not words or (number not in marked and len(text.strip()) < _TELLING):
            continue
        if (begin := squeezed.find(words, at)) < 0 and _SWITCHES & set(words.split()):
            words = " ".join(_without_switches(text))
            begin = squeezed.find(words, at) if words else -1
        if begin < 0:
            missed += 1
            if missed == _MOST_MISSED:
                break
            continue
        for stretch in islice(stretches, squeezed.count(" ", at, begin)):
            longer += stretch.end() - stretch.start() - 1
        first, at = begin + longer, begin + len(words)
        for stretch in islice(stretches, words.count(" ")):
            longer += stretch.end() - stretch.start() - 1
        parts += [Part(TEMPLATE, rendered[end:first]), Part(number, rendered[first : at + longer])]
        end = at + longer
    return [part for part in [*parts, Part(TEMPLATE, rendered[end:])] if part.text]


def missing_from(parts: Iterable[Part], texts: Sequence[str]) -> list[int]:
    """Return which messages did not arrive; one without text has nothing that could be missing."""
    there = {part.message for part in parts}
    lost = ((number, text) for number, text in enumerate(texts) if number not in there)
    return [number for number, text in lost if _without_switches(text)]


def _without_switches(text: str) -> list[str]:
    """Return the words of a text but for those that only steer the chat template."""
    return [word for word in text.split() if word not in _SWITCHES]


def counted(parts: Sequence[Part], pieces: Sequence[bytes]) -> tuple[Part, ...]:
    """Return the parts with their tokens; ``pieces`` are the texts of all tokens, in order.

    A token belongs to the part that it begins in. A tokenizer may put a mark in front, and a blank
    before a word: a mark of its own is a part of its own. Where the tokens are not those of the text,
    which a tokenizer that changes letters does, no part has a number.
    """
    whole = "".join(part.text for part in parts).encode()
    ends = list(accumulate(len(part.text.encode()) for part in parts))
    counts, at, number, before = [0] * len(parts), 0, 0, b""
    for piece in pieces:
        while number < len(parts) - 1 and at >= ends[number]:
            number += 1
        size = _length_of(piece, whole, at)
        if size is None and at == 0 and not before:
            before = piece
            continue
        if size is None:
            return tuple(parts)
        counts[number] += 1
        at += size
    if at != len(whole):
        return tuple(parts)
    first = [Part(TEMPLATE, before.decode("utf-8", "replace"), 1)] if before else []
    return (*first, *(Part(p.message, p.text, n) for p, n in zip(parts, counts, strict=True)))


def pieces_of(tokens: Iterable[dict[str, Any]]) -> list[bytes]:
    """Return the text of each token that llama.cpp's server lists: a text, or the bytes of none."""
    pieces = (token["piece"] for token in tokens)
    return [each.encode() if isinstance(each, str) else as_bytes(each) for each in pieces]


def as_bytes(numbers: Any) -> bytes:
    """Return the bytes of a list of numbers; ``TypeError`` or ``ValueError`` for anything else."""
    if not isinstance(numbers, list):
        raise TypeError("a token is not a list of bytes")
    if len(numbers) > _LONGEST_TOKEN:
        raise ValueError(f"a token has more than {_LONGEST_TOKEN:,} bytes")
    return bytes(numbers)


def _length_of(piece: bytes, whole: bytes, at: int) -> int | None:
    """Return how many bytes of the text a token is, None where it is none of it."""
    for text in (piece, piece.removeprefix(b" ")):
        if whole.startswith(text, at):
            return len(text)
    return None
