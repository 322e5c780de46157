r"""A prompt with places for values: ``{{name}}``, and nothing else.

There are no conditions, loops, includes or code. A name is any text on one line without braces;
spaces around it do not count. ``\{{`` is two braces, and ``\\{{name}}`` a backslash before a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ore.errors import UsageError
from ore.files.neutral import brief, one_line

LONGEST_FILLED = 64 << 20
"""Characters: the longest prompt that is made of a template and its values."""
LONGEST_NAME = 200
"""Characters of a name."""

_OPEN, _CLOSE = "{{", "}}"
_PLACE = re.compile(r"\{\{([^{}]*)\}\}")
_MOST_NAMED, _LONGEST_SHOWN = 20, 60  # names in one error, and characters of each


@dataclass(frozen=True)
class Template:
    """A text that was parsed once, to be filled as often as there are values.

    Attributes:
        parts: Texts and names in turn; the first and the last are texts, which may be empty.
        names: Each name once, in the order of the text.
    """

    parts: tuple[str, ...]
    names: tuple[str, ...]

    def stripped(self) -> Template:
        """Return it without white space at both ends; that of values stays."""
        first, *rest = self.parts
        if not rest:
            return Template((first.strip(),), ())
        return Template((first.lstrip(), *rest[:-1], rest[-1].rstrip()), self.names)

    def missing(self, given: Iterable[str]) -> list[str]:
        """Return the names that nothing is ``given`` for."""
        there = set(given)
        return [name for name in self.names if name not in there]

    def unused(self, given: Iterable[str]) -> list[str]:
        """Return what is ``given`` and has no place."""
        used = set(self.names)
        return [name for name in given if name not in used]

    @cached_property
    def _often(self) -> Counter[str]:
        return Counter(self.parts[1::2])

    @cached_property
    def _literal(self) -> int:
        return sum(map(len, self.parts[::2]))

    def length(self, values: Mapping[str, str]) -> int:
        """Return how many characters the text has once it is filled; a name without a value has none."""
        filled = (len(values.get(name, "")) * often for name, often in self._often.items())
        return self._literal + sum(filled)

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with a value in each place. A value is text: no ``{{`` in it has a meaning.

        Raises:
            UsageError: A name has no value, or one that is no text; or the text is longer than ``LONGEST_FILLED``.
        """
        if missing := self.missing(values):
            raise UsageError(f"There is no value for {quoted(missing)}: give one for each.")
        if wrong := [name for name in self.names if not isinstance(values[name], str)]:
            raise UsageError(
                f"`values=` takes texts, and what it gives for {quoted(wrong)} is not text."
            )
        if self.length(values) > LONGEST_FILLED:
            raise UsageError(
                f"The prompt has more than {LONGEST_FILLED >> 20} Mi characters once it is filled: "
                f"give it shorter values. Nothing was sent."
            )
        return "".join(values[part] if at % 2 else part for at, part in enumerate(self.parts))


def parse_template(text: str, source: str = "The prompt", line: int = 1) -> Template:
    """Return the template that ``text`` is.

    Args:
        text: The text.
        source: What it is called in an error, at its beginning.
        line: The number of its first line there.

    Raises:
        UsageError: Two braces in it begin no placeholder; the sentence names the line.
    """
    parts, literal, at = list[str](), list[str](), 0
    while (found := text.find(_OPEN, at)) >= 0:
        before = text[at:found]
        slashes = len(before) - len(before.rstrip("\\"))
        literal.append(before[: len(before) - slashes + slashes // 2])
        if slashes % 2:
            literal.append(_OPEN)
            at = found + len(_OPEN)
            continue
        if text[found : found + 3] == _OPEN + "{":  # as in JSON: {"city":{{{city}}}}
            literal.append("{")
            found += 1
        end = text.find(_CLOSE, found)
        name = text[found + len(_OPEN) : end].strip() if end >= 0 else ""
        if not _is_name(name):
            number = line + text.count("\n", 0, found)
            raise UsageError(
                f"{source} has two braces in line {number} that begin no placeholder: write "
                f"{{{{name}}}}, or \\{{{{ for the braces themselves."
            )
        parts += ["".join(literal), name]
        literal, at = [], end + len(_CLOSE)
    parts.append("".join([*literal, text[at:]]))
    return Template(tuple(parts), tuple(dict.fromkeys(parts[1::2])))


def named_in(text: str) -> set[str]:
    """Return the names that stand in two braces in a text that is no template, all looked up at once."""
    return {name.strip() for name in _PLACE.findall(text)} - {""}


def quoted(names: Iterable[str]) -> str:
    """Return names as they are written in a sentence, on one line; of very many, the first."""
    names = list(names)
    shown = [brief(name[:_LONGEST_SHOWN]) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(f"'{name}'" for name in shown) + (f" and {more:,} more" if more else "")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and one_line(text) == text and not set(text) & set("{}")
