"""What goes wrong after something has ended a run is said as well."""

from __future__ import annotations

from ore.errors import OreError


def add_later(ended: BaseException, error: OreError) -> None:
    """Have what has ended a run, which decides the exit code, tell of a later ``error`` too.

    An error's sentence says both; a stop, as Ctrl-C, has the later one as its cause.
    """
    if isinstance(ended, OreError):
        ended.args = (f"{ended} {error}",)
    elif isinstance(ended.__cause__, OreError):
        add_later(ended.__cause__, error)
    else:
        ended.__cause__ = error
