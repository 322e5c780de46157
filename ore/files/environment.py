"""The environment, as a whole, while other threads of a program may take variables out of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")

_MOST_TRIES = 100


def environment() -> dict[str, str]:
    """Return the variables as they are now; ``dict(os.environ)`` may fail on one that goes meanwhile."""
    found = ((name, os.environ.get(name)) for name in os.environ)
    return {name: value for name, value in found if value is not None}


def looking_through(call: Callable[Given, Found]) -> Callable[Given, Found]:
    """Return ``call``, which looks through the environment: again where a variable goes meanwhile."""

    @wraps(call)
    def again(*args: Given.args, **more: Given.kwargs) -> Found:
        for _ in range(_MOST_TRIES):
            with suppress(KeyError):
                return call(*args, **more)
        return call(*args, **more)

    return again
