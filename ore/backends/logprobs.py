"""How likely each token of an answer was, as the server says it while it writes."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, isfinite
from typing import Any


class Logprobs:
    """Collects what comes with the parts of an answer; what has no number is left out."""

    def __init__(self) -> None:
        self._tokens: list[dict[str, Any]] = []

    def note(self, entries: Iterable[Any] | None) -> None:
        """Take in what a part says of its tokens: objects, or dicts, with ``token`` and ``logprob``."""
        for entry in entries or ():
            found = entry if isinstance(entry, dict) else vars(entry)
            text, number = found.get("token"), found.get("logprob")
            if isinstance(text, str) and isinstance(number, (int, float)) and isfinite(number):
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
