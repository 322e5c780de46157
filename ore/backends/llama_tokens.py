"""What llama.cpp's server is asked, embedded or at an address, and the tokens that it makes of a text."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from ore.backends.http import LINE_LIMIT, REPLY_LIMIT, Deadline
from ore.backends.reading import pieces_of

TOKENIZE = "/tokenize"
"""Where it is asked for the tokens of a text, which takes longer the longer the text is."""


class Llama(Protocol):
    """One loaded model of llama.cpp's server.

    Attributes:
        name: What it is called where a sentence begins.
        window: The context window, in tokens.
        larger_window: How to get a larger one, in a sentence.
    """

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> int: ...

    @property
    def larger_window(self) -> str: ...

    def posted(
        self, path: str, request: dict[str, Any], longest: int, deadline: Deadline
    ) -> dict[str, Any]:
        """Return what it says to a question that computes nothing, in ``longest`` bytes."""

    def events(
        self,
        request: dict[str, Any],
        *,
        silence: float | None,
        deadline: Deadline,
        path: str,
        longest: int = LINE_LIMIT,
        is_marked: bool = True,
    ) -> Generator[dict[str, Any]]:
        """Send one request and yield its events, of ``longest`` bytes each, as they come."""


def tokens_of(
    engine: Llama, text: str, deadline: Deadline, *, is_prompt: bool = True
) -> list[tuple[int, bytes]]:
    """Return the tokens of a text: the number of each, and the bytes that it stands for.

    In a prompt the marks of the template are tokens of their own; in any other text they are text.
    """
    request = {
        "content": text,
        "with_pieces": True,
        "add_special": is_prompt,
        "parse_special": is_prompt,
    }
    longest = REPLY_LIMIT + 64 * len(text.encode())
    found = engine.posted(TOKENIZE, request, longest, deadline)["tokens"]
    return list(zip((each["id"] for each in found), pieces_of(found), strict=True))
