"""A regular expression and a text, for a process of its own: see ``ore.files.bounded``."""

from __future__ import annotations

import re
import warnings


def finds(text: str, pattern: str) -> bool:
    """Return whether a regular expression is found in a text.

    Raises:
        ValueError: It is no regular expression.
    """
    warnings.simplefilter("ignore")  # of what may mean something else in a Python to come
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError, OverflowError, MemoryError) as exc:
        raise ValueError(str(exc) or type(exc).__name__) from exc
