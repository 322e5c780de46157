"""What a turn is given besides its prompt: skills, tool results, and how they were chosen.

Everything here lasts one turn. Knows nothing about models, sessions or streams.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ore.errors import GateError, ToolFailedError, UsageError
from ore.options import Options
from ore.types import RoutingDecision, SkillMetadata, ToolResult

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Context:
    """What one turn is given; None where nothing was asked for.

    Attributes:
        skill_context: One text per skill, prefixed ``[Skill:name]``.
        tool_results: One result per tool that ran.
        decision: What the router chose.
        skills: The names of the skills.
    """

    skill_context: list[str] | None = None
    tool_results: list[ToolResult] | None = None
    decision: RoutingDecision | None = None
    skills: list[str] | None = None

    @property
    def tools(self) -> list[str] | None:
        """The names of the tools that ran."""
        return [result.tool_name for result in self.tool_results] if self.tool_results else None


class ContextSource:
    """Makes the context of each turn as the flags say.

    What can be wrong whatever the prompt is found out on construction.

    Raises:
        FileAccessError: A file that is named can't be read.
        UsageError: An unknown permission, or an argument without ``=``.
        UnknownToolError, SkillError: There is no such tool or skill.
    """

    def __init__(self, options: Options, notice: Notice) -> None:
        self._options = options
        self._notice = notice
        self._arguments = parse_arguments(options.tool_arg)
        self._skills: dict[str, SkillMetadata] = {}
        self._files()
        self._gate = None
        if options.grant or options.tool or options.route:
            from ore.gate import Gate
            from ore.tools import TOOL_REGISTRY, find_tool, parse_permission

            self._tools = TOOL_REGISTRY
            self._gate = Gate(frozenset(parse_permission(text) for text in options.grant))
            self._tool = find_tool(options.tool) if options.tool else None
        if options.skill or options.route:
            from ore.skills import build_skill_registry, find_skill

            self._skills = build_skill_registry(report=notice)
            self._skill = find_skill(self._skills, options.skill) if options.skill else None

    def gather(self, prompt: str, typed: str | None = None) -> Context:
        """Return the context of the turn that asks ``prompt``; tools run now, through the gate.

        Args:
            prompt: The whole prompt.
            typed: The part that may choose a route, where that is not all of it: text that was
                piped in is data, and no file may pick a tool or a path.

        Raises:
            GateError, ToolFailedError: The tool was denied or failed: nothing may be sent.
        """
        options = self._options
        decision = self._route(prompt if typed is None else typed) if options.route else None
        chosen = [self._skill.name] if options.skill else []
        results = self._files()
        if options.tool:
            results.append(self._run(self._tool, self._arguments))
        if decision is not None and decision.target_type == "tool":
            results += self._run_routed(decision)
        elif decision is not None:
            self._tell(decision)
            if decision.target_type == "skill" and decision.target not in chosen:
                chosen.append(decision.target)
        return Context(
            skill_context=[self._activate(name) for name in chosen] or None,
            tool_results=results or None,
            decision=decision,
            skills=chosen or None,
        )

    def _files(self) -> list[ToolResult]:
        """Read the files that are named, anew each turn; naming one is its own grant."""
        if not self._options.file:
            return []
        from ore.named_files import read_named

        return [read_named(path) for path in self._options.file]

    def _route(self, prompt: str) -> RoutingDecision:
        from ore.router import DEFAULT_CONFIDENCE_THRESHOLD, RuleRouter, build_targets_from_registry
        from ore.skills import build_targets_from_skill_registry

        threshold = self._options.route_threshold
        router = RuleRouter(DEFAULT_CONFIDENCE_THRESHOLD if threshold is None else threshold)
        targets = build_targets_from_registry(self._tools)
        targets += build_targets_from_skill_registry(self._skills)
        decision = router.route(prompt, targets)
        if decision.target_type != "tool":
            return decision
        return replace(decision, args=self._tools[decision.target].extract_args(prompt))

    def _run_routed(self, decision: RoutingDecision) -> list[ToolResult]:
        tool = self._tools[decision.target]
        missing = [name for name in tool.required_args if name not in decision.args]
        try:
            self._gate.check(tool)
        except GateError as exc:
            grants = " ".join(f"--grant {name}" for name in sorted(p.value for p in exc.missing))
            self._tell(decision, f"not run: needs {grants}")
            return []
        if missing:
            self._tell(decision, "not run: needs " + " ".join(f"{name}=…" for name in missing))
            return []
        self._tell(decision)
        return [self._run(tool, decision.args)]

    def _run(self, tool, arguments: Mapping[str, str]) -> ToolResult:
        result = self._gate.run(tool, dict(arguments))
        if result.status != "ok":
            raise ToolFailedError(
                f"The tool '{tool.name}' failed, so nothing was sent: {result.output}", tool.name
            )
        return result

    def _activate(self, name: str) -> str:
        from ore.skills import activate_skill

        return f"[Skill:{name}]\n{activate_skill(self._skills[name], self._notice)}"

    def _tell(self, decision: RoutingDecision, outcome: str = "") -> None:
        if decision.target_type == "fallback":
            text = f"No match, using reasoner only. {decision.reasoning}"
        else:
            text = (
                f"{decision.target} (confidence: {decision.confidence:.2f}) — {decision.reasoning}"
            )
        self._notice(f"[Route]: {text}" + (f"; {outcome}" if outcome else ""))


def parse_arguments(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping, each split at its first ``=``.

    Raises:
        UsageError: A text has no ``=`` or no key, or a key is given twice.
    """
    arguments: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"--tool-arg takes KEY=VALUE, as in path=notes.txt, not '{pair}'.")
        if key in arguments:
            raise UsageError(f"--tool-arg gives '{key}' twice: leave one of them out.")
        arguments[key] = value
    return arguments
