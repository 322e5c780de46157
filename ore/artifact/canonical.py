"""One text for one JSON value (RFC 8785), so that a hash means the value and not its layout."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

EXACT = 2**53 - 1
"""The largest integer that every reader of JSON takes for the same number."""

DIGITS_SHOWN = 12
"""How many hexadecimal digits of a hash a sentence or a page shows."""

_quoted = json.encoder.encode_basestring
_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    *((str, str.__str__), (int, int.__int__), (float, float.__float__)),
    *((list, list), (dict, dict)),
)
"""How a value of a type that is derived from one of JSON's, as NumPy's ``float64`` is, becomes that."""

_FIXED_DIGITS = 21  # ECMAScript writes longer integers with an exponent


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a parsed value, in UTF-8 (RFC 8785).

    Raises:
        ValueError: It has none: half a surrogate pair, a number that is not finite, an integer
            beyond ``EXACT``, or something that is not JSON.
    """
    return canonical_text(value).encode("utf-8")


def digest(value: Any) -> str:
    """Return the SHA-256 of what ``canonical`` returns, in hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, half a surrogate pair as it is, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def exact(value: Any) -> Any:
    """Return a parsed value that has canonical JSON: what has none becomes the text of its JSON.

    Of an object or a list, only what is at fault is replaced: ``{"n": 9007199254740992}`` becomes
    ``{"n": "9007199254740992"}``. What has canonical JSON is returned as it is.
    """
    if isinstance(value, list):
        return [exact(each) for each in value]
    if isinstance(value, dict):
        return {exact(key): exact(each) for key, each in value.items()}
    return value_or_text(value)


def value_or_text(value: Any) -> Any:
    """Return ``value``, or the text of its JSON where it has no canonical one, if it has any."""
    try:
        canonical(value)
    except ValueError:
        with suppress(TypeError):  # sealing it says so
            return json.dumps(value)
    return value


def canonical_text(value: Any) -> str:
    """Return the canonical JSON of a parsed value as text; raises what ``canonical`` does.

    Half a surrogate pair stays in it as it is: encoding it raises the ``ValueError``.
    """
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if value is None:
        return "null"
    if kind is dict:
        return joined({key: canonical_text(each) for key, each in value.items()})
    if kind is list:
        return f"[{','.join(map(canonical_text, value))}]"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        if abs(value) > EXACT:
            raise ValueError(f"the integer {str(value)[:24]} is too large to be exact")
        return str(value)
    if kind is float:
        return _number(value)
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return canonical_text(plain(value))
    raise ValueError(f"{kind.__name__} is not JSON")


def joined(texts: Mapping[str, str]) -> str:
    """Return the canonical JSON of an object, made of that of its values by their keys."""
    try:
        is_ascii = all(map(str.isascii, texts))  # which sorts by bytes as it does by characters
    except TypeError as exc:
        raise ValueError("a key of an object is not a text") from exc
    keys = sorted(texts, key=None if is_ascii else _by_utf16)
    return "{" + ",".join([f"{_quoted(key)}:{texts[key]}" for key in keys]) + "}"


def _by_utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _number(value: float) -> str:
    """Write a number as ECMAScript does: Python finds the same digits and sets them differently."""
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    written = repr(value)
    if "e" not in written:
        return written.removesuffix(".0")
    mantissa, _, power = written.partition("e")
    exponent = int(power)
    if not -7 < exponent < _FIXED_DIGITS:
        return f"{mantissa}e{exponent:+d}"
    sign, digits = "-" if value < 0 else "", mantissa.lstrip("-").replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return sign + digits.ljust(exponent + 1, "0")
