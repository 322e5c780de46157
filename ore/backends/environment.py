"""Hiding variables of the environment from a package for the moment of a call.

Knows nothing about the packages, or which variables they read.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()


@contextmanager
def environment_without(names: re.Pattern[str], **instead: str) -> Iterator[None]:
    """Take the variables that match ``names`` out of the environment, and put them back after."""
    with _lock:
        hidden = {name: os.environ[name] for name in list(os.environ) if names.fullmatch(name)}
        try:
            for name in hidden:
                del os.environ[name]
            os.environ.update(instead)
            yield
        finally:
            for name in instead:
                os.environ.pop(name, None)
            os.environ.update(hidden)
