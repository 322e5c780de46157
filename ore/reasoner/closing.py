"""What is closed at the end of its ``with`` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class Closing:
    """Gives a class with ``close`` a ``with`` block, whose end calls it."""

    def close(self) -> None:
        """Give back what is held. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
