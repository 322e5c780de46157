"""What a terminal can show besides text, and the few colours that ORE's own words have.

An answer is never coloured: that is how a person tells ORE's words from a model's. Knows nothing
about streams.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

LABEL = "1;36"
PROMPT = "1;32"
ERROR = "1;31"
QUIET = "2"


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
    if os.name == "nt" and "TERM" not in environ:  # pragma: no cover  # not tested: Windows only
        return "WT_SESSION" in environ
    return environ.get("TERM", "dumb") != "dumb"


def paint(text: str, style: str) -> str:
    """Return ``text`` in a style of this module, and the plain style after it."""
    return f"\x1b[{style}m{text}\x1b[0m" if text else ""
