"""The skills there are, and what a turn gets of the one that is used.

Nothing is scanned or read before it is asked for. Knows nothing about flags, models or terminals,
nor what a skill's file looks like inside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ore.errors import InvalidSkillError, OreError, SkillNotFoundError
from ore.files import reason
from ore.files.home import ore_home
from ore.files.neutral import one_line
from ore.skills.mentions import resource_mentions
from ore.skills.skill_folder import (
    MAX_RESOURCE_BYTES,
    Report,
    ignore,
    load_skill_frontmatter,
    load_skill_instructions,
    load_skill_metadata,
    load_skill_resource,
)
from ore.types import RoutingTarget, SkillMetadata

__all__ = [
    "MAX_RESOURCES",
    "MAX_RESOURCES_BYTES",
    "MAX_RESOURCE_BYTES",
    "Report",
    "activate_skill",
    "build_skill_registry",
    "build_targets_from_skill_registry",
    "find_skill",
    "skill_text",
    "load_skill_frontmatter",
    "load_skill_instructions",
    "load_skill_metadata",
    "load_skill_resource",
]

MAX_RESOURCES = 1000
MAX_RESOURCES_BYTES = 1024 * 1024


def build_skill_registry(
    root: Path | str | None = None, report: Report | None = None
) -> dict[str, SkillMetadata]:
    """Return the skills below ``root`` by name, in the order of their names.

    Every folder in ``root`` is a skill, hidden ones apart. One that can't be used is reported and
    left out. Of two skills with the same name the one in the folder of that name is kept, else the
    one whose folder sorts first; the other is reported.

    Args:
        root: The folder of skills; None is ``skills`` in ``ore_home()``. It need not exist.
        report: Gets one line for each skill that is left out, and each thing that looks wrong in
            one that is loaded.

    Raises:
        HomeError: ``root`` is None and there is no usable home.
    """
    report = report or ignore
    root = ore_home() / "skills" if root is None else Path(root)
    found: list[tuple[SkillMetadata, list[str]]] = []
    for folder in _folders(root, report):
        looks_wrong: list[str] = []
        try:
            found.append((load_skill_metadata(folder, looks_wrong.append), looks_wrong))
        except InvalidSkillError as exc:
            report(f"{exc} The skill is skipped.")
    found.sort(key=lambda pair: _rank(pair[0]))
    registry: dict[str, SkillMetadata] = {}
    for skill, looks_wrong in found:
        kept = registry.setdefault(skill.name, skill)
        if kept is skill:
            for line in looks_wrong:
                report(line)
        else:
            report(
                f"The skill in the folder '{one_line(skill.path.name)}' is hidden: the one in "
                f"'{one_line(kept.path.name)}' is called '{skill.name}' too. Rename one of them."
            )
    return registry


def build_targets_from_skill_registry(
    registry: Mapping[str, SkillMetadata],
) -> list[RoutingTarget]:
    """Return what a router needs of every skill of ``registry``, in its order."""
    return [
        RoutingTarget(skill.name, "skill", skill.description, skill.hints)
        for skill in registry.values()
    ]


def find_skill(registry: Mapping[str, SkillMetadata], name: str) -> SkillMetadata:
    """Return the skill of ``registry`` that is called ``name``.

    Raises:
        SkillNotFoundError: There is none; the message lists what there is, or how to add one.
    """
    if name in registry:
        return registry[name]
    names = list(registry)
    if not names:
        there = f"put a folder with a SKILL.md into {shown_folder()} to add one"
    else:
        more = f" and {len(names) - 20} more (see --list-skills)" if len(names) > 20 else ""
        there = f"there are {', '.join(names[:20])}{more}"
    raise SkillNotFoundError(f"There is no skill '{one_line(name)}': {there}.", name)


def shown_folder() -> str:
    """Return the folder of skills as it is named to a person."""
    return one_line(os.path.join(os.environ.get("ORE_HOME", "~/.ore"), "skills"))


def skill_text(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return what a model is given of ``skill``: ``[Skill:name]``, and below it the activated text.

    ``report`` and what is raised are those of ``activate_skill``.
    """
    return f"[Skill:{skill.name}]\n{activate_skill(skill, report)}"


def activate_skill(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return what a turn gets of ``skill``: its instructions and every resource that they name.

    A resource is appended as ``[Resource:path]`` and its text, in the order of first mention (see
    ``resource_mentions``). One that can't be read, or that would make more than
    ``MAX_RESOURCES_BYTES`` of resources, is left out; ``report`` gets one line for each.

    Raises:
        InvalidSkillError: The instructions can't be read.
    """
    report = report or ignore
    body = load_skill_instructions(skill.path)
    if not body:
        report(f"The skill '{skill.name}' has no instructions below its frontmatter.")
    parts, size = [body], 0
    mentions = resource_mentions(body)
    for path in mentions[:MAX_RESOURCES]:
        try:
            text = load_skill_resource(skill.path, path)
        except OreError as exc:
            report(f"{exc} The skill is used without it.")
            continue
        more = len(text.encode("utf-8"))
        if size + more > MAX_RESOURCES_BYTES:
            report(
                f"The resource '{one_line(path)}' of the skill '{skill.name}' is left out: all "
                f"resources together would be larger than {MAX_RESOURCES_BYTES:,} bytes."
            )
            continue
        size += more
        parts.append(f"[Resource:{path}]\n{text}")
    if len(mentions) > MAX_RESOURCES:
        report(
            f"The skill '{skill.name}' names more than {MAX_RESOURCES:,} resources: the others "
            f"are left out."
        )
    return "\n\n".join(parts)


def _rank(skill: SkillMetadata) -> tuple[str, bool, str]:
    """Return what sorts a skill by its name, and of equal names the one to keep first."""
    return skill.name, skill.path.name != skill.name, skill.path.name


def _folders(root: Path, report: Report) -> list[Path]:
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        report(
            f"No skills are loaded: the folder {one_line(str(root))} can't be read: {reason(exc)}."
        )
        return []
    folders = []
    for name in names:
        if name.startswith("."):
            continue
        if os.path.isdir(root / name):
            folders.append(root / name)
        elif os.path.islink(root / name):
            report(f"The skill folder '{one_line(name)}' is a link that leads to no folder.")
    return folders
