"""Tools of the user's own: a folder with a ``tool.toml`` in ORE's home, or a package's entry point.

A folder's tool is a command: it runs without a shell, for a bounded time, with bounded output, and only
where ``shell`` is granted, besides what it asks for itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ore.errors import OreError, ToolError, UsageError
from ore.files import read_confined, reason
from ore.files.environment import environment
from ore.files.extras import NOT_INSTALLED, importing
from ore.files.in_time import OutOfTime
from ore.files.neutral import one_line
from ore.files.trust import distrust, distrust_now, distrust_path, home_folder
from ore.tools import MAX_FILE_BYTES, TOOL_REGISTRY, Permission, Tool, parse_permission
from ore.tools.packages import PackageTool, seen_as, tools_of_packages
from ore.tools.running import run_bounded
from ore.types import ToolResult

DEFINITION = "tool.toml"
KEYS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "permissions": list,
    "arguments": list,
    "optional": list,
    "command": list,
    "hints": list,
    "seconds": (int, float),
    "environment": list,
}
"""What a ``tool.toml`` may hold; ``name``, ``description`` and ``command`` must be there."""

MOST_BYTES = 1 << 16
LONGEST_SECONDS, USUAL_SECONDS = 600.0, 30.0

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NAMES = "small letters, digits and dashes, at most 64"
_DEEP_KEY = re.compile(
    r"""(?:^|[\[{,])[ \t]*(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""", re.MULTILINE
)
"""A key of so many parts, of which tomllib takes the memory of their square."""
_PLACE = re.compile(r"\{\{(\w{1,64})\}\}")


@dataclass(frozen=True)
class Definition:
    """What a ``tool.toml`` says.

    Attributes:
        permissions: What it needs besides ``shell``.
        arguments: Without which it can't run.
        optional: Which it takes as well; one that is not given is an empty text.
        command: The program and its arguments; ``{{name}}`` in one stands for an argument's value.
        hints: The phrases that a prompt for it has.
        seconds: How long it may run.
        environment: The variables that it gets, besides the usual few.
        folder: Where its file is; a program that begins with ``./`` is in it.
        data: What its file holds.
    """

    name: str
    description: str
    command: tuple[str, ...]
    folder: Path
    data: bytes
    permissions: frozenset[Permission] = frozenset()
    arguments: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    seconds: float = USUAL_SECONDS
    environment: tuple[str, ...] = ()


class CommandTool(Tool):
    """Runs a command; what it writes to stdout is the result.

    Args:
        definition: What its ``tool.toml`` says.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self.name: str = definition.name
        self.description: str = definition.description
        self.required_permissions: frozenset[Permission] = definition.permissions | {
            Permission.SHELL
        }
        self.required_args: tuple[str, ...] = definition.arguments

    def run(self, args: dict[str, str]) -> ToolResult:
        """Run the command with ``args`` in their places; a failure is a result of status ``"error"``."""
        try:
            return self._run(args, self._definition.seconds)
        except OutOfTime as exc:
            longer = "give it more seconds in its tool.toml"
            return ToolResult(self.name, f"{str(exc).rstrip('.')}: {longer}.", "error")

    def run_within(self, args: dict[str, str], seconds: float) -> ToolResult:
        """Run it no longer than that; ``OutOfTime`` is raised where its own time would not be over."""
        if seconds < self._definition.seconds:
            return self._run(args, seconds)
        return self.run(args)

    def _run(self, args: dict[str, str], seconds: float) -> ToolResult:
        made = self._definition
        try:
            _check_arguments(made, args)
            argv = [_filled(each, args) for each in made.command]
            if argv[0].startswith("./"):
                argv[0] = str(made.folder / argv[0])
                if why := distrust_now(made.folder.parent) or distrust_path(argv[0]):
                    raise ToolError(f"{one_line(argv[0])} is not run: {why}.", self.name)
            digest = _digest(made)  # its program may be another than when it was loaded
            data = run_bounded(argv, _environment(made.environment), seconds, MAX_FILE_BYTES)
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return ToolResult(self.name, f"{self.name} wrote text that is not UTF-8.", "error")
        except OreError as exc:
            return ToolResult(self.name, str(exc), "error")
        return ToolResult(self.name, text, "ok", metadata={"definition_sha256": digest})

    def routing_hints(self) -> tuple[str, ...]:
        """Return the phrases that its file lists."""
        return self._definition.hints

    def extract_args(self, prompt: str) -> dict[str, str]:
        """Return the whole prompt as the one argument that it needs; nothing where it needs more."""
        needed = self._definition.arguments
        return {needed[0]: prompt} if len(needed) == 1 else {}


def own_tools(report: Callable[[str], None]) -> dict[str, Tool]:
    """Return the user's tools by name: those of folders, then those of packages.

    Args:
        report: Called for each that can't be used, with the reason.
    """
    found: dict[str, Tool] = {}
    root = home_folder("tools")
    for name in _folders(root, report):
        try:
            found[name] = folder_tool(root, name)
        except (OreError, OSError) as exc:
            why = one_line(reason(exc).rstrip("."))
            if isinstance(exc, PermissionError):  # of a path, not of the system
                why = f"a file of it {why}; put the file itself into its folder"
            report(f"The tool '{one_line(name[:60])}' can't be used: {why}.")
    seen = {seen_as(name): name for name in (*found, *TOOL_REGISTRY)}
    for tool in tools_of_packages(report):
        other = seen.setdefault(seen_as(tool.name), tool.name)
        if other != tool.name:
            report(f"The tool '{tool.name}' of a package is hidden: '{other}' looks like it.")
        elif found.setdefault(tool.name, tool) is not tool:
            report(f"The tool '{tool.name}' of a package is hidden: another has that name.")
    for name in TOOL_REGISTRY.keys() & found.keys():
        if _kind(found[name]) is not type(TOOL_REGISTRY[name]):  # a package may put its own there
            report(f"Your tool '{name}' is hidden: one of ORE's own has that name. Rename yours.")
    return found


def _kind(tool: Tool) -> type[Tool]:
    return type(tool.made if isinstance(tool, PackageTool) else tool)


def folder_tool(root: Path, name: str) -> CommandTool:
    """Return the tool in the folder ``name`` of ``root``.

    Raises:
        UsageError: Its file is no such definition; the sentence says what is wrong with it.
        FileAccessError: It can't be read, or others can write to it.
        OSError: It is not there, or a symbolic link.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"its folder's name must be {_NAMES}.")
    data = read_confined(root, f"{name}/{DEFINITION}", MOST_BYTES, judge=distrust)
    path = root / name / DEFINITION
    try:
        values = _parsed(data)
        made = _definition(values, root / name, data)
    except (ValueError, UsageError) as exc:
        raise UsageError(f"{path} has a mistake: {str(exc).rstrip('.')}.") from exc
    _digest(made)
    if made.name != name:
        raise UsageError(f"{path} is in a folder of another name: give both the same name.")
    return CommandTool(made)


def _folders(root: Path, report: Callable[[str], None]) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(root) if name[0] != ".")
    except FileNotFoundError:
        return []
    except OSError as exc:
        shown = one_line(str(root))
        report(f"No tools are loaded: the folder {shown} can't be read: {reason(exc)}.")
        return []
    return [name for name in names if _may_be_tool(root / name)]


def _may_be_tool(folder: Path) -> bool:
    try:
        os.stat(folder / DEFINITION)
    except OSError as exc:  # of any other, whoever reads it is told why
        return not isinstance(exc, (FileNotFoundError, NotADirectoryError))
    return True


def _parsed(data: bytes) -> dict[str, Any]:
    """Return a text parsed as TOML; ``ValueError`` where it is not TOML."""
    with importing("tomli", NOT_INSTALLED):
        parser = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        text = data.decode("utf-8-sig")
        if _DEEP_KEY.search(text):
            raise ValueError("it is nested too deep")
        return dict(parser.loads(text))
    except RecursionError as exc:
        raise ValueError("it is nested too deep") from exc


def _definition(values: Mapping[str, Any], folder: Path, data: bytes) -> Definition:
    for key, value in values.items():
        if key not in KEYS:
            raise ValueError(f"{one_line(key[:60])!r} is not a key here: use {', '.join(KEYS)}")
        kinds = {"name": "a text", "description": "a text", "seconds": "a number"}
        is_odd = isinstance(value, bool) or not isinstance(value, KEYS[key])
        if is_odd or isinstance(value, list) and not all(isinstance(x, str) for x in value):
            raise ValueError(f"{key} must be {kinds.get(key, 'a list of texts')}")
    for key in ("name", "description", "command"):
        if not values.get(key):
            raise ValueError(f"it has no {key}")
    if not _NAME.fullmatch(values["name"]):
        raise ValueError(f"its name must be {_NAMES}")
    texts = {key: tuple(values.get(key, ())) for key, kind in KEYS.items() if kind is list}
    seconds = values.get("seconds", USUAL_SECONDS)
    if not 0 < seconds <= LONGEST_SECONDS:
        raise ValueError(f"seconds must be above 0, and at most {LONGEST_SECONDS:g}")
    _check_places(texts)
    return Definition(
        values["name"],
        values["description"],
        texts["command"],
        folder,
        data,
        frozenset(map(parse_permission, texts["permissions"])),
        texts["arguments"],
        texts["optional"],
        texts["hints"],
        float(seconds),
        texts["environment"],
    )


def _check_places(texts: Mapping[str, tuple[str, ...]]) -> None:
    program, *rest = texts["command"]
    if not program.strip():
        raise ValueError("its command names no program")
    known, used = {*texts["arguments"], *texts["optional"]}, set(_PLACE.findall(" ".join(rest)))
    if _PLACE.search(program):
        raise ValueError("an argument can't be the program: write it into the command")
    if odd := [each[:60] for each in sorted(known) if not re.fullmatch(r"\w{1,64}", each)]:
        raise ValueError(f"the argument {odd[0]!r} must be of letters, digits and _, at most 64")
    if unknown := used - known:
        raise ValueError(f"its arguments have no {', '.join(map(repr, sorted(unknown)))}")
    if unused := ["{{%s}}" % name for name in sorted(known - used)]:
        raise ValueError(f"its command has no {', '.join(unused)}")


def _digest(made: Definition) -> str:
    """Return the SHA-256 of a tool's file, and of its program as it is now where that is in its folder."""
    digest, program = hashlib.sha256(made.data), made.command[0]
    try:
        if program.startswith("./"):
            digest.update(read_confined(made.folder, program[2:], 1 << 30, judge=distrust))
    except FileNotFoundError as exc:
        raise ToolError(
            f"its program {one_line(program)} is not there: put it into its folder.", made.name
        ) from exc
    except PermissionError as exc:  # of a path, not of the system
        why = f"{reason(exc)}: put the file itself into its folder"
        raise ToolError(f"its program {one_line(program)} {why}.", made.name) from exc
    return digest.hexdigest()


def _check_arguments(made: Definition, args: Mapping[str, str]) -> None:
    known = (*made.arguments, *made.optional)
    if unknown := sorted(set(args) - set(known)):
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise ToolError(
            f"{made.name} has no argument {one_line(unknown[0][:60])!r}: {takes}.", made.name
        )
    if missing := [f"`args['{name}']`" for name in made.arguments if name not in args]:
        raise ToolError(f"{made.name} needs {' and '.join(missing)}.", made.name)
    if any("\0" in value for value in args.values()):
        raise ToolError(f"{made.name} can't be given a NUL character.", made.name)


def _filled(text: str, args: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda found: args.get(found[1], ""), text)


def _environment(names: tuple[str, ...]) -> dict[str, str]:
    usual = ("HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER")
    return {
        name: value
        for name, value in environment().items()
        if name in usual or name in names or name.startswith("LC_")
    }
