"""What the refusals of an OpenAI-compatible server mean, as our errors and their sentences.

Judges status and body only; a key is never part of a message. Knows nothing about connections.
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

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|exceeds? the (available |model'?s )?"
    r"(maximum )?context|exceed_context_size|longer than the (model'?s )?(maximum )?context",
    re.IGNORECASE,
)
_CAN_NOT = re.compile(
    r"not support|unsupported|only supports|not a multimodal model|does not accept", re.IGNORECASE
)
_NO_MODEL = re.compile(r"model.*(not (found|exist)|does not exist)|model_not_found", re.IGNORECASE)
_NOT_ALIKE = "answered, but not as the OpenAI protocol does"


def unreachable(host: Host, why: str) -> ServerUnreachableError:
    """Nothing listens at ``host``, or it can't be reached."""
    return ServerUnreachableError(
        f"No server answers at {host}: {shorten(why)}. Start it, or name another with --host.",
        host=host.url,
    )


def not_understood(host: Host, why: str) -> BackendError:
    """What came is not the protocol."""
    return BackendError(
        f"The server at {host} {_NOT_ALIKE} ({shorten(why)}): check the address, which often ends "
        f"in /v1.",
        host=host.url,
    )


def said(host: Host, model: str, text: str, *, strict: bool = False) -> BackendError:
    """The server reported an error in words, before or within its answer.

    Args:
        strict: A prompt that does not fit is a check that did not hold.
    """
    shown = shorten(text) or "it did not say why"
    if _TOO_LONG.search(text):
        kind = ContextTruncatedError if strict else BackendError
        return kind(
            f"The prompt does not fit the model's context window ({shown}): shorten it, or use a "
            f"model with a larger window.",
            host=host.url,
        )
    if _CAN_NOT.search(text):
        return CapabilityError(
            f"The server at {host} can't do this with '{shorten(model)}' ({shown}): leave it out, "
            f"or use another model.",
            host=host.url,
        )
    return BackendError(f"The server at {host} failed: {shown}.", host=host.url)


def refused(
    host: Host, model: str, status: int, body: bytes, *, has_key: bool, strict: bool = False
) -> BackendError:
    """The server answered a request with a status that is no success.

    Args:
        body: The body's beginning, or all of it.
        has_key: Whether a key was sent.
    """
    text = words_of(body)
    plain = shorten(text or body.decode("utf-8", "replace")) or "no text"
    if status < 400:
        why = "redirects elsewhere, and ORE follows no redirects"
    elif status in (401, 403):
        key = "the key in OPENAI_API_KEY is not accepted" if has_key else "it wants a key"
        why = f"refuses: {key}. Set OPENAI_API_KEY; it is sent over https, or on this machine, only"
    elif status == 404 and (_NO_MODEL.search(text) or (text and model and model in text)):
        return no_model(host, model)
    elif status in (429, 503):
        why = f"is busy, or a limit is reached ({plain}): try again later"
    elif text:
        return said(host, model, text, strict=strict)
    else:
        return not_understood(host, f"status {status}: {plain}")
    return BackendError(f"The server at {host} {why}.", host=host.url)


def no_model(host: Host, model: str, available: tuple[str, ...] = ()) -> ModelNotFoundError:
    """The server does not have ``model``."""
    return ModelNotFoundError(
        f"There is no model '{shorten(model)}' at {host}: --list-models shows what there is.",
        model=model,
        available=available,
        host=host.url,
    )


def words_of(body: bytes | Any) -> str:
    """Return the words, type and code of a protocol's error, or nothing where it is none."""
    try:
        value = json.loads(body) if isinstance(body, bytes) else body
    except (ValueError, RecursionError):
        return ""
    error = value.get("error", value) if isinstance(value, dict) else None
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    said = [error.get(name) for name in ("message", "code", "type", "detail")]
    return " ".join(part for part in said if isinstance(part, str) and part)
