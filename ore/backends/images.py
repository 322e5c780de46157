"""Images that belong to a prompt: read from files, and told by their bytes."""

from __future__ import annotations

from ore.errors import UsageError
from ore.files import read_regular

MOST_IMAGE_BYTES = 20 << 20
"""The most bytes of one image."""


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
