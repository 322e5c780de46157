"""What the parts of an answer over the OpenAI protocol say, and what they leave out."""

from __future__ import annotations

from typing import Any

from ore.backends.answer import known_count
from ore.backends.logprobs import Logprobs


class Parts:
    """What the parts of an answer say besides its text; ``reason`` is None until it has ended."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._fingerprint = self._model = ""
        self._usage: Any = None
        self._timings: Any = None
        self.logprobs: Logprobs = Logprobs()

    def note(self, part: Any) -> tuple[str, str]:
        """Take note of a part; return the thinking and the text that it brings."""
        self._usage = part.usage or self._usage
        self._timings = getattr(part, "timings", None) or self._timings
        self._fingerprint = part.system_fingerprint or self._fingerprint
        self._model = part.model or self._model
        thinking = text = ""
        for choice in (part.choices or ())[:1]:
            self.reason = choice.finish_reason or self.reason
            self.logprobs.note(getattr(choice.logprobs, "content", None))
            if choice.delta is None:
                continue
            extra = choice.delta.model_extra or {}
            thinking += extra.get("reasoning_content") or extra.get("reasoning") or ""
            text += choice.delta.content or choice.delta.refusal or ""
        return thinking, text

    def metadata(self, total: int) -> dict[str, Any]:
        """Return counts (tokens) and durations (nanoseconds); None where the server said nothing."""
        details = getattr(self._usage, "prompt_tokens_details", None)
        cached = known_count(getattr(details, "cached_tokens", None))
        timings = self._timings if isinstance(self._timings, dict) else {}
        return {
            "eval_count": known_count(getattr(self._usage, "completion_tokens", None)),
            "prompt_eval_count": known_count(getattr(self._usage, "prompt_tokens", None)),
            "eval_duration": _nanoseconds(timings.get("predicted_ms")),
            "prompt_eval_duration": _nanoseconds(timings.get("prompt_ms")),
            "total_duration": total,
            "done_reason": _word(self.reason) or "unknown",
            **({"cached_tokens": cached} if cached else {}),
            **({"system_fingerprint": name} if (name := _word(self._fingerprint)) else {}),
            **({"response_model": name} if (name := _word(self._model)) else {}),
        }


def _word(value: Any) -> str:
    """Return a name that the server gave, or nothing where it can't be kept."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 300 else ""


def _nanoseconds(milliseconds: Any) -> int | None:
    fits = type(milliseconds) in (int, float) and 0 <= milliseconds < 1e12
    return int(milliseconds * 1_000_000) if fits else None
