"""Answers that have to be JSON of a shape: the schema is read, the answer parsed and validated."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from ore.backends.http import REPLY_LIMIT
from ore.backends.schema_fields import parse_fields
from ore.errors import ExtraNotInstalledError, SchemaMismatchError, UsageError
from ore.files import read_regular
from ore.files.extras import install_command
from ore.reasoner import Reasoner
from ore.types import Message, Response, strictjson

MOST_SCHEMA_BYTES = 1 << 20
"""The most bytes of a schema."""

_MOST_SHOWN = 400


def read_schema(text: str) -> dict[str, Any]:
    """Return the JSON Schema that ``text`` is, in full or in short, or that the file of that name holds.

    What begins with ``{`` is the schema itself; what is no file may be its short form. Nothing is fetched: every ``$ref`` must lead to a
    place in the schema, or to a published meta-schema.

    Raises:
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
        FileAccessError: The file can't be read.
        UsageError: It is none of these, not a schema, or can't be applied to anything.
    """
    jsonschema = _import_jsonschema()
    if text.lstrip().startswith("{"):
        source, data = "--schema", text.encode("utf-8")
    elif os.path.exists(text) or _is_path(text):
        source, data = text, read_regular(text, MOST_SCHEMA_BYTES)
    else:
        return _parse_fields(text)
    try:
        schema = strictjson.parse(data, limit=MOST_SCHEMA_BYTES)
        if not isinstance(schema, dict):
            raise ValueError("it is not a JSON object")
        if not isinstance(schema.get("$schema", ""), str):
            raise ValueError("its $schema is not text")
        _validator_class(schema).check_schema(schema)
        _check_references(schema)
        _violation(None, schema)
    except jsonschema.exceptions.SchemaError as exc:
        raise UsageError(
            f"The schema in {source} is not a JSON Schema: at {exc.json_path}, {_short(exc.message)}."
        ) from exc
    except ValueError as exc:
        raise UsageError(f"The schema in {source} can't be used: {exc}.") from exc
    return schema


def parse_answer(response: Response, schema: Mapping[str, Any]) -> Any:
    """Return the JSON value that an answer is, if it is one and fits ``schema``."""
    if response.metadata.get("done_reason") == "length":
        raise _mismatch("it was cut off by a limit", response.content)
    try:
        value = strictjson.parse(response.content.encode("utf-8"), limit=REPLY_LIMIT)
        violation = _violation(value, schema)
    except ValueError as exc:
        raise _mismatch(str(exc), response.content) from exc
    if violation:
        raise _mismatch(violation, response.content)
    return value


def as_document(text: str) -> str:
    """Return JSON text as ORE prints JSON: ASCII, indented."""
    return json.dumps(json.loads(text.removeprefix("\ufeff")), indent=2, ensure_ascii=True)


class SchemaReasoner(Reasoner):
    """Asks another reasoner, and lets only an answer through that fits a schema.

    The answer is passed on verbatim. It is never streamed: it is right as a whole, or not at all.

    Args:
        inner: The reasoner that answers; it is closed with this one.
        schema: A schema that ``read_schema`` has returned.
    """

    def __init__(self, inner: Reasoner, schema: Mapping[str, Any]) -> None:
        self.inner = inner
        self.schema = schema

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner."""
        response = self.inner.reason(messages)
        if isinstance(response, Response):
            parse_answer(response, self.schema)
        return response

    def close(self) -> None:
        """Close the inner reasoner."""
        self.inner.close()


def _is_path(text: str) -> bool:
    """Whether a text can only be meant as a file, which is not there."""
    return text.lower().endswith(".json") or ("/" in text and not re.search(r"[\s,:]", text))


def _parse_fields(text: str) -> dict[str, Any]:
    try:
        return parse_fields(text)
    except ValueError as exc:
        raise UsageError(
            f"--schema takes a JSON object, a file that holds one, or fields as in 'name, age int', "
            f"and '{_short(text)}' is none of them: {_short(str(exc))}."
        ) from exc


def _check_references(schema: Mapping[str, Any]) -> None:
    """Look up every reference of a schema, and of what it leads to, as applying it would."""
    from referencing.jsonschema import specification_with

    draft = specification_with(_validator_class(schema).META_SCHEMA["$schema"])
    root = draft.create_resource(schema)
    places = [(root, _registry().resolver_with_root(root))]
    seen: set[int] = set()
    while places:
        place, resolver = places.pop()
        if id(place.contents) in seen or not isinstance(place.contents, Mapping):
            continue
        seen.add(id(place.contents))
        problem = "a part of it is not a schema"
        try:
            for reference in _references(place.contents):
                problem = f"it refers to {_short(reference)}, which is not a schema in it; none is fetched"
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


def _violation(value: Any, schema: Mapping[str, Any]) -> str:
    """Return what of a value does not fit a schema, or ``""``.

    Raises:
        ValueError: The schema can't be applied to it; a few words that say why.
    """
    jsonschema = _import_jsonschema()
    validator = _validator_class(schema)(schema, registry=_registry())
    try:
        found = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except Exception as exc:  # whatever is met where no meta-schema has judged
        why = "it never ends" if isinstance(exc, RecursionError) else _short(str(exc))
        raise ValueError(f"the schema can't be applied: {why}") from exc
    return f"at {found.json_path}, {_short(found.message)}" if found else ""


def _registry() -> Any:
    """Return the published meta-schemas, and no way to fetch anything else."""
    from jsonschema_specifications import REGISTRY

    return REGISTRY


def _mismatch(reason: str, text: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The answer does not fit the schema ({reason}), so nothing of it was kept: ask again, or "
        f"change the schema. The answer was:\n{text}",
        text=text,
    )


def _validator_class(schema: Mapping[str, Any]) -> Any:
    jsonschema = _import_jsonschema()
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def _import_jsonschema() -> Any:
    try:
        import jsonschema
    except ImportError as exc:
        raise ExtraNotInstalledError(
            f"--schema needs the package 'jsonschema': {install_command('schema')}",
            "schema",
        ) from exc
    return jsonschema


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _MOST_SHOWN].split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
