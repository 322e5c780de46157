"""What an answer does not show by itself: that it was cut, that not all was read, who else gave it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ore.backends import Settings
from ore.files.neutral import one_line
from ore.types import Response


def warnings_of(response: Response, settings: Settings) -> Iterator[str]:
    """Yield what of an answer is not what was asked for, a sentence each: it was cut, or not all read.

    Args:
        response: The answer, as a reasoner of ORE's own returned it.
        settings: What was asked of the model.
    """
    fit = response.metadata.get("context") or {}
    window, tokens = fit.get("window"), fit.get("prompt_tokens") or 0
    written = response.metadata.get("eval_count") or 0
    if response.metadata.get("done_reason") == "length":
        limit = _limit_of((settings.options or {}).get("num_predict"), fit, written)
        yield f"The answer was cut off by a limit: {limit}."
    answered = response.metadata.get("response_model")
    if isinstance(answered, str) and not _is_same_model(response.model_id, answered):
        yield f"The server answered with the model '{one_line(answered)}', not the one asked for."
    if response.metadata.get("images_read") is False:
        yield (
            f"The server counted {tokens} tokens, too few for an image: the model may not have "
            f"seen it."
        )
    if fit.get("status") == "truncated":
        size = f" of {window} tokens" if window else ""
        overflows = window and tokens < window <= tokens + written
        what = "prompt and its answer" if overflows else "prompt"
        yield f"The {what} did not fit the context window{size}: the model has not seen all of it."


def _is_same_model(asked: str, answered: str) -> bool:
    """Whether two names are one model's: a file and its path, a name and its release or revision."""
    asked, answered = (
        os.path.basename(name.lower()).removesuffix(":latest") for name in (asked, answered)
    )
    return re.fullmatch(rf"{re.escape(asked)}(-\d{{4}}-?\d\d-?\d\d|@main)?", answered) is not None


def _limit_of(asked: object, fit: Mapping[str, Any], written: int) -> str:
    """Return which limit cut an answer off, as far as the counts tell; ``asked`` is num_predict."""
    window, is_asked = fit.get("window"), isinstance(asked, int) and asked > 0
    if is_asked and written == asked:
        return f"`options[num_predict={asked}]`"
    if window and (fit.get("prompt_tokens") or 0) + written >= window:
        return f"the context window of {window} tokens, which `options['num_ctx']` makes larger"
    if is_asked:
        return f"`options[num_predict={asked}]`, or the context window"
    after = f" after {written} tokens" if written else ""
    return f"the model's or the server's own{after}; `options['num_predict']` sets another"
