"""One skill: a folder with a SKILL.md, read in three levels (metadata, instructions, resources).

Nothing in it is run, and nothing that it says grants anything. Knows nothing about other skills,
flags, models or terminals, and reads no more than the level that is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ore.errors import FileAccessError, InvalidSkillError, SkillResourceNotFoundError
from ore.files import read_confined, reason
from ore.files.neutral import one_line
from ore.skills import frontmatter as skill_frontmatter
from ore.types import SkillMetadata

Report = Callable[[str], None]
"""Called with one sentence, on one line, about something that was skipped or looks wrong."""

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 1024 * 1024
MAX_RESOURCE_BYTES = 256 * 1024

# The Agent Skills specification, https://agentskills.io/specification
_SPEC_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPEC_NAME_LENGTH = 64


def load_skill_metadata(folder: Path | str, report: Report | None = None) -> SkillMetadata:
    """Return level 1 of the skill in ``folder``: its name, description and hints.

    Only the beginning of SKILL.md is read. What is unusual but harmless (a name that breaks the
    specification, hints of the wrong type) is reported, and the skill is loaded.

    Raises:
        InvalidSkillError: SKILL.md is missing, unreadable, no text, or lacks a required field.
    """
    report = report or ignore
    fields, quoted = _fields(folder)
    name = _required(folder, fields, "name")
    description = _required(folder, fields, "description")
    if not name.isprintable():
        raise _invalid(folder, f"its name '{name}' has characters that can't be shown")
    if quoted:
        report(
            f"The skill '{name}' is loaded, though its frontmatter is no valid YAML: put texts "
            f"that contain a colon in quotes."
        )
    _check_name(name, _folder_name(folder), report)
    hints = _hints(name, fields, report) or _words(name)
    return SkillMetadata(name, description, hints, Path(folder))


def load_skill_frontmatter(folder: Path | str) -> dict[Any, Any]:
    """Return every field of a skill's frontmatter, as YAML reads it; none of them grants anything.

    Raises:
        InvalidSkillError: SKILL.md can't be read, or its frontmatter breaks the rules.
    """
    return _fields(folder)[0]


def load_skill_instructions(folder: Path | str) -> str:
    """Return level 2 of the skill in ``folder``: the text after the frontmatter, stripped.

    Raises:
        InvalidSkillError: SKILL.md can't be read, is no text or has no frontmatter.
    """
    data = _skill_file(folder, None)
    try:
        _, body = skill_frontmatter.split(data)
        return skill_frontmatter.decode(body, offset=len(data) - len(body)).strip()
    except ValueError as exc:
        raise _invalid(folder, str(exc)) from exc


def load_skill_resource(folder: Path | str, ref: str) -> str:
    """Return level 3: the text of a file in the skill's folder, at most ``MAX_RESOURCE_BYTES``.

    Args:
        folder: The skill's folder; it may itself be a link that the user placed.
        ref: The file's path below it. No component of it may be ``..`` or a symbolic link.

    Raises:
        InvalidSkillError: The path leads out of the folder ("Path traversal blocked"), or the file
            can't be read or is no text.
        SkillResourceNotFoundError: There is no such file ("Resource not found").
    """
    where = f"'{one_line(ref)}' in the skill folder '{one_line(_folder_name(folder))}'"
    try:
        data = read_confined(folder, ref, MAX_RESOURCE_BYTES)
        return skill_frontmatter.decode(data).removeprefix("\ufeff")
    except PermissionError as exc:
        message = f"Path traversal blocked: {where} {reason(exc)}; name a file inside it."
        raise InvalidSkillError(message, _folder_name(folder)) from exc
    except FileNotFoundError as exc:
        message = f"Resource not found: {where} is not there; check the path."
        raise SkillResourceNotFoundError(message, _folder_name(folder)) from exc
    except (FileAccessError, ValueError) as exc:
        message = f"The resource {where} can't be used: {_why(exc)}."
        raise InvalidSkillError(message, _folder_name(folder)) from exc


def ignore(line: str) -> None:
    """Report nothing."""


def _fields(folder: Path | str) -> tuple[dict[Any, Any], bool]:
    data = _skill_file(folder, skill_frontmatter.HEAD_BYTES)
    try:
        text, _ = skill_frontmatter.split(data)
        return skill_frontmatter.parse(text)
    except ValueError as exc:
        raise _invalid(folder, str(exc)) from exc


def _skill_file(folder: Path | str, head: int | None) -> bytes:
    try:
        return read_confined(folder, SKILL_FILE, MAX_SKILL_BYTES, head=head)
    except FileNotFoundError as exc:
        raise _invalid(folder, "it is not there, and its name must be exactly that") from exc
    except PermissionError as exc:
        raise _invalid(folder, f"it {reason(exc)}") from exc
    except FileAccessError as exc:
        raise _invalid(folder, _why(exc)) from exc


def _required(folder: Path | str, fields: Mapping[Any, Any], field: str) -> str:
    value = fields.get(field)
    if value is None:
        raise _invalid(folder, f"its frontmatter has no {field}")
    if not isinstance(value, str):
        raise _invalid(folder, f"its {field} is no text: put it in quotes")
    if not value.strip():
        raise _invalid(folder, f"its {field} is blank")
    return value.strip()


def _check_name(name: str, folder: str, report: Report) -> None:
    breaks = []
    if not _SPEC_NAME.fullmatch(name):
        breaks.append("should be lower-case letters, digits and single hyphens")
    if len(name) > _SPEC_NAME_LENGTH:
        breaks.append(f"should have at most {_SPEC_NAME_LENGTH} characters")
    if name != folder:
        breaks.append(f"should be the name of its folder, '{one_line(folder)}'")
    if breaks:
        report(f"The skill '{name}' is loaded, but its name {' and '.join(breaks)}.")


def _hints(name: str, fields: Mapping[Any, Any], report: Report) -> tuple[str, ...]:
    hints = fields.get("hints")
    metadata = fields.get("metadata")
    if hints is None and isinstance(metadata, dict):
        hints = metadata.get("hints")
    if hints is None:
        return ()
    if isinstance(hints, str):
        hints = hints.split(",")
    texts = [hint for hint in hints if isinstance(hint, str)] if isinstance(hints, list) else []
    if not isinstance(hints, list) or len(texts) < len(hints):
        report(f"The skill '{name}' has hints that are no text: they are not used.")
    collapsed = (" ".join(text.split()) for text in texts)
    return tuple(dict.fromkeys(hint for hint in collapsed if hint))


def _words(name: str) -> tuple[str, ...]:
    words = re.findall(r"[^\W_]+", name)
    return (" ".join(words),) if words else ()


def _folder_name(folder: Path | str) -> str:
    return Path(folder).name or Path(os.path.abspath(folder)).name


def _invalid(folder: Path | str, problem: str) -> InvalidSkillError:
    name = _folder_name(folder)
    message = f"{SKILL_FILE} in the skill folder '{name}' can't be used: {problem}."
    return InvalidSkillError(one_line(message), name)


def _why(exc: BaseException) -> str:
    """The reason alone; the sentence of a FileAccessError names the whole path before it."""
    return str(exc).rpartition(" can't be read: ")[2].rstrip(".")
