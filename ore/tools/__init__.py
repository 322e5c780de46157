"""Tools: what a turn can be given besides its prompt, each with the permissions that it needs.

A tool gets text arguments and returns one result.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path

from ore.errors import FileAccessError, UnknownToolError, UsageError
from ore.files import decode_text, read_confined
from ore.files.in_time import in_time
from ore.files.reached import why_unknown
from ore.types import ToolResult

MAX_FILE_BYTES = 1 << 20
"""The most bytes of a file that ``read-file`` reads: 1 MiB."""

_MAX_PATH = 4096  # characters; Linux opens no longer path
_SHOWN = 200  # characters of a text from outside that a sentence repeats

_MOST_NAMED = 20  # tools in one error
_MOST_LOOKED_AT = 1 << 20  # characters of a prompt in which a path is looked for

_KEYWORDS = frozenset({"read", "show", "cat", "open", "file"})
_MAX_QUOTED = 1000  # characters between quotes; more is a citation, not a path

# Quotes that stand around a text; the apostrophe of "don't" does not.
_QUOTED = re.compile(
    r"(?<!\w)(?:"
    + "|".join(
        rf"{opening}[^{opening}{closing}\n]{{1,{_MAX_QUOTED}}}{closing}"
        for opening, closing in ('""', "''", "``", "“”", "‘’", "«»")
    )
    + r")(?!\w)"
)
_AROUND = "\"'`“”‘’«»()[]{}<>,;:!?…"
_EXTENSION = re.compile(r"[^.]\.(?=\d*[^\W\d_])\w{1,10}$|^\.[^\W\d]")
_HOME = re.compile(r"^~\w*$")
_NO_PATHS = frozenset({"e.g", "i.e", "and/or"})


class Permission(Enum):
    """What a tool may be allowed to do; there are exactly these four."""

    FILESYSTEM_READ = "filesystem-read"
    FILESYSTEM_WRITE = "filesystem-write"
    SHELL = "shell"
    NETWORK = "network"


def parse_permission(text: str) -> Permission:
    """Return the permission that is called ``text``.

    Raises:
        UsageError: There is none; the message names the four.
    """
    try:
        return Permission(text)
    except ValueError:
        names = ", ".join(permission.value for permission in Permission)
        shown = text[:_SHOWN].replace("`", "'")  # a plan may name it: no advice of ours
        raise UsageError(
            f"There is no permission {shown!r} to grant: use one of {names}."
        ) from None


class Tool(ABC):
    """What every tool is; a tool runs through a gate only, which checks its permissions first.

    Attributes:
        name: What it is called on the command line and in a route.
        description: One line for people.
        required_permissions: All of them must be granted. There is no default: a tool that
            forgets to say what it needs can't run.
        required_args: The arguments without which it can't run.
    """

    name: str
    description: str
    required_permissions: frozenset[Permission]
    required_args: tuple[str, ...] = ()

    @abstractmethod
    def run(self, args: dict[str, str]) -> ToolResult:
        """Do the work that ``args`` ask for; a failure is a result of status ``"error"``."""

    def run_within(self, args: dict[str, str], seconds: float) -> ToolResult:
        """Do what ``args`` ask for in ``seconds``; a tool that can end its work early does so here.

        Raises:
            OutOfTime: It is not done. It goes on by itself, unless it was ended, and nobody waits.
        """
        return in_time(seconds, lambda: self.run(args))

    def routing_hints(self) -> tuple[str, ...]:
        """Return the words that a prompt for this tool has; none means it is never routed to."""
        return ()

    def extract_args(self, prompt: str) -> dict[str, str]:
        """Return the arguments that a routed ``prompt`` holds; a missing one is left out."""
        return {}


class EchoTool(Tool):
    """Gives its arguments back: a way to see what a tool's message looks like."""

    name = "echo"
    description = "Give the arguments back, one key=value a line."
    required_permissions: frozenset[Permission] = frozenset()

    def run(self, args: dict[str, str]) -> ToolResult:
        """Return the arguments sorted by key."""
        lines = [f"{key}={value}" for key, value in sorted(args.items())]
        return ToolResult(self.name, "\n".join(lines) or "(no arguments)", "ok")

    def routing_hints(self) -> tuple[str, ...]:
        """Return the phrases that ask for an echo."""
        return ("echo", "echo back", "repeat this line", "repeat after me")

    def extract_args(self, prompt: str) -> dict[str, str]:
        """Return the whole prompt as ``msg``."""
        return {"msg": prompt}


class ReadFileTool(Tool):
    """Reads one text file of the current folder, or of the folder that ``root`` names.

    No symbolic link is followed below that folder, and only the opened file is judged, so nothing
    that changes meanwhile leads elsewhere. A hard link can't be told from the file itself.
    """

    name = "read-file"
    description = "Read a text file in the current folder, or in root=DIR: path=PATH."
    required_permissions: frozenset[Permission] = frozenset({Permission.FILESYSTEM_READ})
    required_args: tuple[str, ...] = ("path",)

    def run(self, args: dict[str, str]) -> ToolResult:
        """Return the text of the file ``path``: UTF-8, at most 1 MiB.

        A relative path starts at the current folder or, where that leads out of ``root`` or to
        nothing, at ``root``. ``~`` is the home folder in both. The metadata's ``path`` is the file
        that was read.
        """
        try:
            text, source = _read_text(args)
        except FileAccessError as exc:
            return ToolResult(self.name, str(exc), "error")
        return ToolResult(self.name, text, "ok", metadata={"path": source})

    def routing_hints(self) -> tuple[str, ...]:
        """Return the phrases that ask for a file."""
        return (
            "read the file",
            "read file",
            "show the file",
            "show file",
            "open the file",
            "open file",
            "cat",
        )

    def extract_args(self, prompt: str) -> dict[str, str]:
        """Return the ``path`` that the prompt names, if it names one."""
        path = find_path(prompt)
        return {} if path is None else {"path": path}


def _read_text(args: dict[str, str]) -> tuple[str, str]:
    """Return the text of a file and the path that it was read from."""
    unknown = sorted(set(args) - {"path", "root"})
    if unknown:
        shown = repr(unknown[0][:_SHOWN])
        raise FileAccessError(f"read-file has no argument {shown}: it takes path, root.")
    path, root = args.get("path", ""), args.get("root")
    if not path.strip():
        raise FileAccessError("read-file needs `args['path']`.")
    folder, where = os.curdir, "the current folder"
    if root is not None:
        folder, where = os.path.expanduser(root), f"the folder {root[:_SHOWN]!r}"
        if why := why_unknown(folder):
            raise FileAccessError(f"The folder {root[:_SHOWN]!r} can't be read: {why}.")
        if not os.path.isdir(folder):
            raise FileAccessError(f"There is no folder {root[:_SHOWN]!r} for root=DIR: check it.")
    shown = repr(path[:_SHOWN])
    if "\0" in path or len(path) > _MAX_PATH:
        raise FileAccessError(f"{shown} can't be read: no file can have that name.")
    found = _paths_below(folder, os.path.expanduser(path))
    if not found:
        raise FileAccessError(
            f"{shown} leads out of {where}: name the folder to read in with `args['root']`."
        )
    for relative in found:
        try:
            data = _read_below(folder, relative, shown)
        except FileNotFoundError:
            continue
        source = str(Path(folder, relative))
        return decode_text(data, shown, source), source
    raise FileAccessError(f"There is no file {shown} in {where}: check the path.")


def _paths_below(folder: str, path: str) -> list[str]:
    """Return what ``path`` may be below ``folder``, without ``..``: names that were not opened yet."""
    found = (_path_below(folder, os.path.join(start, path)) for start in (os.curdir, folder))
    return list(dict.fromkeys(relative for relative in found if relative is not None))


def _path_below(folder: str, path: str) -> str | None:
    path = os.path.normpath(path)
    if folder == os.curdir and not os.path.isabs(path) and os.pardir not in Path(path).parts:
        return path
    try:
        path = os.path.abspath(path)
    except OSError:  # the current folder has been removed
        return None
    # The topmost first: a link further down that leads back to the folder is still a link.
    for parent in (*map(str, reversed(Path(path).parents)), path):
        if _is_same(parent, folder):
            return os.path.relpath(path, parent)
    return None


def _read_below(folder: str, relative: str, shown: str) -> bytes:
    if relative == os.curdir:
        raise FileAccessError(f"{shown} is a folder: name a text file in it.")
    try:
        return read_confined(folder, relative, MAX_FILE_BYTES)
    except PermissionError as exc:
        raise FileAccessError(
            f"{shown} leads through a symbolic link: name the file that it leads to, with "
            f"`args['root']` if that is elsewhere."
        ) from exc
    except FileAccessError as exc:
        why = str(exc).rstrip(".")
        raise FileAccessError(f"{why}; name another text file, of at most 1 MiB.") from exc


def _is_same(path: str, folder: str) -> bool:
    try:
        return os.path.samefile(path, folder)
    except (OSError, ValueError):
        return False


TOOL_REGISTRY: dict[str, Tool] = {tool.name: tool for tool in (EchoTool(), ReadFileTool())}
"""The tools that come with ORE, by name; a program may add its own."""


def all_tools(report: Callable[[str], None] | None = None) -> dict[str, Tool]:
    """Return the tools that come with ORE and the user's own, by name; ORE's names are taken.

    Args:
        report: Called for each of the user's tools that can't be used, with the reason.
    """
    own: dict[str, Tool] = import_module("ore.tools.own").own_tools(report or (lambda told: None))
    return {**own, **TOOL_REGISTRY}


def find_tool(name: str, report: Callable[[str], None] | None = None) -> Tool:
    """Return the tool that is called ``name``; only for one that is not ORE's are files read.

    Args:
        name: Its name.
        report: Called for each of the user's tools that can't be used, with the reason.

    Raises:
        UnknownToolError: There is none; the message names those there are.
    """
    tools = TOOL_REGISTRY if name in TOOL_REGISTRY else all_tools(report)
    if name not in tools:
        names = ", ".join(sorted(tools)[:_MOST_NAMED]) + ", \u2026" * (len(tools) > _MOST_NAMED)
        raise UnknownToolError(f"There is no tool {name[:_SHOWN]!r}; there are: {names}.", name)
    return tools[name]


def find_path(prompt: str) -> str | None:
    """Return the path that ``prompt`` names, or None.

    Only the text is looked at; no such file need exist. A quoted text that looks like a path wins,
    then the first word after read, show, cat, open or file that does, then a quoted text right
    after one of those. A path has a slash, an extension or a leading ``~``; a web address is not a path.
    Only the first 1,048,576 characters are looked at.
    """
    prompt = prompt[:_MOST_LOOKED_AT]
    quoted = [(found.start(), found[0][1:-1]) for found in _QUOTED.finditer(prompt)]
    for _, text in quoted:
        if _looks_like_path(text):
            return text
    words = _words_after_keyword(prompt)
    for word in words:
        if _looks_like_path(word):
            return word
    for start, text in quoted:
        before = prompt[max(0, start - 20) : start].split()
        if before and before[-1].casefold() in _KEYWORDS:
            return text
    return None


def _looks_like_path(text: str) -> bool:
    if "://" in text or not text.strip("/.\\ ") or text.casefold() in _NO_PATHS:
        return False
    return "/" in text or bool(_EXTENSION.search(text) or _HOME.search(text))


def _words_after_keyword(prompt: str) -> Iterator[str]:
    reached = False
    for found in re.finditer(r"\S+", prompt):
        word = found[0].lstrip(_AROUND).rstrip(_AROUND + ".")
        if reached:
            yield word
        reached = reached or word.casefold() in _KEYWORDS
