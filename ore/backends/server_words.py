"""What servers say where something fails: their words, and what the words mean.

Each server has its own, for the protocols name only a few. A word that is not known is still shown.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ore.backends.answer import known_count
from ore.files.strictjson import part

MOST_JUDGED = 4000
"""How many characters of an error are looked at: patterns take the square of the time."""


def _any_of(*patterns: str) -> str:
    """Return a pattern as text: ``re`` compiles it where an error is judged, which few turns need."""
    return "(?i)" + "|".join(patterns)


NO_OLLAMA_MODEL = r"model ['\"].*['\"] not found"
NO_MANIFEST = "pull model manifest: file does not exist"
NO_MODEL = _any_of(
    r"model.*(not (found|exist)|does not exist)",
    r"model_not_found",
    r"invalid model( name)?\b",
    r"not a valid model\b",
    r"DeploymentNotFound",  # Azure's
    r"unknown.model\b(?! architecture)",
    r"unavailable.model\b",  # Azure's
    r"requested model( '[^']{1,300}')? is not supported",  # Hugging Face's router, and Copilot
    r"model_(decommissioned|not_available)",  # Groq's and Together's
    r"has reached its end of life",  # NVIDIA's
    r"not found for account",  # NVIDIA's, of one that it lists
    r"unsupported model \S+, please use",  # of gateways to Bedrock
    r"model identifier is invalid",
    r"no such model",
    r"^model is required\b",  # Ollama's, of a name that it can't read, such as a path
    r"no (router for|peer found for|local server found for) requested",  # llama-swap's
    r"only (\S+ | ?)allowed now, your model",  # FastChat's, where it has none, too
    r"could not find (suitable inference|real modelID)",
    r"\u6a21\u578b\u4e0d\u5b58\u5728",  # Zhipu's: the model does not exist
)
CAN_NOT = _any_of(
    r"(not|doesn't) support|unsupported|only supports|only supported by",
    r"only .{1,40} (is|are) supported",
    r"not a multimodal model",
    r"does not accept",
    r"missing data required for image",
    r"no vision (arm|tower|encoder|projector)",
    r"vision add-on is not loaded",
    r"support image input",
    r"(?<!key is )not enabled for (this model|models/)",
    r"unknown variant .image_url",
    r"at most 0 image",
    r"response_format'[^{}]{1,60}input should be",  # llama-cpp-python's, of a schema
    r"content' : value must be a string",
    r"\]\.content must be a string",  # Groq's, of an image
    r"content\b.{0,60} type Input should be 'text'",  # that of servers that take texts alone
    r"response_format.{0,40} is unavailable",  # DeepSeek's, of a schema
)
"""Said of what a model, or its server, is not able to do."""
NO_CHAT = r"(?i)not support (chat|completions)|not a chat model"
"""Said of a model for embeddings, or for another question: by Ollama, vLLM, OpenAI and llama.cpp."""
TOO_LONG = _any_of(
    r"context[_ ](length|size)[_ ](has been )?exceeded",
    r"context ?window ?exceed(ed|s limit)",
    r"exceed_context_size",
    r"exceed(s|ed)? (the |this )?(available |model('?s)? )?(max(imum)? )?context",
    r"exceeds (the )?maximum (allowed )?((input|prompt|sequence) length|number of tokens)",
    r"exceeds the maximum allowed length",
    r"exceeds the max input token limit",  # Bedrock's
    r"exceeded model token limit",
    r"exceed max message tokens",
    r"prompt exceeds max length",
    r"(prompt|input) length .{0,60}(should not exceed|exceeds the max)",
    r"maximum context length",
    r"maximum prompt length is",
    r"context length is only",
    r"configured context size is \d",
    r"model_max_prompt_tokens_exceeded",
    r"tokens_limit_reached",
    r"more than max tokens allowed",
    r"too many tokens:",
    r"larger than the model input length",
    r"longer than the (model'?s )?(maximum )?(context|model length)",
    r"greater than `?max_seq_len",
    r"prompt sequence length is greater than \d",
    r"(prompt tokens: \d+|sequence length \(\d+\)) exceeds (model )?max length",
    r"reached context length of \d",
    r"number of input tokens \d+ cannot exceed",
    r"too many input tokens[.:]",
    r"token len \d+ \+ max_new_tokens \d+ >",
    r"max_length \(\d+\) cannot be greater than model context_length",
    r"default_max_tokens. \(-\d+\)",
    r"prompt ?\u8d85\u957f",  # Zhipu's: too long
    r"(prompt|input)[ _](token )?(length |tokens )?(is )?too[ _]long",
    r"prompt has \d+ tokens, but context_length is \d",  # Xinference's
    r"prompt leaves no room for output",
    r"prompt_tokens \(\d+\) must be",
    r"prompt is \d+ tokens(;| but) the model context (window )?is \d+",
    r"range of input length should",
    r"reduce the length of the messages",
    r"max_tokens must be at least 1, got -",
    r"n_keep .{1,20} >= n_ctx",
    r"keep (the first \d+ tokens|from the initial prompt)",
    r"`inputs` (must have less than \d+ tokens|tokens \+ `max_new_tokens` must be)",
)
"""Said of a prompt that does not fit the model's window, with its answer or without."""
NO_ROOM = "max_tokens must be at least 1, got 0"
"""Said by vLLM of a prompt that fills the window to its last token, and of an answer of no tokens."""
OF_BOTH = (
    r"(?is)(?!.*(requested 0 output tokens|at least 1, got [-0]|(leave|no) room for output|"
    r"without any output|default_max_tokens. \(-))"
    r".*(max_(completion_|new_)?tokens|completion|output tokens|mid-generation|max_length \()"
)
"""Said where the prompt and the answer that is asked for do not fit together, and the first alone may."""
OF_ALL = r"(?i)context size has been exceeded"
"""Said by llama.cpp's server where what it answers at once fills a window that is shared; LM Studio's
passes it on. A prompt that does not fit by itself is refused in other words."""
FILTERED = _any_of(
    r"content[ _](filter(?! timed out)|management policy|policy_violation)",
    r"(prompt|input|content) (was )?flagged",
    r"safety system",
    r"data_inspection_failed",
    r"violates usage",
    r"new_sensitive",
    r"\u654f\u611f\u5185\u5bb9",  # sensitive content
)
"""What a server's filter says: OpenAI's, Azure's, Anthropic's, OpenRouter's, xAI's and those of China."""
NOTHING_THERE = _any_of(
    r"((file|resource) )?not found\b(?! in)",
    r"method not allowed",
    r"no route (for|matched)",
    r"invalid url \(",
    r"unknown request url",
)
"""What servers say of an address that nothing is at: FastAPI, llama.cpp's, Kong, OpenAI's, Groq's."""
BAD_KEY = _any_of(r"API key not valid", r"(invalid|incorrect).api.key")
"""What Gemini's and xAI's servers say with status 400, and LM-Proxy with 403, where others use 401."""
NOT_ALLOWED = _any_of(r"missing scopes", r"not allowed to access model", r"model_access_denied")
"""What OpenAI's and LiteLLM's servers say with status 401 of a key that they know."""
UNPAID = _any_of(
    r"credit balance is too low",
    r"your account is in good standing",
    r"(not|n't) have any credits|used all available credits|run out of credits",
    r"insufficient[ _](account )?balance",
    r"billing_(hard_limit_reached|not_active)",
    r"exceeded_current_quota_error",
    r"\u4f59\u989d\u4e0d\u8db3",  # the balance is too low
)
"""What Anthropic's, Alibaba's, xAI's, OpenAI's, Moonshot's and Zhipu's servers say without status 402."""
NO_QUOTA = "insufficient_quota"
"""OpenAI's of an account without money; Alibaba's of a limit a minute, too."""
OF_ONE_TURN = _any_of(r"jinja", r"roles must alternate", r"parse grammar", r"JSON schema")
"""What llama.cpp's server says with status 500 of messages, or a schema, that it can't take."""
NO_MEMORY = r"system memory|out.of.memory|insufficient memory"


def error_words(body: bytes) -> str:
    """Return the error that a JSON object of Ollama's, or a registry's, reports, or nothing."""
    return error_in(loads(body))


def error_in(value: Any) -> str:
    """Return what ``error_words`` does of a body whose JSON was read already."""
    error = value.get("error") or value.get("errors") if isinstance(value, dict) else None
    return error if isinstance(error, str) else json.dumps(error) if error else ""


def openai_words(body: bytes | Any) -> str:
    """Return the words, type and code of an error of the OpenAI protocol, or nothing."""
    value = loads(body) if isinstance(body, bytes) else body
    if isinstance(value, list) and len(value) == 1:  # as Gemini's has it
        value = value[0]
    if isinstance(value, str):
        return value
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        more = value.get("message")  # Fastify's: its error is the status in words
        return error if more == error else _texts([error, more])
    if error is True:  # as some say that there is one
        error = value
    if not isinstance(error, dict):
        return ""
    words = [error.get(name) for name in ("message", "msg", "code", "type", "detail", "errors")]
    words.append(part(error, "metadata").get("raw"))  # OpenRouter's, of the one that it asked
    if (about := part(error, "base_resp")).get("status_code"):  # MiniMax's
        words.append(about.get("status_msg"))
    return _texts(words)


def _texts(value: Any) -> str:
    """Return the texts within a value, however deep: Mistral's server gives an object for a message."""
    left, found = [value], list[str]()
    while left:
        each = left.pop()
        if isinstance(each, str) and each:
            found.append(each)
        elif isinstance(each, (dict, list)):
            left += reversed(each.values() if isinstance(each, dict) else each)
    return " ".join(found)


def innermost(text: Any) -> tuple[str, str]:
    """Return the words of an error, and the sizes that an error about the window carries."""
    value, sizes = text, ""
    for _ in range(4):
        parsed = loads(value.encode("utf-8", "replace")) if isinstance(value, str) else value
        if not isinstance(parsed, dict):
            break
        size, window = (known_count(parsed.get(name)) for name in ("n_prompt_tokens", "n_ctx"))
        if size is not None and window is not None:
            sizes = f": {size} tokens for a window of {window}"
        value = parsed.get("error") or parsed.get("message") or text
    words = value if isinstance(value, str) else json.dumps(value)
    return words[:MOST_JUDGED], sizes


def does_not_fit(message: str, limit: int | None) -> bool:
    """Return whether an error says that a prompt does not fit; ``limit`` is how long its answer may be."""
    return re.search(TOO_LONG, message) is not None or (NO_ROOM in message and limit != 0)


def what_does_not_fit(message: str) -> tuple[str, str]:
    """Return what an error says does not fit the model's window, with its verb, and the way out of it."""
    if re.match(OF_BOTH, message):
        return "The prompt and its answer do", "shorten it, lower `options['num_predict']`"
    if re.search(OF_ALL, message):
        what = "The prompt and its answer, with all that the server is asked at once, do"
        return what, "ask fewer at once, shorten it"
    return "The prompt does", "shorten it"


def loads(body: bytes) -> Any:
    """Return a body parsed as JSON; None where it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
