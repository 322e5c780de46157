"""What is expected of an answer: six kinds, and no model judges.

Where several are given, all of them are to hold. The verdict is in the metadata of the response, and so
in whatever keeps the response.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from ore.artifact.canonical import canonical
from ore.backends.schema import read_schema
from ore.errors import ArtifactError, UsageError
from ore.files.bounded import Bounded
from ore.files.neutral import brief
from ore.files.spelling import nearest
from ore.files.strictjson import is_list, is_object
from ore.types import ExecutionArtifact

KINDS = ("equals", "contains", "matches", "json", "schema", "choice")
AT_LEAST = "at_least"
"""The least probability of a ``choice``."""

VERDICT = "expectation"
"""The key of the verdict in the metadata of a response."""

PATTERN_SECONDS = 3.0
"""How long a regular expression, or many texts, may be looked for in an answer."""

_LONGEST_PATTERN = 10_000
_QUOTE = "a text: put it in quotes"


@dataclass(frozen=True)
class Expectation:
    """What is expected, as it was written, after it was checked.

    Attributes:
        wanted: By kind; ``schema`` is the schema itself.
    """

    wanted: Mapping[str, Any]


def parse_expectation(wanted: Mapping[Any, Any], source: str) -> Expectation:
    """Return what is expected; everything is checked that can be before there is an answer.

    Args:
        wanted: By kind, as a file has it.
        source: What the file is called in an error.

    Raises:
        UsageError: A kind is unknown, or its value can't be judged by.
        ExtraNotInstalledError: ``schema`` needs a package that is not there.
    """
    known = (*KINDS, AT_LEAST)
    checked: dict[str, Any] = {}
    try:
        for kind, value in wanted.items():
            if kind not in known:
                near = nearest(str(kind), known)
                hint = f"; the nearest is '{near}'" if near else ""
                name = brief(str(kind)[:40])
                raise UsageError(f"has '{name}'{hint}: there are {', '.join(known)}")
            checked[kind] = _CHECKS[kind](value)
        if AT_LEAST in checked and "choice" not in checked:
            raise UsageError("has at_least without choice: it is the probability of one")
        if not checked:
            raise UsageError(f"is empty: give one of {', '.join(KINDS)}")
        if "matches" in checked:
            _check_pattern(checked["matches"])
    except UsageError as exc:
        raise UsageError(f"The expectation in {source} {str(exc).rstrip('.')}.") from exc
    return Expectation(checked)


def pattern_finder() -> Bounded:
    """Return what looks for a regular expression in a text, in bounded time; close it."""
    return Bounded("ore.rows.patterns:finds", PATTERN_SECONDS)


def _check_pattern(pattern: str) -> None:
    with closing(pattern_finder()) as find:
        try:
            find("", pattern)
        except (ValueError, OSError) as exc:
            raise UsageError(f"has a regular expression that can't be used: {exc}") from exc


def recorded_expectation(artifact: ExecutionArtifact) -> Expectation | None:
    """Return what was expected of a recorded run; None where nothing was. It names no file.

    Raises:
        ArtifactError: It can't be judged by.
    """
    kept = (artifact.provenance or {}).get(VERDICT)
    if kept is None:
        return None
    wanted = kept.get("wanted") if is_object(kept) else None
    if not is_object(wanted) or isinstance(wanted.get("schema"), str):
        raise ArtifactError("its provenance.expectation does not say what was expected")
    try:
        return parse_expectation(wanted, "it")
    except UsageError as exc:
        raise ArtifactError(f"its provenance.expectation can't be used: {exc}") from exc


def _text(kind: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"has {kind} with no text: {kind} needs {_QUOTE}")
    return value


def _texts(value: Any) -> list[str]:
    values = value if is_list(value) and value else [value]
    return [_text("contains", each) for each in values]


def _pattern(value: Any) -> str:
    if len(_text("matches", value)) > _LONGEST_PATTERN:
        raise UsageError(f"has a regular expression of more than {_LONGEST_PATTERN:,} characters")
    return str(value)


def _json(value: Any) -> Any:
    try:
        canonical(value)
    except ValueError as exc:
        raise UsageError(f"has json that is not JSON: {exc}") from exc
    return value


def _schema(value: Any) -> dict[str, Any]:
    try:
        is_object = isinstance(value, dict)
        text = json.dumps(value, allow_nan=False) if is_object else _text("schema", value)
    except (TypeError, ValueError) as exc:  # of YAML, it may hold a date
        raise UsageError(f"has a schema that is not JSON: {exc}") from exc
    try:
        return read_schema(text)
    except UsageError as exc:
        raise UsageError(f"can't be judged by: {exc}") from exc


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UsageError(f"has at_least {brief(str(value)[:40])}: it is a number from 0 to 1")
    return float(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "equals": partial(_text, "equals"),
    "contains": _texts,
    "matches": _pattern,
    "json": _json,
    "schema": _schema,
    "choice": partial(_text, "choice"),
    AT_LEAST: _probability,
}
