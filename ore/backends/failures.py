"""What goes wrong between ORE and a server, as our errors and their sentences: each written once.

What a server's own words mean is in ``ore.backends.refusals``. No key is part of a message.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ore.backends.address import Host, text_without_key
from ore.backends.http import TooLarge, in_words, shorten
from ore.backends.model_names import shown_name, shown_names
from ore.backends.proxies import proxy_for
from ore.backends.server_words import NO_MODEL
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    IncompleteAnswerError,
    ModelNotFoundError,
    OreError,
    ServerUnreachableError,
)


class Protocol(NamedTuple):
    """How sentences speak of a kind of server: what it is, how to start it, what it answers like."""

    server: str
    start: str
    alike: str
    check: str


_THROUGH = (
    "It is asked through the proxy of {proxy}, which may be what fails: check that, or name the server "
    "in NO_PROXY. "
)
CUT = re.compile("closed connection|disconnected|chunk (header|footer)")
"""What the HTTP library says of a connection that ended, or came apart, before the answer did."""
REFUSED = re.compile(r"\[SSL(: TLSV1|: SSLV3_ALERT|\] tlsv1)")
"""What it says of an alert that came from there: of TLS 1.3, some come after the handshake."""
_UNTRUSTED = re.compile(r"certificate verify failed: (.*?)( \(_ssl|$)", re.IGNORECASE)

OLLAMA = Protocol(
    "Ollama server", "Start one with `ollama serve`", "as Ollama does", "check the address"
)
OPENAI = Protocol(
    "server", "Start it", "as the OpenAI protocol does", "check the address; it often ends in /v1"
)
BEGUN = OPENAI._replace(check="ask again, or look at its log")  # the address is right


def unreachable_error(host: Host, why: str, protocol: Protocol) -> ServerUnreachableError:
    """Nothing listens at ``host``, or it can't be reached, or trusted; ``why`` is the system's reason."""
    if why.startswith("407") and proxy_for(host.url):  # said by a proxy that is asked for a tunnel
        return proxy_error(host)
    return ServerUnreachableError(_unreached(host, why, protocol), host=host.url)


def _unreached(host: Host, why: str, protocol: Protocol) -> str:
    """Return the sentence for a server that can't be reached."""
    if untrusted := untrusted_words(str(host), why):
        return f"{untrusted}, or name another server with `host=`."
    if "too many open files" in why:
        limit = "this process may open no more files; raise the limit (ulimit -n), or take fewer turns at once"
        if "in system" in why:
            limit = "the system can open no more files; end other programs"
        return f"No connection to {host} can be made: {limit}."
    if "WRONG_VERSION_NUMBER" in why:  # TLS's words for an answer in plain text
        why = "what answers there does not speak https, so try http"
    if "UNEXPECTED_EOF" in why:
        why = "it closed the connection before it said who it is, as a server without https does"
    if REFUSED.search(why):
        return (
            f"The {protocol.server} at {host} refuses ORE's TLS ({shorten(why)}): ask whoever runs it "
            f"which version, name or certificate it wants, or name another with `host=`."
        )
    way, start = "", protocol.start
    if proxy := proxy_for(host.url):
        way, start = _THROUGH.format(proxy=proxy), f"Else {start[0].lower()}{start[1:]}"
    return (
        f"No {protocol.server} answers at {host}: {shorten(why)}. {way}{start}, or name "
        f"another with `host=`."
    )


def proxy_error(host: Host) -> ServerUnreachableError:
    """A proxy does not let ORE through: status 407. Its address may hold a password and is not shown."""
    if proxy := proxy_for(host.url):
        text = (
            f"The proxy of {proxy} lets nobody through to {host} (status 407) without the name and "
            f"password that it knows: set them in {proxy}, as in http://NAME:PASSWORD@HOST:PORT, or "
            f"name the server in NO_PROXY."
        )
    else:
        text = f"A proxy answers at {host} (status 407), not a server: check the address."
    return ServerUnreachableError(text, host=host.url)


def answered_by_proxy(host: Host) -> str:
    """Return a sentence on the proxy through which ``host`` is asked, or nothing: of http, it may answer."""
    return _through_proxy(host) if host.url.startswith("http:") else ""


def _through_proxy(host: Host) -> str:
    return f" {_THROUGH.format(proxy=proxy).rstrip()}" if (proxy := proxy_for(host.url)) else ""


def untrusted_words(host: str, why: str) -> str:
    """Return that the certificate of ``host`` can't be trusted, and what helps, without a full stop.

    Nothing where ``why``, what the HTTP library says, is another trouble.
    """
    found = _UNTRUSTED.search(why)
    if not found:
        return ""
    reason, way = found[1], "set SSL_CERT_FILE to the certificate of the authority that signed it"
    if "mismatch" in reason:
        way = "name the server as its certificate does"
    elif "expired" in reason or "not yet valid" in reason:
        way = "renew it there, or set this machine's clock"
    elif re.search("too (weak|small)|invalid CA|purpose", reason):
        way = "have another one made for the server"
    elif os.environ.get("SSL_CERT_FILE"):
        way = "see that the file of SSL_CERT_FILE can be read and has the authority that signed it"
    return f"The certificate of {host} can't be trusted ({shorten(reason)}): {way}"


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
        what = f"Nothing came from {host} for {seconds:g} s: give it longer with `timeout=`"
    text = f"{what}, or look at the server's log.{_through_proxy(host)}"
    return BackendTimeoutError(text, host=host.url)


def no_reply_error(host: Host, seconds: float) -> BackendTimeoutError:
    """A question was not answered within ``seconds``, of which the limits of a turn may leave none."""
    within = f"within {seconds:.3g} s" if seconds else "in time"
    advice = "try again, with a longer `timeout=` or `deadline=` if one is set, or look at its log"
    text = f"The server at {host} did not answer {within}: {advice}.{_through_proxy(host)}"
    return BackendTimeoutError(text, host=host.url)


def untold_error(host: Host) -> BackendTimeoutError:
    """The server did not say in time which of its models answers prompts, so none is chosen."""
    return BackendTimeoutError(
        f"The server at {host} did not say in time which of its models answer prompts, so none is "
        f"chosen: name one with `model_id=`.",
        host=host.url,
    )


def too_slow_error(host: Host, seconds: float) -> BackendTimeoutError:
    """The turn was not done after ``seconds``."""
    return BackendTimeoutError(
        f"The answer from {host} was not complete after {seconds:g} s, so the turn was ended: "
        f"give it longer with `deadline=`.",
        host=host.url,
    )


def broken_off_error(host: Host, why: str, *, is_begun: bool = True) -> IncompleteAnswerError:
    """The connection ended before the answer did; ``is_begun`` is whether anything of it came."""
    scheme, _, rest = host.url.partition("://")
    tls = f" Nothing came: it may speak https, so try https://{rest}."
    tls = "" if is_begun or scheme != "http" else tls
    return IncompleteAnswerError(
        f"The answer from {host} broke off ({shorten(why)}), so it was dropped: ask again; the "
        f"server's log may say why.{tls}{_through_proxy(host)}",
        host=host.url,
    )


def unfinished_error(host: Host, *, is_begun: bool = True) -> IncompleteAnswerError:
    """The stream ended in good order, but nothing in it said that the answer was done."""
    what = (
        "without saying that it was done, as some do when a model repeats itself, or when another "
        "request comes, so the answer was dropped: ask again, or ask fewer at once"
    )
    if not is_begun:
        what = (
            "before it had begun, as some do with a prompt that does not fit: shorten it, check the "
            "address, or look at the server's log"
        )
    through = "" if is_begun else answered_by_proxy(host)
    return IncompleteAnswerError(
        f"The server at {host} ended the answer {what}.{through}", host=host.url
    )


def too_large_error(host: Host, what: str, limit: int, *, is_list: bool = False) -> BackendError:
    """The server sent more than ``limit`` bytes: in a turn, or as its list of models (``is_list``)."""
    ended, way = "the turn was ended", ""
    if is_list:
        ended, way = "its list of models was not read", ", or name the model with `model_id=`"
    size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
    return BackendError(
        f"The server at {host} sent {what} larger than {size}, so {ended}: check the address{way}.",
        host=host.url,
    )


def protocol_error(host: Host, why: str, protocol: Protocol) -> BackendError:
    """What came is not in the protocol."""
    return BackendError(
        f"The server at {host} answered, but not {protocol.alike} ({shorten(why)}): "
        f"{protocol.check}.{answered_by_proxy(host)}",
        host=host.url,
    )


def no_model_error(
    host: Host, model: str, protocol: Protocol, available: tuple[str, ...] | None = None
) -> ModelNotFoundError:
    """The server does not have ``model``; ``available`` names what it has, None if it was not asked."""
    name = shown_name(model)
    advice = "`Backend.models()` shows what there is"
    if available == ():
        advice = "it names none, so look there for what its model is called"
    if protocol is OLLAMA:
        others = f", or use one that is there: {shown_names(available)}" if available else ""
        advice = f"fetch it with `Backend.pull('{name}')`{others}"
    return ModelNotFoundError(
        f"There is no model '{name}' at {host}: {advice}.",
        model=model,
        available=available or (),
        host=host.url,
    )


def check_abilities(host: Host, model: str, able: object, wanted: Mapping[str, object]) -> None:
    """Raise ``CapabilityError`` where something is wanted of ``model`` that the server says it can't."""
    for ability, asked in wanted.items():
        if asked and isinstance(able, list) and ability not in able:
            raise ability_error(host, model, ability)


def ability_error(host: Host, model: str, ability: str) -> CapabilityError:
    """The server says of ``model`` that it lacks ``"thinking"`` or ``"vision"``."""
    what, way, setting = {
        "thinking": ("think first", "leave `think=` out, or say `think=False`", "think"),
        "vision": ("look at images", "leave `images=` out", ""),
    }[ability]
    sentence = f"The model '{shorten(model)}' at {host} can't {what}: {way}, or use another one."
    return CapabilityError(sentence, host=host.url, setting=setting)


def without(key: str | None, error: OreError, behind: BaseException | None = None) -> OreError:
    """Return an error without the key that its server was sent: some repeat it, in whatever they say.

    What is ``behind`` it is its cause where that is without the key as well: a traceback shows it.
    """
    error.args = (text_without_key(str(error), key), *error.args[1:])
    each: BaseException | None = behind
    while each is not None:
        said = f"{each}{each.errors() if key and hasattr(each, 'errors') else ''}"  # else it is cut
        if text_without_key(said, key) != said:
            break
        each = each.__cause__ or each.__context__
    error.__cause__ = behind if each is None else None
    return error


def explained(
    error: BackendError | TooLarge,
    host: Host,
    model: str,
    protocol: Protocol,
    *,
    names: Callable[[], Iterable[str]],
    partial: str,
) -> BackendError:
    """Return what went wrong with a turn, with what is known by now.

    Args:
        names: Asks the server which models there are; called only where it lacks ``model``.
        partial: The text that came.
    """
    if isinstance(error, TooLarge):
        error = too_large_error(host, error.what, error.limit)
    is_of_model = isinstance(error, ModelNotFoundError) or _lacks(error, model, protocol)
    if is_of_model and model not in (there := tuple(names())):
        error = no_model_error(host, model, protocol, there)
    error.partial = partial
    return error


def _lacks(error: BackendError, model: str, protocol: Protocol) -> bool:
    """Return whether an error of no other kind, as one with status 200, says that there is no such model."""
    is_said = type(error) is BackendError and protocol is OPENAI and model in str(error)
    return is_said and re.search(NO_MODEL, str(error)) is not None
