"""The stream that an answer over the OpenAI protocol comes in: its bytes and its errors."""

from __future__ import annotations

from codecs import iterdecode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ore.backends.refusals import openai_words

if TYPE_CHECKING:
    import httpx2


def reported(event: Any) -> str:
    """Return the words of an event that is an error and has no ``error``, as vLLM's had, or nothing."""
    if not isinstance(event, dict) or "choices" in event:
        return ""
    is_error = event.get("object") == "error" or isinstance(event.get("message"), str)
    return openai_words(event) if is_error else ""


def in_utf8(stream: httpx2.SyncByteStream, chunks: Iterable[bytes]) -> httpx2.SyncByteStream:
    """Return what has come of a stream as one of UTF-8, which closes it."""
    import httpx2

    class Whole(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            texts = iterdecode(chunks, "utf-8-sig", "replace")
            return (text.encode() for text in _with_errors(texts))

        def close(self) -> None:
            stream.close()

    return Whole()


def _with_errors(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts with their errors as data: until August 2025 llama.cpp's server named the field so."""
    last = "\n"
    for text in texts:
        yield (last + text).replace("\nerror: {", "\ndata: {")[1:]
        last = text[-1:] or last
