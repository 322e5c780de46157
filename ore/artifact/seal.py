"""The hashes that an artifact carries about itself: added when it is written, checked afterwards.

They show accident, not forgery: whoever changes an artifact on purpose can compute them anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ore.artifact.canonical import EXACT, canonical_text, joined

SELF = "self_sha256"
VALUES = "values_sha256"

_SECTIONS = ("input", "output", "continuation", "provenance")
_quick = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode
_MOST_NAMED, _LONGEST_NAME = 20, 200
_SHORT = 4096  # characters of a text whose hash is remembered
_VALUE_DIGITS = 16
"""Enough of a SHA-256 to tell which value was changed; ``self_sha256`` tells whether one was."""


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact with both hashes in its ``provenance``, which must be there.

    ``values_sha256`` has the beginning of the hash of every value, ``self_sha256`` is over the
    canonical JSON of the whole artifact without this key.

    Raises:
        ValueError: A value in it has no canonical JSON.
    """
    texts = _texts(document)
    values = dict(_values(texts))
    hashes = {VALUES: values, SELF: _hash_of_all(texts, {VALUES: values})}
    return {**document, "provenance": document["provenance"] | hashes}


def is_sealed(document: dict[str, Any]) -> bool:
    """Return whether a valid artifact has a seal, if only a part of one, that could be checked."""
    provenance = document.get("provenance") or {}
    return any(provenance.get(key) is not None for key in (SELF, VALUES))


def breaks(document: dict[str, Any]) -> list[str]:
    """Return what does not fit the hashes of a sealed artifact, in a few words each."""
    provenance = document["provenance"]
    if SELF not in provenance:
        return [f"provenance.{SELF} is missing"]
    rest = without_self(document)
    quick = _quick_digest(rest)
    if quick and provenance[SELF] == quick and _is_plain(rest):
        return []
    kept = {key: value for key, value in provenance.items() if key == VALUES}
    try:
        texts = _texts(document)
        if provenance[SELF] == _hash_of_all(texts, kept):
            return []
    except ValueError as exc:
        return [f"it has no canonical JSON: {exc}"]
    named = _changed(provenance.get(VALUES), dict(_values(texts)))
    return named or [f"provenance.{SELF} is not the hash of the artifact"]


def _changed(kept: Any, values: dict[str, str]) -> list[str]:
    if not isinstance(kept, dict):
        return [f"provenance.{VALUES} was changed"]
    found = sorted(
        [(name, "was added") for name in values if name not in kept]
        + [(name, "is missing") for name in kept if name not in values]
    )
    found += [
        (name, "does not fit its hash")
        for name in values
        if name in kept and kept[name] != values[name]
    ]
    named = [f"{name[:_LONGEST_NAME]} {what}" for name, what in found[:_MOST_NAMED]]
    more = len(found) - len(named)
    return [*named, f"and {more:,} more"] if more else named


def _texts(document: dict[str, Any]) -> dict[str, Any]:
    """Return the canonical JSON of every value, and of each in a section, but for the hashes."""
    texts: dict[str, Any] = {}
    for key, value in document.items():
        if key in _SECTIONS:
            own = (SELF, VALUES) if key == "provenance" else ()
            texts[key] = {n: canonical_text(part) for n, part in value.items() if n not in own}
        else:
            texts[key] = canonical_text(value)
    return texts


def _hash_of_all(texts: dict[str, Any], values: dict[str, Any]) -> str:
    """Return ``self_sha256``: of the ``texts``, with the ``values`` that are in the provenance besides."""
    added = {name: canonical_text(value) for name, value in values.items()}
    parts = {**texts, "provenance": {**texts["provenance"], **added}}
    return _sha256(
        joined(
            {key: joined(each) if isinstance(each, dict) else each for key, each in parts.items()}
        )
    )


def _values(texts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of every value, and of each in a section, with the beginning of its hash."""
    for key, text in texts.items():
        if isinstance(text, dict):
            for name, part in text.items():
                yield f"{key}.{name}", _beginning(part)
        else:
            yield key, _beginning(text)


def _beginning(text: str) -> str:
    """Return the beginning of a value's hash; most values of a run are the same in all its turns."""
    of = _sha256_again if len(text) <= _SHORT else _sha256
    return of(text)[:_VALUE_DIGITS]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


_sha256_again = lru_cache(maxsize=256)(_sha256)


def _quick_digest(document: dict[str, Any]) -> str:
    """Return what ``digest`` does of most documents, in a quarter of its time; of others, anything else.

    The standard encoder sorts keys by other rules, and writes some numbers otherwise: where its text is
    not the canonical one, the hash can't be the one that was made of that. It is empty where there is
    no text. What has no canonical JSON, or another one, may have a text here: see ``_is_plain``.
    """
    try:
        return hashlib.sha256(_quick(document).encode("utf-8")).hexdigest()
    except ValueError:  # what has no canonical JSON either, or half a surrogate pair
        return ""


def _is_plain(document: dict[str, Any]) -> bool:
    """Return whether the standard encoder writes a parsed value as its canonical JSON, for sure.

    By kinds: both escape texts with the same function, and half a surrogate pair has no UTF-8. Keys
    in ASCII sort alike by characters and by UTF-16. Integers up to ``EXACT`` are their digits. Of a
    float that is not whole, from 1e-4 to below 1e16, ``repr`` has neither an exponent nor a zero at
    its end: it is what ECMAScript writes (RFC 8785, section 3.2.2.3).
    """
    level: list[Any] = [document]
    while level:
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is dict:
                if not all(map(str.isascii, value)):
                    return False
                below.extend(value.values())
            elif kind is list:
                below.extend(value)
            elif kind is int and not -EXACT <= value <= EXACT:
                return False
            elif kind is float and (value.is_integer() or not 1e-4 <= abs(value) < 1e16):
                return False
        level = below
    return True


def without_self(document: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact without ``self_sha256``, which is the hash of the rest."""
    kept = {key: value for key, value in document["provenance"].items() if key != SELF}
    return {**document, "provenance": kept}
