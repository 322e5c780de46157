"""Where a text holds one of the labels that ORE's own lines begin with, however it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import category, ucd_3_2_0

from ore.cli.terminal.bytewise import on_terminal
from ore.files.neutral import in_form

LABELS = ("[aya]:", "[answer]:", "you:", "[metadata]:", "[route]:", "[thinking]:", "ore:")
"""What ORE's own lines begin with, in lower case; a persona has a label of its own besides."""


def with_own(label: str) -> Sequence[str]:
    """Return ``LABELS`` and the answers' own, also as the terminal shows it, in either case."""
    own = (label, on_terminal(label), on_terminal(label.lower()))
    return (*LABELS, *dict.fromkeys(each.rstrip().lower() for each in own))


COLONS = (
    "\uff1a\ufe55\ufe13\u2a74"  # they become one in Unicode's NFKD
    "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u0903\u0a83\u1361\u1365\u1366\u16ec\u1803\u1804\u1809\u205a"
    "\u2236\u2982\ua4fd\ua6f4\ua789\ufe30\U00010781"
)
"""What looks like a colon."""
_ALIKE = {
    "a": "\u0251\u0391\u03b1\u0410\u0430\u13aa\u15c5\u1d00\u237a\ua4ee\U000102a0\U00016f40",
    "b": "\u0184\u0299\u0392\u0412\u042c\u13cf\u13f4\u1472\u15af\u15f7\ua4d0",
    "c": "\u0421\u0441\u13df\u1d04\u2ca4\u2ca5\ua4da",
    "d": "\u0500\u0501\u13a0\u13e7\u146f\u15de\u15ea\u1d05\ua4d2\ua4d3",
    "e": "\u0395\u0415\u0435\u04bd\u13ac\u1d07\u212e\u22ff\u2d39\ua4f0\uab32\U00010286"
    "\U000118a6\U000118ae",
    "f": "\u03dc\u0584\u15b4\u1e9d\ua4dd\ua730",
    "g": "\u018d\u0261\u0262\u050c\u0581\u13c0\u13f3\u1d83\ua4d6",
    "h": "\u029c\u0397\u041d\u04ba\u04bb\u0570\u13bb\u13c2\u157c\u2c8e\ua4e7\U000102cf",
    "i": "\u0131\u0196\u01c0\u0269\u026a\u029f\u0399\u03b9\u0406\u0456\u04c0\u04cf"
    "\u05c0\u05d5\u05df\u0627\u0661\u06f1\u07ca\u13a5\u13de\u14aa\u16c1\u2223\u2373\u23fd"
    "\u2c92\u2cd0\u2d4f\ua4e1\ua4f2\ua647\uab75\U0001028a\U00010309\U00010320"
    "\U000118c3\U00016f28",
    "j": "\u037f\u03f3\u0408\u0458\u13ab\u148d\u1d0a\ua4d9",
    "k": "\u039a\u03ba\u041a\u043a\u13e6\u16d5\u1d0b\u2c94\ua4d7\U00010518",
    "m": "\u039c\u03fa\u041c\u043c\u13b7\u15f0\u16d6\u1d0d\u2c98\ua4df\U000102b0\U00010311",
    "n": "\u0274\u039d\u0578\u057c\u2c9a\ua4e0\U00010513",
    "o": "\u039f\u03bf\u03c3\u041e\u043e\u0555\u0585\u05e1\u0647\u0665\u06be\u06c1\u06d5\u06f5"
    "\u07c0\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c66\u0ce6\u0d20\u0d66\u0e50\u0ed0"
    "\u101d\u1040\u10ff\u12d0\u1d0f\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\uab3d\U00010292"
    "\U000102ab\U00010404\U0001042c\U000104c2\U000104ea\U00010516\U000114d0\U000118b5"
    "\U000118c8\U000118d7\U000118e0",
    "p": "\u03a1\u03c1\u0420\u0440\u13e2\u146d\u1d18\u2374\u2ca2\u2ca3\ua4d1",
    "q": "\u051b\u0563\u0566\u2d55",
    "r": "\u01a6\u0280\u0433\u13a1\u13d2\u1587\u1d26\u2c85\ua4e3\uab47\uab48\uab81\U000104b4"
    "\U00016f35\U0001d216",
    "s": "\u01bd\u0405\u0455\u054f\u13d5\u13da\ua4e2\ua731\uabaa\U00010296\U00010420\U00010448"
    "\U000118c1\U00016f3a",
    "t": "\u03a4\u03c4\u0422\u0442\u13a2\u1d1b\u22a4\u27d9\u2ca6\ua4d4\U00010297\U000102b1"
    "\U00010315\U000118bc\U00016f0a\U0001f768",
    "u": "\u028b\u03c5\u0446\u054d\u057d\u1200\u144c\u1d1c\u222a\u22c3\ua4f4\ua79f\uab4e\uab52"
    "\U000104ce\U000104f6\U000118b8\U000118d8\U00016f42",
    "v": "\u03bd\u0474\u0475\u05d8\u0667\u06f7\u13d9\u142f\u1d20\u2228\u22c1\u2d38\ua4e6\ua6df",
    "w": "\u026f\u0461\u051c\u051d\u0561\u13b3\u13d4\u1d21\ua4ea\uab83\U0001170a\U0001170e"
    "\U0001170f\U000118e6\U000118ef",
    "x": "\u00d7\u03a7\u0425\u0445\u1541\u157d\u166d\u166e\u16b7\u2573\u292b\u292c\u2a2f\u2cac"
    "\u2d5d\ua4eb",
    "y": "\u0263\u028f\u03a5\u03b3\u0423\u0443\u04ae\u04af\u10e7\u13a9\u13bd\u1d8c\u1eff\u2ca8"
    "\ua4ec\uab5a\U000102b2\U000118a4\U000118dc\U00016f43",
    "z": "\u0396\u13c3\u1d22\ua4dc",
    ":": COLONS,
}
"""What looks like a letter: of other scripts (Unicode's UTS #39), and small capitals, by what it looks
like. What is young, and what is a mark, may be nothing, too.
"""
_AS_ASCII = {ord(other): letter for letter, others in _ALIKE.items() for other in others}

_BEFORE_NFKD = {"\u03f2": "c", "\u03f9": "C", "\ufe30": ":"}
"""What looks like a letter or a colon, and becomes sigmas, or two full stops, in NFKD."""

_LAST = "\uffff"
"""Some terminals show no letter beyond this one."""

_STRONG = (
    "[A-Za-z\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""ASCII letters, and those that are written from right to left."""


def turns(text: str, before: bool = False) -> bool:
    """Whether what follows a text may be shown to the left of it, as some terminals do.

    Args:
        before: Whether it is so for what follows the text's own beginning.
    """
    if text.isascii() and not before:
        return False
    strong = re.findall(_STRONG, text)
    return not strong[-1].isascii() if strong else before


def may_turn(text: str) -> bool:
    """Whether a text has letters that are written from right to left."""
    return not text.isascii() and not all(map(str.isascii, re.findall(_STRONG, text)))


def turned(labels: Sequence[str]) -> list[str]:
    """Return what looks like a label where lines are turned, up to a bracket, which may look either way."""
    found = list[str]()
    for label in labels:
        name = label.strip("[]:")
        found += [f":[{name}", f":]{name}"] if label.startswith("[") else [f":{name}"]
    return found


def may_hold_label(word: str) -> bool:
    """Whether it is worth looking for a label: there is a colon, or what looks like one."""
    return ":" in word or not word.isascii() and any(each in word for each in COLONS)


def has_label(line: str, labels: Sequence[str]) -> bool:
    """Whether a label may stand in a line; ``labels`` are in ASCII: see ``ascii_of``."""
    if not may_hold_label(line):
        return False
    if line.isascii():
        seen = _as_one(line.casefold())
        return any(label in seen for label in labels)
    seen = ascii_of(line)
    if not (labels := _possible(seen, labels)):
        return False
    if unsure := dict.fromkeys(map(ord, "".join(map(ascii_of, _droppable_in(line))))):
        seen, labels = seen.translate(unsure), [each.translate(unsure) for each in labels]
    return any(label in seen for label in labels)


def _possible(seen: str, labels: Sequence[str]) -> list[str]:
    """Return the labels of which each letter is seen."""
    letters = set(seen)
    return [label for label in labels if letters.issuperset(label)]


def is_young(character: str) -> bool:
    """Whether some terminals are too old to show a character, and drop it."""
    return ucd_3_2_0.category(character) == "Cn"


def _droppable_in(text: str) -> set[str]:
    """Return the letters of a text that some terminals do not know, or put over others, and so may drop."""
    others = () if text.isascii() else set(text)
    dropped = (c for c in others if is_young(c) or c > _LAST or category(c) in ("Mn", "Mc"))
    return {c for c in dropped if ascii_of(c)}


def ascii_of(text: str) -> str:
    """Return what is ASCII in a text, and in what looks like it, in one case, without spaces."""
    if not text.isascii():
        for other, seen in _BEFORE_NFKD.items():
            text = text.replace(other, seen)
        text = "".join(c for c in in_form("NFKD", text).translate(_AS_ASCII) if c.isascii())
    return _as_one("".join(text.split()).casefold())


def _as_one(text: str) -> str:
    """Return a text with one letter in the place of those, and of the digits, that look alike."""
    return text.replace("l", "i").replace("1", "i").replace("|", "i").replace("0", "o")


def in_either_case(labels: Sequence[str]) -> list[str]:
    """Return labels as they are looked for: their ASCII, which other letters have in capitals."""
    forms = (form for label in labels for form in (label, label.upper()))
    return list(dict.fromkeys(map(ascii_of, forms)))


def labels_in(word: str, labels: Sequence[str]) -> list[int]:
    """Return where labels begin in a word; what is not ASCII between their letters may be nothing."""
    if word.isascii():
        seen = ascii_of(word)
        return sorted(at for label in labels for at in _all(seen, label))
    parts = [(letter, place) for place, c in enumerate(word) for letter in ascii_of(c)]
    seen = "".join(letter for letter, _ in parts)
    if not (labels := _possible(seen, labels)):
        return []
    droppable = _droppable_in(word)
    dropped = [word[place] in droppable for _, place in parts] if droppable else []
    starts = (_among(seen, dropped, each) if droppable else _all(seen, each) for each in labels)
    return sorted({parts[at][1] for each in starts for at in each})


def label_begun(word: list[str], labels: Sequence[str]) -> int:
    """Return how many characters at the end of a word are the beginning of a label."""
    last = "".join(word[-max(map(len, labels)) :])
    if not last.isascii():  # a letter of a word may be two in lower case
        return 0
    end = _as_one(last.casefold())
    lengths = (
        n for label in labels for n in range(len(label) - 1, 0, -1) if end.endswith(label[:n])
    )
    return max(lengths, default=0)


def _among(text: str, dropped: Sequence[bool], part: str) -> Iterator[int]:
    """Yield where a part begins in a text of which each letter that may be dropped is one, or nothing."""
    end = left = 1 << len(part)  # a bit for each letter of the part, from which it may go on here
    of = {letter: sum(1 << at for at, each in enumerate(part) if each == letter) for letter in part}
    for at in range(len(text) - 1, -1, -1):
        goes_on = of.get(text[at], 0) & left >> 1
        if goes_on & 1:
            yield at
        left = goes_on | end | (left if dropped[at] else 0)


def _all(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while part and at >= 0:
        yield at
        at = text.find(part, at + 1)
