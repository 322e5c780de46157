"""Skills: folders of instructions that a turn can be given, found and read only when asked for.

A skill is read in three levels: its metadata, its instructions, and the resources that they name.
Nothing in it is run, and nothing that it says grants anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ore.errors import InvalidSkillError, OreError, SkillNotFoundError
from ore.files import reason
from ore.files.neutral import brief, in_form, one_line
from ore.files.reached import why_unknown
from ore.files.trust import home_folder
from ore.skills.levels import MAX_RESOURCE_BYTES as MAX_RESOURCE_BYTES
from ore.skills.levels import MAX_SKILL_BYTES as MAX_SKILL_BYTES
from ore.skills.levels import SKILL_FILE as SKILL_FILE
from ore.skills.levels import Report as Report
from ore.skills.levels import ignore
from ore.skills.levels import load_skill_frontmatter as load_skill_frontmatter
from ore.skills.levels import load_skill_instructions as load_skill_instructions
from ore.skills.levels import load_skill_metadata as load_skill_metadata
from ore.skills.levels import load_skill_resource as load_skill_resource
from ore.skills.mentions import prose, resource_mentions
from ore.types import RoutingTarget, SkillMetadata

SCRIPTS = "scripts"
"""The folder of a skill that no turn is given anything of."""
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
        report: Gets one line for each skill that is left out, and each thing that looks wrong.

    Raises:
        HomeError: ``root`` is None, and there is no home, or it is not this user's alone.
    """
    report = report or ignore
    root = home_folder("skills") if root is None else Path(root)
    found: list[tuple[SkillMetadata, list[str]]] = []
    for folder in _folders(root, report):
        lines: list[str] = []
        try:
            found.append((load_skill_metadata(folder, lines.append), lines))
        except InvalidSkillError as exc:
            report(f"{exc} The skill is skipped.")
    found.sort(key=lambda pair: (pair[0].name, pair[0].path.name != pair[0].name))
    registry: dict[str, SkillMetadata] = {}
    for skill, lines in found:
        kept = registry.setdefault(skill.name, skill)
        if kept is not skill:
            lines = [
                f"The skill in the folder '{one_line(skill.path.name)}' is hidden: the one in "
                f"'{one_line(kept.path.name)}' is called '{skill.name}' too. Rename one of them."
            ]
        for line in lines:
            report(line)
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
    """Return the skill of ``registry`` that is called ``name``, however its accents are stored.

    Raises:
        SkillNotFoundError: There is none; the message lists what there is, or how to add one.
    """
    looked_for = in_form("NFC", name)
    alike = (each for each in registry if in_form("NFC", each) == looked_for)
    if (found := name if name in registry else next(alike, None)) is not None:
        return registry[found]
    there = f"there are {', '.join([*registry][:20])}"
    if not registry:
        there = f"put a folder with a SKILL.md into {shown_folder()} to add one"
    elif len(registry) > 20:
        there += f" and {len(registry) - 20} more (see `build_skill_registry()`)"
    raise SkillNotFoundError(f"There is no skill '{brief(name)}': {there}.", name)


def shown_folder() -> str:
    """Return the folder of skills as it is named to a person."""
    return one_line(os.path.join(os.environ.get("ORE_HOME", "~/.ore"), "skills"))


def skill_text(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return ``[Skill:name]`` and, below it, what ``activate_skill(skill, report)`` returns."""
    return f"[Skill:{skill.name}]\n{activate_skill(skill, report)}"


def activate_skill(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return what a turn gets of ``skill``: its instructions and every resource that they name.

    A resource is appended as ``[Resource:path]`` and its text, in the order of first mention (see
    ``resource_mentions``). One that can't be read, that is below ``SCRIPTS``, or that would make
    more than ``MAX_RESOURCES_BYTES`` of resources, is left out; ``report`` gets one line for each.

    Raises:
        InvalidSkillError: The instructions can't be read.
    """
    report = report or ignore
    body = load_skill_instructions(skill.path)
    if not body:
        report(f"The skill '{skill.name}' has no instructions below its frontmatter.")
    parts, size, there = [body], 0, set[str]()
    try:
        there = set(os.listdir(skill.path))
    except OSError as exc:
        if any("`" in line for line in prose(body)):
            report(
                f"The folder of the skill '{skill.name}' can't be listed: {reason(exc)}. The skill "
                f"may be used without files that it names."
            )
    mentions = resource_mentions(body, there)
    for path in mentions[:MAX_RESOURCES]:
        if why := _not_for_reading(skill.path, path):
            report(
                f"'{brief(path)}' of the skill '{skill.name}' is not read: {why}. The skill is "
                f"used without it."
            )
            continue
        try:
            text = load_skill_resource(skill.path, path)
        except OreError as exc:
            report(f"{exc} The skill is used without it.")
            continue
        more = len(text.encode("utf-8"))
        if size + more <= MAX_RESOURCES_BYTES:
            size += more
            parts.append(f"[Resource:{path}]\n{text}")
        else:
            report(
                f"The resource '{brief(path)}' of the skill '{skill.name}' is left out: all "
                f"resources together would be larger than {MAX_RESOURCES_BYTES:,} bytes."
            )
    if len(mentions) > MAX_RESOURCES:
        report(f"The skill '{skill.name}' names over {MAX_RESOURCES:,} files: the rest is unused.")
    return "\n\n".join(parts)


def _not_for_reading(folder: Path, path: str) -> str:
    if path.partition("/")[0] == SCRIPTS:
        return f"what is in {SCRIPTS} is for running"
    is_inside = not path.startswith("/") and ".." not in path.split("/")
    return "it is a folder" if is_inside and os.path.isdir(folder / path) else ""


def _folders(root: Path, report: Report) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(root) if not name.startswith("."))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        shown = one_line(str(root))
        report(f"No skills are loaded: the folder {shown} can't be read: {reason(exc)}.")
        return []
    folders = []
    for name in names:
        if why := why_unknown(root / name):
            report(f"The skill '{one_line(name)}' is skipped: its folder can't be read: {why}.")
        elif os.path.isdir(root / name):
            folders.append(root / name)
        elif os.path.islink(root / name):
            report(f"The skill folder '{one_line(name)}' is a link that does not lead to a folder.")
    return folders
