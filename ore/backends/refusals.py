"""What a server's words for an error mean: status codes and bodies become our errors.

Judges only what it is given. No key is part of a message.
"""

from __future__ import annotations

import re

from ore.backends.address import Host
from ore.backends.failures import (
    OLLAMA,
    OPENAI,
    Protocol,
    answered_by_proxy,
    no_model_error,
    proxy_error,
    without,
)
from ore.backends.http import shorten
from ore.backends.model_names import shown_name
from ore.backends.server_words import (
    BAD_KEY,
    CAN_NOT,
    FILTERED,
    MOST_JUDGED,
    NO_CHAT,
    NO_MANIFEST,
    NO_MEMORY,
    NO_MODEL,
    NO_OLLAMA_MODEL,
    NO_QUOTA,
    NOT_ALLOWED,
    NOTHING_THERE,
    OF_ONE_TURN,
    TOO_LONG,
    UNPAID,
    does_not_fit,
    error_in,
    error_words,
    innermost,
    loads,
    openai_words,
    what_does_not_fit,
)
from ore.backends.turn_errors import NothingAnswersError, TurnFailedError, TurnTooLargeError
from ore.errors import BackendError, CapabilityError, ContextTruncatedError, ModelNotFoundError
from ore.files.neutral import AT
from ore.files.strictjson import field

_OF_A_PULL = (
    (
        r"invalid model name|^model is required$",
        "does not take '{model}' for a model's name ({shown}): Ollama's are NAME, NAMESPACE/NAME or "
        "HOST/NAMESPACE/NAME, each with :TAG or without.",
    ),
    (
        r"HTTP response to HTTPS client",
        "can't fetch '{model}', because its registry does not speak https ({shown}): add "
        "`insecure=True` to ask it over http.",
    ),
    (
        r"^pull model manifest: Get .{1,600}: (dial|lookup|read) ",
        "can't reach the registry of '{model}' ({shown}): check the name, and that machine's network.",
    ),
)
"""What Ollama says of a name, or of the registry that it asks; and what is said after "The server at ..."."""
_TOO_MUCH = (
    "takes no request as large as this one (status 413{}): shorten the prompt, or its images"
)
_OTHER = "it may speak the OpenAI protocol, so try `backend='openai'`"
_LOGIN = (
    "wants a user name and a password (status 401), which ORE does not send: ask whoever runs it for an "
    "address without them"
)
_NO_TLS = (
    rb"plain HTTP request was sent to HTTPS port|plain HTTP to an SSL-enabled|"
    rb"HTTP request to an HTTPS server|combination of host and port requires TLS"
)
"""What nginx, Apache, programs in Go, and Tomcat say to a request in plain text at a port of TLS."""
_KINDS = {401: NothingAnswersError, 402: NothingAnswersError, 413: TurnTooLargeError}
_REFUSED = {400: TurnFailedError, 413: TurnTooLargeError, 422: TurnFailedError}
_REDIRECTS = (301, 302, 303, 307, 308)
_BUSY = (429, 503, 529)  # the last is Anthropic's


def check_reported(host: Host, model: str, value: object, key: str) -> None:
    """Raise what the JSON of a status of 200 reports: LM Studio answers so where it knows no question.

    Args:
        key: What was sent with the question, and is not shown.
    """
    if words := error_in(value):
        raise without(key, reported_error(host, model, words, OLLAMA))


def reported_error(
    host: Host,
    model: str,
    text: str,
    protocol: Protocol,
    *,
    strict: bool = False,
    limit: int | None = None,
    kind: type[BackendError] = BackendError,
) -> BackendError:
    """The server reported an error in words, before or within its answer.

    Args:
        text: The words; the JSON of llama-server inside them is understood.
        strict: A prompt that does not fit is a check that did not hold.
        limit: How many tokens the answer may have, as it was asked for.
        kind: What the status says, where the words say nothing: of a turn's own, status 400.
    """
    message, sizes = innermost(text)
    shown = shorten(message) or "it did not say why"
    if kind is BackendError and re.search(OF_ONE_TURN, message):
        kind = TurnFailedError
    if protocol is OLLAMA and re.search(NO_OLLAMA_MODEL, message):
        return no_model_error(host, model, protocol)
    for words, said in _OF_A_PULL if protocol is OLLAMA else ():
        if re.search(words, message):
            why = said.format(model=shown_name(model), shown=shown)
            return BackendError(f"The server at {host} {why}", host=host.url)
    if NO_MANIFEST in message:
        return ModelNotFoundError(
            f"The server at {host} finds no model '{shown_name(model)}' to fetch ({shown}): check the name.",
            model=model,
            host=host.url,
        )
    if does_not_fit(message, limit):
        kind = ContextTruncatedError if strict else TurnTooLargeError
        what, way = what_does_not_fit(message)
        sentence = (
            f"{what} not fit the model's context window{sizes} ({shown}): {way}, or give the model a "
            f"larger window."
        )
    elif protocol is OPENAI and re.search(FILTERED, message):
        kind = TurnFailedError
        sentence = (
            f"The filter of the server at {host} does not let this through ({shown}): ask in other "
            f"words, or another model."
        )
    elif model and re.search(CAN_NOT, message):  # else no model was asked
        kind = CapabilityError
        what = f"can't do this ({shown}): leave it out, or use another model."
        if re.search(NO_CHAT, message):
            what = f"does not chat ({shown}): use one of `Backend.models()` that does."
        sentence = f"The model '{shorten(model)}' at {host} {what}"
    elif re.search(NO_MEMORY, message):
        kind = NothingAnswersError
        sentence = f"The server at {host} has too little memory ({shown}): use a smaller model."
    else:
        hint = "" if " log" in shown else " Its log may say more."
        sentence = f"The server at {host} failed: {shown}.{hint}"
    return kind(sentence, host=host.url)


def ollama_status_error(
    host: Host,
    model: str,
    status: int,
    body: bytes,
    *,
    location: str = "",
    login: str = "",
    strict: bool = False,
) -> BackendError:
    """Ollama answered with a status of 300 or more.

    Args:
        location: Where a redirect leads.
        login: The header that says how to log in.
    """
    if (before := _said_before(host, status, body)) is not None:
        return before
    error = error_words(body) or _detail(body)
    text = shorten(error or body.decode("utf-8", "replace"))
    text = "a web page" if text.startswith("<") else text
    if status in _REDIRECTS:
        why = _led(location)
    elif status == 401 and not error and _wants_password(login):
        why = _LOGIN
    elif status == 401:
        link, what = (loads(body) if error else {}).get("signin_url"), "wants you to sign in"
        way = "run `ollama signin`, or set OLLAMA_API_KEY"
        if isinstance(link, str):
            way = f"open {shorten(link)}"
        elif host.url.rstrip("/").endswith("/v1"):  # where Ollama answers with 404
            what, way = "refuses", _OTHER
        why = f"{what} ({text or 'unauthorized'}): {way}"
    elif status == 403 and not text:
        why = "refuses to be asked by this host name: use its IP address"
    elif status in (429, 503):
        why = f"is busy ({text or f'status {status}'}): try again later"
    elif status == 413:
        why = _TOO_MUCH.format("" if text in ("", "a web page") else f": {text}")
    elif error and (status >= 500 or status in (400, 404)):
        kind = TurnFailedError if status == 400 else BackendError
        return reported_error(host, model, error, OLLAMA, strict=strict, kind=kind)
    elif error:
        why = f"refused: {text}"
    else:
        why = f"answered, but not {OLLAMA.alike} (status {status}: {text or 'no text'}): "
        path = host.url.partition("://")[2].partition("/")[2] if status in (404, 405) else ""
        way = f"leave /{path} out of it" if path else "its log"
        why += f"check the address, or {way}"
        why += f"; {_OTHER}" if path.rstrip("/").endswith("v1") else ""
    through = "" if error else answered_by_proxy(host)
    kind = _KINDS.get(status, BackendError)
    return kind(f"The server at {host} {why}.{through}", host=host.url)


def _said_before(host: Host, status: int, body: bytes) -> BackendError | None:
    """Return what a proxy, or TLS, refuses a request with before the server itself is asked, or None."""
    if status == 407:
        return proxy_error(host)
    if (
        status == 400
        and host.url.startswith("http:")
        and re.search(_NO_TLS, body[:MOST_JUDGED])
        and not body.lstrip().startswith((b"{", b"["))  # JSON's may repeat the prompt
    ):
        there = host.url.replace("http:", "https:", 1)
        what = f"The server at {host} speaks https, and was asked over http: try {there}."
        return BackendError(f"{what}{answered_by_proxy(host)}", host=host.url)
    return None


def _detail(body: bytes) -> str:
    """Return what Open WebUI, through which an Ollama is asked, says of an error; nothing of an address."""
    detail = field(loads(body), "detail")
    return detail if isinstance(detail, str) and not re.match(NOTHING_THERE, detail) else ""


def openai_status_error(
    host: Host,
    model: str,
    status: int,
    body: bytes,
    *,
    has_key: bool,
    login: str = "",
    strict: bool = False,
    limit: int | None = None,
) -> BackendError:
    """Another server answered with a status of 300 or more; ``has_key``: a key was sent.

    The body of a redirect is where it leads, if it says so; ``login`` is how to log in, as a header says.
    """
    if (before := _said_before(host, status, body)) is not None:
        return before
    text = openai_words(body)
    plain = shorten(text or body.decode("utf-8", "replace")) or "no text"
    is_page = plain.startswith("<")
    status = 401 if status in (400, 403) and re.search(BAD_KEY, plain) else status
    status = 403 if status == 401 and re.search(NOT_ALLOWED, text[:MOST_JUDGED]) else status
    status = 402 if status in (400, 403, 429) and re.search(UNPAID, plain) else status
    plain = "a web page" if is_page else plain
    words = text or plain
    if status in _REDIRECTS:
        why = _led(body.decode("utf-8", "replace") if re.match(b"https?:|/", body) else "")
    elif status == 402:
        why = f"wants to be paid first ({plain}): look at your account there"
    elif status == 403 and re.search(FILTERED, text[:MOST_JUDGED]):
        return reported_error(host, model, text, OPENAI, strict=strict)
    elif status == 403 and text and has_key:  # it may know the key, and not let it ask for this
        why = f"refuses ({plain}): check what the key in OPENAI_API_KEY is allowed to do there"
    elif status in (401, 403):
        said = plain if text or is_page else ""
        why = _locked(status, said, body, has_key, "" if text else login)
    elif (status in (400, 404, 410) and re.search(NO_MODEL, words[:MOST_JUDGED])) or (
        status == 404 and model and model in text
    ):
        what = "does not find what it was asked for"  # a list, for one
        if model:  # for one that it lists: of another, ``explained`` says more
            what = f"lists '{shorten(model)}', but does not let it answer"
        sentence = f"The server at {host} {what}: {plain}. Its log may say more."
        return ModelNotFoundError(sentence, model=model, host=host.url)
    elif status in _BUSY:
        also = ", or look at your account there" if NO_QUOTA in text else ""
        why = f"is busy, or a limit is reached ({plain}): try again later{also}"
    elif status == 413 and not text and not re.search(TOO_LONG, plain):
        why = _TOO_MUCH.format(f": {plain}" if body.strip() and not is_page else "")
    elif status in (404, 405) and re.match(NOTHING_THERE, text):
        why = f"answered, but not {OPENAI.alike} (status {status}: {plain}): {OPENAI.check}"
    elif text or (status not in (404, 405) and body.strip() and not is_page):
        kind = _REFUSED.get(status, BackendError)
        return reported_error(host, model, words, OPENAI, strict=strict, limit=limit, kind=kind)
    elif status >= 500:
        why = f"failed (status {status}: {plain}): look at its log, or check the address"
    else:
        why = f"answered, but not {OPENAI.alike} (status {status}: {plain}): {OPENAI.check}"
    through = "" if text else answered_by_proxy(host)
    return _KINDS.get(status, BackendError)(f"The server at {host} {why}.{through}", host=host.url)


def _locked(status: int, said: str, body: bytes, has_key: bool, login: str) -> str:
    """Say what is wrong with a key, or its absence; ``said`` are the server's words."""
    if status == 401 and _wants_password(login):
        return _LOGIN
    key = "the key in OPENAI_API_KEY is not accepted" if has_key else "it wants a key"
    if status == 403:  # a firewall says so, too
        key = "it may not accept the key that it was sent" if has_key else "it may want a key"
        key += "" if body.strip() else "; Ollama wants its IP address, not a name"
    refuses = f"refuses ({said})" if said else "refuses"
    return f"{refuses}: {key}. Set OPENAI_API_KEY; it is sent over https, or on this machine, only"


def _wants_password(login: str) -> bool:
    """Whether a server, or a proxy before it as nginx, wants a user name and a password, and takes no key."""
    kinds = login.lower()
    return kinds.startswith(("basic", "digest", "ntlm", "negotiate")) and "bearer" not in kinds


def _led(location: str) -> str:
    """Say where a redirect leads, without what may be a secret: a user, a password, a query."""
    plain = re.sub(r"//[^/?#]*@", "//", location)  # where more is left of one, nothing is shown
    where = "" if re.search(AT, plain) else shorten(re.split("[?#]", plain, maxsplit=1)[0])
    return f"redirects {f'to {where}' if where else 'elsewhere'}, and ORE follows no redirects"
