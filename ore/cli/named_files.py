"""Files that are named with ``--file``: their text becomes a tool result, and the name is the grant.

Knows nothing about tools, gates or flags.
"""

from __future__ import annotations

from ore.files import decode_text, read_regular
from ore.files.neutral import one_line
from ore.types import ToolResult

MAX_BYTES = 1 << 20
"""The most bytes of a file: 1 MiB."""


def read_named(path: str) -> ToolResult:
    """Return the text of a regular UTF-8 file as the result of ``file:PATH``.

    A link is followed, for the user named it. A byte order mark is left out.

    Raises:
        FileAccessError: It is no regular file, too large, or no UTF-8 text; nothing may be sent.
    """
    data = read_regular(path, MAX_BYTES)
    shown = one_line(path)
    return ToolResult(f"file:{shown}", decode_text(data, shown, path), "ok")
