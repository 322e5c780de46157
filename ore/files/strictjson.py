"""Reading JSON that others may have prepared: bounded, UTF-8, nothing ambiguous.

The standard parser takes a document's last duplicate key, NaN, any depth and any number of digits.
Here each is an error, so that what was checked is what will be used.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, TypeGuard

MAX_DEPTH = 64
"""How many arrays and objects may stand inside each other."""

MAX_DIGITS = 308
"""The most digits of an integer: every number that is accepted fits a float, too."""

_BLOCK = 1 << 20
_EXACT = 2**53  # from here on a float skips integers


def parse(data: bytes, *, limit: int, most: float = math.inf, shortens: bool = False) -> Any:
    """Return the value of one JSON document (RFC 8259).

    Args:
        data: The document: UTF-8, a byte order mark is allowed.
        limit: The most bytes to accept.
        most: The most values, each of which takes far more memory than it has bytes.
        shortens: Whether a number such as ``1.0`` is returned as ``1``, which is the same number.

    Raises:
        ValueError: The reason, as the end of a sentence ("it is not UTF-8 at byte 12").
    """
    if len(data) > limit:
        raise ValueError(f"it is larger than {limit:,} bytes")
    if holds_more_than(data, most):
        raise ValueError(f"it holds more than {most:,} values")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8 at byte {exc.start}") from exc
    if not text.strip():
        raise ValueError("it is empty")
    try:
        value = (_SHORTENING if shortens else _AS_IT_IS).decode(text)
    except json.JSONDecodeError as exc:
        raise ValueError(syntax_problem(exc)) from exc
    except RecursionError as exc:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from exc
    if text.count("{") + text.count("[") > MAX_DEPTH:  # with fewer, nothing can be too deep
        check(value)
    return value


def without_texts(data: bytes | bytearray, most: float = math.inf) -> bytes:
    """Return JSON with a number in the place of each string: a text in it may be a table.

    Of one that holds more values than ``most``, it is a beginning that does.
    """
    rest = data.replace(rb"\\", b"").replace(rb"\"", b"")
    found, is_within, marks = bytearray(), False, 0
    for at in range(0, len(rest), _BLOCK):  # a pattern takes memory for each of its finds
        part = rest[at : at + _BLOCK]
        shown = re.sub(rb'"[^"]*"?', b"0", b'"' * is_within + part)
        is_within ^= part.count(b'"') % 2 == 1
        found += shown
        marks += marks_in(shown)
        # Where this ends within ``{}``, two more are counted than there are.
        if marks > most + 2 and marks_in(found) > most + 2:
            break
    return bytes(found)


def marks_in(data: bytes | bytearray) -> int:
    """Return how many values JSON holds, without the outermost: a mark stands before each.

    An object counts as two, for it takes the memory of two lists. One that is empty counts once, and
    with white space in it more often.
    """
    marks = (b",", b"[", b"{", b"{")
    return sum(map(data.count, marks)) - data.count(b"[]") - 2 * data.count(b"{}")


def holds_more_than(data: bytes | bytearray, most: float) -> bool:
    """Return whether JSON holds more values than ``most``, before any of them takes memory."""
    return len(data) > most < marks_in(data) and marks_in(without_texts(data, most)) > most


def syntax_problem(exc: json.JSONDecodeError) -> str:
    """Return what is wrong with a text that is not JSON, and where, as the end of a sentence."""
    what = exc.msg[:1].lower() + exc.msg[1:].removesuffix(" at")
    return f"it is not JSON: {what} at line {exc.lineno}, column {exc.colno}"


def check(value: Any, most: float = math.inf) -> None:
    """Raise ``ValueError`` where a parsed value nests too deep or holds a number that is not finite.

    So it does where there are more than ``most`` values inside each other.
    """
    level, depth, count = [value], 0, 0
    while level:
        count += len(level)
        if count > most:
            raise ValueError(f"it holds more than {most:,} values")
        numbers, lists, objects = (_of(kind, level) for kind in (float, list, dict))
        if not all(map(math.isfinite, numbers)):
            raise ValueError("it holds a number that is not finite")
        if (lists or objects) and depth == MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        level = list(chain.from_iterable(chain(lists, map(dict.values, objects))))
        depth += 1


def _of(kind: type, values: list[Any]) -> list[Any]:
    """Return the values of a type; most lists hold few types, so those are looked at first."""
    kinds = {each for each in set(map(type, values)) if issubclass(each, kind)}
    return [each for each in values if type(each) in kinds] if kinds else []


def above_zero(value: object) -> int | None:
    """Return a value that was read where it is a whole number above 0, else None."""
    return value if type(value) is int and value > 0 else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"it has the key {twice[:40]!r} twice in one object")
    return found


def refuse_constant(name: str) -> Any:
    """Raise ``ValueError``: the standard parser's ``parse_constant`` for NaN and the infinities."""
    raise ValueError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("it holds a number that is not finite")
    return value


def _shortest(text: str) -> float:
    value = _finite(text)
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS and len(digits.removeprefix("-")) > MAX_DIGITS:
        raise ValueError(f"it holds an integer of more than {MAX_DIGITS} digits")
    return int(digits)


_AS_IT_IS, _SHORTENING = (
    json.JSONDecoder(
        object_pairs_hook=_object,
        parse_constant=refuse_constant,
        parse_float=read_float,
        parse_int=_integer,
    )
    for read_float in (_finite, _shortest)
)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value of JSON is an object: its keys are texts."""
    return isinstance(value, dict)


def part(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at ``key`` of ``values``, one without keys where there is no object."""
    found = values.get(key)
    return found if is_object(found) else {}


def field(value: object, name: str) -> Any:
    """Return a field of a value of JSON; None where the value is not an object, or lacks it."""
    return value.get(name) if is_object(value) else None


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value of JSON is a list."""
    return isinstance(value, list)


def is_list_of_texts(value: object) -> TypeGuard[list[str]]:
    """Return whether a value of JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
