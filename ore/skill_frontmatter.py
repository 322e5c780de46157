"""The two parts of a SKILL.md: the YAML frontmatter between two ``---`` lines, and the body.

Knows nothing about files or folders, nor which fields a skill needs. Every reason that it gives is
the end of a sentence ("it is not UTF-8 at byte 12").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

MAX_FRONTMATTER_BYTES = 64 * 1024
MAX_DEPTH = 16
HEAD_BYTES = MAX_FRONTMATTER_BYTES + 16
"""How much of a file is enough for ``split`` to find the frontmatter, or to refuse it."""

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---\r?\n")
_CLOSING = re.compile(rb"^---\r?$", re.MULTILINE)
# A field at the margin whose text begins like a plain scalar, with its continuation lines.
_PLAIN_FIELD = re.compile(
    r"^([A-Za-z][\w-]*):[ \t]+([^\s\"'\[\]{}|>&*!%@`#,][^\n]*(?:\n[ \t]+[^\n]*)*)$", re.MULTILINE
)
_COLON = re.compile(r":(?:\s|$)")


def split(data: bytes) -> tuple[str, bytes]:
    """Return the text of the frontmatter and the bytes of the body.

    Both ``---`` lines are exact; the first may follow a byte order mark. Lines end in LF or CRLF.

    Raises:
        ValueError: The frontmatter is missing, unclosed, too large or not text.
    """
    opening = _OPENING.match(data)
    if opening is None:
        raise ValueError("it does not begin with frontmatter, after a line that is exactly '---'")
    closing = _CLOSING.search(data, opening.end())
    if closing is None or closing.start() - opening.end() > MAX_FRONTMATTER_BYTES:
        raise ValueError(
            "its frontmatter is not closed by a line that is exactly '---' within "
            f"{MAX_FRONTMATTER_BYTES // 1024} KiB"
        )
    frontmatter = decode(data[opening.end() : closing.start()], offset=opening.end())
    return frontmatter, data[closing.end() :]


def decode(data: bytes, *, offset: int = 0) -> str:
    """Return UTF-8 bytes as text with LF at its line ends.

    Args:
        data: The bytes.
        offset: Where they begin in their file, for the reason.

    Raises:
        ValueError: They are not UTF-8, or hold a NUL byte, which no text has.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8 at byte {offset + exc.start}") from exc
    if "\0" in text:
        raise ValueError(f"it holds a NUL byte at byte {offset + data.index(0)}, so it is no text")
    return text.replace("\r\n", "\n")


def parse(text: str) -> tuple[dict[Any, Any], bool]:
    """Return the frontmatter's mapping, and whether texts had to be quoted to read it.

    Only plain YAML data is read: no tags, no anchors or aliases (so nothing can be larger than it
    looks), no key twice in one mapping, at most ``MAX_DEPTH`` levels. Skills are often written as
    ``description: Use when: ...``, which is no YAML; such a text is read as if it were quoted.

    Raises:
        ValueError: The reason.
    """
    import yaml

    try:
        return _mapping(text), False
    except yaml.YAMLError as exc:
        quoted = _PLAIN_FIELD.sub(_quote, text)
        if quoted != text:
            try:
                return _mapping(quoted), True
            except (yaml.YAMLError, ValueError):
                pass  # the first error is about the text as it was written
        problem = getattr(exc, "problem", None) or getattr(exc, "reason", "it can't be parsed")
        mark = getattr(exc, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        raise ValueError(f"its frontmatter is not valid YAML{where}: {problem}") from exc


def _mapping(text: str) -> dict[Any, Any]:
    import yaml

    loader = _loader()
    _check_events(yaml.parse(text, Loader=loader))
    try:
        value = yaml.load(text, Loader=loader)
    except (ValueError, OverflowError) as exc:  # a date or a number that Python can't hold
        raise ValueError(f"its frontmatter holds a value that can't be read: {exc}") from exc
    if not isinstance(value, dict):
        raise ValueError("its frontmatter is not a mapping of 'field: value' lines")
    return value


def _check_events(events: Iterable[Any]) -> None:
    # Before anything is built: the builder of the fast loader recurses in C without a limit.
    import yaml

    depth = 0
    for event in events:
        if getattr(event, "anchor", None) is not None:
            raise ValueError("its frontmatter has an anchor or an alias (& or *): quote the text")
        if getattr(event, "tag", None) is not None:
            raise ValueError("its frontmatter has a YAML tag (!): quote the text")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ValueError(f"its frontmatter is nested deeper than {MAX_DEPTH} levels")


@cache
def _loader() -> type:
    """PyYAML's fastest safe loader, made to refuse a key that stands twice in one mapping."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            seen: set[str] = set()
            for key in keys:
                if key.value in seen:
                    problem = f"the key '{key.value[:40]}' stands there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def _quote(field: re.Match[str]) -> str:
    name, text = field.groups()
    if not _COLON.search(text):
        return field[0]
    line = " ".join(part.strip() for part in text.split("\n"))
    return f"{name}: '" + line.replace("'", "''") + "'"
