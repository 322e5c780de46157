"""Where a text holds one of the labels that ORE's own lines begin with, however it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ore.files.neutral import in_form

LABELS = ("[aya]:", "[answer]:", "you:", "[metadata]:", "[route]:", "[thinking]:", "ore:")
"""What ORE's own lines begin with, in lower case; a persona has a label of its own besides."""

_COLONS = (
    "\uff1a\ufe55\ufe13\u2a74"  # they become one in Unicode's NFKD
    "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u0903\u0a83\u16ec\u1803\u1809\u205a\u2236\ua4fd\ua789\ufe30"
)
_ALIKE = {
    "a": "\u0391\u03b1\u0410\u0430\u13aa\ua4ee",
    "d": "\u0500\u0501\u13a0\ua4d3",
    "e": "\u0395\u0415\u0435\u04bd\u13ac\ua4f0",
    "g": "\u050c\u0581\u13c0\ua4d6",
    "h": "\u0397\u041d\u04ba\u04bb\u0570\u13bb\ua4e7",
    "i": "\u0131\u0399\u03b9\u0406\u0456\u04c0\u04cf\u13a5\ua4f2",
    "k": "\u039a\u03ba\u041a\u043a\u13e6\ua4d7",
    "m": "\u039c\u041c\u043c\u13b7\ua4df",
    "n": "\u039d\u0578\u057c\ua4e0",
    "o": "\u039f\u03bf\u03c3\u041e\u043e\u0555\u0585\ua4f3",
    "r": "\u0433\u13a1\u13d2\ua4e3",
    "s": "\u0405\u0455\u054f\u13da\ua4e2",
    "t": "\u03a4\u03c4\u0422\u0442\u13a2\ua4d4",
    "u": "\u03c5\u0446\u054d\u057d\u1200\ua4f4",
    "w": "\u051c\u051d\u0561\u13b3\ua4ea",
    "y": "\u03a5\u03b3\u0423\u0443\u04ae\u04af\u13a9\ua4ec",
    ":": _COLONS,
}
"""Letters of other scripts that look like those of the labels (Unicode's UTS #39), by what they look
like."""
_AS_ASCII = {ord(other): letter for letter, others in _ALIKE.items() for other in others}


def may_hold_label(word: str) -> bool:
    """Whether it is worth looking for a label: there is a colon, or what looks like one."""
    return ":" in word or not word.isascii() and any(each in word for each in _COLONS)


def has_label(line: str, labels: Sequence[str]) -> bool:
    """Whether a label may stand in a line; ``labels`` are in ASCII: see ``ascii_of``."""
    seen = line.casefold() if line.isascii() else ascii_of(line) if may_hold_label(line) else ""
    return any(label in seen for label in labels)


def ascii_of(text: str) -> str:
    """Return what is ASCII in a text, and in what looks like it, in lower case, without spaces."""
    if not text.isascii():
        text = "".join(c for c in in_form("NFKD", text).translate(_AS_ASCII) if c.isascii())
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
