"""A stream of bytes as lines of text, one JSON object each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ore.backends.http import LINE_LIMIT, TooLarge
from ore.files.strictjson import above_zero, without_texts

MOST_IN_LINE = 1 << 16
"""The most values of a line: the objects that its reader makes of them take far more time and memory."""
MOST_STEPS = 4096
"""The most steps of a pull that are named, as many as it can have layers: each may be a line on a screen."""


class Lines:
    """Cuts a stream of bytes into lines of text, one JSON object each.

    Only a line feed ends a line: U+0085, U+2028 and U+2029 may stand unescaped in JSON. Bytes that
    are not UTF-8 become U+FFFD.

    Attributes:
        last: The line that came last; evidence when its reader chokes on it.
        whole: Whether ``last`` ended with a line feed; False only for a stream's torn end.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.last: bytes = b""
        self.whole: bool = True

    def __iter__(self) -> Iterator[str]:
        """Yield the lines that are not blank.

        Raises:
            TooLarge: One is larger than ``LINE_LIMIT``.
            ValueError: One holds more than ``MOST_IN_LINE``.
        """
        begun = bytearray()
        for chunk in self._chunks:
            # A server usually sends a line at a time, and then there is nothing to cut.
            if not begun and chunk.startswith(b"{") and chunk.find(b"\n") == len(chunk) - 1:
                self.last = chunk
                yield self._text()
                continue
            head, found, tail = chunk.rpartition(b"\n")
            if found:
                begun += head
                lines, begun = bytes(begun).split(b"\n"), bytearray(tail)
                for self.last in lines:
                    if self.last.strip():
                        yield self._text()
            else:
                begun += chunk
            if len(begun) > LINE_LIMIT:
                raise TooLarge("a line", LINE_LIMIT)
        if begun.strip():
            self.last, self.whole = bytes(begun), False
            yield self._text()

    def _text(self) -> str:
        if self.last.count(b",") > MOST_IN_LINE < without_texts(self.last).count(b","):
            raise ValueError(f"its JSON has more than {MOST_IN_LINE:,} values")
        return self.last.decode("utf-8", "replace")


def steps_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """Yield what each line of a pull says: the step, and how many bytes of how many.

    Behind ``MOST_STEPS`` all but the end have one name.
    """
    before, number = "", 0
    for line in lines:
        step = str(line.get("status") or "")
        before, number = step, number + (step != before)
        done, total = (above_zero(line.get(key)) or 0 for key in ("completed", "total"))
        yield "pulling" if number > MOST_STEPS and step != "success" else step, done, total
