"""Images that belong to a prompt: read from files, and told by their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from struct import error, unpack_from

from ore.errors import UsageError
from ore.files import read_regular
from ore.types import Message

MOST_IMAGE_BYTES = 20 << 20
"""The most bytes of one image."""
_PIXELS_PER_TOKEN, _FEWEST_OF_LARGE = 2048, 64
"""Qwen's and OpenAI's smaller models make a token of 32 by 32 pixels and fewer; those that scale every
image make 64 tokens of one at least."""
_BESIDE = re.compile(r"llama-?3[.-]2.*vision|mllama", re.IGNORECASE)
"""Models that look at an image beside the text, in which one token stands for it."""
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MOST_SEGMENTS = 1000


def read_image(path: str) -> bytes:
    """Return the bytes of an image file: PNG, JPEG or WebP, of at most ``MOST_IMAGE_BYTES`` bytes.

    Raises:
        FileAccessError: It can't be read, is not a regular file, or is too large.
        UsageError: It is not such an image; the bytes decide, not the name.
    """
    data = read_regular(path, MOST_IMAGE_BYTES)
    media_type(data, path)
    return data


def media_type(data: bytes, what: str = "An image") -> str:
    """Return the media type that an image's first bytes tell."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise UsageError(f"{what} is not an image that models read: give a PNG, JPEG or WebP.")


def fewest_tokens(messages: Iterable[Message], model: str) -> int:
    """Return how few tokens a model, by its name, makes of the images of messages.

    None of one that is small, or whose head does not tell its size.
    """
    pixels = (_pixels(data) for message in messages for data in message.images)
    most = 1 if _BESIDE.search(model) else _FEWEST_OF_LARGE
    return sum(min(each // _PIXELS_PER_TOKEN, most) for each in pixels)


def _pixels(data: bytes) -> int:
    try:
        if data.startswith(b"\x89PNG"):
            return prod(unpack_from(">II", data, 16))
        return _pixels_of_webp(data) if data.startswith(b"RIFF") else _pixels_of_jpeg(data)
    except error:  # it ends before its size
        return 0


def _pixels_of_jpeg(data: bytes) -> int:
    at = 2
    for _ in range(_MOST_SEGMENTS):
        mark, kind, length = unpack_from(">BBH", data, at)
        if mark != 0xFF or kind in _JPEG_SIZES:
            return prod(unpack_from(">HH", data, at + 5)) if mark == 0xFF else 0
        at += 2 + length
    return 0


def _pixels_of_webp(data: bytes) -> int:
    kind = data[12:16]
    if kind == b"VP8 ":
        return prod(side & 0x3FFF for side in unpack_from("<HH", data, 26))
    if kind == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        return int(((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1))
    low, high = unpack_from("<IH", data, 24)  # two numbers of three bytes
    return int(((low & 0xFFFFFF) + 1) * ((low >> 24 | high << 8) + 1))
