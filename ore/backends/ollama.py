"""The Ollama backend: the models of one server, and the reasoner that asks one of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from ore.backends import Backend, Progress, Settings, choose_default, failures, window
from ore.backends.address import Host, as_host
from ore.backends.answer import COUNTS, Answer, OnThinking, count, encoded, hashes, sent
from ore.backends.http import TooLarge
from ore.backends.model_options import check_ollama
from ore.backends.ollama_client import QUESTION_SECONDS, OllamaClient, answers, find_model
from ore.errors import BackendError, BackendTimeoutError, ModelNotFoundError, OreError, UsageError
from ore.reasoner import Reasoner
from ore.types import Message, Response

if TYPE_CHECKING:  # imported by the first turn: a program that takes none has no use for them
    from ollama import ChatResponse
    from ollama import Message as Part

_MOST_SECONDS = 366 * 24 * 3600
_PROVENANCE_SECONDS = 2.0
_NAMES_SECONDS = 2.0
_WINDOW_SECONDS = 0.5
_PHASE_SECONDS = 0.5
_ALSO = ("total_duration", "load_duration", "done_reason")


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
        self.address = as_host(host)
        self.host = self.address.url
        self._client = OllamaClient(self.address)
        self._model = model
        self._seconds = min(seconds or QUESTION_SECONDS, QUESTION_SECONDS)

    def answers(self) -> bool:
        """Tell whether an Ollama server answers at the address."""
        return answers(self.address.url)

    def models(self) -> list[str]:
        return self._client.names(self._seconds)

    def default_model(self) -> str | None:
        """Return the model that was named, else the one of ``choose_default``."""
        return self._model or choose_default(self.models())

    def pull(self, name: str, progress: Progress) -> None:
        self._client.pull(name, progress)

    def prepare(self) -> None:
        """Import the client's package."""
        self._client.prepare()

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return what ``/api/version`` and ``/api/tags`` say; see ``Backend.provenance``."""
        version = _known(self._client.version)
        tags = _known(self._client.tags) or []
        digest = (find_model(tags, model_id) or {}).get("digest")
        return {
            "server_version": version,
            "model_digest": digest if isinstance(digest, str) else None,
        }

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return a reasoner; only the server knows whether it has the model, and the turn asks it."""
        check_ollama(settings.options)
        made = AyaReasoner(
            model_id,
            self.address,
            timeout=settings.timeout,
            deadline=settings.deadline,
            strict_context=settings.strict_context,
            on_thinking=settings.on_thinking,
            **settings.asked(),
        )
        made._client = self._client
        self._phase = made.phase
        return made


class AyaReasoner(Reasoner):
    """Asks a model on an Ollama server: one turn is one ``POST /api/chat``, and nothing is retried.

    Making one touches no network. It may serve several threads at once: of a turn it keeps only
    what was counted for its prompt, to see whether one that goes on from it was cut; ``phase``
    tells of the turn that changed last. The metadata of a response holds, besides the four counts,
    what the server said of ``total_duration``, ``load_duration`` (nanoseconds) and
    ``done_reason``, the model's ``thinking`` if there was any, ``context`` (see
    ``ore.backends.window``), what was set of ``options``, ``think``, ``format`` and
    ``keep_alive``, and the SHA-256 of each image, ``images``.

    Args:
        model_id: The model's name on the server.
        host: The server's address; None is ``OLLAMA_HOST``, else the default one.
        timeout: The longest silence to accept, in seconds; None waits, for loading a model and
            reading a long prompt are silent.
        deadline: The longest a whole turn may take, in seconds; None waits.
        strict_context: The server is asked not to shorten a prompt, and a prompt that was
            shortened is an error.
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
            raise UsageError("No model was named: give one with --model NAME.")
        self.model_id = model_id
        self.host = as_host(host)
        self.timeout = _seconds("timeout", timeout)
        self.deadline = _seconds("deadline", deadline)
        self.strict_context = strict_context
        self.on_thinking = on_thinking
        asked = {"options": options, "think": think, "format": format, "keep_alive": keep_alive}
        self._asked = {name: value for name, value in asked.items() if value is not None}
        self._bounds = {"timeout": self.timeout, "deadline": self.deadline}
        num_ctx = (options or {}).get("num_ctx")
        self._num_ctx = num_ctx if type(num_ctx) is int and num_ctx > 0 else None
        self._client = OllamaClient(self.host)
        self._doing = "waiting"
        self._counted: tuple[list[Any], int] = ([], 0)

    def reason(self, messages: list[Message]) -> Response:
        """Answer ``messages`` with one request whose answer comes in one piece.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer.
        """
        request, expected = self._request(messages)
        with self._answering("reading the prompt and answering") as answer:
            reply = self._client.chat(request, strict=self.strict_context, **self._bounds)
            self._take(answer, reply.message)
            answer.end()
            if not reply.done:
                raise failures.unfinished_error(self.host)
        return self._response(answer, reply, expected, messages)

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Answer ``messages`` with one request, yielding the answer's text as it arrives.

        Closing the generator closes the connection, and with it the server stops generating.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer; ``partial`` is what was yielded.
        """
        request, expected = self._request(messages)
        with self._answering("reading the prompt") as answer:
            parts = self._client.chat_parts(request, strict=self.strict_context, **self._bounds)
            with closing(parts):
                for part in parts:
                    if text := self._take(answer, part.message):
                        yield text
                    if part.done:
                        next(parts, None)  # the stream's end, so that the connection stays open
                        break
                else:
                    raise failures.unfinished_error(self.host)
            if text := answer.end():
                yield text
        return self._response(answer, part, expected, messages)

    def phase(self) -> str:
        """Tell loading from the rest by asking ``/api/ps``, which is silent during a load.

        A server that then does not give its version either is not loading: it does not answer.
        """
        try:
            running = self._client.ps(_PHASE_SECONDS)
        except BackendTimeoutError:
            is_there = _known(self._client.version, _PHASE_SECONDS) is not None
            return f"loading {self.model_id}" if is_there else "no reply from the server"
        except OreError:
            return "waiting"
        if find_model(running, self.model_id) is None:
            return f"loading {self.model_id}"
        return self._doing

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
            raise self._explained(exc, answer) from exc.__cause__
        finally:
            self._doing = "waiting"

    def _take(self, answer: Answer, part: Part) -> str:
        """Take in a part of an answer as the server's client gives it; return its text."""
        if part.thinking:
            self._doing = "thinking"
            answer.think(part.thinking)
        if not part.content:
            return ""
        self._doing = "answering"
        return answer.say(part.content)

    def _request(self, messages: list[Message]) -> tuple[dict[str, Any], window.Estimate]:
        """Return what is sent, and how large it is; refuse what the model can't do."""
        expected = window.estimate(encoded(messages))
        looks = any(message.images for message in messages)
        wanted = {"thinking": self._asked.get("think"), "vision": looks}
        if any(wanted.values()):  # of an image the server would say nothing
            able = self._client.show(self.model_id).get("capabilities")
            for ability, asked in wanted.items():
                if asked and isinstance(able, list) and ability not in able:
                    raise failures.ability_error(self.host, self.model_id, ability)
        parts = [
            {"role": message.role, "content": message.content}
            | ({"images": list(message.images)} if message.images else {})
            for message in messages
        ]
        return {"model": self.model_id, "messages": parts, **self._asked}, expected

    def _response(
        self,
        answer: Answer,
        last: ChatResponse,
        expected: window.Estimate,
        messages: list[Message],
    ) -> Response:
        """Build the response from its last part; the answer is out already, so this may ask."""
        metadata: dict[str, Any] = {name: count(getattr(last, name)) for name in COUNTS}
        also = {name: getattr(last, name) for name in _ALSO}
        metadata.update({name: value for name, value in also.items() if value is not None})
        also = {"thinking": answer.thinking, "images": hashes(messages)}
        metadata.update({name: value for name, value in also.items() if value})
        metadata.update(deepcopy(self._asked))
        size = self._client.window(
            self.model_id,
            num_ctx=self._num_ctx,
            tokens=expected.likely,
            seconds=_WINDOW_SECONDS,
        )
        earlier, counted = self._counted
        goes_on = sent(messages[: len(earlier)]) == earlier
        tokens = metadata["prompt_eval_count"], metadata["eval_count"]
        metadata["context"] = window.outcome(expected, size, *tokens, counted if goes_on else 0)
        self._counted = sent(messages), metadata["prompt_eval_count"]
        if self.strict_context and metadata["context"]["status"] == "truncated":
            raise failures.truncated_error(self.host, size, answer.text)
        return Response(answer.text, self.model_id, metadata=metadata)

    def _explained(self, error: BackendError | TooLarge, answer: Answer) -> BackendError:
        """Return the error with what is known by now: the models there are, the text that came."""
        if isinstance(error, TooLarge):
            error = failures.too_large_error(self.host, error.what, error.limit)
        if isinstance(error, ModelNotFoundError):
            names = tuple(_known(self._client.names, _NAMES_SECONDS) or ())
            error = failures.no_model_error(self.host, self.model_id, failures.OLLAMA, names)
        error.partial = answer.text
        return error


def _known(question: Callable[[float], Any], seconds: float = _PROVENANCE_SECONDS) -> Any:
    """Return the answer to a question, or None where there is none in time."""
    try:
        return question(seconds)
    except OreError:
        return None


def _seconds(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"The {name} must be a number of seconds, not {value!r}.")
    if not 0 < value <= _MOST_SECONDS:
        raise UsageError(f"The {name} must be above 0 seconds and at most a year, not {value!r}.")
    return float(value)
