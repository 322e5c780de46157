"""The two parts of a SKILL.md: YAML, read as ``yaml.safe_load`` reads it, and the body."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from ore.files.extras import NOT_INSTALLED, importing

with importing("yaml", NOT_INSTALLED):
    import yaml
try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without its C library
    from yaml import SafeLoader  # type: ignore[assignment]

MAX_FRONTMATTER_BYTES = 64 * 1024
HEAD_BYTES = MAX_FRONTMATTER_BYTES + 16
"""How much of SKILL.md is enough for ``split`` to find the frontmatter, or to refuse it."""
MAX_DEPTH = 16
_TOO_DEEP = f"its frontmatter is nested deeper than {MAX_DEPTH} levels"

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---\r?\n")
_CLOSING = re.compile(rb"^---\r?$", re.MULTILINE)
# A field at the margin whose text begins like a plain scalar, with its continuation lines.
_PLAIN_FIELD = re.compile(
    r"^([A-Za-z][\w-]*):[ \t]+([^\s\"'\[\]{}|>&*!%@`#,][^\n]*(?:\n[ \t]+[^\n]*)*)$", re.MULTILINE
)
_COLON = re.compile(r":(?:\s|$)")


def split(data: bytes) -> tuple[bytes, bytes]:
    """Return the frontmatter and the body of a SKILL.md.

    Both ``---`` lines are exact; the first may follow a byte order mark. Lines end in LF or CRLF.

    Raises:
        ValueError: The frontmatter is missing, unclosed or too large; the end of a sentence.
    """
    opening = _OPENING.match(data)
    if opening is None:
        raise ValueError("it does not begin with frontmatter, after a line that is exactly '---'")
    closing = _CLOSING.search(data, opening.end())
    if closing is None or closing.start() - opening.end() > MAX_FRONTMATTER_BYTES:
        raise ValueError(f"no line '---' closes its frontmatter in {MAX_FRONTMATTER_BYTES:,} bytes")
    return data[opening.end() : closing.start()], data[closing.end() :]


def parse(text: str) -> tuple[dict[Any, Any], bool]:
    """Return the frontmatter's mapping, and whether texts had to be quoted to read it.

    Skills are often written as ``description: Use when: ...``, which is not YAML; such a text is
    read as if it were quoted.

    Raises:
        ValueError: The reason, as the end of a sentence.
    """
    try:
        return _load(text), False
    except yaml.YAMLError as exc:
        quoted = _PLAIN_FIELD.sub(_quote, text)
        if quoted != text:
            with suppress(yaml.YAMLError, ValueError):  # the first error is about the user's text
                return _load(quoted), True
        raise ValueError(_problem(exc)) from exc


def _load(text: str) -> dict[Any, Any]:
    _refuse_what_can_grow(text)
    try:
        fields = yaml.load(text, Loader=_FrontmatterLoader)
        repr(fields)  # fails on an integer that Python reads in hexadecimal, and can't write
    except (TypeError, ValueError, OverflowError) as exc:
        # A list as a key, or a date or a number that Python can't hold.
        why = str(exc).partition(";")[0]  # what follows is advice for programmers
        raise ValueError(f"its frontmatter has a value that can't be read: {why}") from exc
    if not isinstance(fields, dict):
        raise ValueError("its frontmatter is not a mapping of 'field: value' lines")
    return fields


def _refuse_what_can_grow(text: str) -> None:
    """Raise ``ValueError`` for aliases, tags and depth, before anything is built of the text."""
    depth = 0
    for event in yaml.parse(text, Loader=SafeLoader):
        if getattr(event, "anchor", None) is not None:
            raise ValueError("its frontmatter has an anchor or an alias (& or *): quote the text")
        if getattr(event, "tag", None) is not None:
            raise ValueError("its frontmatter has a YAML tag (!): quote the text")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)


class _FrontmatterLoader(SafeLoader):
    """The safe loader, but two different values for one key are an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            value = self.construct_object(value_node, deep=True)
            if key in found and found[key] != value:
                problem = f"there are two values for the key '{str(key)[:40]}'"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            found[key] = value
        return found


def _problem(exc: yaml.YAMLError) -> str:
    where, what = "", getattr(exc, "reason", "it can't be parsed")
    if isinstance(exc, yaml.MarkedYAMLError):
        where = f" at line {exc.problem_mark.line + 2}" if exc.problem_mark else ""
        what = " ".join(filter(None, (exc.context, exc.problem)))
    if "maximum nesting depth" in what:  # the C library reads ahead, and has a limit of its own
        return _TOO_DEEP
    return f"its frontmatter is not valid YAML{where}: {what}"


def _quote(field: re.Match[str]) -> str:
    name, text = field.groups()
    if not _COLON.search(text):
        return field[0]
    line = " ".join(part.strip() for part in text.split("\n"))
    return f"{name}: '" + line.replace("'", "''") + "'"
