"""A stand-in for a registry of models: real HTTP, the headers and bodies that a real one was seen to send.

By hand: ``python -m tests.support.fake_registry FILE.gguf`` serves a file, and says its name as a model
and the address of its bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.listening import Listening
from tests.support.shelves import as_bytes

OLLAMA = "application/vnd.ollama.image."
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
VERSION = {"Docker-Distribution-Api-Version": "registry/2.0"}
SAID = {"model_format": "gguf", "model_family": "llama", "model_type": "134.52M"}
LICENSE = "TEST LICENSE 1.0\n\nDo as you like."
SLOW_BYTES = 1 << 16


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Asked:
    """One request: its path, and its headers by their names in lower case."""

    path: str
    headers: dict[str, str]


@dataclass
class Answer:
    """What a request is answered with, and what goes wrong with it.

    Attributes:
        claimed: The Content-Length, where it is not that of the body.
        pace: Called before each piece of a body that is sent in pieces.
        before: How many ``100 Continue`` are sent before it; None never ends them.
        drips: Whether its head never ends: another header comes now and then.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    claimed: int | None = None
    pace: Callable[[], object] | None = None
    before: int | None = 0
    drips: bool = False


Trouble = Callable[[Answer], Answer]
"""Makes another answer of the right one."""


def status(code: int, **headers: str) -> Trouble:
    """An answer that is no success; asked again, the server answers at once."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: refusal(code, "UNKNOWN", "as was asked for", {"Retry-After": "0", **said})


def cut(keep: float) -> Trouble:
    """The connection ends after a share of the body."""

    def made(answer: Answer) -> Answer:
        size = len(answer.body)
        return Answer(answer.status, answer.body[: int(size * keep)], answer.headers, size)

    return made


def wrong(answer: Answer) -> Answer:
    """As many bytes, but others."""
    return Answer(answer.status, bytes(len(answer.body)), answer.headers)


def short(answer: Answer) -> Answer:
    """Fewer bytes than there are, and a header that says so."""
    return Answer(answer.status, answer.body[:-1], answer.headers)


def paced(pace: Callable[[], object]) -> Trouble:
    """The body comes in pieces, and ``pace`` is called before each."""
    return lambda answer: Answer(answer.status, answer.body, answer.headers, answer.claimed, pace)


def continued(times: int | None) -> Trouble:
    """The server says that one may go on, so often, before it answers."""
    return lambda answer: replace(answer, before=times)


def endless_head(answer: Answer) -> Answer:
    """The head comes byte by byte, and never to its end."""
    return replace(answer, drips=True)


def refusal(code: int, name: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    errors = {"errors": [{"code": name, "message": message, "detail": "what was asked for"}]}
    said = {"Content-Type": "application/json", **VERSION, **(headers or {})}
    return Answer(code, json.dumps(errors).encode(), said)


class FakeRegistry:
    """A registry on a port of this machine, for as long as the ``with`` block runs.

    Args:
        token: The token that is wanted, and given to whoever asks; None wants none.
        realm: Where the challenge says that it is given; its own address without one.
        store: Another stand-in, with its host as it is to be named, that blobs are redirected to.
        gives_ranges: Whether a part of a blob can be asked for.

    Attributes:
        blobs: What it has, by digest.
        manifests: The bytes of each manifest, by ``NAMESPACE/MODEL:TAG``.
        play: What goes wrong with the next answers: for ``manifests``, ``blobs`` or ``token``.
        always: What goes wrong with every answer.
        asked: Every request.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        realm: str | None = None,
        store: tuple[FakeRegistry, str] | None = None,
        gives_ranges: bool = True,
    ) -> None:
        self.token, self.realm, self.store, self.gives_ranges = token, realm, store, gives_ranges
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.play: dict[str, deque[Trouble]] = defaultdict(deque)
        self.always: dict[str, Trouble] = {}
        self.asked: list[Asked] = []
        self._server = Served(("127.0.0.1", 0), Handler)
        self._server.registry = self  # type: ignore[attr-defined]
        self.port = self._server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"

    def __enter__(self) -> FakeRegistry:
        self._server.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.end()

    def add(self, name: str, *models: bytes, config: Any = None, **layers: Any) -> str:
        """Take a model in and return its whole name; each other layer is bytes, a text, or JSON."""
        entries = [self.layer("model", model) for model in models]
        for kind, value in {"license": LICENSE, **layers}.items():
            entries += [] if value is None else [self.layer(kind, as_bytes(value))]
        said = {"mediaType": CONFIG, **self._put(as_bytes(SAID if config is None else config))}
        return self.add_manifest(name, {"config": said, "layers": entries})

    def add_manifest(self, name: str, manifest: Any) -> str:
        """Take a manifest in as it is, bytes or what becomes JSON, and return the model's whole name."""
        if not isinstance(manifest, bytes):
            manifest = as_bytes({"schemaVersion": 2, "mediaType": MANIFEST, **manifest})
        self.manifests[name] = manifest
        return f"{self.host}/{name}"

    def layer(self, kind: str, data: bytes) -> dict[str, Any]:
        """Take a blob in and return what a manifest says of it."""
        return {"mediaType": OLLAMA + kind, **self._put(data)}

    def paths(self, part: str) -> list[str]:
        """The paths of the requests for ``manifests``, ``blobs`` or a ``token``."""
        return [seen.path for seen in self.asked if part in seen.path]

    def _put(self, data: bytes) -> dict[str, Any]:
        self.blobs[digest_of(data)] = data
        return {"digest": digest_of(data), "size": len(data)}

    def answer(self, seen: Asked) -> Answer:
        """What a request is answered with."""
        self.asked.append(seen)
        kind = "token"
        if found := re.fullmatch(r"/v2/([^/]+/[^/]+)/(manifests|blobs)/(.+)", seen.path):
            kind = found[2]
            right = self._found(found[1], kind, found[3], seen)
        elif seen.path.startswith("/token"):
            given = as_bytes({"token": self.token})
            right = Answer(200, given, {"Content-Type": "application/json"})
        else:
            right = Answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        if kind in self.always:
            right = self.always[kind](right)
        return self.play[kind].popleft()(right) if self.play[kind] else right

    def _found(self, repository: str, kind: str, what: str, seen: Asked) -> Answer:
        if self.token and seen.headers.get("authorization") != f"Bearer {self.token}":
            realm = self.realm or f"http://{self.host}/token"
            challenge = f'Bearer realm="{realm}",service="s",scope="repository:{repository}:pull"'
            headers = {"Www-Authenticate": challenge}
            return refusal(401, "UNAUTHORIZED", "authentication required", headers)
        if kind == "manifests":
            data = self.manifests.get(f"{repository}:{what}")
            if data is None:
                return refusal(404, "MANIFEST_UNKNOWN", "manifest unknown")
            named = {"Docker-Content-Digest": digest_of(data), "Etag": f'"{digest_of(data)}"'}
            return Answer(200, data, {"Content-Type": MANIFEST, **VERSION, **named})
        if self.store is not None:
            store, host = self.store
            store.blobs.update(self.blobs)
            to = f"http://{host}:{store.port}{seen.path}"
            return Answer(307, b"", {"Location": to, "Set-Cookie": "who=somebody", **VERSION})
        return self._blob(what, seen)

    def _blob(self, digest: str, seen: Asked) -> Answer:
        data = self.blobs.get(digest)
        if data is None:
            return refusal(404, "BLOB_UNKNOWN", "blob unknown to registry")
        said = {
            "Content-Type": "application/octet-stream",
            "Docker-Content-Digest": digest,
            **VERSION,
        }
        if not self.gives_ranges:
            return Answer(200, data, said)
        ranged = said | {"Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", seen.headers.get("range", ""))
        if wanted is None:
            return Answer(200, data, ranged)
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        if first >= len(data):
            return Answer(416, b"invalid range: failed to overlap\n", said)
        ranged |= {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
        return Answer(206, data[first : last + 1], ranged)


class Served(Listening):
    """Says nothing of connections that whoever asked has cut."""

    def handle_error(self, *_: object) -> None:
        """It is what a kill looks like from here."""


class Handler(BaseHTTPRequestHandler):
    """One connection to a stand-in."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.registry.answer(Asked(self.path, headers))  # type: ignore[attr-defined]
        with suppress(OSError):  # whoever asked has gone
            for _ in itertools.count() if answer.before is None else range(answer.before):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.drips:
            self._drip()
            return
        claimed = len(answer.body) if answer.claimed is None else answer.claimed
        self.send_header("Content-Length", str(claimed))
        try:
            self.end_headers()
            for at in range(0, len(answer.body), SLOW_BYTES if answer.pace else 1 << 30):
                if answer.pace is not None:
                    answer.pace()
                self.wfile.write(answer.body[at : at + SLOW_BYTES] if answer.pace else answer.body)
        except OSError:  # whoever asked has gone
            self.close_connection = True
        if claimed != len(answer.body):
            self.close_connection = True

    def _drip(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # whoever asked has gone
            self.flush_headers()
            while True:
                self.wfile.write(b"X-More: a\r\n")
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    with FakeRegistry() as served, open(sys.argv[1], "rb") as file:
        content = file.read()
        blob = f"http://{served.host}/v2/team/tiny/blobs/{digest_of(content)}"
        sys.stdout.write(f"{served.add('team/tiny:q4', content)} {blob}\n")
        sys.stdout.flush()
        threading.Event().wait()
