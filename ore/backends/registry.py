"""One model's place at a registry: its manifest and its blobs over HTTP, as Ollama asks for them.

Nobody is logged in. A redirect is followed; a secret for one host goes to no other.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy

import httpx

import ore
from ore.backends import registry_failures as failures
from ore.backends.address import Host, is_loopback, leads_here, normalised, without_key
from ore.backends.failures import client_error, proxy_error, without
from ore.backends.http import (
    CONNECT_SECONDS,
    HOSTILE,
    Deadline,
    TooLarge,
    first_bytes,
    in_words,
    tls_context,
    trace_of,
)
from ore.backends.manifest import MANIFEST_BYTES, Layer
from ore.backends.model_names import ModelName
from ore.backends.registry_failures import Trouble
from ore.backends.registry_ways import Ways
from ore.backends.server_words import error_words
from ore.errors import UsageError
from ore.files import strictjson

SILENCE_SECONDS = 30.0  # how long nothing may come before a connection is given up
HEAD_SECONDS, WHOLE_SECONDS = 60.0, 120.0  # the longest head of a blob, and answer in one piece

_ACCEPTED = "application/vnd.docker.distribution.manifest.v2+json"
_REDIRECTS, _LATER = (301, 302, 303, 307, 308), {408, 425, 429, *range(500, 600)} - {501, 505}
_TOKEN_BYTES, _MOST_REDIRECTS, _LONGEST_WAIT = 1 << 16, 10, 120  # seconds that one may ask for
_PARAMETER = re.compile(r'\b([A-Za-z]{1,64})="([^"\\]*)"')
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")
_ODD, _TOKEN = (TooLarge, UnicodeError), re.compile(r"[!-~]{1,16384}")


@dataclass(frozen=True)
class Body:
    """Bytes of a blob: ``first`` is where they begin in it; ``is_all`` where it is not what was asked."""

    first: int
    is_all: bool
    chunks: Iterator[bytes]


class Registry:
    """What a registry can be asked of one model. Several threads may ask at once.

    It is asked over https; over http where it is on this machine, or where ``insecure`` allows it.
    Whatever goes wrong is an ``OreError``, or a ``Trouble``, which another try may mend.

    Raises:
        UsageError: The name's host is not an address.
    """

    def __init__(self, name: ModelName, *, insecure: bool = False) -> None:
        self.name: ModelName = name
        self._insecure, self._origin = insecure, _origin_of(name, insecure)
        self._root = f"{self._origin}/v2/{name.namespace}/{name.model}"
        self._token = ""
        self._direct: dict[str, str] = {}  # where a blob is, by its digest
        self._sockets: set[socket.socket] = set()
        self._own = threading.local()
        try:
            self._client = httpx.Client(
                headers={"user-agent": f"ore/{ore.__version__}", "accept-encoding": "identity"},
                transport=Ways(self._origin, verify=tls_context()),
                timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
                trust_env=False,
            )
        except (ImportError, httpx.InvalidURL, *HOSTILE) as exc:
            raise client_error(Host(self._origin), exc) from None
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def stop(self) -> None:
        """End what other threads are reading, at once."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def manifest(self) -> bytes:
        """Return the bytes of the model's manifest."""
        url = f"{self._root}/manifests/{self.name.tag}"
        return self._whole(url, MANIFEST_BYTES, {"accept": _ACCEPTED}, None)

    def small(self, layer: Layer) -> bytes:
        """Return a blob in one piece; what has more bytes than its layer says is an error."""
        return self._whole(f"{self._root}/blobs/{layer.digest}", layer.size, {}, layer)

    @contextmanager
    def blob(self, layer: Layer, first: int, end: int) -> Generator[Body, None, None]:
        """Ask for the bytes of a blob from ``first`` to before ``end``; some servers give all of it."""
        direct = self._direct.get(layer.digest)
        url = direct or f"{self._root}/blobs/{layer.digest}"
        with self._asked(url, {"range": f"bytes={first}-{end - 1}"}) as response:
            status, host = response.status_code, _host(response.url)
            if direct and status >= 400 and status not in _LATER:
                self._direct.pop(layer.digest, None)  # a signature is good for a while
                raise Trouble(failures.busy_error(host, status), seconds=0)
            self._check(response, layer)
            self._direct[layer.digest] = str(response.url)
            first = _first_byte(response, first, layer)
            yield Body(first, status == 200, response.iter_raw())

    def _whole(self, url: str, limit: int, headers: dict[str, str], layer: Layer | None) -> bytes:
        with self._within(WHOLE_SECONDS), self._asked(url, headers) as response:
            self._check(response, layer)
            return _read(response, limit)

    @contextmanager
    def _within(self, seconds: float) -> Generator[None, None, None]:
        """Let what this thread asks end in so many seconds, or with what it is a part of."""
        whole = getattr(self._own, "deadline", None)
        self._own.deadline = whole or Deadline(seconds)
        try:
            yield
        finally:
            self._own.is_late, self._own.deadline = self._own.deadline.passed, whole

    @contextmanager
    def _asked(self, url: str, headers: dict[str, str]) -> Generator[httpx.Response, None, None]:
        """Ask, go where redirects lead, fetch a token where one is wanted; give the answer, unread."""
        response = None
        try:
            response = self._sent(url, headers)
            if response.status_code == 401 and _origin(response.url) == self._origin:
                response.close()
                self._token = self._new_token(response.headers.get("www-authenticate", ""))
                response = self._sent(url, headers)
            with self._stoppable(response):
                yield response
        except (httpx.TimeoutException, TimeoutError) as exc:
            if isinstance(exc, httpx.ConnectTimeout):
                host, proxy = failures.way(exc, self._origin)
                why = f"no connection came about in {CONNECT_SECONDS:g} s"
                raise Trouble(failures.unreachable_error(host, why, proxy)) from exc
            whole = getattr(self._own, "deadline", None) or Deadline(None)
            if isinstance(exc, TimeoutError) or self._own.is_late or whole.passed:
                raise Trouble(failures.slow_error(self.name.host)) from exc
            host, proxy = failures.way(exc, self._origin)
            raise Trouble(failures.silence_error(host, SILENCE_SECONDS, proxy)) from exc
        except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError) as exc:
            (host, proxy), why = failures.way(exc, self._origin), in_words(exc)
            is_there = not isinstance(exc, (httpx.ConnectError, httpx.ProxyError))
            of = failures.broken_off_error if is_there else failures.unreachable_error
            without(self._token, error := of(host, why, proxy), exc)
            raise Trouble(error) from error.__cause__
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, *_ODD) as exc:
            odd = failures.protocol_error(self.name.host, in_words(exc))
            raise without(self._token, odd, exc)
        finally:
            if response is not None:
                response.close()

    def _sent(self, url: str, headers: dict[str, str]) -> httpx.Response:
        asked = httpx.URL(url)
        for _ in range(_MOST_REDIRECTS):
            response = self._sent_once(asked, headers)
            if response.status_code not in _REDIRECTS:
                return response
            response.close()
            asked = self._next(response)
        raise failures.redirect_error(self.name.host, f"more than {_MOST_REDIRECTS} times")

    def _sent_once(self, url: httpx.URL, headers: dict[str, str]) -> httpx.Response:
        """Send one request; only the registry itself is shown its token."""
        if self._token and _origin(url) == self._origin:
            headers = {**headers, "authorization": f"Bearer {self._token}"}
        traced = {"trace": trace_of(lambda: getattr(self._own, "deadline", None))}
        request = self._client.build_request("GET", url, headers=headers, extensions=traced)
        with self._within(HEAD_SECONDS):
            try:
                return self._client.send(request, stream=True, follow_redirects=False)
            except ConnectionError as exc:  # of a look-up, or a proxy: no fault of a file
                raise httpx.ConnectError(str(exc), request=request) from exc

    def _next(self, response: httpx.Response) -> httpx.URL:
        """Return where a redirect leads, if it may be followed."""
        at, to, why = response.url, httpx.URL(), ""
        with suppress(ValueError, httpx.InvalidURL):  # it can't be read
            to = at.join(response.extensions["location"])
        if to.scheme not in ("http", "https") or not to.host:
            why = failures.NO_ADDRESS
        elif to.userinfo:
            why = "the address holds a password"
        elif leads_here(to.host) and not is_loopback(str(at)):
            why = "from another machine to this one"
        elif to.scheme == "http" and not (self._insecure or is_loopback(str(to))):
            why = "over http, which `insecure=True` allows"
        if why:
            raise failures.redirect_error(_host(at), why)
        return to

    def _new_token(self, challenge: str) -> str:
        """Return a token for somebody without a name, where the registry itself gives one."""
        (kind, _, rest), realm = challenge.partition(" "), httpx.URL()
        found = {name.lower(): value for name, value in _PARAMETER.findall(rest)}
        if kind.lower() != "bearer" or not found.get("realm"):
            raise failures.login_error(self.name, "it wants a name and a password")
        with suppress(httpx.InvalidURL):
            realm = httpx.URL(found["realm"])
        if realm.host != httpx.URL(self._origin).host or realm.userinfo:
            raise failures.login_error(self.name, "another host is to give the token")
        if realm.scheme != "https" and not self._origin.startswith("http:"):
            raise failures.login_error(self.name, "the token would come over http")
        scopes = [("scope", scope) for scope in found.get("scope", "").split()]
        service = [("service", found["service"])] if "service" in found else []
        url = realm.copy_with(params=[*realm.params.multi_items(), *service, *scopes])
        with closing(self._sent_once(url, {})) as response:
            if response.status_code != 200:
                raise failures.login_error(self.name, f"HTTP {response.status_code} for a token")
            body = _read(response, _TOKEN_BYTES)
        try:
            given = strictjson.parse(body, limit=_TOKEN_BYTES)
            token = given.get("token") or given.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise failures.login_error(self.name, "it gives no token")
        return token

    def _check(self, response: httpx.Response, layer: Layer | None) -> None:
        """Raise what an answer without what was asked for means."""
        status, host = response.status_code, _host(response.url)
        if status in (200, 206):
            return
        if status == 407:
            raise proxy_error(Host(_origin(response.url)))
        if status in _LATER:
            wait = response.headers.get("retry-after", "")
            seconds = int(wait) if wait.isascii() and wait.isdigit() and len(wait) < 9 else None
            if seconds is not None and seconds > _LONGEST_WAIT:
                raise failures.busy_error(host, status, seconds)
            raise Trouble(failures.busy_error(host, status), seconds)
        if status == 404:
            if layer is None:
                raise failures.no_model_error(self.name)
            why = f"it lacks {layer.digest}, which its manifest names"
            raise failures.protocol_error(host, why)
        body = without_key(first_bytes(response.iter_raw()), self._token)
        said = f"HTTP {status} {error_words(body)}"
        if status in (401, 403):
            raise failures.login_error(self.name, said)
        raise failures.protocol_error(host, said)

    @contextmanager
    def _stoppable(self, response: httpx.Response) -> Generator[None, None, None]:
        stream = response.extensions.get("network_stream")
        found = None if stream is None else stream.get_extra_info("socket")
        if found is None:
            yield
            return
        self._sockets.add(found)
        try:
            yield
        finally:
            self._sockets.discard(found)


def _origin_of(name: ModelName, insecure: bool) -> str:
    try:
        scheme = "http" if insecure or is_loopback(f"//{name.host}") else "https"
        return _origin(httpx.URL(normalised(f"{scheme}://{name.host}", "The registry", 443)))
    except (UsageError, ValueError) as exc:
        raise UsageError(
            f"{name} can't be fetched: {name.host} is neither HOST nor HOST:PORT; check the name."
        ) from exc


def _origin(url: httpx.URL) -> str:
    """Return ``scheme://host:port``, each as it is compared."""
    return f"{url.scheme}://{_host(url)}"


def _host(url: httpx.URL) -> str:
    return url.netloc.decode("ascii").lower()


def _read(response: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > limit:
            why = f"it sends more than {limit:,} bytes"
            raise failures.protocol_error(_host(response.url), why)
    return bytes(body)


def _first_byte(response: httpx.Response, first: int, layer: Layer) -> int:
    """Return where the bytes of an answer begin in their blob."""
    size = response.headers.get("content-length", "")
    if response.status_code == 206:
        found = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if found is None or int(found[1]) != first:
            why = "it sends other bytes than asked for"
            raise failures.protocol_error(_host(response.url), why)
        first, size = int(found[1]), found[2]
    else:
        first = 0
    if size.isascii() and size.isdigit() and int(size) != layer.size:
        raise failures.wrong_size_error(_host(response.url), int(size), layer.size)
    return first
