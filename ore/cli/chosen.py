"""The backend of a recorded run: chosen for its model, and for the rest as the flags say."""

from __future__ import annotations

from collections.abc import Callable

from ore.backends import Backend
from ore.backends.choice import Choice
from ore.cli.options import Options


def wanted_of(options: Options) -> Choice:
    """Return what the flags say of the backend and the model."""
    return Choice(backend=options.backend, model=options.model, host=options.host)


def connector(options: Options, connect: Callable[..., Backend]) -> Callable[[Choice], Backend]:
    """Return what opens a backend that was chosen.

    Args:
        connect: What makes a backend of options.
    """

    def opened(chosen: Choice) -> Backend:
        named = options.replace(model=chosen.model, backend=chosen.backend)
        return connect(named, is_name=chosen.is_name)

    return opened
