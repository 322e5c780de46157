"""What a model on an OpenAI-compatible server reads of a turn, where the server counts it.

llama.cpp's server renders (``/apply-template``) and counts (``/tokenize``), vLLM's counts. Neither
computes an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ore.backends.answer import known_count
from ore.backends.http import HOSTILE
from ore.backends.joining import left_out
from ore.backends.openai_client import Call
from ore.backends.reading import Part, Reading, counted, missing_from, parts_of, pieces_of
from ore.backends.window import Estimate
from ore.errors import BackendError, OreError
from ore.types import Message

_ONLY_COUNTED = "The server counts the prompt's tokens, and does not show the text that it makes."


def read(
    call: Call,
    owner: object,
    window: int | None,
    request: dict[str, Any],
    messages: Sequence[Message],
) -> Reading | None:
    """Return what the server says that the model reads; None where it does not say.

    Args:
        call: What asks the server.
        owner: Who owns the model, as the server's list says: it tells which server it is.
        request: What a turn would send.
    """
    reads = {"llamacpp": _rendered, "vllm": _counted}.get(owner if isinstance(owner, str) else "")
    if reads is None or any(message.images for message in messages):
        return None
    limit = request.get("max_tokens")
    try:
        return reads(call, window, limit, request, messages)
    except (OreError, *HOSTILE):
        return None


def _rendered(
    call: Call,
    window: int | None,
    limit: int | None,
    request: dict[str, Any],
    messages: Sequence[Message],
) -> Reading:
    def render(texts: Sequence[str]) -> str:
        pairs = zip(messages, texts, strict=True)
        return call.applied([{"role": each.role, "content": text} for each, text in pairs])

    texts = [message.content for message in messages]
    parts = parts_of(texts, render, BackendError)
    rendered = "".join(part.text for part in parts)
    asked = {"content": rendered, "with_pieces": True, "add_special": True, "parse_special": True}
    lost, is_blank = missing_from(parts, texts)[:1], not rendered.strip()
    pieces = pieces_of(call.ask("/tokenize", asked)["tokens"])
    size = len(pieces)
    return Reading(
        Estimate(size, size, size),
        counted(parts, pieces),
        window=window,
        limit=limit,
        rendered=rendered,
        notes=tuple(left_out(messages[each], is_blank=is_blank) for each in lost),
    )


def _counted(
    call: Call,
    window: int | None,
    limit: int | None,
    request: dict[str, Any],
    messages: Sequence[Message],
) -> Reading:
    asked = {name: request[name] for name in ("model", "messages")}
    found = call.ask("/tokenize", {**asked, "add_generation_prompt": True})
    size = known_count(found["count"])
    if size is None:
        raise ValueError("the count is none")
    return Reading(
        Estimate(size, size, size),
        tuple(Part(number, message.content) for number, message in enumerate(messages)),
        window=known_count(found.get("max_model_len")) or window,
        limit=limit,
        why=_ONLY_COUNTED,
    )
