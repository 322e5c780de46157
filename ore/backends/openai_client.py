"""One connection to an OpenAI-compatible server through the ``openai`` package.

Turns whatever the package, and HTTP below it, raise into ORE's errors. No retry, no redirect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib import import_module, util
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ore.backends import failures, model_names, refusals, server_words
from ore.backends.address import Host, text_without_key, without_key
from ore.backends.failures import BEGUN, OPENAI
from ore.backends.http import (
    CONNECT_SECONDS,
    HOSTILE,
    LINE_LIMIT,
    REPLY_LIMIT,
    Deadline,
    TooLarge,
    first_bytes,
    in_words,
    tls_context,
    trace_of,
    whole_body,
)
from ore.backends.openai_stream import in_utf8, reported
from ore.backends.pools import steady
from ore.backends.proxies import proxy_address
from ore.errors import ExtraNotInstalledError, OreError, UsageError
from ore.files import strictjson
from ore.files.extras import importing, install_command
from ore.reasoner.stop import OwnLock

if TYPE_CHECKING:  # importing them is _packages's: where they are missing, it says so
    import httpx2
    import openai

_NO_KEY = "none"  # the package wants one to be made with; it is not sent
_loading = OwnLock()  # an import that fails leaves half a package to a thread that waits for it
_heard = set[str]()  # what has answered in this process: each call has a connection of its own


class Call:
    """One request and its answer; closing it closes the connection, which ends the generation.

    ``timeout`` is the longest silence to accept, in seconds, ``deadline`` when all of it must be
    over; with ``strict``, a prompt that does not fit the window is a check that did not hold.

    Attributes:
        status: The HTTP status of the answer; 0 before there is one.

    Raises:
        ExtraNotInstalledError: The package is missing.
        BackendError: There can be no client for this host.
    """

    def __init__(
        self,
        host: Host,
        key: str | None,
        *,
        deadline: Deadline,
        timeout: float | None = None,
        strict: bool = False,
    ) -> None:
        self._host, self._key, self._timeout = host, key, timeout
        self.deadline, self._strict = deadline, strict
        self._model, self._sent, self._begun, self._problem = "", False, False, ""
        self.status: int = 0
        self._body, self._login, self._is_list, self._limit = b"", "", False, None
        self._unread, self._longest = 0, LINE_LIMIT
        self._stream: Any = None
        self._openai, self._httpx = _packages()
        self._client = self._new_client()

    def chat(self, request: dict[str, Any]) -> Iterator[Any]:
        """Send ``request`` to ``/chat/completions`` and yield each part of the answer.

        A part is the JSON of one event, an object unless the server sent something else. The
        package's own classes are not made of it: for many values that takes minutes.
        """
        self._model, self._limit = request["model"], request.get("max_tokens")
        yield from self._events("/chat/completions", {**request, "stream": True})

    def models(self) -> list[dict[str, Any]]:
        """Return what ``/models`` says of each model, in a list or not: objects with an ``id``."""
        with self._errors():
            answered: Any = self._client.get("/models", cast_to=object)
            if isinstance(answered, str):  # its head does not call it JSON, as nginx's may not
                answered = server_words.loads(self._body)
            data = answered if isinstance(answered, list) else answered["data"] or []  # Ollama's
            named = [e for e in model_names.checked_models(data) if isinstance(e.get("id"), str)]
            if data and not named:
                raise ValueError("its models have no names")
        return named

    def applied(self, messages: list[dict[str, str]], **more: Any) -> str:
        """Return the prompt that llama.cpp's server makes of messages; others do not know the question."""
        found = self.ask("/apply-template", {"messages": messages, **more})
        with self._errors():
            if not isinstance(found.get("prompt"), str):
                raise ValueError("it gives no prompt")
        return str(found["prompt"])

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return what the server answers to a question, as JSON.

        Args:
            path: Beside the protocol, at the server's root, where it begins with ``/``; else below
                the address.
        """
        where = self._beside(path) if path.startswith("/") else f"/{path}"
        with self._errors():
            self._client.post(where, body=body, cast_to=object)
            found = strictjson.parse(self._body, limit=REPLY_LIMIT)
            if not isinstance(found, dict):
                raise ValueError("it is no object")
        return found

    def events(self, path: str, request: dict[str, Any], longest: int) -> Iterator[dict[str, Any]]:
        """Yield the events, of ``longest`` bytes each, of a request beside the protocol's own."""
        self._model, self._longest = request["model"], longest
        for event in self._events(self._beside(path), request):
            with self._errors():
                if not isinstance(event, dict):
                    raise ValueError("an event is not an object")
            yield event

    def _events(self, path: str, request: dict[str, Any]) -> Iterator[Any]:
        """Yield the JSON of the events that a request is answered with."""
        kind = self._openai.Stream[object]
        with self._errors():
            self._stream = self._client.post(
                path, body=request, cast_to=object, stream=True, stream_cls=kind
            )
            for event in self._stream:
                self._unread, self._begun = 0, True
                if words := reported(event):
                    raise self._reported(words)
                yield event

    def _beside(self, path: str) -> str:
        """Return the address of what is not below ``/v1``."""
        return self._host.url.rstrip("/").removesuffix("/v1") + path

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._stream is not None:
            self._stream.close()
        self._client.close()

    def _new_client(self) -> openai.OpenAI:
        url, httpx = self._host.url, self._httpx
        limits = (CONNECT_SECONDS, self._timeout)  # the deadline is looked at when it connects
        timeout = httpx.Timeout(self._timeout, connect=min(s for s in limits if s is not None))
        try:
            client: openai.OpenAI = self._openai.OpenAI(
                api_key=self._key or _NO_KEY,
                base_url=url,
                max_retries=0,
                timeout=timeout,
                http_client=steady(
                    httpx.Client(
                        timeout=timeout,
                        follow_redirects=False,
                        verify=tls_context() if url.startswith("https:") else False,
                        trust_env=False,
                        proxy=proxy_address(url),
                        event_hooks={"request": [self._before], "response": [self._after]},
                    )
                ),
            )
        except _raised(self._openai, httpx) as exc:
            raise failures.client_error(self._host, exc) from None  # it may quote a password
        client.organization = client.project = client.admin_api_key = None
        client._custom_headers = {}  # what it read of the environment by itself goes to no server
        return client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _raised(self._openai, self._httpx) as exc:
            raise failures.without(self._key, self._error(exc), exc)

    def _before(self, request: httpx2.Request) -> None:
        """Runs right before the request is sent."""
        self._sent, self._is_list = True, request.method == "GET"  # the models
        request.headers["accept-encoding"] = "identity"
        for name in [name for name in request.headers if name.startswith("x-stainless-")]:
            del request.headers[name]  # what the package tells of this machine
        if self._key is None:
            request.headers.pop("authorization", None)
        request.extensions["trace"] = trace_of(lambda: self.deadline)

    def _after(self, response: httpx2.Response) -> None:
        """Runs when the status and the headers are there, before the body is read."""
        self.status = response.status_code
        _heard.add(self._host.url)
        self._login = response.headers.get("www-authenticate", "")
        kind = text_without_key(response.headers.get("content-type", ""), self._key).lower()
        if response.headers.get("content-encoding", "").lower() not in ("", "identity", "none"):
            self._problem = "its answer is compressed, though that was not asked for"
        elif self.status < 300 and self._model and "event-stream" not in kind:
            self._problem = f"its answer is {kind or 'of an unknown kind'}, not a stream of events"
        stream = cast("httpx2.SyncByteStream", response.stream)  # the client is not asynchronous
        if self._problem:
            self._body = first_bytes(stream) if "json" in kind else b""  # it may say what is wrong
            raise ValueError(self._problem)
        if self.status < 300 and self._model:
            response.stream = self._bounded(stream)
            return
        with closing(stream):
            body = (whole_body if self.status < 300 else first_bytes)(stream)
        leads = response.has_redirect_location and response.headers.pop("location").encode()
        self._body = without_key(leads or body, self._key)
        mended = self._body.decode("utf-8", "replace").encode("utf-8")
        response.stream = self._httpx.ByteStream(mended)

    def _bounded(self, stream: httpx2.SyncByteStream) -> httpx2.SyncByteStream:
        """Pass a stream on, in UTF-8; the package would keep what does not end in a part, however large."""

        def counted() -> Iterator[bytes]:
            for chunk in stream:
                self._unread += len(chunk)
                if self._unread > self._longest:
                    raise TooLarge("a part of an answer", self._longest)
                yield chunk

        return in_utf8(stream, counted())

    def _error(self, error: BaseException) -> OreError:
        """Return what an exception and the evidence mean: the one place that decides it."""
        openai, httpx = self._openai, self._httpx
        host, cause = self._host, error.__cause__ or error
        if self.deadline.passed:
            late = failures.too_slow_error if self._model else failures.no_reply_error
            return late(host, self.deadline.seconds)
        if self._problem:
            if words := server_words.openai_words(self._body):
                return self._reported(words)
            return failures.protocol_error(host, self._problem, OPENAI)
        if isinstance(cause, TooLarge):
            return failures.too_large_error(host, cause.what, cause.limit, is_list=self._is_list)
        if not self._sent:
            return UsageError(f"The request to the model can't be made: {in_words(error)}.")
        if self.status >= 300:
            about = (host, self._model, self.status, self._body)
            has_key, login, strict = self._key is not None, self._login, self._strict
            return refusals.openai_status_error(
                *about, has_key=has_key, login=login, strict=strict, limit=self._limit
            )
        if isinstance(cause, httpx.ConnectTimeout):
            return failures.unreachable_error(host, "no connection came about in time", OPENAI)
        if isinstance(cause, httpx.TimeoutException):
            return failures.silence_error(host, self._timeout)
        unreached, why = (httpx.ConnectError, httpx.ProxyError, ConnectionError), in_words(cause)
        if not self.status and (isinstance(cause, unreached) or failures.REFUSED.search(why)):
            return failures.unreachable_error(host, why, OPENAI)
        if isinstance(cause, httpx.RemoteProtocolError) and not failures.CUT.search(why):
            return failures.protocol_error(host, why, OPENAI)
        if isinstance(cause, (httpx.TransportError, OSError)):
            return failures.broken_off_error(host, why, is_begun=host.url in _heard)
        if isinstance(error, openai.APIError) and self.status:
            return self._reported(server_words.openai_words(error.body) or str(error))
        return failures.protocol_error(host, in_words(error), BEGUN if self._begun else OPENAI)

    def _reported(self, words: str) -> OreError:
        """Return what the server says in a status of 200, before an answer or within it."""
        text = text_without_key(words, self._key)
        return refusals.reported_error(self._host, self._model, text, OPENAI, strict=self._strict)


@cache  # each question asks for them
def _packages() -> tuple[ModuleType, ModuleType]:
    """Return the ``openai`` package and the HTTP library that it uses."""
    level = logging.getLogger("openai").level
    needs = "The openai backend needs the package '{}': "
    with _loading(), importing("openai", needs, "openai"):
        import httpx2
        import openai

        import_module("httpx")  # the package uses one that is there, also where a thread imports it
        httpx2.HTTPTransport(verify=False, trust_env=False).close()  # it imports the rest
    logging.getLogger("openai").setLevel(level)  # whatever OPENAI_LOG has made of it
    return openai, httpx2


def load_packages() -> None:
    """Import what a call needs, which may take a second the first time.

    Raises:
        ExtraNotInstalledError: It is missing.
    """
    _packages()


def check_installed() -> None:
    """Raise ``ExtraNotInstalledError`` where the package is missing; imports nothing."""
    if util.find_spec("openai") is None:
        raise ExtraNotInstalledError(
            f"The openai backend is not installed: {install_command('openai')}", "openai"
        )


def _raised(openai: ModuleType, httpx: ModuleType) -> tuple[type[BaseException], ...]:
    return (
        openai.OpenAIError,
        httpx.HTTPError,
        httpx.InvalidURL,
        httpx.StreamError,
        ImportError,
        *HOSTILE,
    )
