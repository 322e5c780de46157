"""What an object still holds: every text that can be reached from it."""

from __future__ import annotations

import gc


def texts_held_by(root: object) -> set[str]:
    """Every text that can be reached from an object, but for modules and classes."""
    found, seen, waiting = set(), set(), [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, type(gc))):
            continue
        seen.add(id(each))
        if isinstance(each, str):
            found.add(each)
        elif not callable(each) or each is root:
            waiting.extend(gc.get_referents(each))
    return found
