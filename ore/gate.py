"""The gate: the one place where a tool runs, and only with every permission that it needs.

Nothing is allowed that was not granted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ore.errors import GateError, OreError, Terminated, ToolError, ToolFailedError
from ore.files.in_time import OutOfTime, in_time
from ore.files.neutral import said_by
from ore.tools import Permission, Tool
from ore.types import ToolResult
from ore.types.sent import listed

__all__ = ["Gate", "GateError", "Permission"]

_MOST_SHOWN = 500  # characters of an error that a tool raises
_SPARE_SECONDS = 2.0  # for looking at a result that came in time
_MOST_RETURNED = 1 << 26  # characters of a result, as of a prompt


class Gate:
    """Runs tools with the permissions that were granted, and no others.

    Args:
        allowed: The permissions; none by default.

    Raises:
        UsageError: It is one text, and not a list of them.
    """

    def __init__(self, allowed: Iterable[Permission] = ()) -> None:
        self.allowed: frozenset[Permission] = frozenset(map(Permission, listed("allowed", allowed)))

    def check(self, tool: Tool) -> None:
        """Return if ``tool`` may run; nothing of it runs here.

        Raises:
            GateError: Permissions are missing; ``missing`` holds them.
            ToolError: What it needs can be read only once.
        """
        self._permitted(tool)

    def run(
        self, tool: Tool, args: Mapping[str, str], *, seconds: float | None = None
    ) -> ToolResult:
        """Run ``tool`` with ``args`` if it may run, and return its result.

        The result is in the name of ``tool``, whatever it claims. Its metadata get
        ``execution_time_ms`` (milliseconds) and ``checked_permissions`` (the sorted names of what the
        tool needed and had). A tool that raises, or returns something else than a result, gives a
        result of status ``"error"`` with one line.

        Args:
            seconds: How long it may take; None is as long as it does. A command is ended then, and
                other work goes on with nobody waiting.

        Raises:
            GateError: Permissions are missing; the tool did not run.
            ToolError: What it needs can be read only once; it did not run.
            ToolFailedError: It was not done in so many seconds.
        """
        permitted = self._permitted(tool)
        started, given = time.perf_counter(), dict(args)
        try:
            made = tool.run(given) if seconds is None else tool.run_within(given, seconds)
            # Looking at it may be code of the tool's, too.
            spent = time.perf_counter() - started
            left = None if seconds is None else seconds + _SPARE_SECONDS - spent
            result = in_time(left, lambda: _checked(tool.name, made))
        except (KeyboardInterrupt, Terminated):
            raise
        except OutOfTime as exc:
            raise ToolFailedError(
                f"The tool '{tool.name}' was not done after {seconds or 0:.3g} s, so the turn was "
                f"ended: give it longer with `seconds=`.",
                tool.name,
            ) from exc
        except BaseException as exc:  # a tool is anyone's code; not even its exit ends the process
            result = ToolResult(tool.name, error_line(exc), "error")
        elapsed = (time.perf_counter() - started) * 1000
        checked = sorted(permission.value for permission in permitted)
        added = {"execution_time_ms": round(elapsed, 3), "checked_permissions": checked}
        return replace(result, metadata={**result.metadata, **added})

    def _permitted(self, tool: Tool) -> frozenset[Permission]:
        needed: Iterable[Permission] = tool.required_permissions  # once: the next may be another
        if isinstance(needed, Iterator):  # a second look would find nothing that it needs
            raise ToolError(
                f"The tool '{tool.name}' was not run: its required_permissions must be a set of "
                f"ore.Permission.",
                tool.name,
            )
        required: frozenset[Permission] = frozenset(needed)
        if not required <= self.allowed:
            raise GateError(tool.name, required - self.allowed)
        return required


def _checked(name: str, result: object) -> ToolResult:
    """Return what a tool returned, in its name; ``TypeError`` if it is no result that can be used."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"{name} returned {type(result).__name__}, not a ToolResult")
    # Each is looked at once: of a class of its own, it may be another the next time.
    said, output, own = result.status, result.output, result.metadata
    if said not in ("ok", "error") or not isinstance(output, str):
        raise TypeError(
            f"{name} returned a result whose output is not text or status not ok or error"
        )
    if not (isinstance(result.tool_name, str) and result.tool_name.isprintable()):
        raise TypeError(f"{name} returned a result whose tool_name can't be shown")
    if not isinstance(own, dict):
        raise TypeError(f"{name} returned a result whose metadata is not a dict")
    # What is of a class of its own may be shown as anything, or made of something else.
    status, text = "ok" if str.__eq__(said, "ok") else "error", str.__str__(output)
    if len(text) > _MOST_RETURNED:
        raise TypeError(f"{name} returned more than {_MOST_RETURNED:,} characters")
    text.encode("utf-8")  # half a character can't be sent
    return ToolResult(name, text, status, result.id, result.timestamp, dict(own.items()))


def error_line(exc: BaseException) -> str:
    """Return what a tool has raised, ``exc``, on one line."""
    message = said_by(exc)[:_MOST_SHOWN]
    if isinstance(exc, OreError) and message:
        return message
    return f"{type(exc).__name__}: {message}" if message else type(exc).__name__
