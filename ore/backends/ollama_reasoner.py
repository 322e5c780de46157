"""The reasoner that asks an Ollama server.

Knows nothing about personas, sessions, flags or terminals.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from ore.backends import failures as net_errors
from ore.backends import images, ollama_errors, window
from ore.backends.address import Host
from ore.backends.answer import Answer, OnThinking, count
from ore.backends.http import TooLarge
from ore.backends.messages import Sent, encoded, sent
from ore.backends.ollama_context import find_model
from ore.backends.ollama_host import as_host
from ore.errors import BackendError, BackendTimeoutError, ModelNotFoundError, OreError, UsageError
from ore.reasoner import Reasoner
from ore.types import Message, Response

if TYPE_CHECKING:  # imported by the first turn: a program that takes none has no use for them
    from ollama import ChatResponse
    from ollama import Message as Part

    from ore.backends.ollama_client import Turn

_MOST_SECONDS = 366 * 24 * 3600
_WINDOW_SECONDS = 0.5
_PHASE_SECONDS = 0.5
_NAMES_SECONDS = 2.0
_COUNTS = ("eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration")
_ALSO = ("total_duration", "load_duration", "done_reason")


class AyaReasoner(Reasoner):
    """Asks a model on an Ollama server: one turn is one ``POST /api/chat``, and nothing is retried.

    Making one touches no network. It may serve several threads at once: of a turn it keeps only
    what was counted for its prompt, to see whether one that goes on from it was cut; ``phase``
    tells of the turn that changed last. The metadata of a response holds, besides the four counts,
    what the server said of ``total_duration``, ``load_duration`` (nanoseconds) and
    ``done_reason``, the model's ``thinking`` if there was any, ``context`` (see ``ore.backends.window``),
    what was set of ``options``, ``think``, ``format`` and ``keep_alive``, and the SHA-256 of each
    image, ``images``.

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
        self._num_ctx = (options or {}).get("num_ctx")
        self._doing = "waiting"
        self._counted: tuple[list[Sent], int] = ([], 0)

    def reason(self, messages: list[Message]) -> Response:
        """Answer ``messages`` with one request whose answer comes in one piece.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer.
        """
        request, expected = self._request(messages)
        self._check_abilities(messages)
        answer, turn = Answer(self.on_thinking), self._turn()
        self._doing = "reading the prompt and answering"
        try:
            reply = turn.ask(request)
            self._take(answer, reply.message)
            answer.end()
            if not reply.done:
                raise net_errors.not_done(self.host)
        except (BackendError, TooLarge) as exc:
            raise self._explained(exc, answer) from exc.__cause__
        finally:
            turn.close()
            self._doing = "waiting"
        return self._response(answer, reply, expected, messages)

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Answer ``messages`` with one request, yielding the answer's text as it arrives.

        Closing the generator closes the connection, and with it the server stops generating.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer; ``partial`` is what was yielded.
        """
        request, expected = self._request(messages)
        self._check_abilities(messages)
        answer, turn = Answer(self.on_thinking), self._turn()
        self._doing = "reading the prompt"
        try:
            with closing(turn.parts(request)) as parts:
                for part in parts:
                    if text := self._take(answer, part.message):
                        yield text
                    if part.done:
                        break
                else:
                    raise net_errors.not_done(self.host)
            if text := answer.end():
                yield text
        except (BackendError, TooLarge) as exc:
            raise self._explained(exc, answer) from exc.__cause__
        finally:
            turn.close()
            self._doing = "waiting"
        return self._response(answer, part, expected, messages)

    def phase(self) -> str:
        """Tell loading from the rest by asking ``/api/ps``, which is silent during a load.

        A server that then does not give its version either is not loading: it does not answer.
        """
        from ore.backends import ollama_api

        try:
            running = ollama_api.ps(self.host, seconds=_PHASE_SECONDS)
        except BackendTimeoutError:
            is_there = ollama_api.answers(self.host, seconds=_PHASE_SECONDS)
            return f"loading {self.model_id}" if is_there else "no reply from the server"
        except OreError:
            return "waiting"
        if find_model(running, self.model_id) is None:
            return f"loading {self.model_id}"
        return self._doing

    def _take(self, answer: Answer, part: Part) -> str:
        """Take in a part of an answer as the server's client gives it; return its text."""
        if part.thinking:
            self._doing = "thinking"
            answer.think(part.thinking)
        if not part.content:
            return ""
        self._doing = "answering"
        return answer.say(part.content)

    def _turn(self) -> Turn:
        from ore.backends.ollama_client import Turn

        return Turn(
            self.host,
            self.model_id,
            timeout=self.timeout,
            deadline=self.deadline,
            strict=self.strict_context,
        )

    def _request(self, messages: list[Message]) -> tuple[dict[str, Any], window.Estimate]:
        expected = window.estimate(encoded(messages))
        sent = [
            {"role": message.role, "content": message.content}
            | ({"images": list(message.images)} if message.images else {})
            for message in messages
        ]
        request = {"model": self.model_id, "messages": sent, **self._asked}
        return request, expected

    def _check_abilities(self, messages: list[Message]) -> None:
        """Refuse what the model can't do; of an image the server would say nothing."""
        looks = any(message.images for message in messages)
        wanted = {"thinking": self._asked.get("think"), "vision": looks}
        if not any(wanted.values()):
            return
        from ore.backends import ollama_api

        able = ollama_api.show(self.host, self.model_id).get("capabilities")
        for ability, asked in wanted.items():
            if asked and isinstance(able, list) and ability not in able:
                raise ollama_errors.not_able(self.host, self.model_id, ability)

    def _response(
        self,
        answer: Answer,
        last: ChatResponse,
        expected: window.Estimate,
        messages: list[Message],
    ) -> Response:
        """Build the response from its last part; the answer is out already, so this may ask."""
        metadata: dict[str, Any] = {name: count(getattr(last, name)) for name in _COUNTS}
        also = {name: getattr(last, name) for name in _ALSO}
        metadata.update({name: value for name, value in also.items() if value is not None})
        also = {"thinking": answer.thinking, "images": images.hashes(messages)}
        metadata.update({name: value for name, value in also.items() if value})
        metadata.update(deepcopy(self._asked))
        context = window.outcome(
            expected,
            self._window(expected),
            metadata["prompt_eval_count"],
            metadata["eval_count"],
            self._beginning(messages),
        )
        metadata["context"] = context
        self._counted = sent(messages), metadata["prompt_eval_count"]
        if self.strict_context and context["status"] == "truncated":
            raise net_errors.truncated(self.host, context["window"], answer.text)
        return Response(answer.text, self.model_id, metadata=metadata)

    def _beginning(self, messages: list[Message]) -> int:
        """Return what was counted for the last prompt, where this one goes on from it; else 0."""
        earlier, tokens = self._counted
        return tokens if sent(messages[: len(earlier)]) == earlier else 0

    def _window(self, expected: window.Estimate) -> int | None:
        from ore.backends import ollama_api

        return ollama_api.window(
            self.host,
            self.model_id,
            num_ctx=self._num_ctx if type(self._num_ctx) is int and self._num_ctx > 0 else None,
            tokens=expected.likely,
            seconds=_WINDOW_SECONDS,
        )

    def _explained(self, error: BackendError | TooLarge, answer: Answer) -> BackendError:
        """Return the error with what is known by now: the models there are, the text that came."""
        if isinstance(error, TooLarge):
            error = net_errors.too_large(self.host, error.what, error.limit)
        if isinstance(error, ModelNotFoundError):
            from ore.backends import ollama_api

            try:
                names = ollama_api.names(self.host, seconds=_NAMES_SECONDS)
            except OreError:
                names = []
            error = ollama_errors.no_model(self.host, self.model_id, tuple(names))
        error.partial = answer.text
        return error


def _seconds(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"The {name} is {value!r}: give a number of seconds.")
    if not 0 < value <= _MOST_SECONDS:
        raise UsageError(f"The {name} is {value!r}: give seconds above 0 and up to a year.")
    return float(value)
