"""What a misspelt name was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 100
"""Characters: what is longer is most like no name that we have, and to compare it takes long."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that begins like a name, or else is most like it; None if none is."""
    from difflib import get_close_matches

    known, name = list(known), name.lower()
    near = [each for each in known if name and each.startswith(name)]
    if len(name) <= _LONGEST:
        near += get_close_matches(name, known, n=1, cutoff=0.6)
    return near[0] if near else None
