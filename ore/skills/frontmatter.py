"""The two parts of a SKILL.md: the YAML frontmatter between two ``---`` lines, and the body.

Knows nothing about files or folders, nor which fields a skill needs. Every reason that it gives is
the end of a sentence ("it is not UTF-8 at byte 12").
"""

from __future__ import annotations

import re
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
    looks), no two values for one key, at most ``MAX_DEPTH`` levels. Skills are often written as
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


class _Pairs(list[Any]):
    """The keys and values of a mapping that is not finished, in turns."""


def _mapping(text: str) -> dict[Any, Any]:
    """Build the mapping from the parser's events.

    PyYAML's own builder would recurse as deep as the text does, follow aliases, and take the last
    of two values for one key.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    stack: list[list[Any]] = [[]]
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.NodeEvent):
            _refuse_anchors_and_tags(event)
            if isinstance(event, yaml.ScalarEvent):
                stack[-1].append(_scalar(loader, event))
                continue
            if len(stack) > MAX_DEPTH:
                raise ValueError(f"its frontmatter is nested deeper than {MAX_DEPTH} levels")
            stack.append(_Pairs() if isinstance(event, yaml.MappingStartEvent) else [])
        elif isinstance(event, yaml.CollectionEndEvent):
            done = stack.pop()
            stack[-1].append(_dict(done) if isinstance(done, _Pairs) else done)
    documents = stack[0]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("its frontmatter is not one mapping of 'field: value' lines")
    return documents[0]


def _refuse_anchors_and_tags(event: Any) -> None:
    if event.anchor is not None:
        raise ValueError("its frontmatter has an anchor or an alias (& or *): quote the text")
    if event.tag is not None:
        raise ValueError("its frontmatter has a YAML tag (!): quote the text")


def _scalar(loader: Any, event: Any) -> Any:
    import yaml

    tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag == "tag:yaml.org,2002:str":
        return event.value
    node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
    try:
        return loader.construct_object(node)
    except (ValueError, OverflowError) as exc:  # a date or a number that Python can't hold
        raise ValueError(f"its frontmatter holds a value that can't be read: {exc}") from exc


def _dict(pairs: _Pairs) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(pairs[::2], pairs[1::2]):
        if isinstance(key, (dict, list)):
            raise ValueError("its frontmatter has a key that is no text")
        if key in found and found[key] != value:
            raise ValueError(f"its frontmatter has two values for the key '{str(key)[:40]}'")
        found[key] = value
    return found


def _quote(field: re.Match[str]) -> str:
    name, text = field.groups()
    if not _COLON.search(text):
        return field[0]
    line = " ".join(part.strip() for part in text.split("\n"))
    return f"{name}: '" + line.replace("'", "''") + "'"
