"""Tools of packages: what the entry points of the group ``ore.tools`` name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from ore.errors import Terminated
from ore.files.neutral import one_line, said_by
from ore.tools import Permission, Tool

ENTRY_POINTS = "ore.tools"
_MOST_SHOWN = 300  # characters of what a package raises


def tools_of_packages(report: Callable[[str], None]) -> list[Tool]:
    """Return the tools of packages, in the order of ``sys.path``.

    Args:
        report: Told of each that can't be used, and why.
    """
    found = []
    for point in _entry_points(report):
        try:
            found.append(_of_package(point.load()))
        except (KeyboardInterrupt, Terminated):
            raise
        except BaseException as exc:  # a package is anyone's code; not even its exit ends ORE
            why = said_by(exc)[:_MOST_SHOWN].rstrip(".") or type(exc).__name__
            report(f"The tool '{one_line(point.name)}' of a package can't be used: {why}.")
    return found


def _entry_points(report: Callable[[str], None]) -> list[Any]:
    """Return the entry points of tools; a package whose list of them is damaged hides no other's."""
    metadata = import_module("importlib.metadata")
    with suppress(Exception):
        return list(metadata.entry_points(group=ENTRY_POINTS))
    found: list[Any] = []
    for package in metadata.distributions():
        try:
            found += package.entry_points.select(group=ENTRY_POINTS)
        except Exception as exc:  # of Python's, at what it did not expect
            where = one_line(str(getattr(package, "_path", package.locate_file(""))))
            why = said_by(exc)[:_MOST_SHOWN].rstrip(".")
            report(f"The entry points in {where} can't be read: {why}. Install that package anew.")
    return found


def _of_package(made: Any) -> Tool:
    """Return the tool that a package has, once all was asked for that is said of it.

    Raises:
        TypeError: It is none, or what it says of itself is not of the right kind.
    """
    tool = made() if isinstance(made, type) else made
    if not isinstance(tool, Tool):
        raise TypeError("it is no tool: it must be an ore.Tool")
    args, given = tool.required_args, tool.routing_hints()
    if isinstance(args, (str, Iterator)) or isinstance(given, str):  # a text is many of one letter
        raise TypeError("its required_args and its hints must be lists of texts")
    hints = tuple(given)
    if not all(isinstance(each, str) for each in (tool.name, tool.description, *args, *hints)):
        raise TypeError("its name, description, arguments and hints must be texts")
    if not str.isprintable(tool.name):  # whatever a class of its own says
        raise TypeError("its name has characters that can't be shown")
    needed: object = tool.required_permissions  # looked at again by the gate
    if isinstance(needed, Iterator) or not all(
        isinstance(each, Permission) for each in tool.required_permissions
    ):
        raise TypeError("its required_permissions must be a set of ore.Permission")
    # Who asks again may get another answer, or none; and the tool may be a frozen dataclass.
    object.__setattr__(tool, "routing_hints", lambda: hints)
    return tool
