"""Tools of packages: what the entry points of the group ``ore.tools`` name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any

from ore.errors import Terminated
from ore.files.in_time import in_time
from ore.files.neutral import SHOWS_NOTHING, one_line, said_by
from ore.tools import Permission, Tool
from ore.types import ToolResult

ENTRY_POINTS = "ore.tools"
_MOST_SHOWN = 300  # characters of what a package raises
_LONGEST_NAME = 64  # characters, as of a folder's tool
_MOST_GIVEN = 10_000  # hints, arguments or permissions of a tool
_SPARE_SECONDS = 1.0  # that a tool has to end its work, once its time is over


def tools_of_packages(report: Callable[[str], None]) -> list[Tool]:
    """Return the tools of packages, in the order of ``sys.path``.

    Args:
        report: Called for each that can't be used, with the reason.
    """
    found: list[Tool] = []
    for point in _entry_points(report):
        try:
            made = point.load()
            found.append(PackageTool(made() if isinstance(made, type) else made))
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
            report(f"The entry points in {where} can't be read: {why}. Reinstall that package.")
    return found


class PackageTool(Tool):
    """A tool that a package has, with what it says of itself as it was when it was asked, once.

    Asked again, it may give another answer, or none: what was judged is what runs.

    Args:
        made: What the package has.

    Raises:
        TypeError: It is no tool, or what it says of itself is not of the right kind.
    """

    def __init__(self, made: Tool) -> None:
        if not isinstance(made, Tool):
            raise TypeError("it is not a tool: it must be an ore.Tool")
        self.made: Tool = made
        self.name: str = _text(made.name)
        self.description: str = _text(made.description)
        self.required_args: tuple[str, ...] = _texts(made.required_args)
        self._hints = _texts(made.routing_hints(), again=False)
        if not self.name.isprintable():
            raise TypeError("its name has characters that can't be shown")
        if not self.name.strip() or len(self.name) > _LONGEST_NAME:
            raise TypeError(f"its name must have 1 to {_LONGEST_NAME} characters")
        self.required_permissions: frozenset[Permission] = _permissions(made.required_permissions)

    def run(self, args: dict[str, str]) -> ToolResult:
        """Have the package's tool do its work."""
        return self.made.run(args)

    def run_within(self, args: dict[str, str], seconds: float) -> ToolResult:
        """Have it done in ``seconds``; that is not left to the package, which may end it early."""
        return in_time(seconds + _SPARE_SECONDS, lambda: self.made.run_within(args, seconds))

    def routing_hints(self) -> tuple[str, ...]:
        """Return the words that it gave."""
        return self._hints

    def extract_args(self, prompt: str) -> dict[str, str]:
        """Return the arguments that it finds."""
        return self.made.extract_args(prompt)


def seen_as(name: str) -> str:
    """Return what is the same for names that look alike: case, forms of letters and dashes aside."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    folded = re.sub(SHOWS_NOTHING, "", folded)
    letters = (each for each in folded if unicodedata.category(each)[0] not in "CPZ")
    return "".join(letters) or name


def _text(given: object) -> str:
    """Return what a text holds, whatever a class of its own says."""
    if not isinstance(given, str):
        raise TypeError("its name, description, arguments and hints must be texts")
    return str.__str__(given)


def _texts(given: object, *, again: bool = True) -> tuple[str, ...]:
    """Return the texts of a list; an iterator is not one, unless ``again`` is false."""
    is_gone = again and isinstance(given, Iterator)
    is_letters = isinstance(given, str)
    if is_letters or is_gone or not isinstance(given, Iterable):
        raise TypeError("its required_args and its hints must be lists of texts")
    return tuple(map(_text, _bounded(given)))


def _permissions(given: object) -> frozenset[Permission]:
    if isinstance(given, Iterable) and not isinstance(given, Iterator):
        found = frozenset(_bounded(given))
        if all(type(each) is Permission for each in found):
            return found
    raise TypeError("its required_permissions must be a set of ore.Permission")


def _bounded(given: Iterable[Any]) -> list[Any]:
    """Return all that is given, which may be without an end."""
    found = list(islice(given, _MOST_GIVEN + 1))
    if len(found) > _MOST_GIVEN:
        raise TypeError(
            f"its hints, arguments and permissions must be at most {_MOST_GIVEN:,} each"
        )
    return found
