"""What a server's words for an error mean: status codes and bodies become our errors.

Judges what it is told only. No key is part of a message.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ore.backends.address import Host
from ore.backends.answer import known_count
from ore.backends.failures import (
    OLLAMA,
    OPENAI,
    Protocol,
    answered_by_proxy,
    no_model_error,
    proxy_error,
)
from ore.backends.http import shorten
from ore.backends.turn_errors import NothingAnswersError, TurnFailedError
from ore.errors import BackendError, CapabilityError, ContextTruncatedError, ModelNotFoundError

MOST_JUDGED = 4000
"""How many characters of an error are looked at: patterns take the square of the time."""
_NO_OLLAMA_MODEL = re.compile(r"model ['\"].*['\"] not found")
_NO_MODEL = re.compile(
    r"model.*(not (found|exist)|does not exist)|model_not_found|invalid model( name)?\b"
    r"|not a valid model\b|DeploymentNotFound|unknown.model\b(?! architecture)|model identifier is invalid"
    r"|no such model|no router for requested|could not find (suitable inference|real modelID)"
    r"|\u6a21\u578b\u4e0d\u5b58\u5728",
    re.IGNORECASE,
)
_NO_MANIFEST = "pull model manifest: file does not exist"
_CAN_NOT = re.compile(
    r"not support|unsupported|only supports|not a multimodal model|does not accept"
    r"|only .{1,40} (is|are) supported|only supported by|missing data required for image"
    r"|no vision (arm|tower|encoder|projector)|support image input|vision add-on is not loaded"
    r"|(?<!key is )not enabled for (this model|models/)"
    r"|unknown variant .image_url|at most 0 image|content' : value must be a string",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[_ ](length|size)[_ ](has been )?exceeded|context ?window ?exceed(ed|s limit)"
    r"|exceed_context_size|maximum context length|context length is only|model_max_prompt_tokens_exceeded"
    r"|exceed(s|ed)? (the |this )?(available |model('?s)? )?(max(imum)? )?context"
    r"|exceeds (the )?maximum (allowed )?((input|prompt|sequence) length|number of tokens)"
    r"|configured context size is \d|exceed max message tokens|larger than the model input length"
    r"|(prompt|input) length .{0,60}(should not exceed|exceeds the max)|prompt_tokens \(\d+\) must be"
    r"|prompt exceeds max length|more than max tokens allowed|tokens_limit_reached|too many tokens:"
    r"|reduce the length of the messages|max_tokens must be at least 1, got -|n_keep .{1,20} >= n_ctx"
    r"|exceeded model token limit|maximum prompt length is|range of input length should"
    r"|prompt is \d+ tokens; the model context is \d+"
    r"|longer than the (model'?s )?(maximum )?(context|model length)"
    r"|exceeds the maximum allowed length|greater than max_seq_len"
    r"|(prompt|input) (token )?(length |tokens )?(is )?too long"
    r"|keep (the first \d+ tokens|from the initial prompt)"
    r"|`inputs` (must have less than \d+ tokens|tokens \+ `max_new_tokens` must be)",
    re.IGNORECASE,
)
_OF_BOTH = re.compile(r"max_(completion_|new_)?tokens|completion|output tokens", re.IGNORECASE)
_FILTERED = re.compile(
    r"content[ _](filter(?! timed out)|management policy|policy_violation)"
    r"|(prompt|input|content) (was )?flagged|safety system"
    r"|data_inspection_failed|violates usage|new_sensitive|\u654f\u611f\u5185\u5bb9",
    re.IGNORECASE,
)
"""What a server's filter says: OpenAI's, Azure's, Anthropic's, OpenRouter's, xAI's and those of China."""
_OF_A_PULL: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"invalid model name|^model is required$"),
        "does not take '{model}' for a model's name ({shown}): Ollama's are NAME, NAMESPACE/NAME or "
        "HOST/NAMESPACE/NAME, each with :TAG or without.",
    ),
    (
        re.compile(r"HTTP response to HTTPS client"),
        "can't fetch '{model}', for its registry does not speak https ({shown}): add `insecure=True` to "
        "ask it over http.",
    ),
    (
        re.compile(r"^pull model manifest: Get .{1,600}: (dial|lookup|read) "),
        "can't reach the registry of '{model}' ({shown}): check the name, and that machine's network.",
    ),
)
"""What Ollama says of a name, or of the registry that it asks; and what is said after "The server at ..."."""
_NOTHING_THERE = re.compile(
    r"(?i)((file|resource) )?not found\b(?! in)|method not allowed|no route (for|matched)"
    r"|invalid url \(|unknown request url"
)
"""What servers say of an address that nothing is at: FastAPI, llama.cpp's, Kong, OpenAI's, Groq's."""
_TOO_MUCH = "takes no request as large as this one (status 413): shorten the prompt, or its images"
_KINDS = {401: NothingAnswersError, 402: NothingAnswersError, 413: TurnFailedError}
_REDIRECTS = (301, 302, 303, 307, 308)
_BAD_KEY = re.compile(r"(?i)API key not valid|(invalid|incorrect).api.key")  # Gemini's, xAI's 400
_BUSY = (429, 503, 529)  # the last is Anthropic's
_OF_ONE_TURN = re.compile(r"jinja|roles must alternate|parse grammar|JSON schema", re.IGNORECASE)
"""What llama.cpp's server says with status 500 of messages, or a schema, that it can't take."""
_NO_MEMORY = re.compile(r"system memory|out.of.memory|insufficient memory")


def reported_error(
    host: Host,
    model: str,
    text: str,
    protocol: Protocol,
    *,
    strict: bool = False,
    is_refused: bool = False,
) -> BackendError:
    """The server reported an error in words, before or within its answer.

    Args:
        text: The words; the JSON of llama-server inside them is understood.
        strict: A prompt that does not fit is a check that did not hold.
        is_refused: It took the request for a wrong one (status 400).
    """
    message, sizes = _innermost(text)
    shown = shorten(message) or "it did not say why"
    is_refused = is_refused or _OF_ONE_TURN.search(message) is not None
    kind: type[BackendError] = TurnFailedError if is_refused else BackendError
    if protocol is OLLAMA and _NO_OLLAMA_MODEL.search(message):
        return no_model_error(host, model, protocol)
    for words, said in _OF_A_PULL if protocol is OLLAMA else ():
        if words.search(message):
            why = said.format(model=shorten(model), shown=shown)
            return BackendError(f"The server at {host} {why}", host=host.url)
    if _NO_MANIFEST in message:
        return ModelNotFoundError(
            f"The server at {host} finds no model '{shorten(model)}' to fetch ({shown}): check the name.",
            model=model,
            host=host.url,
        )
    if _TOO_LONG.search(message):
        kind = ContextTruncatedError if strict else TurnFailedError
        what, way = "The prompt does", "shorten it"
        if _OF_BOTH.search(message):
            what, way = "The prompt and its answer do", f"{way}, lower `options['num_predict']`"
        sentence = (
            f"{what} not fit the model's context window{sizes} ({shown}): {way}, or give the model a "
            f"larger window."
        )
    elif protocol is OPENAI and _FILTERED.search(message):
        kind = TurnFailedError
        sentence = (
            f"The filter of the server at {host} does not let this through ({shown}): ask in other "
            f"words, or another model."
        )
    elif _CAN_NOT.search(message):
        kind = CapabilityError
        what = f"can't do this ({shown}): leave it out, or use another model."
        if "not support chat" in message:  # one for embeddings
            what = f"writes no text ({shown}): use one of `Backend.models()` that does."
        sentence = f"The model '{shorten(model)}' at {host} {what}"
    elif _NO_MEMORY.search(message):
        kind = NothingAnswersError
        sentence = f"The server at {host} has too little memory ({shown}): use a smaller model."
    else:
        hint = "" if " log" in shown else " Its log may say more."
        sentence = f"The server at {host} failed: {shown}.{hint}"
    return kind(sentence, host=host.url)


def ollama_status_error(
    host: Host, model: str, status: int, body: bytes, *, location: str = "", strict: bool = False
) -> BackendError:
    """Ollama answered with a status of 300 or more; ``location`` is where a redirect leads."""
    if status == 407:
        return proxy_error(host)
    error = error_words(body)
    text = shorten(error or body.decode("utf-8", "replace"))
    text = "a web page" if text.startswith("<") else text
    if status in _REDIRECTS:
        why = _led(location)
    elif status == 401:
        link = (_loads(body) if error else {}).get("signin_url")
        way = (
            f"open {shorten(link)}"
            if isinstance(link, str)
            else "run `ollama signin`, or set OLLAMA_API_KEY"
        )
        why = f"wants you to sign in ({text or 'unauthorized'}): {way}"
    elif status == 403 and not text:
        why = "refuses to be asked by this host name: use its IP address"
    elif status in (429, 503):
        why = f"is busy ({text or f'status {status}'}): try again later"
    elif status == 413 and not error:
        why = _TOO_MUCH
    elif error and (status >= 500 or status in (400, 404)):
        is_refused = status == 400
        return reported_error(host, model, error, OLLAMA, strict=strict, is_refused=is_refused)
    elif error:
        why = f"refused: {text}"
    else:
        why = f"answered, but not {OLLAMA.alike} (status {status}: {text or 'no text'}): "
        why += "check the address, or its log"
    through = "" if error else answered_by_proxy(host)
    kind = _KINDS.get(status, BackendError)
    return kind(f"The server at {host} {why}.{through}", host=host.url)


def openai_status_error(
    host: Host, model: str, status: int, body: bytes, *, has_key: bool, strict: bool = False
) -> BackendError:
    """Another server answered with a status of 300 or more; ``has_key``: a key was sent.

    The body of a redirect is where it leads, if it says so.
    """
    if status == 407:
        return proxy_error(host)
    text = openai_words(body)
    plain = shorten(text or body.decode("utf-8", "replace")) or "no text"
    is_page = plain.startswith("<")
    status = 401 if status == 400 and _BAD_KEY.search(plain) else status
    plain = "a web page" if is_page else plain
    words = text or plain
    if status in _REDIRECTS:
        why = _led(body.decode("utf-8", "replace") if re.match(b"https?:|/", body) else "")
    elif status == 402:
        why = f"wants to be paid first ({plain}): look at your account there"
    elif status == 403 and _FILTERED.search(text[:MOST_JUDGED]):
        return reported_error(host, model, text, OPENAI, strict=strict)
    elif status == 403 and text and has_key:  # it may know the key, and not let it ask for this
        why = f"refuses ({plain}): look what the key in OPENAI_API_KEY is allowed there"
    elif status in (401, 403):
        key = "the key in OPENAI_API_KEY is not accepted" if has_key else "it wants a key"
        if status == 403:  # a firewall says so, too
            key = "it may not accept the key that it was sent" if has_key else "it may want a key"
            key += "" if body.strip() else "; Ollama wants its IP address, not a name"
        said = f" ({plain})" if text or is_page else ""
        why = f"refuses{said}: {key}. Set OPENAI_API_KEY; it is sent over https, or on this machine, only"
    elif (status in (400, 404, 410) and _NO_MODEL.search(words[:MOST_JUDGED])) or (
        status == 404 and text and model and model in text
    ):
        return no_model_error(host, model, OPENAI)
    elif status in _BUSY:
        why = f"is busy, or a limit is reached ({plain}): try again later"
    elif status == 413 and not text:
        why = _TOO_MUCH
    elif status in (404, 405) and _NOTHING_THERE.match(text):
        why = f"answered, but not {OPENAI.alike} (status {status}: {plain}): {OPENAI.check}"
    elif text or (status not in (404, 405) and body.strip() and not is_page):
        is_refused = status in (400, 413, 422)
        return reported_error(host, model, words, OPENAI, strict=strict, is_refused=is_refused)
    elif status >= 500:
        why = f"failed (status {status}: {plain}): look at its log, or check the address"
    else:
        why = f"answered, but not {OPENAI.alike} (status {status}: {plain}): {OPENAI.check}"
    through = "" if text else answered_by_proxy(host)
    kind = _KINDS.get(status, BackendError)
    return kind(f"The server at {host} {why}.{through}", host=host.url)


def error_words(body: bytes) -> str:
    """Return the error that a JSON object of Ollama's, or a registry's, reports, or nothing."""
    value = _loads(body)
    error = value.get("error") or value.get("errors") if isinstance(value, dict) else None
    return error if isinstance(error, str) else json.dumps(error) if error else ""


def openai_words(body: bytes | Any) -> str:
    """Return the words, type and code of an error of the OpenAI protocol, or nothing."""
    value = _loads(body) if isinstance(body, bytes) else body
    if isinstance(value, list) and len(value) == 1:  # as Gemini's has it
        value = value[0]
    if isinstance(value, str):
        return value
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    words = [error.get(name) for name in ("message", "msg", "code", "type", "detail", "errors")]
    if isinstance(about := error.get("metadata"), dict):  # OpenRouter's, of the one that it asked
        words.append(about.get("raw"))
    if isinstance(about := error.get("base_resp"), dict) and about.get("status_code"):  # MiniMax's
        words.append(about.get("status_msg"))
    return _texts(words)


def _texts(value: Any) -> str:
    """Return the texts within a value, however deep: Mistral's server gives an object for a message."""
    left, found = [value], list[str]()
    while left:
        part = left.pop()
        if isinstance(part, str) and part:
            found.append(part)
        elif isinstance(part, (dict, list)):
            left += reversed(part.values() if isinstance(part, dict) else part)
    return " ".join(found)


def _innermost(text: Any) -> tuple[str, str]:
    """Return the words of an error, and the sizes that an error about the window carries."""
    value, sizes = text, ""
    for _ in range(4):
        parsed = _loads(value.encode("utf-8", "replace")) if isinstance(value, str) else value
        if not isinstance(parsed, dict):
            break
        size, window = (known_count(parsed.get(name)) for name in ("n_prompt_tokens", "n_ctx"))
        if size is not None and window is not None:
            sizes = f": {size} tokens for a window of {window}"
        value = parsed.get("error") or parsed.get("message") or text
    words = value if isinstance(value, str) else json.dumps(value)
    return words[:MOST_JUDGED], sizes


def _led(location: str) -> str:
    """Say where a redirect leads, without what may be a secret: a user, a password, a query."""
    plain = re.sub(r"//[^/?#]*@", "//", location)  # where more is left of one, nothing is shown
    where = "" if "@" in plain else shorten(re.split("[?#]", plain, maxsplit=1)[0])
    return f"redirects {f'to {where}' if where else 'elsewhere'}, and ORE follows no redirects"


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
