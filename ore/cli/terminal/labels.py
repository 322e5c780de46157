"""Where a text holds one of the labels that ORE's own lines begin with, however it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import normalize

LABELS = ("[aya]:", "[answer]:", "you:", "[metadata]:", "[route]:", "[thinking]:", "ore:")
"""What ORE's own lines begin with, in lower case; a persona has a label of its own besides."""

_COLONS = "\uff1a\ufe55\ufe13\u2a74"
"""What becomes a colon in Unicode's NFKC."""


def may_hold_label(word: str) -> bool:
    """Whether it is worth looking for a label: there is a colon."""
    return ":" in word or not word.isascii() and any(each in word for each in _COLONS)


def ascii_of(text: str) -> str:
    """Return what is ASCII in a text, and in what looks like it, in lower case, without spaces."""
    if not text.isascii():
        text = "".join(c for c in normalize("NFKC", text) if c.isascii())
    return "".join(text.split()).casefold()


def labels_in(word: str, labels: Sequence[str]) -> list[int]:
    """Return where labels begin in a word; what is not ASCII between their letters may be nothing."""
    if word.isascii():
        seen = word.casefold()
        return sorted(at for label in labels for at in _all(seen, label))
    parts = [(letter, place) for place, c in enumerate(word) for letter in ascii_of(c)]
    seen = "".join(letter for letter, _ in parts)
    return sorted(parts[at][1] for label in labels for at in _all(seen, label))


def label_begun(word: list[str], labels: Sequence[str]) -> int:
    """Return how many characters at the end of a word are the beginning of a label."""
    end = "".join(word[-max(map(len, labels)) :]).casefold()
    lengths = (
        n for label in labels for n in range(len(label) - 1, 0, -1) if end.endswith(label[:n])
    )
    return max(lengths, default=0) if end.isascii() else 0


def _all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while part and at >= 0:
        yield at
        at = text.find(part, at + 1)
