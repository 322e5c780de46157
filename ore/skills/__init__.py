"""Skills: folders of instructions that a turn can be given, found and read only when asked for.

A skill is read in three levels: its metadata, its instructions, and the resources that they name.
Nothing in it is run, and nothing that it says grants anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ore.errors import (
    FileAccessError,
    InvalidSkillError,
    OreError,
    SkillNotFoundError,
    SkillResourceNotFoundError,
)
from ore.files import decode_text, read_confined, reason
from ore.files.home import ore_home
from ore.files.neutral import one_line
from ore.skills.mentions import resource_mentions
from ore.types import RoutingTarget, SkillMetadata

Report = Callable[[str], None]
"""Called with one sentence, on one line, about something that was skipped or looks wrong."""

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 1024 * 1024
MAX_RESOURCE_BYTES = 256 * 1024
MAX_RESOURCES = 1000
MAX_RESOURCES_BYTES = 1024 * 1024

# The Agent Skills specification, https://agentskills.io/specification
_SPEC_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPEC_NAME_LENGTH = 64


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
        HomeError: ``root`` is None and there is no usable home.
    """
    report = report or _ignore
    root = ore_home() / "skills" if root is None else Path(root)
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
    """Return the skill of ``registry`` that is called ``name``.

    Raises:
        SkillNotFoundError: There is none; the message lists what there is, or how to add one.
    """
    if name in registry:
        return registry[name]
    there = f"there are {', '.join([*registry][:20])}"
    if not registry:
        there = f"put a folder with a SKILL.md into {shown_folder()} to add one"
    elif len(registry) > 20:
        there += f" and {len(registry) - 20} more (see --list-skills)"
    raise SkillNotFoundError(f"There is no skill '{one_line(name)}': {there}.", name)


def shown_folder() -> str:
    """Return the folder of skills as it is named to a person."""
    return one_line(os.path.join(os.environ.get("ORE_HOME", "~/.ore"), "skills"))


def load_skill_metadata(folder: Path | str, report: Report | None = None) -> SkillMetadata:
    """Return level 1 of the skill in ``folder``: its name, description and hints.

    Only the beginning of SKILL.md is read. What is unusual but harmless (a name that breaks the
    specification, hints of the wrong type) goes to ``report``, and the skill is loaded.

    Raises:
        InvalidSkillError: SKILL.md is missing, unreadable, not text, or lacks a required field.
    """
    report = report or _ignore
    fields, quoted = _fields(folder)
    name = _required(folder, fields, "name")
    description = _required(folder, fields, "description")
    if not name.isprintable():
        raise _invalid(folder, f"its name '{name}' has characters that can't be shown")
    if quoted:
        report(f"The skill '{name}' is loaded, but is not valid YAML: quote texts that have a ':'.")
    _check_name(name, _folder_name(folder), report)
    return SkillMetadata(name, description, _hints(name, fields, report), Path(folder))


def load_skill_frontmatter(folder: Path | str) -> dict[Any, Any]:
    """Return every field of the frontmatter in ``folder``; none of them grants anything.

    Raises:
        InvalidSkillError: SKILL.md can't be read, or its frontmatter breaks the rules.
    """
    return _fields(folder)[0]


def load_skill_instructions(folder: Path | str) -> str:
    """Return level 2 of the skill in ``folder``: the text after the frontmatter, stripped.

    Raises:
        InvalidSkillError: SKILL.md can't be read, is not text or has no frontmatter.
    """
    return _parts(folder)[1].strip()


def load_skill_resource(folder: Path | str, ref: str) -> str:
    """Return level 3: the text of a file in the skill's folder, at most ``MAX_RESOURCE_BYTES``.

    Args:
        folder: The skill's folder; it may itself be a link that the user placed.
        ref: The file's path below it. No component of it may be ``..`` or a symbolic link.

    Raises:
        InvalidSkillError: The path leads out of the folder ("Path traversal blocked"), or the file
            can't be read or is not text.
        SkillResourceNotFoundError: There is no such file ("Resource not found").
    """
    name = _folder_name(folder)
    where = f"'{one_line(ref)}' in the skill folder '{one_line(name)}'"
    try:
        data = read_confined(folder, ref, MAX_RESOURCE_BYTES)
        return decode_text(data, f"The resource {where}", ref).replace("\r\n", "\n")
    except PermissionError as exc:
        message = f"Path traversal blocked: {where} {reason(exc)}; name a file inside it."
        raise InvalidSkillError(message, name) from exc
    except FileNotFoundError as exc:
        message = f"Resource not found: {where} is not there; check the path."
        raise SkillResourceNotFoundError(message, name) from exc
    except FileAccessError as exc:
        raise InvalidSkillError(one_line(str(exc)), name) from exc


def skill_text(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return ``[Skill:name]`` and, below it, what ``activate_skill(skill, report)`` returns."""
    return f"[Skill:{skill.name}]\n{activate_skill(skill, report)}"


def activate_skill(skill: SkillMetadata, report: Report | None = None) -> str:
    """Return what a turn gets of ``skill``: its instructions and every resource that they name.

    A resource is appended as ``[Resource:path]`` and its text, in the order of first mention (see
    ``resource_mentions``). One that can't be read, or that would make more than
    ``MAX_RESOURCES_BYTES`` of resources, is left out; ``report`` gets one line for each.

    Raises:
        InvalidSkillError: The instructions can't be read.
    """
    report = report or _ignore
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
        if size + more <= MAX_RESOURCES_BYTES:
            size += more
            parts.append(f"[Resource:{path}]\n{text}")
        else:
            report(
                f"The resource '{one_line(path)}' of the skill '{skill.name}' is left out: all "
                f"resources together would be larger than {MAX_RESOURCES_BYTES:,} bytes."
            )
    if len(mentions) > MAX_RESOURCES:
        report(f"The skill '{skill.name}' names over {MAX_RESOURCES:,} files: the rest is unused.")
    return "\n\n".join(parts)


def _ignore(line: str) -> None:
    """Report nothing."""


def _folders(root: Path, report: Report) -> list[Path]:
    try:
        names = sorted(name for name in os.listdir(root) if not name.startswith("."))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        shown = one_line(str(root))
        report(f"No skills are loaded: the folder {shown} can't be read: {reason(exc)}.")
        return []
    for name in names:
        if os.path.islink(root / name) and not os.path.isdir(root / name):
            report(f"The skill folder '{one_line(name)}' is a link that does not lead to a folder.")
    return [root / name for name in names if os.path.isdir(root / name)]


def _fields(folder: Path | str) -> tuple[dict[Any, Any], bool]:
    from ore.skills.frontmatter import HEAD_BYTES, parse  # imports PyYAML

    frontmatter, _ = _parts(folder, HEAD_BYTES)
    try:
        return parse(frontmatter)
    except ValueError as exc:
        raise _invalid(folder, str(exc)) from exc


def _parts(folder: Path | str, head: int | None = None) -> tuple[str, str]:
    """Return SKILL.md's frontmatter and body; with a ``head``, the body is cut and unchecked."""
    from ore.skills.frontmatter import split  # imports PyYAML

    shown = f"{SKILL_FILE} in the skill folder '{_folder_name(folder)}'"
    try:
        data = read_confined(folder, SKILL_FILE, MAX_SKILL_BYTES, head=head)
        frontmatter, body = split(data)
        checked = data if head is None else data[: len(data) - len(body)]
        decode_text(checked, shown, SKILL_FILE)
    except FileNotFoundError as exc:
        raise _invalid(folder, "it is not there, and its name must be exactly that") from exc
    except PermissionError as exc:
        raise _invalid(folder, f"it {reason(exc)}") from exc
    except ValueError as exc:
        raise _invalid(folder, str(exc)) from exc
    except FileAccessError as exc:
        raise InvalidSkillError(one_line(str(exc)), _folder_name(folder)) from exc
    return frontmatter.decode(), body.decode(errors="replace").replace("\r\n", "\n")


def _required(folder: Path | str, fields: dict[Any, Any], field: str) -> str:
    value = fields.get(field)
    if isinstance(value, str) and value.strip():
        return value.strip()
    if value is None:
        raise _invalid(folder, f"its frontmatter has no {field}")
    raise _invalid(folder, f"its {field} is blank, or not text: put it in quotes")


def _check_name(name: str, folder: str, report: Report) -> None:
    rules = {
        "should be lower-case letters, digits and single hyphens": _SPEC_NAME.fullmatch(name),
        f"should have at most {_SPEC_NAME_LENGTH} characters": len(name) <= _SPEC_NAME_LENGTH,
        f"should be the name of its folder, '{one_line(folder)}'": name == folder,
    }
    breaks = [rule for rule, is_kept in rules.items() if not is_kept]
    if breaks:
        report(f"The skill '{name}' is loaded, but its name {' and '.join(breaks)}.")


def _hints(name: str, fields: dict[Any, Any], report: Report) -> tuple[str, ...]:
    """Return the hints that the frontmatter gives, or else the words of the name."""
    hints, metadata = fields.get("hints"), fields.get("metadata")
    if hints is None and isinstance(metadata, dict):
        hints = metadata.get("hints")
    if isinstance(hints, str):
        hints = hints.split(",")
    found = hints if isinstance(hints, list) else []
    texts = [" ".join(hint.split()) for hint in found if isinstance(hint, str)]
    if hints is not None and (len(texts) < len(found) or found is not hints):
        report(f"The skill '{name}' has hints that are not text: they were ignored.")
    words = " ".join(re.findall(r"[^\W_]+", name))
    return tuple(dict.fromkeys(filter(None, texts))) or ((words,) if words else ())


def _folder_name(folder: Path | str) -> str:
    return os.path.basename(os.path.abspath(folder))


def _invalid(folder: Path | str, problem: str) -> InvalidSkillError:
    name = _folder_name(folder)
    message = f"{SKILL_FILE} in the skill folder '{name}' can't be used: {problem}."
    return InvalidSkillError(one_line(message), name)
