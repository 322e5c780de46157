"""A prompt in a file: what is asked of which model, above the text with its places for values.

The file says what a command line could, and no more: no key of it reaches a server, runs a program or
writes a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ore.backends.schema import is_path
from ore.errors import UsageError
from ore.files import decode_text
from ore.files.home import expanded
from ore.files.neutral import brief, one_line
from ore.files.reached import why_unknown
from ore.files.spelling import nearest
from ore.files.strictjson import is_list
from ore.glass.choosing import problem_of
from ore.rows.placeholders import Template, parse_template, quoted
from ore.skills.frontmatter import HEAD_BYTES, parse, split

STDIN = "stdin"
"""The name of what is piped in."""

KEYS = (
    *("model", "options", "system", "persona", "skill", "files", "schema", "choose", "think"),
    "expect",
)
"""What may stand above the prompt."""

_NO_PLACE = "it has none: write {{NAME}} where a value goes"
_SHEBANG = re.compile(rb"(?:\xef\xbb\xbf)?#![^\n]*(?:\n|\Z)")
_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---\r?\n")
# What would be read as a prompt, with its keys: a blank line or a comment above, a space behind the line.
_ABOVE, _LINE = rb"(?:\s|#[^\r\n]*[\r\n])*", rb"---(?:[ \t]+#[^\r\n]*|[ \t]*)[\r\n]"
_A_KEY = rb"[\"']?(?:" + "|".join(KEYS).encode() + rb")[\"']?[ \t]*:"
# A heading and a rule of Markdown look alike, but nothing ends there what would be keys.
_KEYS_END = rb"[\s\S]*[\r\n]---"
_NEARLY_OPENING = re.compile(
    rb"(?:\xef\xbb\xbf|\xe2\x80\x8b|\xc2\xa0)*"  # what nobody sees: marks of byte order, odd spaces
    rb"(?:\s*"
    + _LINE
    + rb"\s*[a-z]+:|"
    + _ABOVE
    + rb"-*"
    + _LINE
    + _ABOVE
    + _A_KEY
    + _KEYS_END
    + rb")"
)
_THINK = ("on", "off", "low", "medium", "high")
_QUOTES = "put it in quotes"


@dataclass(frozen=True)
class RunFile:
    """What a run file says. What it leaves out is None or empty: the usual holds.

    Attributes:
        path: Where it was read from.
        sha256: Of its bytes.
        template: The prompt.
        model: A model's name, with ``@sha256:`` where it is pinned, or the path of a GGUF file, as it is
            written there: see ``model_for``.
        options: The model's options as ``KEY=VALUE``.
        system: The text of the system prompt, ``""`` for none, or ``@`` and the path of its file.
        persona, skill: Their names.
        files: Paths of files and folders.
        schema: A JSON Schema, its short form, or the path of a file that holds one.
        choose: The words to choose from, one a line, or ``@`` and the path of their file.
        think: ``on``, ``off``, ``low``, ``medium`` or ``high``.
        expect: What is expected of the answer, as it is written there.
    """

    path: str
    sha256: str
    template: Template
    model: str | None = None
    options: tuple[str, ...] = ()
    system: str | None = None
    persona: str | None = None
    skill: str | None = None
    files: tuple[str, ...] = ()
    schema: str | None = None
    choose: str | None = None
    think: str | None = None
    expect: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def shown(self) -> str:
        """Its path, for a sentence."""
        return one_line(self.path)

    def model_for(self, backend: str | None) -> str | None:
        """Return the model; a relative path of a GGUF file is the run file's own, anything else a name.

        Args:
            backend: What was said of it, or None; ``openai`` has names only, however they look.
        """
        file = (self.model or "").partition("@sha256")[0]
        if self.model is None or backend == "openai" or not file.lower().endswith(".gguf"):
            return self.model
        beside = os.path.join(os.path.dirname(self.path), expanded(file))
        is_path = os.path.isfile(beside) or why_unknown(beside)
        return self.model.replace(file, beside, 1) if is_path else self.model

    def check_values(self, given: Mapping[str, Any], *, stdin: bool) -> None:
        """Raise where not every place has a value, or not every value a place.

        Args:
            given: The values that were named one by one.
            stdin: Whether something is piped in; it needs no place.

        Raises:
            UsageError: All names that are at fault stand in it.
        """
        there = [*given, *([STDIN] if stdin else [])]
        missing, unused = self.template.missing(there), self.template.unused(given)
        problems = [f"no value for {quoted(missing)}"] if missing else []
        problems += [f"no place for {quoted(unused)}"] if unused else []
        if problems:
            named = [name for name in missing if name != STDIN][:1]
            ways = [f"`values['{one_line(name)}']`" for name in named]
            ways += ["`values['stdin']`"] if STDIN in missing else []
            advice = f"give {' and '.join(ways)}"
            if not missing:
                names = [name for name in self.template.names if name != STDIN]
                advice = f"its places are {quoted(names)}" if names else _NO_PLACE
            raise UsageError(f"{self.shown} has {' and '.join(problems)}: {advice}.")


def parse_run_file(data: bytes, path: str) -> RunFile:
    """Return what a run file says; its relative paths become those from the current folder.

    Args:
        data: Its bytes.
        path: Where they were read.

    Raises:
        FileAccessError: It is not text.
        UsageError: It is not a run file: the sentence says what is wrong, and where.
    """
    shown = one_line(path)
    decode_text(data, shown, path)  # before anything else is said of what is not text
    begun = _SHEBANG.match(data)
    body, keys = data[begun.end() :] if begun else data, dict[Any, Any]()
    try:
        if _OPENING.match(body):
            head, body = split(body)
            above = "\n" if begun else ""  # so that an error names the line of the file
            keys, _ = parse(above + head.decode("utf-8").replace("\r\n", "\n"))
        elif _NEARLY_OPENING.match(body, 0, HEAD_BYTES):
            raise ValueError(
                "its keys must begin with a line '---': the first line, or the one right below '#!', "
                "with nothing else on it, not even a space"
            )
    except ValueError as exc:
        raise UsageError(f"{shown} can't be run: {exc}.") from exc
    text = body.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    line = 1 + data[: len(data) - len(body)].count(b"\n")
    template = parse_template(text, shown, line).stripped()
    if not template.names and not template.parts[0]:
        raise UsageError(f"{shown} has no prompt: write it below the line '---'.")
    file = RunFile(path, hashlib.sha256(data).hexdigest(), template)
    return replace(file, **_read_keys(keys, file))


def _read_keys(keys: dict[Any, Any], file: RunFile) -> dict[str, Any]:
    unknown = [str(key) for key in keys if key not in KEYS]
    if unknown:
        near = nearest(unknown[0], KEYS)
        hint = f" (did you mean {near}?)" if near else ""
        raise UsageError(
            f"{file.shown} has keys that no run file has, {quoted(unknown)}{hint}: there are "
            f"{', '.join(KEYS)}."
        )
    if "system" in keys and "persona" in keys:
        raise UsageError(f"{file.shown} has both system and persona: leave one of them out.")
    found: dict[str, Any] = {}
    for key, value in keys.items():
        try:
            found[key] = _READ.get(key, _text)(value, os.path.dirname(file.path))
        except ValueError as exc:
            raise UsageError(f"The key '{key}' of {file.shown} {exc}.") from exc
    return found


def _text(value: Any, _: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"needs a text, not {_named(value)}")
    if "\0" in value:
        raise ValueError("has a NUL, which no name and no path can have")
    _refuse_places(value)
    return value


def _system(value: Any, folder: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"needs a text, not {_named(value)}")
    if value.startswith("@"):
        return "@" + _beside(_text(value[1:], folder), folder)
    try:
        template = parse_template(value)
    except UsageError as exc:
        raise ValueError("has two braces that begin no placeholder: write \\{{ for them") from exc
    _refuse_names(template.names)
    return template.fill({}).strip()


def _files(value: Any, folder: str) -> tuple[str, ...]:
    return tuple(_beside(_text(each, folder), folder) for each in _list(value))


def _options(value: Any, _: str) -> tuple[str, ...]:
    """Return options as the command line has them, which reads them and says what is wrong."""
    if not isinstance(value, dict):
        raise ValueError("needs lines of 'NAME: VALUE', as in temperature: 0")
    pairs: list[str] = []
    options: dict[Any, Any] = value
    for key, given in options.items():
        for each in _list(given) if key == "stop" else [given]:
            if not isinstance(each, (str, int, float)):
                raise ValueError(f"has {_named(each)} for '{str(key)[:40]}'")
            pairs.append(f"{key}={str(each).lower() if isinstance(each, bool) else each}")
    return tuple(pairs)


def _schema(value: Any, folder: str) -> str:
    if isinstance(value, dict):
        try:
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as exc:
            raise ValueError(f"is not JSON: {exc}") from exc
    text = value if isinstance(value, str) and value[:1] == "{" else _text(value, folder)
    beside = _beside(text, folder)
    is_file = not text.startswith("{") and (os.path.isfile(beside) or is_path(text))
    return beside if is_file else text


def _choose(value: Any, folder: str) -> str:
    """Return words to choose from; it says what is wrong with them."""
    words = [_text(each, folder).rstrip("\n") for each in _list(value)]  # YAML's | and > end in one
    if len(words) == 1 and words[0].startswith("@"):
        return "@" + _beside(_text(words[0][1:], folder), folder)
    if isinstance(value, list) and (len(words) < 2 or any("\n" in word for word in words)):
        raise ValueError("needs two words or more, each on a line of its own")
    if len(words) > 1 and (problem := problem_of(words)):
        raise ValueError(f"can't be chosen from: {problem}")
    return "\n".join(words)


def _think(value: Any, _: str) -> str:
    word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if word not in _THINK:
        raise ValueError(f"must be {', '.join(_THINK[:-1])} or {_THINK[-1]}, not {_named(value)}")
    return str(word)


def _expect(value: Any, folder: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError("needs lines of 'KIND: VALUE', as in contains: Paris")
    expected: dict[str, Any] = value
    schema = expected.get("schema")
    return expected | ({"schema": _schema(schema, folder)} if isinstance(schema, str) else {})


_READ = {
    "options": _options,
    "system": _system,
    "files": _files,
    "schema": _schema,
    "choose": _choose,
    "think": _think,
    "expect": _expect,
}
"""How a key's value is read; a text, if it is not here."""


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else [value]


def _beside(path: str, folder: str) -> str:
    return os.path.join(folder, expanded(path))


def _refuse_places(text: str) -> None:
    try:
        names = parse_template(text).names
    except UsageError:  # two braces in the name of a file
        return
    _refuse_names(names)


def _refuse_names(names: tuple[str, ...]) -> None:
    if names:
        raise ValueError(
            f"has the places {quoted(names)}: only the prompt below the line '---' has places"
        )


def _named(value: Any) -> str:
    """Return what a value of YAML is, for a sentence that refuses it."""
    if value is None or isinstance(value, str):
        return f"'{brief(value[:40])}'" if value else "nothing"
    if isinstance(value, bool):
        words = "on, yes and true" if value else "off, no and false"
        return f"{str(value).lower()}, which YAML makes of {words}: {_QUOTES}"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    kind = {int: "whole number", float: "number"}.get(type(value), type(value).__name__)
    return f"{str(value)[:40]}, a {kind}: {_QUOTES}"
