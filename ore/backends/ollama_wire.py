"""Below the questions to an Ollama server: how an ``ollama.Client`` is made, bounded, understood."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ore.backends import failures, refusals, server_words
from ore.backends.address import Host, Key, ollama_authorization, text_without_key, without_key
from ore.backends.failures import OLLAMA
from ore.backends.http import (
    CONNECT_SECONDS,
    HOSTILE,
    Deadline,
    TooLarge,
    bound,
    first_bytes,
    in_words,
    shorten,
    tls_context,
    trace_of,
    whole_body,
)
from ore.backends.lines import Lines
from ore.backends.proxies import proxy_address
from ore.errors import OreError, UsageError
from ore.files.extras import NOT_INSTALLED, importing, require_whole
from ore.reasoner.stop import OwnLock

if TYPE_CHECKING:  # importing them is import_ollama's: where they are missing, it says so
    import httpx
    from ollama import Client

_NO_KEY = "none"  # the package reads a key of its own where it is given none; it is not sent
_KEEP_SECONDS = 1.0  # an idle connection is kept; servers and proxies wait longer with closing it
_loading = OwnLock()  # an import that fails leaves half a package to a thread that waits for it
_OF_EVENTS = OLLAMA._replace(
    check="a server of the OpenAI protocol is asked with `backend='openai'`"
)


@dataclass
class Request:
    """One request, and what is known of its answer.

    Attributes:
        timeout: The longest silence to accept, in seconds; None waits.
        strict: The server is told not to shorten the prompt.
        is_turn: Whether it takes a turn, whose bounds a user sets.
        in_parts: Whether the answer comes line by line, in ``lines``, or in one piece, ``body``.
        sent: Whether the request was about to go out when something happened.
        is_done: Whether the server has said that the answer is done.
        status: The HTTP status; 0 before there is one.
        location: Where a redirect leads.
        login: The header that says how to log in.
        key: The header with the key that was sent.
        has_heard: Whether the server has answered before.
    """

    model: str = ""
    timeout: float | None = None
    deadline: Deadline = field(default_factory=lambda: Deadline(None))
    strict: bool = False
    is_turn: bool = False
    in_parts: bool = False
    sent: bool = False
    is_done: bool = False
    status: int = 0
    location: str = field(default="", repr=False)
    login: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    has_heard: bool = False
    body: bytes = b""
    lines: Lines | None = None
    connection: Any = None


class Hooks(threading.local):
    """What the HTTP library calls on the way of a request, each thread's; an answer is put into ``heard``."""

    request: Request | None = None

    def __init__(self, heard: set[int]) -> None:
        self.heard = heard

    def before(self, sent: httpx.Request) -> None:
        """Runs right before a request is sent."""
        request = self.request or Request()
        request.sent, request.has_heard = True, bool(self.heard)
        request.key = Key(sent.headers.get("authorization", ""))
        limits = (CONNECT_SECONDS, request.timeout, request.deadline.wait(None))
        connect = min(limit for limit in limits if limit is not None)
        silence = dict.fromkeys(("read", "write"), request.timeout)
        sent.extensions["timeout"] = {"connect": connect, "pool": connect, **silence}
        sent.extensions["trace"] = trace_of(self._deadline)
        if request.strict:
            # A prompt may be large: its JSON is not read for that.
            data = b'{"truncate":false,' + sent.read()[1:]
            sent.stream = _httpx().ByteStream(data)
            sent.headers["Content-Length"] = str(len(data))

    def after(self, response: httpx.Response) -> None:
        """Runs when the status and the headers are there, before the body is read."""
        request = self.request or Request()
        request.status = response.status_code
        self.heard.add(request.status)  # an event of threads would stay locked by an interrupt
        request.location = response.headers.pop("location", "")  # may hold a password
        request.login = response.headers.get("www-authenticate", "")
        encoding = response.headers.get("content-encoding", "")
        if encoding.lower() not in ("", "identity", "none"):
            raise ValueError(f"the answer is encoded as {encoding}")
        response.encoding = "utf-8"
        stream = cast("httpx.SyncByteStream", response.stream)  # the client is not asynchronous
        connection = response.extensions.get("network_stream")
        bound(connection, self._deadline)
        if not getattr(connection, "has_heard", True):
            raise ValueError("it came with the last answer, before it was asked for")
        if request.in_parts and request.status < 300:
            request.lines = Lines(stream)
            if connection is not None:
                request.connection, connection.deadline = connection, request.deadline
            # Where the package gets its lines from: its own way cuts where JSON does not, and
            # costs a quarter more.
            response.iter_lines = request.lines.__iter__  # type: ignore[method-assign]
            return
        with closing(stream):
            request.body = whole_body(stream) if request.status < 300 else first_bytes(stream)
        request.body = without_key(request.body, request.key)
        if request.is_turn:
            request.body = request.body.decode("utf-8", "replace").encode("utf-8")
        response.stream = _httpx().ByteStream(request.body)

    def _deadline(self) -> Deadline | None:
        return self.request.deadline if self.request is not None else None


def new_client(
    host: Host, hooks: Hooks, transport: httpx.BaseTransport | None
) -> tuple[Client, tuple[type[BaseException], ...]]:
    """Return a client for a server, and everything that it may raise over hostile bytes."""
    ollama, httpx = import_ollama(), _httpx()
    kinds = (
        httpx.HTTPError,
        httpx.InvalidURL,
        httpx.StreamError,
        ollama.RequestError,
        ollama.ResponseError,
        RuntimeError,  # another thread has closed the client
        *HOSTILE,
    )
    key = ollama_authorization(host.url) if host.is_ollama else None
    before = [hooks.before] if key else [hooks.before, _without_key]
    try:
        client = ollama.Client(
            host=host.url,
            follow_redirects=False,
            headers={"accept-encoding": "identity", "authorization": key or _NO_KEY},
            verify=tls_context() if host.url.startswith("https:") else False,
            transport=transport,
            limits=httpx.Limits(keepalive_expiry=_KEEP_SECONDS),  # no limit to open ones
            trust_env=False,
            proxy=proxy_address(host.url),
            event_hooks={"request": before, "response": [hooks.after]},
        )
    except (ImportError, *kinds) as exc:
        raise failures.client_error(host, exc) from None  # it may quote the password of a proxy
    no_cookies = type("NoCookies", (httpx.Cookies,), {"extract_cookies": lambda *_: None})
    client._client._cookies = no_cookies()  # none is kept, or looked for in each answer
    return client, kinds


def _without_key(sent: httpx.Request) -> None:
    del sent.headers["authorization"]


def _httpx() -> ModuleType:
    """Return the HTTP library of the ``ollama`` package, which takes long to import."""
    return import_module("httpx")


def import_ollama() -> ModuleType:
    """Return the ``ollama`` package; a program that has imported it already gets that one.

    The package makes a client while it is imported; see ``_Import`` for what that one is given.

    Raises:
        ExtraNotInstalledError: The package is not there.
        BackendError: It is there and can't be imported.
    """
    with _loading():  # an interrupt of a thread that waits for Python's own lock breaks that one
        if "ollama" not in sys.modules:
            with importing("ollama", NOT_INSTALLED), _import_hook():
                return import_module("ollama")
        require_whole("ollama")
        return import_module("ollama")  # waits where a thread of the program is in the middle of it


class _Import(MetaPathFinder, Loader):
    """Imports the ``ollama`` package, and says what the client that it makes meanwhile is made of.

    The package would take the proxies, certificates, host and key that the environment names, fail
    on any that is malformed, and read all certificates. Nobody uses that client here, and hiding
    the environment could crash other threads: the C library reads it without a lock.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the package is, with this as its loader; None for all else."""
        spec = PathFinder.find_spec(name, path) if name == "ollama" else None
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return a module, or None for a usual one."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the package; other threads that import it wait."""
        module.__loader__ = cast(ModuleSpec, module.__spec__).loader = self._loader
        try:
            inside: Any = import_module("ollama._client")
            client = inside.Client
        except (ImportError, AttributeError):  # what is missing is missed again, and told
            self._loader.exec_module(module)
            return
        inside.Client = partial(
            client,
            "http://127.0.0.1",
            headers={"authorization": _NO_KEY},
            trust_env=False,
            verify=False,
        )
        try:
            self._loader.exec_module(module)
        finally:
            inside.Client = client
        cast(Any, module).Client = client


@contextmanager
def _import_hook() -> Iterator[None]:
    hook = _Import()
    # New lists, for another thread may be on its way through the one that is there.
    sys.meta_path = [hook, *sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not hook]


def error_of(error: BaseException, request: Request, host: Host) -> OreError:
    """Return what an exception and the evidence mean: the one place that decides it."""
    httpx, why = _httpx(), _reason(error)
    if request.deadline.passed:
        late = failures.too_slow_error if request.is_turn else failures.no_reply_error
        return late(host, request.deadline.seconds)
    if isinstance(error, TooLarge):
        is_list = not request.model  # of what is there
        return failures.too_large_error(host, error.what, error.limit, is_list=is_list)
    if type(error) is RuntimeError:
        return failures.broken_off_error(host, why)
    if not request.sent:
        is_of_name = type(error).__module__.startswith("idna")  # the server's
        way = " Check the server's address." if is_of_name else ""
        return UsageError(f"The request to the model can't be made: {why}.{way}")
    if request.status >= 300:
        return refusals.ollama_status_error(
            host,
            request.model,
            request.status,
            request.body,
            location=request.location,
            login=request.login,
            strict=request.strict,
        )
    if isinstance(error, httpx.ConnectTimeout):
        return failures.unreachable_error(host, "no connection came about in time", OLLAMA)
    if isinstance(error, httpx.TimeoutException):
        return failures.silence_error(host, request.timeout)
    if isinstance(error, UnicodeError) and not request.status:  # the name of a proxy
        return failures.client_error(host, error)
    unreached = (ConnectionError, httpx.ConnectError, httpx.ProxyError)
    if not request.status and (isinstance(error, unreached) or failures.REFUSED.search(why)):
        return failures.unreachable_error(host, why, OLLAMA)
    if isinstance(error, (OSError, httpx.NetworkError)) or failures.CUT.search(why):
        return failures.broken_off_error(
            host, why, is_begun=request.status > 0 or request.has_heard
        )
    lines = request.lines
    text = server_words.error_words(lines.last if lines is not None else request.body)
    if text := text_without_key(text, request.key):
        return refusals.reported_error(host, request.model, text, OLLAMA, strict=request.strict)
    if lines is not None and not lines.whole and lines.last.lstrip().startswith(b"{"):
        return failures.broken_off_error(host, "in the middle of a line")
    if lines is not None and lines.last.startswith(b"data:"):  # llama.cpp's, at Ollama's address
        return failures.protocol_error(host, "it sends a stream of events", _OF_EVENTS)
    return failures.protocol_error(host, why, OLLAMA)


def _reason(error: BaseException) -> str:
    """Return what happened in a few words, also where the package hides it."""
    if type(error) is ConnectionError and error.__context__ is not None:
        error = error.__context__  # behind a sentence of the package's own
    if isinstance(error, (AttributeError, TypeError)):
        return "its JSON is not an object"
    if hasattr(error, "errors"):  # pydantic's
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {shorten(first['msg'])}"
    return in_words(error)
