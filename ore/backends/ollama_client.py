"""One chat with an Ollama server through the ``ollama`` package, on a connection of its own.

Turns whatever the package, and the HTTP library below it, raise into ORE's errors. Knows nothing
about personas, sessions or what an answer is for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ore.backends import failures as net_errors
from ore.backends import ollama_errors
from ore.backends.address import Host, is_loopback
from ore.backends.environment import environment_without
from ore.backends.http import (
    CONNECT_SECONDS,
    TooLarge,
    Watchdog,
    first_bytes,
    tls_context,
    whole_body,
)
from ore.backends.ollama_host import authorization
from ore.backends.ollama_importing import import_ollama
from ore.backends.ollama_lines import Lines
from ore.errors import OreError, UsageError

if TYPE_CHECKING:  # importing them is import_ollama's: where they are missing, it says so
    import httpx
    from ollama import ChatResponse, Client

_UNTRUSTED = re.compile(r"certificate verify failed: (.*?)( \(_ssl|$)", re.IGNORECASE)
_CUT = re.compile("closed connection|disconnected")
_KEY = re.compile("ollama_api_key", re.IGNORECASE)


class Turn:
    """One request to ``/api/chat`` and its answer; closing it ends the generation on the server.

    Args:
        host: The server.
        model: The model's name.
        timeout: The longest silence to accept, in seconds; None waits.
        deadline: The longest all of it may take, in seconds; None waits.
        strict: The server is told not to shorten the prompt.
        transport: What takes the place of the network; None is the network.

    Attributes:
        sent: Whether the request was about to go out when something happened.
        status: The HTTP status; 0 before there is one.
        location: Where a redirect leads.
        body: What came in one piece: a refusal, or an answer that is not in parts.
        lines: What came of an answer in parts; None as long as there is none.
        watchdog: What ends the turn at its deadline.

    Raises:
        OreError: There can be no client for this host.
    """

    def __init__(
        self,
        host: Host,
        model: str,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        strict: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        ollama = import_ollama()
        self.host = host
        self.model = model
        self.timeout = timeout
        self.deadline = deadline
        self.strict = strict
        self.sent = False
        self.status = 0
        self.location = ""
        self.body = b""
        self.lines: Lines | None = None
        self._comes_in_parts = False
        self._failures = _failures(ollama)
        self._client = self._new_client(ollama, transport)
        self.watchdog = Watchdog(deadline)

    def ask(self, request: dict[str, Any]) -> ChatResponse:
        """Send ``request`` (the arguments of ``Client.chat``) and return the whole answer.

        Raises:
            OreError: Anything that went wrong.
        """
        try:
            return self._client.chat(stream=False, **request)
        except self._failures as exc:
            raise _failure(exc, self) from exc

    def parts(self, request: dict[str, Any]) -> Generator[ChatResponse, None, None]:
        """Send ``request`` and yield the parts of the answer as they come.

        Raises:
            OreError: Anything that went wrong.
        """
        self._comes_in_parts = True
        try:
            yield from self._client.chat(stream=True, **request)
        except self._failures as exc:
            raise _failure(exc, self) from exc

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self.watchdog.stop()
        self._client.close()  # type: ignore[no-untyped-call]  # the package gives it no types

    def _new_client(self, ollama: ModuleType, transport: httpx.BaseTransport | None) -> Client:
        import httpx

        url = self.host.url
        key = authorization(url)
        limits = (CONNECT_SECONDS, self.timeout, self.deadline)
        connect = min(limit for limit in limits if limit is not None)
        failures: tuple[type[BaseException], ...] = (ImportError, *self._failures)
        try:
            with environment_without(_KEY):
                client: Client = ollama.Client(
                    host=url,
                    follow_redirects=False,
                    timeout=httpx.Timeout(self.timeout, connect=connect),
                    headers={"accept-encoding": "identity", "authorization": key},
                    verify=tls_context() if url.startswith("https:") else False,
                    transport=transport,
                    trust_env=not is_loopback(url),
                    event_hooks={"request": [self._before], "response": [self._after]},
                )
                return client
        except failures as exc:
            raise net_errors.no_client(self.host, _reason(exc)) from exc

    def _before(self, request: httpx.Request) -> None:
        """Runs right before the request is sent."""
        self.sent = True
        if self.deadline is not None:
            request.extensions["trace"] = self._trace
        if self.strict:
            import httpx

            document = {**json.loads(request.read()), "truncate": False}
            data = json.dumps(document, ensure_ascii=False).encode("utf-8")
            request.stream = httpx.ByteStream(data)
            request.headers["Content-Length"] = str(len(data))

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        """Hears of the connection before the server has said anything on it."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.watchdog.watch(info["return_value"].get_extra_info("socket"))

    def _after(self, response: httpx.Response) -> None:
        """Runs when the status and the headers are there, before the body is read."""
        self.status = response.status_code
        self.location = response.headers.get("location", "")
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ValueError(f"the answer is encoded as {encoding}")
        response.encoding = "utf-8"
        stream = cast("httpx.SyncByteStream", response.stream)  # the client is no asynchronous one
        if self._comes_in_parts and self.status < 300:
            self.lines = Lines(stream)
            # Where the package gets its lines from: its own way cuts where JSON does not, and
            # costs a quarter more.
            response.iter_lines = self.lines.__iter__  # type: ignore[method-assign]  # meant so
        else:
            response.stream = _body(stream, self)


def _body(stream: httpx.SyncByteStream, turn: Turn) -> httpx.SyncByteStream:
    """Return a body for ``httpx`` to read in place of ``stream``: bounded, mended, remembered."""
    import httpx

    class Body(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            turn.body = whole_body(stream) if turn.status < 300 else first_bytes(stream)
            return iter((turn.body,))

        def close(self) -> None:
            stream.close()

    return Body()


def _failures(ollama: ModuleType) -> tuple[type[BaseException], ...]:
    """Everything that the package and the library below it raise over hostile or missing bytes."""
    import httpx

    return (
        httpx.HTTPError,
        httpx.InvalidURL,
        httpx.StreamError,
        ollama.RequestError,
        ollama.ResponseError,
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TooLarge,
        TypeError,
        ValueError,
    )


def _failure(error: BaseException, turn: Turn) -> OreError:
    """Return what an exception and the evidence of the wire mean: the one place that decides it."""
    import httpx

    host, why = turn.host, _reason(error)
    if turn.watchdog.fired:
        return net_errors.too_slow(host, turn.watchdog.seconds)
    if isinstance(error, OreError):
        return error
    if isinstance(error, TooLarge):
        return net_errors.too_large(host, error.what, error.limit)
    if not turn.sent:
        return UsageError(f"The request to the model can't be made: {why}.")
    if turn.status >= 300:
        return ollama_errors.refused(
            host,
            turn.model,
            turn.status,
            turn.body,
            location=turn.location,
            strict=turn.strict,
        )
    if isinstance(error, httpx.ConnectTimeout):
        return ollama_errors.unreachable(host, "no connection came about in time")
    if isinstance(error, httpx.TimeoutException):
        return net_errors.silent(host, turn.timeout)
    if not turn.status and isinstance(error, (ConnectionError, httpx.ConnectError)):
        untrusted = _UNTRUSTED.search(why)
        if untrusted:
            return net_errors.untrusted(host, untrusted[1])
        return ollama_errors.unreachable(host, why)
    if isinstance(error, (OSError, httpx.NetworkError)) or _CUT.search(why):
        return net_errors.broken_off(host, why)
    if turn.lines is not None and not turn.lines.whole:
        return net_errors.broken_off(host, "in the middle of a line")
    text = _error_in(turn.lines.last if turn.lines is not None else turn.body)
    if text:
        return ollama_errors.said(host, turn.model, text, strict=turn.strict)
    return ollama_errors.not_understood(host, why)


def _error_in(data: bytes) -> str:
    """Return the text of the first line of JSON that reports an error, or nothing."""
    for line in data.splitlines():
        text = ollama_errors.reported(line)
        if text:
            return text
    return ""


def _reason(error: BaseException) -> str:
    """Return what happened in a few words, also where the package hides it."""
    if type(error) is ConnectionError and error.__context__ is not None:
        error = error.__context__  # behind a sentence of the package's own
    if isinstance(error, (AttributeError, TypeError)):
        return "its JSON is no object"
    if hasattr(error, "errors"):  # pydantic's
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {net_errors.shorten(first['msg'])}"
    return net_errors.in_words(error)
