"""The public interface as the code has it: one text per section of ``docs/interface-lock.md``."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from pathlib import Path

import ore
from ore.cli.parser import build_parser
from ore.cli.rules import BESIDE_VERBS, CONFLICTS, VERBS
from ore.tools import Permission
from tests.support.harness import run_ore

SIGNATURES = (
    "run",
    "main",
    "ORE",
    "ORE.execute",
    "ORE.execute_stream",
    "Reasoner.reason",
    "Reasoner.stream_reason",
    "Reasoner.close",
    "Scorer.score",
    "Scorer.score_each",
    "Scorer.close",
    "AyaReasoner",
    "SessionStore.save",
    "SessionStore.load",
    "SessionStore.list",
    "FileSessionStore",
    "fetch_models",
    "default_model",
    "Tool.run",
    "Tool.routing_hints",
    "Tool.extract_args",
    "Gate",
    "Gate.check",
    "Gate.run",
    "Router.route",
    "RuleRouter",
    "build_targets_from_registry",
    "build_skill_registry",
    "build_targets_from_skill_registry",
    "load_skill_metadata",
    "load_skill_instructions",
    "load_skill_resource",
    "ExecutionArtifact.from_response",
    "ExecutionArtifact.to_dict",
    "ExecutionArtifact.from_dict",
)
CODES = {
    129: "hung up",
    130: "interrupted",
    141: "the reader went away",
    143: "terminated",
}


def flags() -> str:
    """Every flag: how it is written, what it takes, its default."""
    rows = []
    for action in build_parser()._actions:
        name = ", ".join(action.option_strings) or action.dest
        rows.append((f"`{name}`", _takes(action), _shown(action.default)))
    return _table(("flag", "takes", "default"), rows)


def _takes(action) -> str:
    if action.nargs == 0:
        return "nothing"
    kind = (action.type or str).__name__
    if action.choices:
        kind = " or ".join(action.choices)
    if action.nargs == "?":
        bare = f", bare: {_shown(action.const)}" if action.option_strings else ""
        kind += f", optional{bare}"
    elif action.nargs is not None:
        kind += f", {action.nargs}"
    return kind + (", repeatable" if type(action).__name__ == "_AppendAction" else "")


def exclusions() -> str:
    """What can't be asked for together, and the verbs that stand alone."""
    rows = [(f"`{first}`", f"`{second}`") for first, second in CONFLICTS]
    verbs = ", ".join(f"`{verb}`" for verb in VERBS)
    beside = ", ".join(f"`{flag}`" for flag in BESIDE_VERBS)
    return _table(("this", "not with"), rows) + f"\n\nVerbs: {verbs}.\nBeside a verb: {beside}."


def exit_codes() -> str:
    """Every error, its exit code and what else it is to Python."""
    rows = []
    for name in ore.__all__:
        kind = getattr(ore, name)
        if isinstance(kind, type) and issubclass(kind, ore.OreError):
            ours = [base.__name__ for base in kind.__bases__ if issubclass(base, ore.OreError)]
            own = [base.__name__ for base in kind.__bases__ if base.__name__ not in ours]
            rows.append((f"`{name}`", str(kind.exit_code), ", ".join(ours + own)))
    signals = [(why, str(code), "") for code, why in CODES.items()]
    return _table(("error", "exit code", "is also"), rows + signals)


def names() -> str:
    """Everything that ``import ore`` offers."""
    return "\n".join(f"- `{name}`" for name in ore.__all__)


def signatures() -> str:
    """The callables that others build on."""
    lines = []
    for path in SIGNATURES:
        target = ore
        for part in path.split("."):
            target = getattr(target, part)
        lines.append(f"{path}{_signature(target)}")
    return "```python\n" + "\n".join(lines) + "\n```"


def _signature(target) -> str:
    text = str(inspect.signature(target)).replace("'", "")
    return re.sub(r"\(self(, )?", "(", text)


def fields() -> str:
    """The dataclasses, field by field in order."""
    rows = []
    for name in ore.__all__:
        kind = getattr(ore, name)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            frozen = "yes" if kind.__dataclass_params__.frozen else "no"
            shown = ", ".join(_field(field) for field in dataclasses.fields(kind))
            rows.append((f"`{name}`", frozen, shown))
    return _table(("dataclass", "frozen", "fields"), rows)


def named_tuples() -> str:
    """The named tuples, field by field in order."""
    rows = []
    for name in ore.__all__:
        kind = getattr(ore, name)
        if hasattr(kind, "_field_defaults"):
            known = kind._field_defaults
            shown = [f"{each}={known[each]!r}" if each in known else each for each in kind._fields]
            rows.append((f"`{name}`", ", ".join(shown)))
    return _table(("named tuple", "fields"), rows)


def _field(field) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}={field.default!r}"
    if field.default_factory is not dataclasses.MISSING:
        return f"{field.name}={field.default_factory.__name__.strip('_')}()"
    return field.name


def permissions() -> str:
    """What can be granted."""
    return "\n".join(f"- `{permission.value}`" for permission in Permission)


def documents(home: Path) -> str:
    """The keys of everything that ORE writes as JSON, from real runs with a scripted model."""
    run_ore("--session", "lock", "hi")
    session = json.loads((home / ".ore/sessions/lock.json").read_text())
    shown = {
        "`--json`": run_ore("hi", "--json").json,
        "`--json` with `--route`": run_ore("hi", "--json", "--route").json,
        "session file": session,
        "artifact": run_ore("hi", "--artifact-out").json,
        "`--list-models --json`": run_ore("--list-models", "--json").json,
        "`--list-tools --json`": run_ore("--list-tools", "--json").json,
        "`--list-sessions --json`": run_ore("--list-sessions", "--json").json,
        "`--search-sessions hi --json`": run_ore("--search-sessions", "hi", "--json").json,
    }
    return _table(("document", "keys"), [(name, _keys(value)) for name, value in shown.items()])


def _keys(value: object) -> str:
    if isinstance(value, list):
        return f"[{_keys(value[0])}]" if value else "[]"
    if not isinstance(value, dict):
        return ""
    parts = []
    for key, item in value.items():
        below = "" if key in ("metadata", "args", "options", "values_sha256") else _keys(item)
        parts.append(f"{key} {below}" if below else key)
    return "{" + ", ".join(parts) + "}"


def _shown(value: object) -> str:
    return "none" if value in (None, [], False, "") else f"`{value}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines)
