"""The short form of a schema: ``name, age int, bio: one sentence``, as ``llm`` has it."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_MEANT = {kind: kind for kind in _TYPES} | {"string": "str", "integer": "int", "boolean": "bool"}
"""What nobody would describe a field with, and the type that is meant; ``number`` may be of a house."""
_FIELD = re.compile(rf"([^\W\d][\w-]*)(?:\s+({'|'.join(_TYPES)}))?\s*(?::\s*(.*))?")


def parse_fields(text: str) -> dict[str, Any]:
    """Return the JSON Schema of an object whose fields are all required.

    Fields are separated by line ends, where there are any, else by commas. A field is a name, then its
    type (``str``, which is the default, ``int``, ``float`` or ``bool``), then what it is, after a
    colon.

    Raises:
        ValueError: It has no field, a single name, or something that is not a field; one clause
            that says what.
    """
    text = text.strip()
    properties: dict[str, dict[str, str]] = {}
    for part in filter(None, map(str.strip, text.split("\n" if "\n" in text else ","))):
        found = _FIELD.fullmatch(part.removesuffix(",").rstrip())
        if found is None:
            raise ValueError(
                f"'{part}' is not NAME, NAME TYPE ({', '.join(_TYPES)}) or NAME TYPE: DESCRIPTION"
            )
        name, kind, about = found.groups()
        if name in properties:
            raise ValueError(f"the field '{name}' is there twice")
        if kind is None and about in _MEANT:
            raise ValueError(
                f"'{part}' has its type after a colon, where a description goes: write "
                f"'{name} {_MEANT[about]}'"
            )
        properties[name] = {"type": _TYPES[kind or "str"]}
        if about:
            properties[name]["description"] = about
    if not properties or text in properties:
        raise ValueError("one name may be anything: write a type or a comma after it")
    return {"type": "object", "properties": properties, "required": list(properties)}
