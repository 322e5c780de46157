"""The context of a turn: what it is given, which is its prompt, skills and results of tools.

All of it lasts one turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ore.cli.options import Options
from ore.cli.terminal.console import apart
from ore.errors import Terminated, ToolFailedError, UsageError
from ore.files.in_time import Found, OutOfTime, in_time
from ore.files.neutral import brief, one_line
from ore.gate import Gate, error_line
from ore.skills import (
    build_skill_registry,
    build_targets_from_skill_registry,
    find_skill,
    skill_text,
)
from ore.tools import Tool, all_tools, find_tool, parse_permission
from ore.tools.named_files import read_files
from ore.types import RoutingDecision, SkillMetadata, ToolResult

_MOST_SAID = 1 << 13
"""Characters that are shown of what a tool says of its failure."""
_MOST_FOUND = 1 << 26
"""Characters of the arguments that a tool finds in a prompt: as many as a prompt may have."""
_TOOLS, _SKILLS = "The tools were not loaded", "The skills were not read"
_FILES = "The files were not read"


class Context(NamedTuple):
    """What one turn is given; None where nothing was asked for.

    Attributes:
        prompt: The user's text as it is sent.
        skill_context: One text per skill, prefixed ``[Skill:name]``.
        tool_results: One result per tool that ran.
        decision: What the router chose.
        seconds: How long its tools took, the choice of its model, and the check of its pin.
    """

    prompt: str
    skill_context: list[str] | None = None
    tool_results: list[ToolResult] | None = None
    decision: RoutingDecision | None = None
    seconds: float = 0.0


class ContextSource:
    """Makes the context of each turn as the flags say.

    On construction everything is checked that does not depend on the prompt.
    """

    def __init__(self, options: Options, notice: Callable[[str], None]) -> None:
        self._options = options
        self._notice = notice
        self._arguments = parse_arguments(options.tool_arg, "--tool-arg")
        self._told: set[str] = set()
        self._spent = 0.0
        self._files = self._read_files()
        if options.grant:
            self._gate()  # refuses what is not a permission
        self._tool: Tool | None = None
        if name := options.tool:
            with apart():
                self._tool = self._loaded(lambda: find_tool(name, notice))
        self._tools: dict[str, Tool] = {}  # that a route of this turn chooses from
        self._skills: dict[str, SkillMetadata] = {}
        if options.skill or options.route:
            self._skills = self._read(lambda told: build_skill_registry(report=told), _SKILLS)
        self._before = self._spent  # what the first turn has no more
        self._named = [find_skill(self._skills, options.skill).name] if options.skill else []

    def gather(self, prompt: str, typed: str | None = None) -> Context:
        """Return the context of the turn that asks ``prompt``; tools run now, through the gate.

        A single turn gets the files as they were on construction, a turn of a REPL as they are now.
        Only ``typed`` may choose a route, where it is not the whole prompt: text that was piped in
        is data, and no file may pick a tool or a path.

        Raises:
            GateError, ToolFailedError: A tool, named or routed to, was denied or failed: nothing may
                be sent.
        """
        options = self._options
        self._spent, self._before = self._before, 0.0
        runs_tools = self._tool is not None or options.route
        with apart() if runs_tools else nullcontext():
            decision = self._route(prompt if typed is None else typed) if options.route else None
            skills = list(self._named)
            results = self._read_files() if options.is_repl else list(self._files)
            if self._tool is not None:
                results.append(self._run(self._tool, self._arguments))
            if decision is not None:
                self._follow(decision, skills, results)
        chosen = [self._skills[each] for each in skills]
        texts = list[str]()
        if chosen:
            texts = self._read(lambda told: [skill_text(each, told) for each in chosen], _SKILLS)
        return Context(
            prompt,
            skill_context=texts or None,
            tool_results=results or None,
            decision=decision,
            seconds=self._spent,
        )

    def _read_files(self) -> list[ToolResult]:
        if not self._options.file:
            return []
        return self._read(lambda told: read_files(self._options.file, told), _FILES, self._tell)

    def _tell(self, text: str) -> None:
        """Say once what a folder had, however often a REPL reads it."""
        if text not in self._told:
            self._told.add(text)
            self._notice(text)

    def _gate(self) -> Gate:
        return Gate(parse_permission(text) for text in self._options.grant)

    def _run(self, tool: Tool, arguments: Mapping[str, str]) -> ToolResult:
        """Run a tool in what its turn's deadline has left."""
        started = time.monotonic()
        result = self._gate().run(tool, arguments, seconds=self._left())
        self._spent += time.monotonic() - started
        if result.status != "ok":
            said = one_line(result.output[:_MOST_SAID])
            raise ToolFailedError(
                f"The tool '{tool.name}' failed, so nothing was sent: {said}", tool.name
            )
        return result

    def _loaded(self, load: Callable[[], Found], what: str = _TOOLS) -> Found:
        """Return what ``load`` does, in what the deadline has left: tools and skills are anyone's."""
        started = time.monotonic()
        try:
            return in_time(self._left(), load)
        except OutOfTime as exc:
            raise ToolFailedError(
                f"{what} in time, so nothing was sent: give the turn longer with --deadline.",
                self._options.tool or "",
            ) from exc
        finally:
            self._spent += time.monotonic() - started

    def _read(
        self,
        read: Callable[[Callable[[str], None]], Found],
        what: str,
        notice: Callable[[str], None] | None = None,
    ) -> Found:
        """Return what ``read`` reads in time; what is left behind after that tells nothing more."""
        told: list[str] = []
        try:
            return self._loaded(lambda: read(told.append), what)
        finally:
            for line in told.copy():
                (notice or self._notice)(line)

    def _left(self) -> float | None:
        """Return how many seconds of the turn's deadline are left, if it has one."""
        deadline = self._options.deadline
        return None if deadline is None else max(0.0, deadline - self._spent)

    def _route(self, prompt: str) -> RoutingDecision:
        from ore.router import DEFAULT_CONFIDENCE_THRESHOLD, RuleRouter, build_targets_from_registry

        threshold = self._options.route_threshold
        router = RuleRouter(DEFAULT_CONFIDENCE_THRESHOLD if threshold is None else threshold)
        self._tools = self._loaded(lambda: all_tools(self._tell))
        targets = build_targets_from_registry(self._tools)
        targets += build_targets_from_skill_registry(self._skills)
        decision = self._loaded(lambda: router.route(prompt, targets), "No route was found")
        if decision.target is None or decision.target_type != "tool":
            return decision
        tool, started = self._tools[decision.target], time.monotonic()
        args = _extracted(tool, prompt, self._left())
        self._spent += time.monotonic() - started
        return replace(decision, args=args)

    def _follow(
        self, decision: RoutingDecision, skills: list[str], results: list[ToolResult]
    ) -> None:
        """Say what was decided, and add to the turn what was chosen.

        A tool whose arguments are not in the prompt is left out; one without its grant is an error.
        """
        name = decision.target
        if name is None or decision.target_type == "fallback":
            self._notice(f"[Route]: No match, using reasoner only. {decision.reasoning}")
            return
        tool = self._tools[name] if decision.target_type == "tool" else None
        lacking = (
            [f"{arg}=…" for arg in tool.required_args if arg not in decision.args] if tool else []
        )
        choice = f"{name} (confidence: {decision.confidence:.2f}) — {decision.reasoning}"
        not_run = f"; not run: needs {brief(' '.join(lacking))}" if lacking else ""
        self._notice(f"[Route]: {choice}{not_run}")
        if tool is None:
            skills += [name] if name not in skills else []
            return
        self._gate().check(tool)
        if not lacking:
            results.append(self._run(tool, decision.args))


def _extracted(tool: Tool, prompt: str, seconds: float | None) -> dict[str, str]:
    """Return the arguments that a tool finds in a routed prompt, in so many ``seconds``."""
    try:
        return in_time(seconds, lambda: _plain(tool.extract_args(prompt)))
    except (KeyboardInterrupt, Terminated):
        raise
    except OutOfTime as exc:
        raise ToolFailedError(
            f"The tool '{tool.name}' did not find its arguments in {seconds or 0:.3g} s, so nothing was "
            f"sent: give it longer with --deadline, or name the tool with --tool.",
            tool.name,
        ) from exc
    except BaseException as exc:  # a tool is anyone's code; not even its exit ends ORE
        raise ToolFailedError(
            f"The tool '{tool.name}' failed, so nothing was sent: {error_line(exc)}", tool.name
        ) from exc


def _plain(found: object) -> dict[str, str]:
    """Return the arguments that a tool found as they are, whatever classes of their own say."""
    pairs = list(dict.items(found)) if isinstance(found, dict) else [(None, None)]
    if not all(isinstance(each, str) for each in chain(*pairs)):
        raise TypeError("extract_args returned something other than a dict of texts")
    args = {str.__str__(key): str.__str__(value) for key, value in pairs}
    text = "".join(chain(*args.items()))
    if len(text) > _MOST_FOUND:
        raise TypeError(f"extract_args returned more than {_MOST_FOUND:,} characters")
    text.encode()  # half a character can't be kept
    return args


def parse_arguments(
    pairs: tuple[str, ...], flag: str, names: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the ``KEY=VALUE`` texts of a flag as a mapping, each split at its first ``=``.

    Of ``names``, which may be meant, one that has a ``=`` itself is taken whole.
    """
    arguments: dict[str, str] = {}
    odd = [name for name in names if "=" in name]
    for pair in pairs:
        meant = [name for name in odd if pair.startswith(f"{name}=")]
        key = max(meant, key=len, default=pair.partition("=")[0])
        value = pair[len(key) + 1 :]
        if key in arguments:
            raise UsageError(f"{flag} gives '{one_line(key[:60])}' twice: leave one of them out.")
        arguments[key] = value
    return arguments
