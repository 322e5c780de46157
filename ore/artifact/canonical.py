"""One text for one JSON value (RFC 8785), so that a hash means the value and not its layout."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

EXACT = 2**53 - 1
"""The largest integer that every reader of JSON takes for the same number."""

_plain = json.JSONEncoder(ensure_ascii=False).encode
_FIXED_DIGITS = 21  # ECMAScript writes larger numbers with an exponent


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a parsed value, in UTF-8 (RFC 8785).

    Raises:
        ValueError: It has none: half a surrogate pair, a number that is not finite, an integer
            beyond ``EXACT``, or something that is not JSON.
    """
    return _text(value).encode("utf-8")


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
    """Return ``value``, or the text of its JSON where it has no canonical one."""
    try:
        canonical(value)
    except ValueError:
        return json.dumps(value)
    return value


def _text(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return _plain(value)
    if isinstance(value, int):
        if abs(value) > EXACT:
            raise ValueError(f"the integer {str(value)[:24]} is too large to be exact")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return f"{{{','.join(f'{_text(key)}:{_text(value[key])}' for key in keys)}}}"
    raise ValueError(f"{type(value).__name__} is not JSON")


def _number(value: float) -> str:
    """Write a number as ECMAScript does: Python finds the same digits and sets them differently."""
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    parts = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, parts.digits))
    point = len(digits) + int(parts.exponent)  # how many digits stand before the decimal point
    digits = digits.rstrip("0")
    if 0 < point <= _FIXED_DIGITS:
        whole, rest = digits[:point].ljust(point, "0"), digits[point:]
        return f"{sign}{whole}.{rest}" if rest else sign + whole
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"
