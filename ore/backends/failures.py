"""What goes wrong between ORE and a server, as our errors and their sentences: each written once.

Judges what it is told only: exceptions' words, status codes, bodies. No key is part of a message.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ore.backends.address import Host
from ore.backends.http import in_words, shorten
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    ContextTruncatedError,
    IncompleteAnswerError,
    ModelNotFoundError,
    ServerUnreachableError,
)

_NO_OLLAMA_MODEL = re.compile(r"model ['\"].*['\"] not found")
_NO_MODEL = re.compile(r"model.*(not (found|exist)|does not exist)|model_not_found", re.IGNORECASE)
_NO_MANIFEST = "pull model manifest: file does not exist"
_CAN_NOT = re.compile(
    r"not support|unsupported|only supports|not a multimodal model|does not accept", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|exceed_context_size"
    r"|exceeds? the (available |model'?s )?(maximum )?context"
    r"|longer than the (model'?s )?(maximum )?context",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(r"system memory|out.of.memory|insufficient memory")


@dataclass(frozen=True)
class Protocol:
    """How sentences speak of a kind of server: what it is, how to start it, what it answers like."""

    server: str
    start: str
    alike: str
    check: str


OLLAMA = Protocol(
    "Ollama server", "Start one with `ollama serve`", "as Ollama does", "check the address"
)
OPENAI = Protocol(
    "server", "Start it", "as the OpenAI protocol does", "check the address; it often ends in /v1"
)


def unreachable_error(host: Host, why: str, protocol: Protocol) -> ServerUnreachableError:
    """Nothing listens at ``host``, or it can't be reached."""
    if "WRONG_VERSION_NUMBER" in why:  # TLS's words for an answer in plain text
        why = "what answers there does not speak https, so try http"
    return ServerUnreachableError(
        f"No {protocol.server} answers at {host}: {shorten(why)}. {protocol.start}, or name "
        f"another with --host.",
        host=host.url,
    )


def untrusted_error(host: Host, why: str) -> ServerUnreachableError:
    """The server's certificate can't be trusted; ``why`` is TLS's own reason."""
    return ServerUnreachableError(
        f"The certificate of {host} can't be trusted ({shorten(why)}): name the authority that "
        f"signed it with SSL_CERT_FILE, or another server with --host.",
        host=host.url,
    )


def client_error(host: Host, error: BaseException) -> BackendError:
    """Nothing can be asked, for a file or a proxy, which has a password and is not quoted."""
    told = in_words(error) if isinstance(error, (ImportError, OSError)) else "a malformed proxy"
    return BackendError(
        f"No connection to {host} can be made ({told}): check the proxies and certificates that "
        f"the environment names.",
        host=host.url,
    )


def silence_error(host: Host, seconds: float | None) -> BackendTimeoutError:
    """Nothing came for ``seconds``; with None, for as long as the system waits for a dead peer."""
    if seconds is None:
        what = f"Nothing came from {host}, and the connection was given up: ask again"
    else:
        what = f"Nothing came from {host} for {seconds:g} s: give it longer with --timeout"
    return BackendTimeoutError(f"{what}, or look at the server's log.", host=host.url)


def no_reply_error(host: Host, seconds: float) -> BackendTimeoutError:
    """A question was not answered within ``seconds``, which nobody can set."""
    return BackendTimeoutError(
        f"The server at {host} did not answer within {seconds:g} s: try again, or look at its log.",
        host=host.url,
    )


def too_slow_error(host: Host, seconds: float) -> BackendTimeoutError:
    """The turn was not done after ``seconds``."""
    return BackendTimeoutError(
        f"The answer from {host} was not complete after {seconds:g} s, so the turn was ended: "
        f"give it longer with --deadline.",
        host=host.url,
    )


def broken_off_error(host: Host, why: str) -> IncompleteAnswerError:
    """The connection ended before the answer did."""
    return IncompleteAnswerError(
        f"The answer from {host} broke off ({shorten(why)}), so it was dropped: ask again; the "
        f"server's log may say why.",
        host=host.url,
    )


def unfinished_error(host: Host) -> IncompleteAnswerError:
    """The stream ended in good order, but nothing in it said that the answer was done."""
    return IncompleteAnswerError(
        f"The server at {host} ended the answer without saying that it was done, as it does when "
        f"a model repeats itself, so the answer was dropped: ask again.",
        host=host.url,
    )


def too_large_error(host: Host, what: str, limit: int) -> BackendError:
    """The server sent more than ORE takes: ``what`` is larger than ``limit`` bytes."""
    return BackendError(
        f"The server at {host} sent {what} larger than {limit >> 20} MiB, so the turn was ended: "
        f"check the address.",
        host=host.url,
    )


def truncated_error(host: Host, window: int | None, partial: str) -> ContextTruncatedError:
    """With strict context: prompt and answer did not fit a window of so many tokens."""
    return ContextTruncatedError(
        f"The prompt and its answer did not fit the context window of {window} tokens, and a part "
        f"was left out: shorten the prompt, or give the model a larger window.",
        host=host.url,
        partial=partial,
    )


def protocol_error(host: Host, why: str, protocol: Protocol) -> BackendError:
    """What came is not in the protocol."""
    return BackendError(
        f"The server at {host} answered, but not {protocol.alike} ({shorten(why)}): "
        f"{protocol.check}.",
        host=host.url,
    )


def no_model_error(
    host: Host, model: str, protocol: Protocol, available: tuple[str, ...] = ()
) -> ModelNotFoundError:
    """The server does not have ``model``; ``available`` names what it has."""
    name = shorten(model)
    advice = "--list-models shows what there is"
    if protocol is OLLAMA:
        others = f", or use one that is there: {', '.join(available[:20])}" if available else ""
        advice = f"fetch it with --pull {name}{others}"
    return ModelNotFoundError(
        f"There is no model '{name}' at {host}: {advice}.",
        model=model,
        available=available,
        host=host.url,
    )


def ability_error(host: Host, model: str, ability: str) -> CapabilityError:
    """The server says of ``model`` that it lacks ``"thinking"`` or ``"vision"``."""
    what, way = {
        "thinking": ("think first", "leave --think out, or say --think off"),
        "vision": ("look at images", "leave --image out"),
    }[ability]
    return CapabilityError(
        f"The model '{shorten(model)}' at {host} can't {what}: {way}, or use another one.",
        host=host.url,
    )


def reported_error(
    host: Host, model: str, text: str, protocol: Protocol, *, strict: bool = False
) -> BackendError:
    """The server reported an error in words, before or within its answer.

    Args:
        text: The words; the JSON of llama-server inside them is understood.
        strict: A prompt that does not fit is a check that did not hold.
    """
    message, sizes = _innermost(text)
    shown = shorten(message) or "it did not say why"
    kind: type[BackendError] = BackendError
    if protocol is OLLAMA and _NO_OLLAMA_MODEL.search(message):
        return no_model_error(host, model, protocol)
    if _NO_MANIFEST in message:
        return ModelNotFoundError(
            f"The server at {host} finds no model '{shorten(model)}' to fetch ({shown}): check the "
            f"name.",
            model=model,
            host=host.url,
        )
    if _TOO_LONG.search(message):
        kind = ContextTruncatedError if strict else BackendError
        sentence = (
            f"The prompt does not fit the model's context window{sizes} ({shown}): "
            f"shorten it, or give the model a larger window."
        )
    elif _CAN_NOT.search(message):
        kind = CapabilityError
        sentence = (
            f"The model '{shorten(model)}' at {host} can't do this ({shown}): leave it out, or use "
            f"another model."
        )
    elif _NO_MEMORY.search(message):
        sentence = f"The server at {host} has too little memory ({shown}): use a smaller model."
    else:
        hint = "" if " log" in shown else " Its log may say more."
        sentence = f"The server at {host} failed: {shown}.{hint}"
    return kind(sentence, host=host.url)


def ollama_status_error(
    host: Host, model: str, status: int, body: bytes, *, location: str = "", strict: bool = False
) -> BackendError:
    """Ollama answered with a status of 300 or more; ``location`` is where a redirect leads."""
    error = error_words(body)
    text = shorten(error or body.decode("utf-8", "replace"))
    if text.startswith("<"):
        text = "a web page"
    if status < 400:
        why = f"redirects to {shorten(location) or 'elsewhere'}, and ORE follows no redirects"
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
    elif error and (status >= 500 or status in (400, 404)):
        return reported_error(host, model, error, OLLAMA, strict=strict)
    elif error:
        why = f"refused: {text}"
    else:
        why = f"answered, but not {OLLAMA.alike} (status {status}: {text or 'no text'}): "
        why += "check the address, or its log"
    return BackendError(f"The server at {host} {why}.", host=host.url)


def openai_status_error(
    host: Host, model: str, status: int, body: bytes, *, has_key: bool, strict: bool = False
) -> BackendError:
    """Another server answered with a status of 300 or more; ``has_key``: a key was sent."""
    text = openai_words(body)
    plain = shorten(text or body.decode("utf-8", "replace")) or "no text"
    if status < 400:
        why = "redirects elsewhere, and ORE follows no redirects"
    elif status in (401, 403):
        key = "the key in OPENAI_API_KEY is not accepted" if has_key else "it wants a key"
        why = f"refuses: {key}. Set OPENAI_API_KEY; it is sent over https, or on this machine, only"
    elif status == 404 and (_NO_MODEL.search(text) or (text and model and model in text)):
        return no_model_error(host, model, OPENAI)
    elif status in (429, 503):
        why = f"is busy, or a limit is reached ({plain}): try again later"
    elif text:
        return reported_error(host, model, text, OPENAI, strict=strict)
    else:
        return protocol_error(host, f"status {status}: {plain}", OPENAI)
    return BackendError(f"The server at {host} {why}.", host=host.url)


def error_words(body: bytes) -> str:
    """Return the error that a JSON object of Ollama's reports, or nothing."""
    value = _loads(body)
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, str) else json.dumps(error) if error else ""


def openai_words(body: bytes | Any) -> str:
    """Return the words, type and code of an error of the OpenAI protocol, or nothing."""
    value = _loads(body) if isinstance(body, bytes) else body
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    words = [error.get(name) for name in ("message", "code", "type", "detail")]
    return " ".join(part for part in words if isinstance(part, str) and part)


def _innermost(text: Any) -> tuple[str, str]:
    """Return the words of an error, and the sizes that an error about the window carries."""
    value, sizes = text, ""
    for _ in range(4):
        parsed = _loads(value.encode("utf-8", "replace")) if isinstance(value, str) else value
        if not isinstance(parsed, dict):
            break
        if isinstance(parsed.get("n_prompt_tokens"), int) and isinstance(parsed.get("n_ctx"), int):
            sizes = f": {parsed['n_prompt_tokens']} tokens for a window of {parsed['n_ctx']}"
        value = parsed.get("error") or parsed.get("message") or text
    return (value if isinstance(value, str) else json.dumps(value)), sizes


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
