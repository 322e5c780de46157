"""Ollama's rules: how it writes JSON, counts tokens, cuts a prompt and refuses a request.

The tokenizer is made up, and so are the counts; the rules are the server's. Knows nothing about
endpoints or sockets.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

MESSAGE_TOKENS = 4
IMAGE_TOKENS = 768
NAME = re.compile(r"[A-Za-z0-9_][\w.\-/]*(:[\w.\-]+)?", re.ASCII)
DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")
GO_FIELDS = {
    "model": (str, "string"),
    "messages": (list, "[]api.Message"),
    "stream": (bool, "bool"),
    "options": (dict, "map[string]interface {}"),
    "tools": (list, "api.Tools"),
    "truncate": (bool, "bool"),
    "shift": (bool, "bool"),
}
GO_KINDS = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
FLOATS = "top_p min_p typical_p temperature repeat_penalty presence_penalty frequency_penalty"
INTEGERS = (
    "num_ctx num_batch num_gpu main_gpu num_thread draft_num_predict num_keep seed num_predict "
    "top_k repeat_last_n"
)
OPTION_TYPES = {name: "float32" for name in FLOATS.split()}
OPTION_TYPES |= {name: "integer" for name in INTEGERS.split()} | {"use_mmap": "boolean"}
OPTION_PYTHON = {"float32": (int, float), "integer": (int, float), "boolean": bool}
THINK_LEVELS = ("low", "medium", "high", "max")
THINK_SHOWN = '"high", "medium", "low", "max", true, or false'
TOO_LONG_TO_SHIFT = (
    "the prompt is longer than the context length currently available to the model; shorten the "
    "prompt, adjust the context length in settings, or use a model with a longer context length"
)


class Refused(Exception):
    """A request that the server answers with an error: ``status`` and the exception's text."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


def encode(value: Any) -> bytes:
    """Return JSON as Go writes it: ``<``, ``>``, ``&`` and U+2028/9 escaped, other text raw."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode("utf-8")


def now() -> str:
    """Return the time as Go does: RFC 3339, UTC, nanoseconds without trailing zeros."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{nanoseconds:09d}".rstrip("0").rstrip(".") + "Z"


def count_tokens(text: str) -> int:
    """Return the tokens of a text: one per four characters of each word, begun ones counted."""
    return sum((len(word) + 3) // 4 for word in text.split())


def count_prompt(message: dict) -> int:
    """Return the tokens of one message: its content, its images and a fixed overhead."""
    images = len(message.get("images") or ())
    return MESSAGE_TOKENS + count_tokens(message.get("content") or "") + IMAGE_TOKENS * images


def split_words(text: str) -> list[str]:
    """Cut a text into chunks of one word each, white space in front."""
    return re.findall(r"\s*\S+|\s+$", text)


def full_name(name: str) -> str:
    """Return a model's name in the form by which two names are compared."""
    short = name.lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return short if ":" in short else f"{short}:latest"


def fit(request: dict, num_ctx: int, overflow: str) -> tuple[list[dict], int]:
    """Return the messages that the model gets to see, and the tokens they make.

    Whole messages are dropped from the front. The last message always stays, and so do the system
    messages that stand further to the front than the first one that does not fit.
    What is then still too long is cut by the rule ``overflow``: ``"old"`` keeps a full window,
    ``"rendered"`` half a window and two tokens, ``"native"`` refuses.

    Raises:
        Refused: The prompt is too long and the rule or the request forbids to cut it.
    """
    messages = request.get("messages") or []
    total = sum(map(count_prompt, messages))
    if request.get("truncate") is False and total > num_ctx:
        if overflow == "old":
            raise Refused(400, "the input length exceeds the context length")
        raise Refused(400, too_long(total, num_ctx))
    first, systems = len(messages) - 1, []
    for place in reversed(range(first)):
        systems = [each for each in messages[:place] if str(each.get("role")).lower() == "system"]
        if sum(map(count_prompt, systems + messages[place:])) > num_ctx:
            break
        first = place
    kept = systems + messages[first:]
    total = sum(map(count_prompt, kept))
    if total <= num_ctx:
        return kept, total
    if overflow == "native":
        raise Refused(400, too_long(total, num_ctx))
    if request.get("shift") is False and overflow == "rendered":
        raise Refused(400, TOO_LONG_TO_SHIFT)
    return kept, num_ctx if overflow == "old" else num_ctx // 2 + 2


def too_long(tokens: int, num_ctx: int) -> str:
    """Return the runner's own refusal: JSON, which the server passes on as a string."""
    error = {
        "code": 400,
        "message": f"request ({tokens} tokens) exceeds the available context size "
        f"({num_ctx} tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": tokens,
        "n_ctx": num_ctx,
    }
    return encode({"error": error}).decode()


def check_types(request: dict) -> None:
    """Refuse what Go's decoder refuses: it names the first of them."""
    for name, value in request.items():
        kind, go_type = GO_FIELDS.get(name, (object, ""))
        if value is not None and not isinstance(value, kind):
            found = GO_KINDS.get(type(value), "object")
            where = f"Go struct field ChatRequest.{name} of type {go_type}"
            raise Refused(400, f"json: cannot unmarshal {found} into {where}")
    think = request.get("think")
    if isinstance(think, str) and think not in THINK_LEVELS:
        raise Refused(400, f"invalid think value: {json.dumps(think)} (must be {THINK_SHOWN})")
    if not (think is None or isinstance(think, (bool, str))):
        raise Refused(400, f"think must be a boolean or string ({THINK_SHOWN})")
    keep_alive = request.get("keep_alive")
    if isinstance(keep_alive, str) and not DURATION.fullmatch(keep_alive):
        fault = "missing unit in" if keep_alive.lstrip("+-").isdigit() else "invalid"
        raise Refused(400, f"time: {fault} duration {json.dumps(keep_alive)}")


def check_abilities(request: dict, model: str, abilities: list[str]) -> None:
    """Refuse what the model can't do."""
    if request.get("think") and "thinking" not in abilities:
        raise Refused(400, f'"{request["model"]}" does not support thinking')
    if "completion" not in abilities:
        raise Refused(400, f'"{request["model"]}" does not support chat')
    if request.get("tools") and "tools" not in abilities:
        raise Refused(400, f"registry.ollama.ai/library/{full_name(model)} does not support tools")


def decode(body: bytes) -> dict:
    """Return the request, or refuse it in the words of Go's decoder."""
    if not body:
        raise Refused(400, "missing request body")
    try:
        request = json.loads(body)
    except json.JSONDecodeError as exc:
        if exc.pos >= len(exc.doc):
            raise Refused(400, "unexpected EOF") from exc
        char = exc.doc[exc.pos]
        message = f"invalid character '{char}' looking for beginning of value"
        raise Refused(400, message) from exc
    except UnicodeDecodeError as exc:
        raise Refused(400, "invalid character '\ufffd' looking for beginning of value") from exc
    if not isinstance(request, dict):
        found = GO_KINDS.get(type(request), "null")
        message = f"json: cannot unmarshal {found} into Go value of type api.ChatRequest"
        raise Refused(400, message)
    return request


def check_options(request: dict) -> None:
    """Refuse options of a wrong type; unknown options pass."""
    for name, value in (request.get("options") or {}).items():
        wanted = OPTION_TYPES.get(name)
        if wanted is None or value is None:
            continue
        fits = isinstance(value, OPTION_PYTHON[wanted])
        if not fits or (wanted != "boolean" and isinstance(value, bool)):
            raise Refused(500, f"option {json.dumps(name)} must be of type {wanted}")


def check_format(request: dict) -> None:
    """Refuse unknown formats, as the runner does."""
    wanted = request.get("format")
    if not (wanted in (None, "", "json") or isinstance(wanted, dict)):
        shown = json.dumps(json.dumps(wanted))
        expected = 'expected "json" or a valid JSON Schema object'
        raise Refused(500, f"invalid format: {shown}; {expected}")
