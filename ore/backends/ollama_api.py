"""Small questions to an Ollama server over Python's own HTTP client: what is there, what runs.

Each is one request on a connection of its own, bounded in time and size. Knows nothing about
chats, and needs no package.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from ore.backends import failures as net_errors
from ore.backends import ollama_errors
from ore.backends.address import Host, is_loopback
from ore.backends.http import (
    CONNECT_SECONDS,
    LINE_LIMIT,
    REFUSAL_LIMIT,
    REPLY_LIMIT,
    Watchdog,
    tls_context,
)
from ore.backends.ollama_context import trained_window, window_of
from ore.backends.ollama_host import authorization
from ore.errors import BackendError, OreError
from ore.files import reason
from ore.types import strictjson

if TYPE_CHECKING:  # the standard library's client is imported by the first question
    from http.client import HTTPConnection, HTTPResponse

ANSWER_SECONDS = 10.0
"""How long a question may take, unless its function says otherwise."""

_LEAST_TRAINED = 2048  # tokens: the smallest window that chat models are made for
_CUT = "the connection ended within it"


def tags(host: Host, *, seconds: float = ANSWER_SECONDS) -> list[dict[str, Any]]:
    """Return what ``/api/tags`` says of each model: ``name``, ``digest``, ``size`` and more.

    Raises:
        BackendError: The server does not answer, or not as Ollama does.
    """
    return _entries(_value(host, "GET", "/api/tags", seconds=seconds), host)


def names(host: Host, *, seconds: float = ANSWER_SECONDS) -> list[str]:
    """Return the names of the models that are there, as the server gives them and in its order.

    Raises:
        BackendError: The server does not answer, or not as Ollama does.
    """
    found = [entry.get("name") or entry.get("model") for entry in tags(host, seconds=seconds)]
    return [name for name in found if isinstance(name, str)]


def ps(host: Host, *, seconds: float = ANSWER_SECONDS) -> list[dict[str, Any]]:
    """Return what ``/api/ps`` says of each loaded model, with ``context_length`` in tokens.

    A server that is loading a model may not answer until that is done.

    Raises:
        BackendError: The server does not answer in time, or not as Ollama does.
    """
    return _entries(_value(host, "GET", "/api/ps", seconds=seconds), host)


def show(host: Host, model: str, *, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
    """Return what ``/api/show`` says of a model: its template, parameters, capabilities.

    Raises:
        ModelNotFoundError: The server does not have it.
        BackendError: The server does not answer, or not as Ollama does.
    """
    return _value(host, "POST", "/api/show", {"model": model}, model=model, seconds=seconds)


def window(
    host: Host, model: str, *, num_ctx: int | None, tokens: int, seconds: float
) -> int | None:
    """Return the context window, in tokens, that ``model`` has just answered with, or None.

    It is ``num_ctx`` if that was sent, else what ``/api/ps`` reports; the server takes both as they
    are given, but never uses more than the model was trained with. That is asked of ``/api/show``
    for a large prompt only.

    Args:
        num_ctx: What the request set, or None.
        tokens: How large the prompt was, as an estimate.
        seconds: How long all of it may take; what is not known by then is left out.
    """
    end = time.monotonic() + seconds
    try:
        found = num_ctx or window_of(ps(host, seconds=seconds), model)
        if found is None or tokens < _LEAST_TRAINED // 2:
            return found
    except BackendError:
        return None
    try:
        trained = trained_window(show(host, model, seconds=max(end - time.monotonic(), 0.01)))
    except BackendError:
        return found
    return min(found, trained or found)


def version(host: Host, *, seconds: float = ANSWER_SECONDS) -> str:
    """Return the server's version.

    Raises:
        BackendError: The server does not answer, or not as Ollama does.
    """
    found = _value(host, "GET", "/api/version", seconds=seconds).get("version")
    if not isinstance(found, str):
        raise ollama_errors.not_understood(host, "it gives no version")
    return found


def answers(host: Host, *, seconds: float = 2.0) -> bool:
    """Tell whether an Ollama server answers at ``host`` within ``seconds``."""
    try:
        version(host, seconds=seconds)
    except BackendError:
        return False
    return True


def pull(host: Host, name: str, progress: Callable[[str, int, int], None]) -> None:
    """Make the server fetch a model, and return when it is there.

    Leaving early (Ctrl-C, an exception of ``progress``) closes the connection, and the server
    stops; what it has fetched by then it keeps, and goes on from there when asked again.

    Args:
        progress: Called with what the server is doing, the bytes there are, and the bytes expected
            (0: not known).

    Raises:
        ModelNotFoundError: There is no such model to fetch.
        BackendError: The server can't fetch it.
    """
    with closing(_steps(host, name)) as steps:
        for step in steps:
            status = step.get("status")
            if status == "success":
                return
            progress(str(status or ""), _bytes(step, "completed"), _bytes(step, "total"))
    raise net_errors.broken_off(host, "before the model was there")


def _steps(host: Host, name: str) -> Generator[dict[str, Any], None, None]:
    """Yield what a pull reports, line by line."""
    request = {"model": name, "stream": True}
    with _asked(host, "POST", "/api/pull", request, model=name, seconds=None) as response:
        while line := response.readline(LINE_LIMIT + 1):
            if len(line) > LINE_LIMIT:
                raise net_errors.too_large(host, "a line", LINE_LIMIT)
            if not line.strip():
                continue
            step = _object(line, host)
            if step.get("error"):
                raise ollama_errors.said(host, name, ollama_errors.reported(line))
            yield step


def _bytes(step: dict[str, Any], key: str) -> int:
    value = step.get(key)
    return value if type(value) is int and value > 0 else 0


def _value(
    host: Host, method: str, path: str, document: Any = None, *, model: str = "", seconds: float
) -> dict[str, Any]:
    with _asked(host, method, path, document, model=model, seconds=seconds) as response:
        body = response.read(REPLY_LIMIT + 1)
        missing = response.length  # reading up to a limit does not notice that a body was cut
    if missing and len(body) <= REPLY_LIMIT:
        raise net_errors.broken_off(host, _CUT)
    if len(body) > REPLY_LIMIT:
        raise net_errors.too_large(host, "an answer", REPLY_LIMIT)
    return _object(body, host)


def _object(data: bytes, host: Host) -> dict[str, Any]:
    try:
        value = strictjson.parse(data, limit=REPLY_LIMIT)
    except ValueError as exc:
        raise ollama_errors.not_understood(host, str(exc)) from exc
    if not isinstance(value, dict):
        raise ollama_errors.not_understood(host, "its JSON is no object")
    return value


def _entries(value: dict[str, Any], host: Host) -> list[dict[str, Any]]:
    models = value.get("models")
    if models is None:  # what an empty list becomes on its way through some servers
        return []
    if not isinstance(models, list) or not all(isinstance(entry, dict) for entry in models):
        raise ollama_errors.not_understood(host, "it gives no list of models")
    return models


@contextmanager
def _asked(
    host: Host, method: str, path: str, document: Any, *, model: str, seconds: float | None
) -> Iterator[HTTPResponse]:
    """Send one request and yield its response; every failure in between is one of ours."""
    import http.client

    connection, target, headers = _connection(host, path, seconds)
    watchdog = Watchdog(seconds)
    body = None if document is None else json.dumps(document).encode("ascii")
    try:
        with closing(connection):
            _connect(connection, host)
            watchdog.watch(connection.sock)
            connection.sock.settimeout(None)
            connection.request(method, target, body, headers)
            with closing(connection.getresponse()) as response:
                if response.status >= 300:
                    said = response.read(REFUSAL_LIMIT)
                    location = response.headers.get("Location", "")
                    raise ollama_errors.refused(
                        host, model, response.status, said, location=location
                    )
                yield response
            if watchdog.fired:  # a body without a length may have ended as if it were complete
                raise net_errors.no_reply(host, watchdog.seconds)
    except OreError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as exc:
        if watchdog.fired:
            raise net_errors.no_reply(host, watchdog.seconds) from exc
        if isinstance(exc, http.client.IncompleteRead):
            raise net_errors.broken_off(host, _CUT) from exc
        if isinstance(exc, OSError):
            raise net_errors.broken_off(host, reason(exc)) from exc
        raise ollama_errors.not_understood(host, reason(exc)) from exc
    finally:
        watchdog.stop()


def _connect(connection: HTTPConnection, host: Host) -> None:
    import ssl

    try:
        connection.connect()
    except ssl.SSLCertVerificationError as exc:
        raise net_errors.untrusted(host, exc.verify_message) from exc
    except TimeoutError as exc:
        raise ollama_errors.unreachable(host, "no connection came about in time") from exc
    except OSError as exc:
        raise ollama_errors.unreachable(host, reason(exc)) from exc


def _connection(
    host: Host, path: str, seconds: float | None
) -> tuple[HTTPConnection, str, dict[str, str]]:
    """Return an unconnected connection to ``host``, the target to ask for, and the headers."""
    import http.client

    wait = CONNECT_SECONDS if seconds is None else min(CONNECT_SECONDS, seconds)
    parts = urlsplit(host.url)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    key = authorization(host.url)
    if key:
        headers["Authorization"] = key
    proxy, proxy_headers = _proxy(host)
    asked = proxy or parts
    name, port = asked.hostname or "", asked.port or 80
    target = parts.path + path
    if parts.scheme == "https":
        try:
            context = tls_context()
        except OSError as exc:  # ssl's errors are that too
            raise net_errors.no_client(host, net_errors.in_words(exc)) from exc
        secure = http.client.HTTPSConnection(name, port, timeout=wait, context=context)
        if proxy:
            secure.set_tunnel(parts.hostname or "", parts.port, proxy_headers)
        return secure, target, headers
    connection = http.client.HTTPConnection(name, port, timeout=wait)
    if proxy:
        return connection, host.url + path, {**headers, **proxy_headers, "Host": parts.netloc}
    return connection, target, headers


def _proxy(host: Host) -> tuple[SplitResult | None, dict[str, str]]:
    """Return the proxy that the environment names for ``host``, if any, and the headers for it."""
    if is_loopback(host.url):
        return None, {}
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(host.url)
    found = getproxies()
    named = found.get(parts.scheme) or found.get("all")
    if not named or proxy_bypass(parts.netloc):
        return None, {}
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        if proxy.scheme != "http" or not proxy.hostname or not 0 <= (proxy.port or 0) < 65536:
            raise ValueError("only http:// proxies are understood")
        proxy.hostname.encode("idna")  # what the system would be asked for
        login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
    except ValueError as exc:
        raise BackendError(
            f"The proxy for {host} that the environment names can't be used "
            f"({net_errors.shorten(str(exc))}): correct it, or add the host to NO_PROXY.",
            host=host.url,
        ) from exc
    if proxy.username is None:
        return proxy, {}
    from base64 import b64encode

    return proxy, {"Proxy-Authorization": f"Basic {b64encode(login).decode('ascii')}"}
