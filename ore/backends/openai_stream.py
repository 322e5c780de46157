"""The stream that an answer over the OpenAI protocol comes in: its bytes, its errors and its end."""

from __future__ import annotations

import json
import re
from codecs import iterdecode
from collections.abc import Iterable, Iterator
from io import IncrementalNewlineDecoder
from itertools import chain
from typing import TYPE_CHECKING, Any

from ore.backends.http import Deadline
from ore.backends.openai_parts import Parts
from ore.backends.server_words import openai_words
from ore.errors import BackendTimeoutError, IncompleteAnswerError
from ore.files.strictjson import field

if TYPE_CHECKING:
    import httpx2

    from ore.backends.openai_client import Call

LAST_SECONDS = 10.0
"""How long a server may take for what comes after the end of an answer: counts, and the stream's end."""
MOST_VALUES = 5 << 20
"""The most values of one event, as of one that lists a vocabulary: to read them takes seconds."""

_ERROR, _HAS_DATA = re.compile(r"^(error: ?\{|\{(?=\"error\"))"), re.compile(r"data:\s*\S")
_IN_WORDS = re.compile(
    r"data:\s*(?!(?:true|false|null|NaN|Infinity)\s*(?:[,\]}]|$))(?:[Ee]rror: ?)?"
    r"((?:[^\W\d_]|\d+ [^\W\d_]|\[(?!DONE\])[A-Z]).*)"
)
"""A line of data that is words, and no line of JSON: those begin with other signs, but for these."""


def parts_until(
    deadline: Deadline, call: Call, request: dict[str, Any], last: Parts
) -> Iterator[Any]:
    """Yield the parts of an answer; a connection that fails once it has ended takes nothing of it."""
    try:
        for part in call.chat(request):
            yield part
            call.deadline = deadline.within(LAST_SECONDS) if last.has_ended else deadline
    except (BackendTimeoutError, IncompleteAnswerError):
        if not last.has_ended:
            raise


def reported(event: Any) -> str:
    """Return the words of an event that is an error and has no ``error``, as vLLM's had, or nothing.

    Programs that use FastAPI have a ``detail``, Cloudflare's servers ``errors``.
    """
    if isinstance(event, list):
        return openai_words(event)
    if not isinstance(event, dict):
        return ""
    choices = event.get("choices")
    if choices:
        return _of_choice(choices[0]) if isinstance(choices, list) else ""
    if "choices" in event:
        return openai_words({"base_resp": event.get("base_resp")})
    if event.get("error_code"):  # FastChat's, and Baidu's
        words = event.get("text") or event.get("error_msg")
        return openai_words({"error": words}) or openai_words(event)
    said = event.get("msg" if event.get("code") and "msg" in event else "message")  # Zhipu's
    is_error = event.get("object") == "error" or isinstance(said, str) or event.get("errors")
    return openai_words(event) if is_error or isinstance(event.get("detail"), str) else ""


def _of_choice(choice: Any) -> str:
    """Return the words of an error that a gateway puts into the choice that it could not go on with."""
    error = field(choice, "error")
    if not error or choice.get("finish_reason") not in (None, "", "error"):
        return ""
    return openai_words({"error": error}) or "an error without words"


def in_utf8(stream: httpx2.SyncByteStream, chunks: Iterable[bytes]) -> httpx2.SyncByteStream:
    """Return what has come of a stream as one of UTF-8, which closes it."""
    import httpx2

    class Whole(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            texts = iterdecode(chunks, "utf-8-sig", "replace")
            return (text.encode() for text in _of_data(texts))

        def close(self) -> None:
            stream.close()

    return Whole()


def _of_data(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines of texts that hold data, errors among them, or end an event.

    An event without data is left out. Until August 2025 llama.cpp's server had a field for errors; others
    have none. One that is words, as mistral.rs's and Crane's errors were, becomes an error of these.

    Raises:
        ValueError: An event holds more than ``MOST_VALUES``.
    """
    newlines, begun, values = IncrementalNewlineDecoder(None, translate=True), list[str](), 0
    is_said = False
    for text in chain(texts, ("\n",)):  # the last line may have no end
        begun.append(newlines.decode(text))
        values += sum(map(text.count, ",[{{"))  # a mark stands before each; an object counts as two
        if values > MOST_VALUES:
            raise ValueError(f"its JSON has more than {MOST_VALUES:,} values")
        if "\n" in begun[-1]:
            *lines, rest = "".join(begun).split("\n")
            begun, values = [rest], 0 if "" in lines else values
            found = list[str]()
            for line in (_ERROR.sub("data: {", line) for line in lines):
                if not line:
                    is_said = False
                    found.append(line)
                elif _HAS_DATA.match(line) and not is_said:  # an error's other lines are details
                    words = _IN_WORDS.match(line)
                    is_said = words is not None
                    found.append(line if words is None else _error_of(words[1]))
            yield "".join(f"{line}\n" for line in found)


def _error_of(words: str) -> str:
    """Return the line of data of an error that a server says in words."""
    return f"data: {json.dumps({'error': words})}"
