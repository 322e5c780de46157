"""Whether a prompt fitted its context window: estimated before it is sent, judged after.

No server says that it dropped messages, so this reads the signs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_HALF_MARGIN = 8


@dataclass(frozen=True)
class Estimate:
    """How large a prompt is, in tokens: ``likely``, and ``least``, which it can't be below."""

    likely: int
    least: int


def estimate(texts: Iterable[bytes]) -> Estimate:
    """Estimate a prompt from its messages' texts in UTF-8.

    Four bytes a token are right within a third for most scripts; no tokenizer makes fewer tokens
    than there are words.
    """
    likely = least = 0
    for text in texts:
        words = text.split()
        size = sum(map(len, words)) + len(words)  # a run of blanks counts as one
        likely += size // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE
        least += len(words)
    return Estimate(likely, least)


def outcome(
    expected: Estimate,
    window: int | None,
    prompt_tokens: int,
    answer_tokens: int,
    beginning: int = 0,
) -> dict[str, Any]:
    """Return ``metadata["context"]``: ``status``, ``window`` and ``prompt_tokens``, in tokens.

    A count of 0 is one that the server did not give; ``beginning`` is what it counted for an earlier
    prompt that this one begins with.

    ``status`` is ``"truncated"`` when the prompt fills the window, when it was cut to half of the
    window, when the server counted fewer tokens than the prompt has words or than it counted for
    the beginning of the prompt, or when prompt and answer together do not fit, so that the oldest
    was forgotten on the way. It is ``"unknown"`` when the window or the count is not known, or when
    the estimate says that the prompt does not fit and no sign tells; else ``"complete"``.
    """
    least = max(expected.least, beginning)
    status = _status(Estimate(expected.likely, least), window, prompt_tokens, answer_tokens)
    return {"status": status, "window": window, "prompt_tokens": prompt_tokens}


def _status(expected: Estimate, window: int | None, prompt: int, answer: int) -> str:
    if not window or prompt <= 0:
        return "unknown"
    half = window // 2
    overflows = expected.likely > window
    if prompt >= window - 1 or prompt + answer > window or prompt < expected.least:
        return "truncated"
    if overflows and half <= prompt <= half + _HALF_MARGIN:
        return "truncated"
    return "unknown" if overflows else "complete"
