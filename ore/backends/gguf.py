"""What a GGUF file says of itself, read without trusting a byte of it, and the parts of a split one."""

from __future__ import annotations

import io
import math
import os
import re
import struct
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ore.errors import FileAccessError
from ore.files import read_regular
from ore.files.reached import why_unknown
from ore.files.strictjson import above_zero

MAGIC = b"GGUF"


class Tables(NamedTuple):
    """What a GGUF file says before its numbers.

    Attributes:
        keys: Its keys with their values; an array's value is None.
        tensors: The dimensions of each tensor, by its name.
        strings: Of the lists that were asked for, the texts with the numbers that were; empty ones
            where a list has no such number.
        is_whole: Whether all was read.
    """

    keys: dict[str, Any]
    tensors: dict[str, tuple[int, ...]]
    strings: dict[str, dict[int, str]]
    is_whole: bool


_FIRST_BYTES = 1 << 14  # which most heads have less than
_HEAD_BYTES = 1 << 20  # what is looked for stands before the long lists of tokens
_WHOLE_BYTES = 1 << 25  # and the template after them, with the list of tensors
_MOST_DIMENSIONS, _MOST_KEYS, _MOST_TENSORS = 8, 1 << 12, 1 << 18  # far more than any model has
_DAMAGE = (struct.error, UnicodeDecodeError, KeyError, OverflowError)
"""What reading raises over a file that is damaged, or goes on behind what was read of it."""
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    kind: struct.Struct(f"<{letter}")
    for kind, letter in (*enumerate("BbHhIif?"), (10, "Q"), (11, "q"), (12, "d"))
}
_HEAD, _LIST, _PLACE = (struct.Struct(f"<{letters}") for letters in ("4sIQQ", "IQ", "IQ"))
_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")
_PART = re.compile(
    r"(?P<name>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<suffix>\.gguf)", re.I | re.S
)
_FILE_TYPES = {
    **dict(enumerate(("F32", "F16", "Q4_0", "Q4_1"))),
    **dict(enumerate(("Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"), 7)),
    **dict(enumerate(("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS"), 14)),
    **dict(enumerate(("Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M"), 21)),
    **dict(enumerate(("IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M", "BF16"), 28)),
    **{36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4"},
}
"""What llama.cpp calls the numbers of ``general.file_type``."""


def check_kind(path: Path) -> None:
    """Raise ``FileAccessError`` for a file that can't be read or is not GGUF."""
    if read_regular(path, sys.maxsize, head=len(MAGIC)) != MAGIC:
        raise FileAccessError(f"{path} is not a GGUF model: name a file in that format.", path)


def split_name(file: str) -> tuple[str, int, int] | None:
    """Return the name, the number and the count of a part of a split model; None for a whole one.

    Of every name of which the engine reads further parts, so that the digest has them all.

    Args:
        file: The file's name, without its folder.
    """
    found = _PART.fullmatch(file)
    if not found:
        return None
    number, count = int(found["number"]), int(found["count"])
    return (found["name"], number, count) if 1 <= number <= count else None


def is_part(file: str) -> bool:
    """Return whether a file's name is that of one of several parts of a model."""
    part = split_name(file)
    return part is not None and part[2] > 1


def path_for_others(path: Path) -> Path:
    """Return a path by which another process finds the file: ``/dev/fd/3`` is another one there."""
    is_own = os.path.abspath(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))
    return Path(os.path.realpath(path)) if is_own else path


def parts_of(path: Path) -> list[Path]:
    """Return all files of the model whose first file is ``path``.

    Raises:
        FileAccessError: It is another part than the first, or a part is not there or can't be looked at.
    """
    named = path_for_others(path)  # the engine finds the other parts beside that
    part = split_name(named.name)
    if part is None or part[2] == 1:
        return [path]
    path, (name, number, count) = named, part

    def nth(n: int) -> Path:
        return path.with_name(f"{name}-{n:05}-of-{count:05}{path.suffix}")

    if number != 1:
        raise FileAccessError(
            f"{path} is part {number} of {count} of a split model: name its first part, {nth(1)}.",
            path,
        )
    paths = []
    for n in range(1, count + 1):  # no further than to the first one that is missing
        paths.append(nth(n))
        if why := why_unknown(paths[-1]):
            raise FileAccessError(f"{paths[-1]} can't be read: {why}.", paths[-1])
        if not os.path.isfile(paths[-1]):
            raise FileAccessError(
                f"{path} is part 1 of {count} of a split model, and {paths[-1].name} is not beside "
                f"it: fetch all its parts into one folder.",
                path,
            )
    return paths


def size_of(path: Path) -> int:
    """Return how many bytes a model has, with all its parts; raises what ``parts_of`` does, and ``OSError``."""
    return sum(part.stat().st_size for part in parts_of(path))


def read_head(path: Path) -> dict[str, Any]:
    """Return the keys that stand before a model's list of tokens, with their values.

    Follows GGUF versions 2 and 3 (a head, then keys with typed values, all little-endian). Reading
    stops where the file is damaged, and after its first MiB. An array's value is None. A file that is
    not GGUF has none.
    """
    found, count = _read(io.BytesIO(read_regular(path, sys.maxsize, head=_FIRST_BYTES)))
    if count is None:
        found, _ = _read(io.BytesIO(read_regular(path, sys.maxsize, head=_HEAD_BYTES)))
    return found


def read_template(path: Path) -> tuple[str | None, int | None]:
    """Return the chat template of a model, and how many parameters it has; None where unsaid.

    Of a split model only the first file is looked at, which does not say how many there are.
    """
    found = read_tables(path)
    template = found.keys.get("tokenizer.chat_template")
    count = sum(map(math.prod, found.tensors.values())) if split_name(path.name) is None else 0
    is_known = bool(count) and found.is_whole
    return template if isinstance(template, str) else None, count if is_known else None


def read_tables(path: Path, strings: Mapping[str, Collection[int]] | None = None) -> Tables:
    """Return all keys of a model and its tensors, which stand behind the long lists of tokens.

    More of the file is read than by ``read_head``. Of the lists of texts that ``strings`` names, the
    texts with these numbers are kept.
    """
    head = io.BytesIO(read_regular(path, sys.maxsize, head=_WHOLE_BYTES))
    kept: dict[str, dict[int, str]] = {
        name: dict.fromkeys(n, "") for name, n in (strings or {}).items()
    }
    keys, count = _read(head, kept)
    tensors: dict[str, tuple[int, ...]] = {}
    is_whole = count is not None
    try:
        for number in range(count or 0):
            _check_count(number, _MOST_TENSORS)
            name = _string(head)
            (dimensions,) = _take(head, _COUNT)
            row = struct.Struct(f"<{min(dimensions, _MOST_DIMENSIONS)}Q")
            tensors[name] = _take(head, row)
            _take(head, _PLACE)  # its type, and where it begins
    except _DAMAGE:
        is_whole = False
    return Tables(keys, tensors, kept, is_whole)


def quantization(head: dict[str, Any]) -> str | None:
    """Return how a model's numbers are stored, as ``"Q4_K_M"``; None where that is not known."""
    kind = head.get("general.file_type")
    return _FILE_TYPES.get(kind) if type(kind) is int else None


def _read(
    head: io.BytesIO, kept: dict[str, dict[int, str]] | None = None
) -> tuple[dict[str, Any], int | None]:
    """Return the keys, and where all of them were read how many tensors follow.

    Without ``kept`` reading stops before the tokens; texts of lists are put into it. The count is None
    where more follows than there is, or the bytes are damaged.
    """
    found: dict[str, Any] = {}
    try:
        magic, known, tensors, keys = _take(head, _HEAD)
        is_known = magic == MAGIC and known in (2, 3)
        for number in range(keys if is_known else 0):
            _check_count(number, _MOST_KEYS)
            name = _string(head)
            if kept is None and name.startswith("tokenizer.") and window_of(found):
                break
            (kind,) = _take(head, _COUNT)
            found[name] = _value(head, kind, (kept or {}).get(name, {}))
    except _DAMAGE:
        return found, None
    return found, tensors


def architecture_value(head: dict[str, Any], name: str) -> Any:
    """Return the value of a key that is named after the model's architecture; None without it."""
    return head.get(f"{head.get('general.architecture')}.{name}")


def window_of(head: dict[str, Any]) -> int | None:
    """Return the largest context window that a model was made for, in tokens; None if unsaid."""
    return above_zero(architecture_value(head, "context_length"))


def _check_count(number: int, most: int) -> None:
    """Raise ``struct.error`` for one that no model has: a damaged count is no reason to read on."""
    if number >= most:
        raise struct.error(f"there are more than {most}")


def _take(head: io.BytesIO, layout: struct.Struct) -> tuple[Any, ...]:
    return layout.unpack(head.read(layout.size))


def _string(head: io.BytesIO) -> str:
    (size,) = _SIZE.unpack(head.read(8))
    text = head.read(size)
    if len(text) < size:
        raise struct.error("a text ends behind what was read")
    return str(text, "utf-8")


def _value(head: io.BytesIO, kind: int, kept: dict[int, str]) -> Any:
    if kind == _STRING:
        return _string(head)
    if kind != _ARRAY:
        return _take(head, _NUMBERS[kind])[0]
    kind, count = _take(head, _LIST)
    if kind != _STRING:
        head.seek(count * _NUMBERS[kind].size, os.SEEK_CUR)
        return None
    with head.getbuffer() as data:  # a list may have a million texts
        at, end = head.tell(), len(data)
        for number in range(count):
            begin = at + 8
            at = begin + int.from_bytes(data[at:begin], "little")
            if at > end or begin > end:
                raise struct.error("a text ends behind what was read")
            if number in kept:
                kept[number] = str(data[begin:at], "utf-8")
    head.seek(at)
    return None
