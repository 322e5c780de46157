"""What Ollama's refusals mean, as our errors and their sentences.

Judges status, body and reason only. Knows nothing about sockets or the client that saw them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ore.backends.address import Host
from ore.backends.failures import shorten
from ore.errors import (
    BackendError,
    CapabilityError,
    ContextTruncatedError,
    ModelNotFoundError,
    ServerUnreachableError,
)

_NO_MODEL = re.compile(r"model ['\"].*['\"] not found")
_NO_MANIFEST = "pull model manifest: file does not exist"
_CAN_NOT = re.compile(r"does not support|only supports")
_TOO_LONG = re.compile(
    r"exceeds? the (available )?context (size|length)|prompt is longer than the context"
)
_NO_MEMORY = re.compile(r"system memory|out.of.memory|insufficient memory")
_UNREADABLE = "answered, but not as Ollama does"


def unreachable(host: Host, why: str) -> ServerUnreachableError:
    """Nothing listens at ``host``, or it can't be reached."""
    if "WRONG_VERSION_NUMBER" in why:  # TLS's words for an answer in plain text
        why = "what answers there does not speak https, so try http"
    return ServerUnreachableError(
        f"No Ollama server answers at {host}: {shorten(why)}. "
        f"Start one with `ollama serve`, or name another with --host.",
        host=host.url,
    )


def not_understood(host: Host, why: str) -> BackendError:
    """What came is not Ollama's protocol."""
    return BackendError(
        f"The server at {host} {_UNREADABLE} ({shorten(why)}): check the address.",
        host=host.url,
    )


def no_model(host: Host, model: str, available: tuple[str, ...] = ()) -> ModelNotFoundError:
    """The server does not have ``model``; ``available`` names what it has."""
    others = f", or use one that is there: {', '.join(available[:20])}" if available else ""
    return ModelNotFoundError(
        f"There is no model '{shorten(model)}' at {host}: fetch it with --pull {shorten(model)}"
        f"{others}.",
        model=model,
        available=available,
        host=host.url,
    )


def not_able(host: Host, model: str, ability: str) -> CapabilityError:
    """The server says of ``model`` that it lacks ``"thinking"`` or ``"vision"``."""
    what = {"thinking": "think first", "vision": "look at images"}[ability]
    way = {"thinking": "leave --think out, or say --think off", "vision": "leave --image out"}
    return CapabilityError(
        f"The model '{shorten(model)}' at {host} can't {what}: {way[ability]}, or use another one.",
        host=host.url,
    )


def said(host: Host, model: str, text: str, *, strict: bool = False) -> BackendError:
    """The server reported an error in words, before or within its answer.

    Args:
        text: The words; the JSON of llama-server inside them is understood.
        strict: A prompt that does not fit is a check that did not hold.
    """
    message, sizes = _innermost(text)
    shown = shorten(message) or "it did not say why"
    kind: type[BackendError] = BackendError
    if _NO_MODEL.search(message):
        return no_model(host, model)
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
        sentence = f"The model '{shorten(model)}' can't do this ({shown}): use another one."
    elif _NO_MEMORY.search(message):
        sentence = f"The server at {host} has too little memory ({shown}): use a smaller model."
    else:
        hint = "" if " log" in shown else " Its log may say more."
        sentence = f"The server at {host} failed: {shown}.{hint}"
    return kind(sentence, host=host.url)


def refused(
    host: Host, model: str, status: int, body: bytes, *, location: str = "", strict: bool = False
) -> BackendError:
    """The server answered a request with a status that is no success.

    Args:
        status: The HTTP status, 300 or more.
        body: The body's beginning, or all of it.
        location: Where a redirect leads.
    """
    error = reported(body)
    text = shorten(error or body.decode("utf-8", "replace"))
    if text.startswith("<"):
        text = "a web page"
    if status < 400:
        why = f"redirects to {shorten(location) or 'elsewhere'}, and ORE follows no redirects"
    elif status == 401:
        link = _field(body, "signin_url")
        way = f"open {shorten(link)}" if link else "run `ollama signin`, or set OLLAMA_API_KEY"
        why = f"wants you to sign in ({text or 'unauthorized'}): {way}"
    elif status == 403 and not text:
        why = "refuses to be asked by this host name: use its IP address"
    elif status in (429, 503):
        why = f"is busy ({text or f'status {status}'}): try again later"
    elif error and (status >= 500 or status in (400, 404)):
        return said(host, model, error, strict=strict)
    elif error:
        why = f"refused: {text}"
    else:
        why = f"{_UNREADABLE} (status {status}: {text or 'no text'}): check the address, or its log"
    return BackendError(f"The server at {host} {why}.", host=host.url)


def reported(body: bytes) -> str:
    """Return the error that a JSON object of Ollama reports, or nothing."""
    value = _loads(body)
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, str) else json.dumps(error) if error else ""


def _innermost(text: str) -> tuple[str, str]:
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


def _field(body: bytes, name: str) -> str:
    value = _loads(body)
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
