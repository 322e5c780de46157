"""What one skill's folder holds, in three levels: metadata, instructions, resources."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ore.errors import (
    FileAccessError,
    HomeError,
    InvalidSkillError,
    SkillResourceNotFoundError,
)
from ore.files import decode_text, read_confined, reason
from ore.files.home import ore_home
from ore.files.neutral import brief, one_line
from ore.files.trust import distrust, distrust_now, distrust_path
from ore.types import SkillMetadata

Report = Callable[[str], None]
"""Called with one sentence, on one line, about something that was skipped or looks wrong."""

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 1024 * 1024
MAX_RESOURCE_BYTES = 256 * 1024
# The Agent Skills specification, https://agentskills.io/specification
_SPEC_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPEC_NAME_LENGTH, _LONGEST_NAME = 64, 255  # in characters; the other is what is loaded at all


def load_skill_metadata(folder: Path | str, report: Report | None = None) -> SkillMetadata:
    """Return level 1 of the skill in ``folder``: its name, description and hints.

    Only the beginning of SKILL.md is read. What is unusual but harmless (a name that breaks the
    specification, hints of the wrong type) goes to ``report``, and the skill is loaded.

    Raises:
        InvalidSkillError: SKILL.md is missing, unreadable, not text, or lacks a required field.
    """
    report = report or ignore
    fields, quoted = _fields(folder)
    name = _required(folder, fields, "name")
    description = _required(folder, fields, "description")
    if len(name) > _LONGEST_NAME:
        raise _invalid(folder, f"its name has more than {_LONGEST_NAME} characters")
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
    where = f"'{brief(ref)}' in the skill folder '{one_line(name)}'"
    try:
        data = read_confined(folder, ref, MAX_RESOURCE_BYTES, judge=_judge(folder, anew=True))
        return decode_text(data, f"The resource {where}", ref).replace("\r\n", "\n")
    except PermissionError as exc:
        message = f"Path traversal blocked: {where} {reason(exc)}; name a file inside it."
        raise InvalidSkillError(message, name) from exc
    except FileNotFoundError as exc:
        message = f"Resource not found: {where} is not there; check the path."
        raise SkillResourceNotFoundError(message, name) from exc
    except FileAccessError as exc:
        message = one_line(str(exc))
        if brief(ref) != one_line(ref):  # a name of any length, of no file
            message = f"{where} can't be read: {message.rpartition(': ')[2]}"
        raise InvalidSkillError(message, name) from exc


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
        judge = _judge(folder, anew=head is None)
        data = read_confined(folder, SKILL_FILE, MAX_SKILL_BYTES, head=head, judge=judge)
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


def _judge(folder: Path | str, anew: bool) -> Callable[[os.stat_result, str], str] | None:
    """Return what judges files of the user's own skills; another folder was chosen by whoever names it.

    Args:
        folder: The skill's.
        anew: Whether the folder of all skills, and ORE's home, are judged once more.
    """

    def judge(status: os.stat_result, path: str) -> str:
        # The skill's folder may be a link.
        return distrust(status, path) or distrust_path(path) or (distrust_now(own) if anew else "")

    with suppress(HomeError):
        if Path(folder).parent == (own := ore_home() / "skills"):
            return judge
    return None


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


def ignore(line: str) -> None:
    """Report nothing."""
