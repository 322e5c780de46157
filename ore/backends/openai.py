"""The openai backend: any server that speaks the OpenAI protocol, as vLLM and hosted services do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

from ore.backends import Backend, Model, Progress, failures, fitted, openai_models, window
from ore.backends.address import Host, checked_key, openai_key, resolve_openai
from ore.backends.answer import Answer, encoded, hashes
from ore.backends.http import Deadline, TooLarge
from ore.backends.images import fewest_tokens
from ore.backends.llama_score import Asking
from ore.backends.model_names import checked_name
from ore.backends.openai_client import Call, check_installed, load_packages
from ore.backends.openai_models import LOOK_UP_SECONDS, described, entry_of, listed, window_of
from ore.backends.openai_parts import Parts
from ore.backends.openai_reading import read
from ore.backends.openai_request import check_settings, request_of, sent_of
from ore.backends.openai_score import asking
from ore.backends.openai_stream import parts_until
from ore.backends.openai_template import arriving
from ore.backends.reading import Reading
from ore.backends.settings import Settings
from ore.backends.vllm_score import VllmAsking
from ore.errors import BackendError, CapabilityError, OreError
from ore.files.strictjson import field
from ore.reasoner import Scorer, StreamingReasoner
from ore.types import Message, Response
from ore.types.score import Score

_WINDOW_SECONDS = 1.0

Scored = TypeVar("Scored")


class OpenAIBackend(Backend):
    """The models of one server; making it touches no network.

    Args:
        host: The server.
        key: The key to send, or None.
        model: What ``default_model`` answers; None asks the server.
        seconds: How long to wait for the list of models; None is as long as for any question.

    Raises:
        ExtraNotInstalledError: The package is missing.
    """

    name = "openai"

    def __init__(
        self,
        host: Host,
        key: str | None = None,
        model: str | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        check_installed()
        self.address = host
        self.host: str = host.url
        self._key = checked_key(key or "", "The key")
        self._model = model
        self._seconds = seconds

    def models(self) -> list[str]:
        """Return the names of the models that the server lists, in its order."""
        return [entry["id"] for entry in self.entries()]

    def described(self, *, whole: bool = False) -> list[Model]:
        return [described(entry) for entry in self.entries()]

    def entries(self, deadline: Deadline | None = None) -> list[dict[str, Any]]:
        """Return what the server's list says of each model, where it comes within ``deadline``."""
        seconds = min(self._seconds or LOOK_UP_SECONDS, LOOK_UP_SECONDS)
        return listed(self.address, self._key, deadline or Deadline(None), seconds)

    def default_model(self) -> str | None:
        """Return the model that was named, else the server's only one, if it can be asked prompts."""
        if self._model is not None:
            return self._model
        return openai_models.only_one(self.described())

    def prepare(self) -> None:
        load_packages()

    def no_default(self) -> str:
        return (
            f"The server at {self.address} has several models, or none that answers prompts: name one "
            f"with `model_id=`; `Backend.models()` shows what there is."
        )

    def no_models(self) -> str:
        return f"The server at {self.address} lists no model: name the one to ask with `model_id=`."

    def check_digest(self, model_id: str, pin: str) -> None:
        """Refuse: the protocol has no word for a model's digest."""
        raise CapabilityError(
            f"The server at {self.address} does not say the digest of {model_id}, so a pin can't be "
            f"checked and nothing was sent: leave @sha256:{pin} out.",
            host=self.host,
        )

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Refuse: the protocol has no such request."""
        raise CapabilityError(
            f"The server at {self.address} can't be told to fetch a model: start it with "
            f"'{name}', as its own manual says.",
            host=self.host,
        )

    def prompt_facts(
        self, model_id: str, messages: list[Message], settings: Settings
    ) -> dict[str, Any]:
        facts = super().prompt_facts(model_id, messages, settings)
        if settings.joins:
            deadline = Deadline.of_turn(settings.deadline)
            facts["groups"] = arriving(messages, self.address, self._key, deadline)[1]
        return facts

    def reading(self, model_id: str, messages: list[Message], settings: Settings) -> Reading | None:
        """Return what the model reads, where the server counts it (llama.cpp's, vLLM's)."""
        check_settings(settings)
        deadline, groups = Deadline.of_turn(settings.deadline), None
        try:
            found = listed(self.address, self._key, deadline, _WINDOW_SECONDS)
        except OreError:
            return None
        entry = entry_of(found, (model_id,))
        if settings.joins:
            messages, groups = arriving(messages, self.address, self._key, deadline)
        request, window = request_of(model_id, messages, settings), window_of(entry)
        call = Call(self.address, self._key, deadline=deadline.within(LOOK_UP_SECONDS))
        with closing(call):
            reading = read(call, entry.get("owned_by"), window, request, messages)
        return reading and replace(reading, groups=groups)

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        """Return the options that were sent: for what was not, the server has its own."""
        return {"user": sent_of(settings.options)}

    def reasoner(self, model_id: str, settings: Settings) -> OpenAIReasoner:
        """Return a reasoner; only the server knows whether it has the model."""
        made = OpenAIReasoner(model_id, self.address, self._key, settings)
        self._phase = made.phase
        return made


class OpenAIReasoner(StreamingReasoner, Scorer):
    """Asks a model on a server: one turn is one ``POST /chat/completions``, nothing is retried.

    The metadata of a response has the keys of ``AyaReasoner``; a count or a duration that the
    server left out is None (only some give ``timings``, as llama.cpp's does). ``response_model`` is
    the model that answered, as the server names it, ``asked_by_other_name`` is True where its list says
    that it has both names, ``system_fingerprint`` is the server's name for its build and settings, and
    ``images_read`` is False where so few tokens were counted that no image of its size can be among them.

    Args:
        model_id: The model's name on the server.
        host: The server's address; None is ``OPENAI_BASE_URL``. Without a path it ends in ``/v1``.
        key: The key to send, also over http; "" is none. None is ``OPENAI_API_KEY``, which goes nowhere
            unencrypted.
        settings: What a turn needs beyond its messages.

    Raises:
        UsageError: There is no such address, or none; or the key holds illegal characters.
        CapabilityError: A setting that the protocol does not have.
        ExtraNotInstalledError: The package is missing.
    """

    def __init__(
        self,
        model_id: str,
        host: str | Host | None = None,
        key: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        check_installed()
        self.model_id: str = checked_name(model_id)
        is_resolved = isinstance(host, Host)  # by a backend, and its key with it
        self.host: Host = host if isinstance(host, Host) else resolve_openai(host, os.environ)
        named = openai_key(self.host.url, os.environ) if key is None and not is_resolved else key
        self._key = checked_key(named or "", "The key")
        self.settings: Settings = settings or Settings()
        check_settings(self.settings)

    def backend(self) -> OpenAIBackend:
        """Return the backend of its server; making it touches no network."""
        return OpenAIBackend(self.host, self._key)

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer's text as it arrives; closing the generator closes the connection.

        Raises:
            UsageError: The messages can't be sent.
            BackendError: There is no complete answer; ``partial`` is what was yielded.
        """
        started, settings = time.monotonic(), self.settings
        deadline = Deadline.of_turn(settings.deadline)  # of all that is asked for the turn
        groups = None
        if settings.joins:
            messages, groups = arriving(messages, self.host, self._key, deadline)
        texts = encoded(messages)
        request = request_of(self.model_id, messages, settings)
        if any(message.images for message in messages):  # of an image a server may say nothing
            self._check_vision(deadline)
        answer, last = Answer(settings.on_thinking), Parts(self._key)
        call = Call(
            self.host,
            self._key,
            timeout=settings.timeout,
            deadline=deadline,
            strict=settings.strict_context,
        )
        self._doing = f"waiting for {self.model_id}"  # it may be busy with another request
        try:
            for part in parts_until(deadline, call, request, last):
                if text := self._take(part, answer, last):
                    yield text
            if last.reason is None:
                raise failures.unfinished_error(self.host, is_begun=last.has_begun)
            if text := answer.end():
                yield text
        except (BackendError, TooLarge) as exc:
            where, text = (self.host, self.model_id, failures.OPENAI), answer.text
            raise failures.explained(
                exc, *where, partial=text, names=lambda: [e["id"] for e in self._listed(deadline)]
            ) from exc.__cause__
        finally:
            call.close()
            self._doing = "waiting"
        metadata = last.metadata(int((time.monotonic() - started) * 1e9))
        metadata |= last.logprobs.as_metadata() if settings.logprobs else {}
        metadata |= {} if groups is None else {"joined": groups}
        return self._response(answer, metadata, texts, messages, deadline)

    def score(self, messages: list[Message], text: str, *, ended: bool = True) -> Score:
        """Return how likely ``text`` is as the answer, where the server can say it; see ``Scorer``."""
        return self._asking(messages, [text], lambda asked: asked.score(text, ended))

    def score_each(self, messages: list[Message], texts: Sequence[str]) -> list[Score]:
        """Return how likely each of ``texts`` is as the beginning of the answer; see ``Scorer``."""
        return self._asking(messages, texts, lambda asked: asked.score_each(texts))

    def _asking(
        self,
        messages: list[Message],
        texts: Sequence[str],
        score: Callable[[Asking | VllmAsking], Scored],
    ) -> Scored:
        encoded([*messages, *(Message("assistant", text) for text in texts)])
        self._doing = "scoring"
        try:
            with asking(self.host, self._key, self.model_id, messages, self.settings) as asked:
                return score(asked)
        finally:
            self._doing = "waiting"

    def _take(self, part: Any, answer: Answer, last: Parts) -> str:
        """Take in one part of the answer; return the text that it brings, which may be empty."""
        try:
            thinking, content = last.note(part)
        except (AttributeError, LookupError, TypeError, ValueError) as exc:
            why = "a part of its answer is not of the right shape"
            kind = failures.BEGUN if answer.is_begun else failures.OPENAI
            raise failures.protocol_error(self.host, why, kind) from exc
        if thinking:
            self._doing = "thinking"
            answer.think(thinking)
        return answer.say(content) if content else ""

    def _response(
        self,
        answer: Answer,
        metadata: dict[str, Any],
        texts: list[bytes],
        messages: list[Message],
        deadline: Deadline,
    ) -> Response:
        found, answered = self._listed(deadline), metadata.get("response_model")
        entry = entry_of(found, (self.model_id, answered))
        if openai_models.is_one_model(found, self.model_id, answered):
            metadata["asked_by_other_name"] = True
        images, read = hashes(messages), metadata["prompt_eval_count"]
        expected = window.estimate(texts, len(images))
        metadata["context"] = window.outcome(
            expected,
            window_of(entry),
            read,
            metadata["eval_count"],
            refuses=lambda: openai_models.cuts_no_prompt(entry, metadata.get("system_fingerprint")),
        )
        also = {"thinking": answer.thinking, "images": images}
        metadata.update({name: value for name, value in also.items() if value})
        if images and read and read < expected.least + fewest_tokens(messages, self.model_id):
            metadata["images_read"] = False
        metadata.update(self.settings.asked())
        if self.settings.strict_context:
            fitted.check_context(self.host, metadata["context"], answer.text)
        return Response(answer.text, self.model_id, metadata=metadata)

    def _check_vision(self, deadline: Deadline) -> None:
        """Raise ``CapabilityError`` where the server says that the model sees no images."""
        about = entry_of(self._listed(deadline), (self.model_id,))
        takes = field(about.get("architecture"), "input_modalities")  # llama.cpp's, OpenRouter's
        if isinstance(takes, list) and "image" not in takes:
            raise failures.ability_error(self.host, self.model_id, "vision")

    def _listed(self, deadline: Deadline) -> list[dict[str, Any]]:
        """Return what the server says of its models; nothing where it does not say so in time."""
        try:
            return listed(self.host, self._key, deadline, _WINDOW_SECONDS)
        except OreError:
            return []
