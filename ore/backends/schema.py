"""Answers that have to be JSON of a shape: the schema is read, the answer parsed and validated."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ore.backends.answer import limit_of
from ore.backends.http import MOST_VALUES, REPLY_LIMIT, shorten
from ore.backends.schema_fields import parse_fields
from ore.backends.window import LARGER_WINDOW, ends_answer
from ore.errors import SchemaMismatchError, UsageError
from ore.files import read_regular, strictjson
from ore.files.extras import importing
from ore.files.strictjson import above_zero, part
from ore.reasoner import Reasoner
from ore.types import Message, Response
from ore.types.artifact_fields import cut_off_by

if TYPE_CHECKING:
    from ore.backends.validation import Judge

MOST_SCHEMA_BYTES = 1 << 20
"""The most bytes of a schema."""
_LONGER = {"a limit": ", or allow it more tokens with `options['num_predict']`"}
_ROOM = f", or give the model a larger window ({LARGER_WINDOW})"
_MOST_INDENTED = 1 << 20  # characters of an answer: indenting 15 million takes three seconds


def read_schema(text: str) -> dict[str, Any]:
    """Return the JSON Schema that ``text`` is, in full or in short, or that the file of that name holds.

    What begins with ``{`` is the schema itself; what is no file may be its short form. Nothing is
    fetched: every ``$ref`` must lead to a place in the schema, or to a published meta-schema.

    Raises:
        ExtraNotInstalledError: The package ``jsonschema`` is missing.
        FileAccessError: The file can't be read.
        UsageError: It is none of these, not a schema, or can't be applied to anything.
    """
    validation = _validation()
    if text.lstrip().startswith("{"):
        where, data = "", text.encode("utf-8")
    elif os.path.exists(text) or is_path(text):
        where, data = f" in {text}", read_regular(text, MOST_SCHEMA_BYTES)
    else:
        return _parse_fields(text)
    try:
        schema = strictjson.parse(data, limit=MOST_SCHEMA_BYTES)
        if not isinstance(schema, dict):
            raise ValueError("it is not a JSON object")
        if not isinstance(schema.get("$schema", ""), str):
            raise ValueError("its $schema is not text")
        if re.search(r"[\ud800-\udfff]", json.dumps(schema, ensure_ascii=False)):
            raise ValueError("it has half a character (a lone surrogate), which can't be sent")
        validation.check_schema(schema)
    except validation.NotASchemaError as exc:
        raise UsageError(f"The schema{where} is not a JSON Schema: {exc}.") from exc
    except ValueError as exc:
        raise UsageError(f"The schema{where} can't be used: {exc}.") from exc
    return schema


def is_path(text: str) -> bool:
    """Tell whether a text can only be meant as the path of a file, or as an address."""
    if text.lower().endswith(".json") or re.match(r"[a-z]+://", text, re.IGNORECASE):
        return True
    return "/" in text and not re.search(r"[\s,:]", text)


def parse_answer(response: Response, judge: Judge) -> Any:
    """Return the JSON value that an answer is, if it is one and fits the schema of ``judge``."""
    cut, text = cut_off_by(response.metadata), response.content
    also = _more_room(response.metadata, _LONGER.get(cut or "", ""))
    if cut:
        by = f"{cut}: {_limit(response.metadata)}" if cut == "a limit" else cut
        raise _mismatch(f"it was cut off by {by}", text, also)
    try:
        value = strictjson.parse(text.encode("utf-8"), limit=REPLY_LIMIT, most=MOST_VALUES)
        violation = judge.violation(value)
    except ValueError as exc:
        raise _mismatch(str(exc), text, also) from exc
    if violation:
        raise _mismatch(violation, text, also)
    return value


def judge_of(schema: Mapping[str, Any]) -> Judge:
    """Return what judges values by a schema that ``read_schema`` has returned; close it."""
    judge: Judge = _validation().Judge(_checked(schema))
    return judge


def as_document(text: str) -> str:
    """Return JSON text as ORE prints JSON: ASCII, and indented if it is not too long for that."""
    indent = 2 if len(text) <= _MOST_INDENTED else None
    return json.dumps(json.loads(text.removeprefix("\ufeff")), indent=indent, ensure_ascii=True)


Read = Callable[[Generator[str, None, Response]], Response]


class SchemaReasoner(Reasoner):
    """Asks another reasoner, and lets only an answer through that fits a schema.

    The answer is passed on verbatim. It is never streamed: it is right as a whole, or not at all.

    Args:
        inner: The reasoner that answers; it is closed with this one.
        schema: A schema that ``read_schema`` has returned.
        read: Reads the inner reasoner's stream and returns its response; None asks for that at once.
    """

    def __init__(
        self, inner: Reasoner, schema: Mapping[str, Any], read: Read | None = None
    ) -> None:
        self.inner = inner
        self._read = read
        self.schema = _checked(schema)
        self._judges: list[Judge] = []  # those that no thread judges with

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call of the inner reasoner."""
        try:
            judge = self._judges.pop()
        except IndexError:
            judge = judge_of(self.schema)
        try:
            if self._read is None:
                response = self.inner.reason(messages)
            else:
                response = self._read(self.inner.stream_reason(messages))
            if isinstance(response, Response):
                parse_answer(response, judge)
        finally:
            self._judges.append(judge)
        return response

    def close(self) -> None:
        """Close the inner reasoner, and what judges."""
        while self._judges:
            self._judges.pop().close()
        self.inner.close()


def _checked(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema; raise ``UsageError`` for anything but a mapping, such as its text."""
    if not isinstance(schema, Mapping):
        raise UsageError(
            f"A schema is a dict here, as in {{'type': 'object'}}, not {type(schema).__name__}."
        )
    return schema


def _parse_fields(text: str) -> dict[str, Any]:
    try:
        return parse_fields(text)
    except ValueError as exc:
        raise UsageError(
            f"A schema is a JSON object, a file that holds one, or fields as in 'name, age int', "
            f"and '{shorten(text) or text}' is none of them: {shorten(str(exc))}."
        ) from exc


def _more_room(metadata: Mapping[str, Any], longer: str) -> str:
    """Return what to do where the prompt or the answer had no room in the window; else ``longer``."""
    fit = part(metadata, "context")
    window = above_zero(fit.get("window"))
    if fit.get("status") == "truncated" and not fit.get("left_out"):
        why = "which did not fit the context window" if window else "which was not read whole"
        return f"{longer}, or shorten the prompt, {why}{_ROOM}"
    counts = fit.get("prompt_tokens"), metadata.get("eval_count")
    read, written = (above_zero(each) or 0 for each in counts)
    return _ROOM if window and ends_answer(window, read, written) else longer


def _limit(metadata: Mapping[str, Any]) -> str:
    """Return which limit cut an answer off: see ``limit_of``."""
    fit, asked = part(metadata, "context"), part(metadata, "options").get("num_predict")
    sizes = {name: above_zero(fit.get(name)) or 0 for name in ("window", "prompt_tokens")}
    return limit_of(asked, sizes, above_zero(metadata.get("eval_count")) or 0, advises=False)


def _mismatch(reason: str, text: str, also: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The answer does not fit the schema ({reason}), so nothing of it was kept: ask again, or "
        f"change the schema{also}. The answer was:\n{text}",
        text=text,
    )


def _validation() -> ModuleType:
    """Return the module that knows ``jsonschema``."""
    with importing("jsonschema", "A schema needs the package '{}': ", "schema"):
        from ore.backends import validation
    return validation
