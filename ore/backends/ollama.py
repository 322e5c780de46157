"""The Ollama backend: the models of one server, and the reasoner that asks one of them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from ore.backends import Backend, Model, Progress, failures, is_preferred, ollama_models, window
from ore.backends.address import Host, as_host
from ore.backends.answer import Answer, OnThinking, encoded, hashes
from ore.backends.fitted import Reading, check_context, context_of, reading_of
from ore.backends.http import Deadline, TooLarge
from ore.backends.logprobs import Logprobs
from ore.backends.look_ups import KNOWN_SECONDS, beside_turn, time_for
from ore.backends.model_names import checked_name
from ore.backends.model_options import check_ollama, checked_seconds, lets_go_at_once, natural
from ore.backends.ollama_client import QUESTION_SECONDS, OllamaClient
from ore.backends.ollama_models import if_known, in_force, numbers_of, prompt_facts
from ore.backends.probe import answers
from ore.backends.settings import Settings, plain
from ore.errors import BackendError, BackendTimeoutError, OreError, UsageError
from ore.files.neutral import word
from ore.reasoner import Reasoner, StreamingReasoner
from ore.types import Message, Response

if TYPE_CHECKING:  # imported by the first turn: a program that takes none has no use for them
    from ollama import ChatResponse

_PHASE_SECONDS, _WINDOW_SECONDS = 0.5, (0.5, 2.0)  # longer where strict


class OllamaBackend(Backend):
    """The models of one Ollama server; making it touches no network.

    Its reasoners ask over its own client, so that a process has one connection to the server.

    Args:
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.
        model: What ``default_model`` answers; None chooses among what is installed.
        seconds: How long to wait for the list of models; None is as long as for any question.

    Raises:
        UsageError: The host is not an address.
    """

    name = "ollama"

    def __init__(
        self,
        host: str | Host | None = None,
        model: str | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        self.address: Host = as_host(host)
        self.host: str = self.address.url
        self._client, self._model = OllamaClient(self.address), model
        self._seconds = min(seconds or QUESTION_SECONDS, QUESTION_SECONDS)

    def answers(self) -> bool:
        """Tell whether an Ollama server answers at the address."""
        return answers(self.address.url)

    def models(self) -> list[str]:
        return self._client.names(self._seconds)

    def default_model(self) -> str | None:
        """Return the model that was named, else the one of ``choose_default``."""
        return self._model or self._client.default_model(self._seconds)

    def about_default(self, model_id: str) -> str | None:
        if self._model or is_preferred(model_id):
            return None
        return self._not_preferred(model_id)

    def described(self, *, whole: bool = False) -> list[Model]:
        return self._client.described(self._seconds, whole)

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        self._client.pull(name, progress, insecure)

    def licenses(self, model_id: str) -> list[str]:
        said = self._client.show(model_id).get("license")
        return [said] if isinstance(said, str) and said.strip() else []

    def prepare(self) -> None:
        self._client.prepared()

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return what ``/api/version`` and ``/api/tags`` say where it is short; see ``Backend.provenance``."""
        version, tags = ollama_models.all_known(self._client.prepared().version, self._client.tags)
        found = window.find_model(tags or [], model_id) or {}
        told = {"server_version": version, "model_digest": found.get("digest")}
        return {name: word(each, most=200) for name, each in told.items()}

    def prompt_facts(
        self, model_id: str, messages: list[Message], settings: Settings
    ) -> dict[str, Any]:
        num_ctx, seconds = natural(settings.options, "num_ctx") or None, time_for(KNOWN_SECONDS)
        size = self._client.window(model_id, num_ctx=num_ctx, size=0, seconds=seconds)
        shown = if_known(lambda s: self._client.show(model_id, s))
        how = bool(num_ctx), settings.joins, lambda: numbers_of(if_known(self._client.version))
        return prompt_facts(shown, size, messages, *how)

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        return in_force(if_known(lambda s: self._client.show(model_id, s)), settings.options)

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return a reasoner; only the server knows whether it has the model, and the turn asks it."""
        if settings.options or settings.chat_template is not None:
            check_ollama(settings.options, settings.chat_template)
        made = AyaReasoner(
            model_id,
            self.address,
            timeout=settings.timeout,
            deadline=settings.deadline,
            strict_context=settings.strict_context,
            on_thinking=settings.on_thinking,
            **settings.asked(),
        )
        made._client, made.settings = self._client.asking_once(settings.at_once), settings
        made._asked |= {"logprobs": True} if settings.logprobs else {}
        self._phase = made.phase
        return made


class AyaReasoner(StreamingReasoner):
    """Asks a model on an Ollama server: one turn is one call of the model, and nothing is retried.

    Making one touches no network. It may serve several threads at once and keeps nothing of a
    turn; ``phase`` tells of the one that changed last. A response's metadata has, besides the four
    counts, what the server said of ``total_duration``, ``load_duration`` (nanoseconds) and
    ``done_reason``, ``response_model`` where another model answered, ``asked_for_tools`` where the
    model did, its ``thinking``, ``context`` (see ``ore.backends.window``), what was set of
    ``options``, ``think``, ``format``, ``keep_alive``, and the ``images``' SHA-256.

    Args:
        model_id: The model's name on the server.
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.
        timeout: The longest silence to accept, in seconds, also for ``reason``; None waits, for
            loading a model and reading a long prompt are silent.
        deadline: The longest a whole turn may take, in seconds; None waits.
        strict_context: The server is asked not to shorten a prompt; one that was shortened is an
            error, and so is one of which nobody knows.
        options: The model's options, as Ollama names them (``num_ctx``, ``temperature``).
        think: Whether, or how much, the model thinks first; None leaves it to the server.
        format: ``"json"`` or a JSON schema for the answer.
        keep_alive: How long the server keeps the model loaded: seconds, or text like ``"5m"``.
        on_thinking: Called with the model's thinking as it arrives.

    Raises:
        UsageError: An argument has no meaning.
    """

    def __init__(
        self,
        model_id: str,
        host: str | Host | None = None,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        strict_context: bool = False,
        options: Mapping[str, Any] | None = None,
        think: bool | str | None = None,
        format: str | Mapping[str, Any] | None = None,
        keep_alive: float | str | None = None,
        on_thinking: OnThinking | None = None,
    ) -> None:
        if not isinstance(model_id, str) or not model_id.strip():
            raise UsageError("No model was named: give one with `model_id=` NAME.")
        self.model_id: str = checked_name(model_id)
        self.host: Host = as_host(host)
        self.timeout: float | None = checked_seconds("timeout", timeout)
        self.deadline: float | None = checked_seconds("deadline", deadline)
        self.strict_context: bool = strict_context
        self.on_thinking: OnThinking | None = on_thinking
        asked = {"options": options, "think": think, "format": format, "keep_alive": keep_alive}
        self._asked: dict[str, Any] = {k: plain(v) for k, v in asked.items() if v is not None}
        bounds: dict[str, Any] = {"timeout": self.timeout, "deadline": self.deadline}
        self._patience = min([QUESTION_SECONDS, *filter(None, bounds.values())])
        self._num_ctx = natural(options, "num_ctx") or None if options else None
        self._leaves_at_once, self._client = lets_go_at_once(keep_alive), OllamaClient(self.host)
        self.settings: Settings = Settings(**bounds, strict_context=strict_context, **self._asked)

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Answer ``messages`` with one call of the model, yielding the answer's text as it arrives.

        Closing the generator closes the connection, and with it the server stops generating.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer; ``partial`` is what was yielded.
        """
        self._client.prepared()  # which takes nothing of the deadline
        ends, groups = Deadline.of_turn(self.deadline), None
        if self.settings.joins:
            messages, groups = ollama_models.to_arrive(
                lambda _: self._show(ends), self._version, messages
            )
        request, texts = self._request(messages, ends)
        told = Logprobs() if "logprobs" in self._asked else None
        size, looks_early = None, self.strict_context or self._leaves_at_once
        with self._answering(f"waiting for {self.model_id}") as answer:
            refuses = partial(self._client.refuses, self.model_id, bool(self.strict_context))
            how = messages, texts, self._num_ctx, bool(self.strict_context), refuses, self._window
            reading = beside_turn(ends, reading_of, *how)
            ask = partial(self._client.chat_parts, request, self.timeout, ends)
            with closing(reading.parts(ask)) as parts:
                for part in parts:
                    if looks_early:  # after the answer the model may be gone
                        size, looks_early = beside_turn(ends, self._window, texts), False
                    if told is not None:
                        told.note(part.logprobs)
                    if text := self._take(answer, part.message):
                        yield text
                    if part.done:
                        next(parts, None)  # the stream's end, so that the connection stays open
                        break
                else:
                    raise failures.unfinished_error(self.host, is_begun=answer.is_begun)
            if text := answer.end():
                yield text
        response = beside_turn(ends, self._response, answer, part, messages, reading, size, groups)
        response.metadata.update({} if told is None else told.as_metadata())
        return response

    def phase(self) -> str:
        """Tell loading from the rest by asking ``/api/ps``, which is silent during a load.

        A server that then does not give its version either is not loading: it does not answer.
        """
        try:
            loaded = self._client.loaded(self.model_id, _PHASE_SECONDS)
        except BackendTimeoutError:
            is_there = if_known(self._client.version, _PHASE_SECONDS) is not None
            return f"loading {self.model_id}" if is_there else "no reply from the server"
        except OreError:
            return "waiting"
        return f"loading {self.model_id}" if loaded is None else self._doing

    def close(self) -> None:
        """Close the connection. A later turn opens it again."""
        self._client.close()

    @contextmanager
    def _answering(self, doing: str) -> Iterator[Answer]:
        """Yield what collects an answer; what goes wrong meanwhile knows the text that came."""
        self._doing, answer = doing, Answer(self.on_thinking)
        try:
            yield answer
        except (BackendError, TooLarge) as exc:
            where = (self.host, self.model_id, failures.OLLAMA)
            raise failures.explained(
                exc, *where, names=lambda: if_known(self._client.names) or [], partial=answer.text
            ) from exc.__cause__
        finally:
            self._doing = "waiting"

    def _take(self, answer: Answer, part: Any) -> str:
        """Take in a part of an answer as the server's client gives it; return its text."""
        answer.asks_for_tools |= bool(part.tool_calls)
        if part.thinking:
            self._doing = "thinking"
            answer.think(part.thinking)
        if not part.content:
            return ""
        self._doing = "answering"
        return answer.say(part.content)

    def _show(self, ends: Deadline) -> dict[str, Any]:
        """Return what the server says of the model, in what the turn has left."""
        return self._client.show(self.model_id, ends.within(self._patience).seconds)

    def _request(
        self, messages: list[Message], ends: Deadline
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return what is sent, and its texts; refuse what the model can't do."""
        texts = encoded(messages)
        wanted = {"thinking": self._asked.get("think"), "vision": any(m.images for m in messages)}
        if any(wanted.values()) and not ends.passed:  # of an image the server would say nothing
            able = self._show(ends).get("capabilities")
            failures.check_abilities(self.host, self.model_id, able, wanted)
        parts = [
            {"role": message.role, "content": message.content}
            | ({"images": list(message.images)} if message.images else {})
            for message in messages
        ]
        return {"model": self.model_id, "messages": parts, **self._asked}, texts

    def _response(
        self,
        answer: Answer,
        last: ChatResponse,
        messages: list[Message],
        reading: Reading,
        size: int | None,
        groups: list[list[int]] | None,
    ) -> Response:
        """Build the response from its last part; the answer is out already, so this may ask."""
        metadata = ollama_models.told_at_the_end(last, self.model_id, self.host.url)
        also: dict[str, Any] = {"joined": groups, "thinking": answer.thinking}
        also |= {"images": hashes(messages), "asked_for_tools": answer.asks_for_tools}
        metadata |= {k: v for k, v in also.items() if v} | deepcopy(self._asked)
        size = size or self._window(reading.texts, metadata["prompt_eval_count"])
        asked = self._asked, self._version, partial(self._client.show, self.model_id)
        metadata["context"] = context_of(messages, reading, size, metadata, *asked)
        if reading.is_strict:
            check_context(self.host, metadata["context"], answer.text)
        return Response(answer.text, self.model_id, metadata=metadata)

    def _window(self, texts: list[bytes], read: int | None = None) -> int | None:
        seconds = time_for(min(self._patience, _WINDOW_SECONDS[bool(self.strict_context)]))
        size = read or sum(map(len, texts))
        return self._client.window(self.model_id, num_ctx=self._num_ctx, size=size, seconds=seconds)

    def _version(self) -> tuple[int, ...]:
        return numbers_of(if_known(self._client.version))
