"""Judging values by a JSON Schema, in bounded time; imports the package that does it.

A schema may hold a pattern, or references, that take longer than anybody lives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

import jsonschema
from jsonschema_specifications import REGISTRY
from referencing.jsonschema import specification_with

from ore.backends.http import shorten
from ore.backends.settings import plain
from ore.files.bounded import Bounded
from ore.reasoner.closing import Closing

LONGEST = 3.0
"""Seconds: how long judging a value may take."""
LONGEST_CHECK = 5.0
"""Seconds: how long it may take to tell whether a schema is one."""
_SMALL = 1 << 12
"""Up to here, in characters, that takes no child."""
_MOST_STEPS = 10**7
"""Up to here, characters of the value times those of the schema, judging takes no child (2.5 seconds)."""
_TYPES = {*"string str integer int number float boolean bool array object".split()}
_SLOW = (
    *("pattern", "propertyNames", "uniqueItems", "unevaluated"),
    *("$ref", "$dynamicRef", "$recursiveRef"),
)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` where a schema is none, or can't be applied to anything."""
    try:
        if len(json.dumps(schema)) <= _SMALL:
            found: str = problem(schema)
        else:
            with closing(Bounded(f"{__name__}:problem", LONGEST_CHECK)) as child:
                found = child(schema)
    except TimeoutError as exc:
        raise ValueError(
            f"checking it takes longer than {LONGEST_CHECK:g} seconds; give a shorter one"
        ) from exc
    except OSError as exc:
        raise ValueError(f"it can't be checked: {shorten(str(exc))}") from exc
    if found:
        raise NotASchemaError(found)
    with Judge(schema) as judge:
        judge.violation(None)


def problem(schema: Mapping[str, Any]) -> str:
    """Return where a schema is none, and why, or ``""``.

    Raises:
        ValueError: It refers to what is not in it; a few words that say so.
    """
    validator = _validator_class(schema)
    try:
        validator.check_schema(schema)
    except jsonschema.exceptions.SchemaError as exc:
        return f"at {exc.json_path}, {shorten(exc.message)}"
    types = (each.get("type") if isinstance(each, dict) else each for each in schema.values())
    has_rule = bool(schema.keys() & validator.VALIDATORS.keys())
    if not has_rule and any(isinstance(each, str) and each in _TYPES for each in types):
        return "none of its keys is a rule, so anything fits it; write fields as in 'name, age int'"
    _check_references(schema)
    return ""


class NotASchemaError(ValueError):
    """What is no JSON Schema; its text says where, and why."""


class Judge(Closing):
    """Says whether values fit a schema; close it, or use it in a ``with`` block.

    Where the schema may take long, values are judged in a process of its own, which is begun now.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = plain(schema)
        self._text = json.dumps(self._schema)
        self._child = Bounded(f"{__name__}:violation", LONGEST)
        self._may_be_slow = any(f'"{word}' in self._text for word in _SLOW)
        if self._may_be_slow:
            with suppress(OSError):  # it is said when it is needed
                self._child.start()

    def close(self) -> None:
        """End the process, if there is one."""
        self._child.close()

    def violation(self, value: Any) -> str:
        """Return what of a value does not fit, or ``""``.

        Raises:
            ValueError: The schema can't be applied to it; a few words that say why.
        """
        steps = len(self._text) * len(json.dumps(value))
        if not self._may_be_slow and steps <= _MOST_STEPS:
            return violation(value, self._schema)
        try:
            found: str = self._child(value, self._schema)
        except TimeoutError as exc:
            raise ValueError(f"judging it takes longer than {LONGEST:g} seconds") from exc
        except OSError as exc:
            raise ValueError(f"it can't be judged: {shorten(str(exc))}") from exc
        return found


def _check_references(schema: Mapping[str, Any]) -> None:
    """Look up every reference of a schema, and of what it leads to, as applying it would."""
    draft = specification_with(_validator_class(schema).META_SCHEMA["$schema"])
    root = draft.create_resource(schema)
    try:  # looked through once, or each reference would look through it anew
        registry = REGISTRY.with_resource(root.id() or "", root).crawl()
    except Exception as exc:  # whatever is met where no meta-schema has judged
        raise ValueError("a part of it is not a schema") from exc
    places = [(root, registry.resolver(root.id() or ""))]
    seen: set[int] = set()
    while places:
        place, resolver = places.pop()
        if id(place.contents) in seen or not isinstance(place.contents, Mapping):
            continue
        seen.add(id(place.contents))
        problem = "a part of it is not a schema"
        try:
            for reference in _references(place.contents):
                problem = (
                    f"it refers to {shorten(reference)}, which is not a schema within it; ORE "
                    f"fetches none"
                )
                found = resolver.lookup(reference)
                if not isinstance(found.contents, (bool, Mapping)):
                    raise TypeError(reference)
                places.append((draft.create_resource(found.contents), found.resolver))
            places += [(each, resolver.in_subresource(each)) for each in place.subresources()]
        except Exception as exc:  # whatever is met where no meta-schema has judged
            raise ValueError(problem) from exc


def _references(place: Mapping[str, Any]) -> list[str]:
    found = [place.get(keyword) for keyword in ("$ref", "$dynamicRef")]
    return [reference for reference in found if isinstance(reference, str)]


def violation(value: Any, schema: Mapping[str, Any]) -> str:
    """Return what of a value does not fit a schema, or ``""``.

    Raises:
        ValueError: The schema can't be applied to it; a few words that say why.
    """
    validator = _validator_class(schema)(schema, registry=REGISTRY)
    try:
        found = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except Exception as exc:  # whatever is met where no meta-schema has judged
        why = "it never ends" if isinstance(exc, RecursionError) else shorten(str(exc))
        raise ValueError(f"the schema can't be applied: {why}") from exc
    return f"at {found.json_path}, {shorten(found.message)}" if found else ""


def _validator_class(schema: Mapping[str, Any]) -> Any:
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
