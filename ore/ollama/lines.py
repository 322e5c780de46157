"""The lines of an answer in parts: cut where they end, bounded, mended. One line is one JSON object.

Knows nothing about HTTP libraries or about what the lines say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ore.net.wire import LINE_LIMIT, TooLarge

# U+0085, U+2028 and U+2029 may stand unescaped in JSON, and text splitters take them for line ends.
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


class Lines:
    """Cuts a stream of bytes where its lines end, so that each piece is one or more whole lines.

    Blank lines are dropped, and characters that end a line for a text splitter, but not in JSON,
    are escaped.

    Attributes:
        piece: The lines that came last; evidence when the reader chokes on them.
        whole: Whether ``piece`` ended with a line end; False only for a stream's torn end.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.piece = b""
        self.whole = True

    def __iter__(self) -> Iterator[bytes]:
        """Yield the pieces.

        Raises:
            TooLarge: A line is larger than ``LINE_LIMIT``.
        """
        begun = bytearray()
        for chunk in self._chunks:
            if not begun and _is_plain_line(chunk):
                self.piece = chunk
                yield chunk
                continue
            head, found, tail = chunk.rpartition(b"\n")
            if not found:
                begun += chunk
                if len(begun) > LINE_LIMIT:
                    raise TooLarge("a line", LINE_LIMIT)
                continue
            self.piece, begun = b"%b%b\n" % (bytes(begun), head), bytearray(tail)
            yield mended(self.piece)
        if begun:
            self.piece, self.whole = bytes(begun), False
            yield mended(self.piece)


def _is_plain_line(chunk: bytes) -> bool:
    """Tell whether a chunk is what a server usually sends: one line, with nothing to mend."""
    return chunk.find(b"\n") == len(chunk) - 1 and chunk.isascii() and chunk.startswith(b"{")


def mended(lines: bytes) -> bytes:
    """Return lines of JSON without blank ones and without unescaped Unicode line ends."""
    if not lines.isascii():
        lines = _LINE_ENDS.sub(_escaped, lines)
    if lines.count(b"\n{") + lines.startswith(b"{") != lines.count(b"\n"):
        lines = b"".join([line for line in lines.splitlines(keepends=True) if line.strip()])
    return lines


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode("utf-8"))
