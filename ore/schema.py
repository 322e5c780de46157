"""Answers that have to be JSON of a shape: the schema is read, the answer parsed and validated.

Knows nothing about how a backend makes a model keep to a schema.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ore import strictjson
from ore.errors import ExtraNotInstalledError, SchemaMismatchError, UsageError
from ore.files import read_regular
from ore.net.wire import REPLY_LIMIT
from ore.reasoner import Reasoner
from ore.types import Message, Response

LARGEST = 1 << 20
"""The most bytes of a schema."""

_MOST_SHOWN = 400


def read_schema(text: str) -> dict[str, Any]:
    """Return the JSON Schema that ``text`` is, or that the file of that name holds.

    What begins with ``{`` is the schema itself.

    Raises:
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
        FileAccessError: The file can't be read.
        UsageError: It is no JSON object, or no schema.
    """
    jsonschema = _import_jsonschema()
    if text.lstrip().startswith("{"):
        source, data = "--schema", text.encode("utf-8")
    else:
        source, data = text, read_regular(text, LARGEST)
    try:
        schema = strictjson.parse(data, limit=LARGEST)
    except ValueError as exc:
        raise UsageError(f"The schema in {source} can't be used: {exc}.") from exc
    if not isinstance(schema, dict):
        raise UsageError(f"The schema in {source} can't be used: it is no JSON object.")
    try:
        _validator_class(schema).check_schema(schema)
    except jsonschema.exceptions.SchemaError as exc:
        raise UsageError(
            f"The schema in {source} is no JSON Schema: at {exc.json_path}, {_short(exc.message)}."
        ) from exc
    except RecursionError as exc:
        raise UsageError(f"The schema in {source} can't be used: it has no end.") from exc
    return schema


def parse_answer(response: Response, schema: dict[str, Any]) -> Any:
    """Return the JSON value that an answer is, if it is one and fits ``schema``.

    Nothing is fetched: a ``$ref`` to another document is an error.

    Raises:
        SchemaMismatchError: The answer was cut off by a limit, is no JSON, or does not fit.
    """
    if response.metadata.get("done_reason") == "length":
        raise _mismatch("it was cut off by a limit", response.content)
    try:
        value = strictjson.parse(response.content.encode("utf-8"), limit=REPLY_LIMIT)
    except ValueError as exc:
        raise _mismatch(str(exc), response.content) from exc
    problem = _problem(value, schema)
    if problem:
        raise _mismatch(problem, response.content)
    return value


def as_document(text: str) -> str:
    """Return JSON text as ORE prints JSON: ASCII, indented."""
    return json.dumps(json.loads(text), indent=2, ensure_ascii=True)


class SchemaReasoner(Reasoner):
    """Asks another reasoner, and lets only an answer through that fits a schema.

    The answer is passed on verbatim. It is never streamed: it is right as a whole, or not at all.

    Args:
        inner: The reasoner that answers; it is closed with this one.
        schema: A schema that ``read_schema`` has returned.
    """

    def __init__(self, inner: Reasoner, schema: dict[str, Any]) -> None:
        self.inner = inner
        self.schema = schema

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner.

        Raises:
            SchemaMismatchError: The answer does not fit.
            BackendError: The inner reasoner could not answer.
        """
        response = self.inner.reason(messages)
        if isinstance(response, Response):
            parse_answer(response, self.schema)
        return response

    def phase(self) -> str:
        """Return what the inner reasoner is doing."""
        return self.inner.phase()

    def close(self) -> None:
        """Close the inner reasoner."""
        self.inner.close()


def _problem(value: Any, schema: dict[str, Any]) -> str:
    """Return why a value does not fit a schema, or ``""``."""
    jsonschema = _import_jsonschema()
    import referencing
    from jsonschema_specifications import REGISTRY

    validator = _validator_class(schema)(schema, registry=REGISTRY)
    try:
        found = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except referencing.exceptions.Unresolvable as exc:
        return f"the schema refers to what is not in it ({_short(str(exc))})"
    except (re.error, RecursionError, OverflowError) as exc:
        return f"the schema can't be applied ({_short(str(exc))})"
    return f"at {found.json_path}, {_short(found.message)}" if found else ""


def _mismatch(reason: str, text: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The answer does not fit the schema ({reason}), so nothing of it was kept: ask again, or "
        f"change the schema. The answer was:\n{text}",
        text=text,
    )


def _validator_class(schema: dict[str, Any]) -> Any:
    jsonschema = _import_jsonschema()
    return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)


def _import_jsonschema() -> Any:
    try:
        import jsonschema
    except ImportError as exc:
        raise ExtraNotInstalledError(
            "--schema needs the package 'jsonschema': pip install -r requirements-schema.txt.",
            "schema",
        ) from exc
    return jsonschema


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _MOST_SHOWN].split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
