"""One client for one Ollama server: every question to it goes through one ``ollama.Client``."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import finalize

from ore.backends import Model, Progress, choose_default, failures, is_preferred, ollama_models
from ore.backends.address import Host, text_without_key
from ore.backends.failures import OLLAMA
from ore.backends.fitted import does_refuse
from ore.backends.http import REPLY_LIMIT, Deadline, shorten
from ore.backends.lines import steps_of
from ore.backends.look_ups import KNOWN_SECONDS, time_for
from ore.backends.ollama_wire import Hooks, Request, error_of, new_client
from ore.backends.pools import let_go, steady
from ore.backends.refusals import check_reported
from ore.backends.window import find_model, window_of
from ore.errors import BackendError, OreError
from ore.files import strictjson
from ore.files.signals import deferred_signals
from ore.reasoner.stop import OwnLock

if TYPE_CHECKING:  # imported by the first question: a program that asks nothing has no use for it
    import httpx
    from ollama import ChatResponse, Client

Said = TypeVar("Said")
QUESTION_SECONDS = 10.0
"""How long a question may take, unless it is given another time."""

_REFUSES_SECONDS = (0.5, 2.0)  # the second where strict
_END_SECONDS = 0.1  # how long the end of a stream may take after an answer that is done
_LARGE, _USUAL = 256, 4096  # tokens: the smallest window models are made for; Ollama's own


class OllamaClient:
    """What an Ollama server can be asked, over a connection that stays open between questions.

    Making one touches no network and imports nothing. Several threads may ask at once. A question
    that is left early (a closed generator, an exception) closes its connection, and with it the
    server stops. After ``close`` the next question connects anew. Whatever goes wrong is an
    ``OreError``: a ``BackendError`` where the server did not answer in time, or not as Ollama does.

    Attributes:
        asks_once: Whether what a model is, and its window, is asked for once, for many turns.
    """

    asks_once: bool = False

    def __init__(self, host: Host, *, transport: httpx.BaseTransport | None = None) -> None:
        self.host, self._transport = host, transport
        self._hooks, self._lock, self._process = Hooks(set()), OwnLock(), 0
        self._client: Client | None = None
        self._open: list[Client] = []  # and those that other threads may still use
        self._kinds: tuple[type[BaseException], ...] = ()
        self._known: dict[object, Any] = {}
        self._given: dict[object, int] = {}
        finalize(self, let_go, self._open).atexit = False  # a program may still ask at its end

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is half gone, and with it what its modules have
            pass

    def asking_once(self, at_once: int | None) -> OllamaClient:
        """Return this client, which from now on asks once where many turns are to follow."""
        self.asks_once |= at_once is not None
        return self

    def _once(self, key: object, ask: Callable[[], Said]) -> Said:
        """Return what ``ask`` returns; where that is the same for many turns, asked once."""
        if not self.asks_once:
            return ask()
        found: Said | None = self._known.get(key)
        if found is None:
            found = self._known[key] = ask()
        return found

    def close(self) -> None:
        """Close the connections. May be called twice."""
        with self._lock():
            clients, self._client = [*self._open], None
            del self._open[: len(clients)]  # a signal's handler may have opened one more
        for client in clients:
            client.close()  # type: ignore[no-untyped-call]  # the package gives it no types

    def prepared(self) -> OllamaClient:
        """Return this with the package imported, which may take long, and its client made."""
        self._made()
        return self

    def chat_parts(
        self,
        request: dict[str, Any],
        timeout: float | None = None,
        deadline: float | Deadline | None = None,
        strict: bool = False,
    ) -> Generator[ChatResponse, None, None]:
        """Send ``request`` (the arguments of ``Client.chat``); yield the answer's parts as they come.

        Args:
            timeout: The longest silence to accept, in seconds; None waits.
            deadline: The longest all of it may take, in seconds, or when it has to end; None waits.
            strict: The server is told not to shorten the prompt.
        """
        self._made()  # importing the package takes nothing of the deadline
        ends = deadline if isinstance(deadline, Deadline) else Deadline.of_turn(deadline)
        turn = Request(request["model"], timeout, ends, strict, is_turn=True, in_parts=True)
        with self._left_whole():
            yield from self._parts(turn, lambda client: client.chat(stream=True, **request))

    def tags(self, seconds: float = QUESTION_SECONDS) -> list[dict[str, Any]]:
        """Return what ``/api/tags`` says of each model: ``name``, ``digest``, ``size`` and more."""
        return ollama_models.entries_of(self.host, self._ask("GET", "/api/tags", seconds=seconds))

    def names(self, seconds: float = QUESTION_SECONDS) -> list[str]:
        """Return the names of the models that are there, as the server gives them."""
        return list(self._named(seconds))

    def default_model(self, seconds: float = QUESTION_SECONDS) -> str | None:
        """Return the model to use when none is named: ``choose_default``'s that answers prompts."""
        ends, known = self._deadline(seconds), self._named(seconds)
        seconds = KNOWN_SECONDS if is_preferred(choose_default(known) or "") else seconds
        show, untold = self._shows(ends.within(seconds).seconds), failures.untold_error(self.host)
        return ollama_models.default_of(known, show, untold)

    def described(self, seconds: float = QUESTION_SECONDS, whole: bool = False) -> list[Model]:
        """Return what is known of each model that is there; ``whole`` is with its template."""
        return ollama_models.described(self._named(seconds), self._shows(seconds), whole)

    def _shows(self, seconds: float) -> Callable[[str], dict[str, Any]]:
        """Return ``show``, whose answers may take so many seconds in all."""
        ends = self._deadline(seconds)
        return lambda model: self.show(model, ends.within(seconds).seconds)

    def _named(self, seconds: float) -> dict[str, dict[str, Any]]:
        """Return what ``/api/tags`` says of each model, by its name to ask by; KoboldCpp adds another."""
        found = ((each.get("model") or each.get("name"), each) for each in self.tags(seconds))
        return {name: each for name, each in found if isinstance(name, str) and name}

    def ps(self, seconds: float = QUESTION_SECONDS) -> list[dict[str, Any]]:
        """Return what ``/api/ps`` says of each loaded model, with ``context_length`` in tokens.

        A server that is loading a model may not answer until that is done.
        """
        return ollama_models.entries_of(self.host, self._ask("GET", "/api/ps", seconds=seconds))

    def show(self, model: str, seconds: float = QUESTION_SECONDS) -> dict[str, Any]:
        """Return what ``/api/show`` says of a model: its template, parameters, capabilities."""
        asked: dict[str, Any] = {"model": model, "seconds": seconds}
        return self._once(model, lambda: self._ask("POST", "/api/show", {"model": model}, **asked))

    def version(self, seconds: float = QUESTION_SECONDS) -> str:
        """Return the server's version."""
        found = self._ask("GET", "/api/version", seconds=seconds).get("version")
        if not isinstance(found, str):
            raise failures.protocol_error(self.host, "it gives no version", OLLAMA)
        return found

    def refuses(self, model: str, strict: bool = False) -> bool | None:
        """Return whether a turn that may not be cut is refused, or None: see ``does_refuse``."""

        def ask(odd: dict[str, Any]) -> object:
            return self._ask("POST", "/api/chat", odd, seconds=time_for(_REFUSES_SECONDS[strict]))

        return does_refuse(ask, model)

    def window(self, model: str, *, num_ctx: int | None, size: int, seconds: float) -> int | None:
        """Return the context window, in tokens, that ``model`` answers with, or None.

        It is ``num_ctx`` if the request set that, else what ``/api/ps`` reports. What the server makes
        of it (see ``given_window``) is asked of ``/api/show``, once of a loaded digest, unless it is
        a usual one and the prompt is short (``size``, in tokens: what was counted, or its bytes).
        What is not known after ``seconds`` is left out.
        """
        size = max(size, _LARGE + 1) if self.asks_once else size
        return self._once((model, num_ctx), lambda: self._window(model, num_ctx, size, seconds))

    def _window(self, model: str, num_ctx: int | None, size: int, seconds: float) -> int | None:
        try:
            ends = self._deadline(seconds)
            entry = {} if num_ctx else self.loaded(model, seconds) or {}
            found = num_ctx or window_of(entry)
            if found is None or not num_ctx and found <= (_LARGE if size > _LARGE else _USUAL):
                return found
            key = model, str(entry.get("digest") or ""), found
            if all(key) and (given := self._given.get(key)):
                return given
            try:
                shown = self.show(model, ends.within(seconds).seconds)
            except BackendError:
                if num_ctx or size > _LARGE:
                    raise
                return found  # a short prompt fits it, whatever the model's own is
            if num_ctx and ollama_models.may_have_more(shown):
                found = window_of(self.loaded(model, ends.within(seconds).seconds)) or found
            given = ollama_models.given_window(found, shown)
            self._given = {key: given}  # of the last model alone: no server can make it grow
            return given
        except BackendError:
            return None

    def loaded(self, model: str, seconds: float) -> dict[str, Any] | None:
        """Return what ``/api/ps`` says of a loaded model, also where it has another name there."""
        ends, show = self._deadline(seconds), self._shows(seconds)
        running = self.ps(seconds)
        entry = find_model(running, model)
        if entry is None and running:
            tags = self.tags(ends.within(seconds).seconds)
            digest = (find_model(tags, model) or {}).get("digest")
            same = (each for each in running if digest and each.get("digest") == digest)
            return next(same, None) or ollama_models.of_same_weights(running, model, show)
        return entry

    def pull(self, name: str, progress: Progress, insecure: bool = False) -> None:
        """Make the server fetch a model, and return when it is there.

        The server keeps what it has fetched when this is left early, and goes on from there.
        """
        document = {"model": name, "stream": True, **({"insecure": True} if insecure else {})}
        question = Request(name, in_parts=True)
        steps = self._parts(
            question,
            lambda client: client._request(dict, "POST", "/api/pull", json=document, stream=True),
        )
        with closing(steps):
            for step, done, size in steps_of(steps):
                if step == "success":
                    return
                progress(shorten(text_without_key(step, question.key)), done, size)
        raise failures.broken_off_error(self.host, "before the model was there")

    def _ask(
        self, method: str, path: str, document: Any = None, *, model: str = "", seconds: float
    ) -> dict[str, Any]:
        question = Request(model, deadline=self._deadline(seconds))
        with self._left_whole(), self._asking(question) as client:
            client._request_raw(method, path, json=document)  # type: ignore[no-untyped-call]
        try:
            value = strictjson.parse(question.body, limit=REPLY_LIMIT)
        except ValueError as exc:
            raise failures.protocol_error(self.host, str(exc), OLLAMA) from exc
        if not isinstance(value, dict):
            raise failures.protocol_error(self.host, "its JSON is not an object", OLLAMA)
        check_reported(self.host, model, value, question.key)
        return value

    def _parts(
        self, request: Request, begin: Callable[[Client], Iterator[Any]]
    ) -> Generator[Any, None, None]:
        """Yield the parts of an answer; what the reader raises in between is its own.

        Whoever reads on after the last part has the connection kept open.
        """
        with self._asking(request) as client:
            with deferred_signals():  # pydantic makes an error of its own of what a handler raises
                parts = cast("Generator[Any, None, None]", begin(client))
            part = next(parts, None)
        with closing(parts):
            try:
                while part is not None:
                    yield part
                    if request.is_turn and part.done:
                        request.is_done = True
                        if request.connection is not None:
                            request.connection.deadline = Deadline(_END_SECONDS)
                    part = next(parts, None)
            except self._kinds as exc:
                if not request.is_done:
                    raise failures.without(request.key, error_of(exc, request, self.host), exc)

    @contextmanager
    def _asking(self, request: Request) -> Iterator[Client]:
        """Make this thread about one request; what goes wrong is one of our errors."""
        client = self._made()
        before, self._hooks.request = self._hooks.request, request
        try:
            yield client
        except self._kinds as exc:
            raise failures.without(request.key, error_of(exc, request, self.host), exc)
        finally:
            self._hooks.request = before

    @contextmanager
    def _left_whole(self) -> Iterator[None]:
        """Connect anew after an exception of somebody else's, as of a signal's handler.

        In the middle of the library it may leave a connection that would never be free.
        """
        try:
            yield
        except (GeneratorExit, OreError):
            raise
        except BaseException:
            with self._lock():  # no other thread is about to return it
                self._client = None  # not closed: other threads may use it
            raise

    def _deadline(self, seconds: float | None) -> Deadline:
        """Return a deadline that begins now: importing the package takes nothing of it."""
        self._made()
        return Deadline(seconds)

    def _made(self) -> Client:
        """Return the one ``ollama.Client``, made by the first question of this process."""
        with self._lock():
            if self._client is not None and self._process != os.getpid():
                self.close()  # a forked child would read the answers to its parent's questions
            if self._client is None:
                client, self._kinds = new_client(self.host, self._hooks, self._transport)
                steady(client._client)
                if self._client is None:  # else a signal's handler has asked meanwhile
                    self._open.append(client)
                    self._client, self._process = client, os.getpid()
            return self._client
