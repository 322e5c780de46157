"""How likely each token of an answer was, as the server says it while it writes."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import Any, TypeGuard

from ore.backends.http import TooLarge

MOST_BYTES = 16 << 20
"""The most bytes of what is kept of the tokens: some 300,000 of them, each with a number."""
_BESIDE = 48
_LEAST, _MOST = -1e9, 1e-3
"""Between them is every logarithm of a probability that a server has computed and rounded."""


class Logprobs:
    """Collects what comes with the parts of an answer; what has no number is left out.

    ``TooLarge`` is raised beyond ``MOST_BYTES``.
    """

    def __init__(self) -> None:
        self._tokens: list[dict[str, Any]] = []
        self._size = 0

    def note(self, entries: Iterable[Any] | None) -> None:
        """Take in what a part says of its tokens: objects, or dicts, with ``token`` and ``logprob``."""
        for entry in entries if isinstance(entries, Iterable) else ():
            found = entry if isinstance(entry, dict) else getattr(entry, "__dict__", {})
            text, number = found.get("token"), found.get("logprob")
            if isinstance(text, str) and _is_logprob(number):
                self._size += len(text) + _BESIDE
                if self._size > MOST_BYTES:
                    raise TooLarge("log-probabilities", MOST_BYTES)
                written = text.encode("utf-8", "replace").decode("utf-8")
                self._tokens.append({"token": written, "logprob": float(number)})

    def as_metadata(self) -> dict[str, Any]:
        """Return ``logprobs``, each, and ``logprob``, their sum and mean in nats, if there are any."""
        if not self._tokens:
            return {"logprobs": []}
        total = fsum(token["logprob"] for token in self._tokens)
        count = len(self._tokens)
        summary = {"sum": total, "mean": total / count, "tokens": count}
        return {"logprob": summary, "logprobs": self._tokens}


def _is_logprob(number: Any) -> TypeGuard[float]:
    return type(number) in (int, float) and bool(_LEAST <= number <= _MOST)
