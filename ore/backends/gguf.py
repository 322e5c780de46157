"""What a GGUF file says of its model, read from its first bytes without trusting any of them.

Follows the layout of GGUF versions 2 and 3: a head, then keys with typed values, all little-endian.
Knows nothing about engines.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from ore.errors import FileAccessError
from ore.files import reason

_MAGIC = b"GGUF"
_HEAD_BYTES = 1 << 20  # what is looked for stands before the long lists of tokens
_MOST_KEYS = 1 << 12
_STRING, _ARRAY = 8, 9
_NUMBERS = dict(enumerate(("B", "b", "H", "h", "I", "i", "f", "?"))) | {10: "Q", 11: "q", 12: "d"}


def check_kind(path: Path) -> None:
    """Refuse what is no GGUF file, before native code sees it; a FIFO or device is not waited for.

    Raises:
        FileAccessError: The file can't be read, or is of another kind.
    """
    if _head(path, len(_MAGIC)) != _MAGIC:
        raise FileAccessError(f"{path} is no GGUF model: name a file in that format.", path)


def context_length(path: Path) -> int | None:
    """Return the largest context window that a model was made for, in tokens; None if unsaid.

    Raises:
        FileAccessError: The file can't be read.
    """
    head = _Head(_head(path, _HEAD_BYTES))
    try:
        return head.context_length()
    except (struct.error, UnicodeDecodeError, KeyError, ValueError):
        return None


def _head(path: Path, size: int) -> bytes:
    if os.path.exists(path) and not os.path.isfile(path):
        raise FileAccessError(f"{path} can't be read: it is no regular file.", path)
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as exc:
        raise FileAccessError(f"{path} can't be read: {reason(exc)}.", path) from exc


class _Head:
    """A cursor over the first bytes of a file; reading past them raises ``struct.error``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)

    def context_length(self) -> int | None:
        version, _, keys = self._take("<IQQ")
        if version not in (2, 3):
            return None
        found: dict[str, Any] = {}
        for _ in range(min(keys, _MOST_KEYS)):
            key = self._string()
            found[key] = self._value(self._take("<I")[0])
            length = found.get(f"{found.get('general.architecture')}.context_length")
            if type(length) is int and length > 0:
                return length
        return None

    def _take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _string(self) -> str:
        (size,) = self._take("<Q")
        if size > len(self._data) - self._at:
            raise ValueError("a text reaches past what was read")
        (text,) = self._take(f"<{size}s")
        return str(text, "utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._take(f"<{_NUMBERS[kind]}")[0]
        kind, count = self._take("<IQ")
        if count > len(self._data) - self._at:
            raise ValueError("a list reaches past what was read")
        for _ in range(count):
            if kind == _ARRAY:
                raise ValueError("a list of lists")
            self._value(kind)
        return None
