"""What the parts of an answer over the OpenAI protocol say, and what they leave out."""

from __future__ import annotations

from typing import Any

from ore.backends.address import without_key
from ore.backends.answer import known_count
from ore.backends.logprobs import Logprobs
from ore.files.strictjson import field

_THOUGHTS = ("thinking", "reasoning")
_NO_TEXT = ("reference", "tool_reference")
_FOR_TOOLS = ("tool_calls", "function_call", "tool_use")


class Parts:
    """What the parts of an answer say besides its text.

    Args:
        key: The key that was sent, which is kept in no name that the server gives.

    Attributes:
        reason: Why it has ended; None until a part says so.
        has_begun: Whether a part of it came, be it without text.
        has_ended: Whether no more is to come: some servers say ``stop`` with each part.
    """

    def __init__(self, key: str | None = None) -> None:
        self.reason: str | None = None
        self.has_begun = False
        self._key = key
        self._fingerprint = self._model = ""
        self._usage: Any = None
        self._timings: Any = None
        self._asks_for_tools = self._has_delta = self._goes_on = False
        self.logprobs: Logprobs = Logprobs()

    @property
    def has_ended(self) -> bool:
        return self.reason is not None and not self._goes_on

    def note(self, part: Any) -> tuple[str, str]:
        """Take note of a part; return the thinking and the text that it brings."""
        had_ended = self.reason is not None
        self._usage = part.get("usage") or self._usage
        self._timings = part.get("timings") or self._timings
        self._fingerprint = part.get("system_fingerprint") or self._fingerprint
        self._model = part.get("model") or self._model
        thinking = text = ""
        for choice in (part.get("choices") or ())[:1]:
            self.has_begun = True
            self._usage = choice.get("usage") or self._usage  # Moonshot's
            reason = choice.get("finish_reason")
            if reason and reason != "null":  # as some servers write that there is none yet
                self.reason = self._word(reason).lower() or "unknown"  # Gemini's are in capitals
            self.logprobs.note(field(choice.get("logprobs"), "content"))
            self._has_delta |= choice.get("delta") is not None
            whole = choice.get("message") or {"content": choice.get("text")}  # some send no delta
            delta = (choice.get("delta") if self._has_delta else whole) or {}  # MiniMax's, both
            asks = delta.get("tool_calls") or delta.get("function_call")
            self._asks_for_tools |= bool(asks) or self.reason in _FOR_TOOLS
            told = ("reasoning_content", "reasoning", "thinking")
            thinking += _thoughts(next((delta[name] for name in told if delta.get(name)), None))
            content = delta.get("content") or delta.get("refusal") or ""
            if isinstance(content, list):
                thought, content = _of_list(content)
                thinking += thought
            text += content
        # That was no end: text has come after it, or will come after a thought that met no limit.
        is_no_end = (had_ended and text) or (thinking and not text and self.reason == "stop")
        self._goes_on |= self.reason is not None and bool(is_no_end)
        return thinking, text

    def metadata(self, total: int) -> dict[str, Any]:
        """Return counts (tokens) and durations (nanoseconds); None where the server said nothing."""
        details = field(self._usage, "prompt_tokens_details")
        cached = known_count(field(details, "cached_tokens"))
        read = known_count(field(self._usage, "prompt_tokens")) or None
        written = known_count(field(self._usage, "completion_tokens"))
        return {
            "eval_count": written or (written if read else None),  # who counts none counts nothing
            "prompt_eval_count": read,
            "eval_duration": _nanoseconds(field(self._timings, "predicted_ms")),
            "prompt_eval_duration": _nanoseconds(field(self._timings, "prompt_ms")),
            "total_duration": total,
            "done_reason": self.reason or "unknown",
            **({} if cached is None else {"cached_tokens": cached}),
            **({"asked_for_tools": True} if self._asks_for_tools else {}),
            **({"system_fingerprint": name} if (name := self._word(self._fingerprint)) else {}),
            **({"response_model": name} if (name := self._word(self._model)) else {}),
        }

    def _word(self, value: Any) -> str:
        """Return a name that the server gave, or nothing where it can't be kept."""
        if isinstance(value, str) and value.isprintable() and len(value) <= 300:
            return without_key(value.encode(), self._key).decode()
        return ""


def _thoughts(value: Any) -> str:
    """Return the text of thoughts, which may be within objects and lists, as gateways send them.

    An object may hold only a signature. ``AttributeError`` is raised for anything else.
    """
    left, texts = [value], list[str]()
    while left:
        part = left.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, list):
            left += reversed(part)
        elif part:
            left += [part[name] for name in ("text", "thinking", "summary") if part.get(name)][:1]
    return "".join(texts)


def _of_list(parts: list[Any]) -> tuple[str, str]:
    """Return the thinking and the text of parts, as Mistral's and Databricks' servers send them.

    Some are texts by themselves, others say where the text before them comes from.
    """
    thinking = text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        elif part["type"] in _THOUGHTS:
            thinking += _thoughts(part)
        elif part["type"] not in _NO_TEXT:
            text += part["text"]
    return thinking, text


def _nanoseconds(milliseconds: Any) -> int | None:
    fits = type(milliseconds) in (int, float) and 0 <= milliseconds < 1e12
    return int(milliseconds * 1_000_000) if fits else None
