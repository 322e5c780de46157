"""One text for one JSON value, as RFC 8785 says, so that a hash means the value and not its layout.

Knows nothing about what is hashed, or why.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

EXACT = 2**53 - 1
"""The largest integer that every reader of JSON takes for the same number."""

_FIXED_DIGITS = 21  # ECMAScript writes larger numbers with an exponent


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a parsed value, in UTF-8 (RFC 8785).

    Raises:
        ValueError: It has none: half a surrogate pair, a number that is not finite, an integer
            beyond ``EXACT``, or something that is no JSON.
    """
    return _text(value).encode("utf-8")


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal digits.

    Raises:
        ValueError: As ``canonical``.
    """
    return hashlib.sha256(canonical(value)).hexdigest()


def _text(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) > EXACT:
            raise ValueError(f"the integer {str(value)[:24]} is too large to be exact")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        pairs = (f"{_text(key)}:{_text(value[key])}" for key in sorted(value, key=_utf_16))
        return f"{{{','.join(pairs)}}}"
    raise ValueError(f"{type(value).__name__} is no JSON")


def _utf_16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _number(value: float) -> str:
    """Write a number as ECMAScript does: Python finds the same digits and sets them differently."""
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, point = _digits(repr(abs(value)))
    if 0 < point <= _FIXED_DIGITS:
        whole, rest = digits[:point].ljust(point, "0"), digits[point:]
        return f"{sign}{whole}.{rest}" if rest else sign + whole
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _digits(text: str) -> tuple[str, int]:
    """Return a number's digits without zeros around them, and where its point stands in them."""
    mantissa, _, exponent = text.partition("e")
    whole, _, rest = mantissa.partition(".")
    digits = (whole + rest).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + rest) - len(digits))
    return digits.rstrip("0"), point
