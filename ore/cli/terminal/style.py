"""What a terminal can show besides text, and the few colours that ORE's own words have.

An answer is never coloured: that is how a person tells ORE's words from a model's.
"""

from __future__ import annotations

from collections.abc import Mapping

DIM = "2"
COLOURS = {"[AYA]:": "1;36", "You:": "1;32", "...": "1;32", "ore:": "1;31"}
"""Of the labels that are not dim."""


def allows_colour(is_terminal: bool, environ: Mapping[str, str]) -> bool:
    """Return whether a stream may be coloured: a terminal that understands it, and no wish not to.

    ``NO_COLOR`` wins over ``FORCE_COLOR``, which wins over what ``TERM`` says; a pipe or a file is
    never coloured.
    """
    if not is_terminal or environ.get("NO_COLOR"):
        return False
    return environ.get("FORCE_COLOR") not in (None, "", "0") or obeys(environ)


def obeys(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal obeys sequences, as far as the environment says what it is."""
    return environ.get("TERM", "dumb") != "dumb"


def paint(text: str, style: str) -> str:
    """Return ``text`` in a style of this module, and the plain style after it."""
    return f"\x1b[{style}m{text}\x1b[0m" if text else ""


def paint_label(label: str) -> str:
    """Return a label of ORE's in its colour; the space after it stays plain."""
    words = label.rstrip()
    return paint(words, COLOURS.get(words, DIM)) + label[len(words) :]
