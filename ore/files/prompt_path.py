"""Finding the path that a prompt names, by rule.

Only the text is looked at. Knows nothing about files: whether the path exists, or may be read, is
another's to find out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEYWORDS = frozenset({"read", "show", "cat", "open", "file"})
_MAX_QUOTED = 1000  # characters between quotes; more is no path but a citation

# Quotes that stand around a text; the apostrophe of "don't" does not.
_QUOTED = re.compile(
    r"(?<!\w)(?:"
    + "|".join(
        rf"{opening}[^{opening}{closing}\n]{{1,{_MAX_QUOTED}}}{closing}"
        for opening, closing in ('""', "''", "``", "“”", "‘’", "«»")
    )
    + r")(?!\w)"
)
_AROUND = "\"'`“”‘’«»()[]{}<>,;:!?…"
_EXTENSION = re.compile(r"[^.]\.(?=\d*[^\W\d_])\w{1,10}$|^\.[^\W\d]")
_HOME = re.compile(r"^~\w*$")
_NO_PATHS = frozenset({"e.g", "i.e", "and/or"})


def find_path(prompt: str) -> str | None:
    """Return the path that ``prompt`` names, or None.

    A quoted text that looks like a path wins, then the first word after read, show, cat, open or
    file that does, then a quoted text right after one of those. A slash, an extension or a leading
    ``~`` is what a path looks like; a web address is none.
    """
    quoted = [(found.start(), found[0][1:-1]) for found in _QUOTED.finditer(prompt)]
    for _, text in quoted:
        if looks_like_path(text):
            return text
    words = _words_after_keyword(prompt)
    for word in words:
        if looks_like_path(word):
            return word
    for start, text in quoted:
        before = prompt[max(0, start - 20) : start].split()
        if before and before[-1].casefold() in _KEYWORDS:
            return text
    return None


def looks_like_path(text: str) -> bool:
    """Return whether a text has a slash, an extension or a leading ``~``, and is no web address."""
    if "://" in text or not text.strip("/.\\ ") or text.casefold() in _NO_PATHS:
        return False
    return "/" in text or bool(_EXTENSION.search(text) or _HOME.search(text))


def _words_after_keyword(prompt: str) -> Iterator[str]:
    reached = False
    for found in re.finditer(r"\S+", prompt):
        word = found[0].lstrip(_AROUND).rstrip(_AROUND + ".")
        if reached:
            yield word
        reached = reached or word.casefold() in _KEYWORDS
