"""The environment, as a whole, while other threads of a program may take variables out of it."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Return the variables as they are now; ``dict(os.environ)`` may fail on one that goes meanwhile."""
    found = ((name, os.environ.get(name)) for name in os.environ)
    return {name: value for name, value in found if value is not None}
