"""A turn of a model that ORE runs itself: it is loaded at the first one, then kept."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, TypeVar

from ore.backends import local_models, weights
from ore.backends.answer import Answer, encoded
from ore.backends.engine import WINDOW, Engine
from ore.backends.engine_facts import in_force, metadata_of
from ore.backends.engine_failures import closed_error, timeout_error, too_large_error
from ore.backends.engine_package import check_installed
from ore.backends.engine_prompt import planned_tokens, prompt_of, read
from ore.backends.engine_request import (
    CARD_LAYERS,
    LOADED_WITH,
    check_messages,
    check_settings,
    request_of,
    thinking_of,
)
from ore.backends.engine_retrace import Departure, retraced
from ore.backends.engine_score import asking
from ore.backends.fitting import check_fits
from ore.backends.http import Deadline, TooLarge
from ore.backends.llama_score import Asking
from ore.backends.logprobs import Logprobs
from ore.backends.modelfile import Modelfile, read_modelfile
from ore.backends.reading import Reading
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnTooLargeError
from ore.errors import BackendError, ContextTruncatedError, OreError
from ore.reasoner import Scorer, StreamingReasoner
from ore.reasoner.stop import OwnLock
from ore.types import Message, Response
from ore.types.score import Score

PINNED_ANSWER_TOKENS = 1024
"""The longest answer of a pinned model, in tokens: a small model may go round in circles."""

Scored = TypeVar("Scored")


class EmbeddedReasoner(StreamingReasoner, Scorer):
    """Answers with a model of its own. The model is loaded at the first turn, then kept.

    The same messages get the same answer on the same machine, with as many threads that write it
    and the temperature 0, the default. Within a conversation (``Settings.conversation``) the engine
    keeps what it computed, and ``metadata["cached_tokens"]`` says how much of a prompt it took from
    there; an answer may differ from one computed afresh. ``cache_prompt=False`` turns it off.

    Args:
        model_id: A model's name, or the path of a GGUF file.
        settings: What a turn needs beyond its messages.

    Raises:
        ExtraNotInstalledError: The engine's package is not installed.
        ModelNotFoundError: There is no such model.
        FileAccessError: The model's file can't be read, or is not a GGUF file.
        CapabilityError: A setting that this backend does not have.
    """

    def __init__(self, model_id: os.PathLike[str] | str, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        check_settings(settings)
        check_installed()
        self.model_id = os.fspath(model_id)
        self._model = local_models.find(self.model_id)
        self._modelfile = _modelfile(self._model)
        self.settings = settings
        self._engine: Engine | None = None
        self._marks: list[tuple[int, ...]] | None = None
        self._loading = OwnLock()
        self._closings = 0

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer token by token; closing the generator stops the model.

        Raises:
            UsageError: The messages can't be given to a model.
            ContextTruncatedError: With strict context, the prompt does not fit the window.
            BackendTimeoutError: The model was silent too long, or the turn took too long.
            IncompleteAnswerError: The answer has no proper end.
            BackendError: The model can't be loaded, the prompt does not fit, or the engine failed.
        """
        started = time.monotonic()
        settings = self.settings
        check_messages(messages)
        deadline = Deadline.of_turn(settings.deadline)
        answer, last = Answer(settings.on_thinking), dict[str, Any]()
        try:
            engine, load_duration = self._loaded(deadline)
            request = self._request(engine)
            self._doing = "reading the prompt"
            prompt = prompt_of(engine, messages, request, deadline, joins=settings.joins)
            prompt = replace(prompt, notes=(*self._notes(engine), *prompt.notes))
            request["messages"] = prompt.sent
            planned = planned_tokens(engine, prompt, settings, deadline)
            with closing(
                engine.events(request, silence=settings.timeout, deadline=deadline)
            ) as events:
                for event in events:
                    text = self._take(event, answer, last)
                    if "first" not in last and (text or answer.thinking):
                        last["first"] = time.monotonic() - started
                    if text:
                        yield text
            if text := answer.end():
                last.setdefault("first", time.monotonic() - started)
                yield text
            metadata = metadata_of(last, engine.window) | prompt.as_metadata()
            metadata["context"] |= {"exact": True, "planned_tokens": planned}
            if settings.rendered:
                metadata["rendered"] = prompt.rendered
        except (BackendError, TooLarge) as exc:
            raise self._explained(exc, answer) from exc.__cause__
        finally:
            self._doing = "waiting"
        metadata |= {"load_duration": load_duration, "device": engine.device}
        metadata |= {"at_once": settings.at_once or 1, "threads": engine.computes_with["threads"]}
        if "first" in last:  # a model may answer with nothing
            metadata["first_token_duration"] = int(last["first"] * 1e9)
        metadata["total_duration"] = int((time.monotonic() - started) * 1e9)
        if answer.thinking:
            metadata["thinking"] = answer.thinking
        if settings.logprobs:
            metadata |= last.get("logprobs", Logprobs()).as_metadata()
        metadata.update(settings.asked())
        return Response(answer.text, self.model_id, metadata=metadata)

    def reading(self, messages: list[Message]) -> Reading:
        """Return what the model reads of these ``messages``, counted, without an answer.

        Raises:
            UsageError: The messages can't be given to a model.
            BackendTimeoutError: The deadline has passed.
            BackendError: The model can't be loaded, or a message would not arrive.
        """
        check_messages(messages)
        deadline = Deadline.of_turn(self.settings.deadline)
        engine, _ = self._loaded(deadline)
        request, joins = self._request(engine), self.settings.joins
        found = read(engine, messages, request, deadline, joins=joins)
        return replace(found, notes=(*self._notes(engine), *found.notes))

    def score(self, messages: list[Message], text: str, *, ended: bool = True) -> Score:
        """Return how likely ``text`` is as the answer; see ``Scorer``."""
        return self._asking(messages, [text], lambda asked, _: asked.score(text, ended))

    def score_each(self, messages: list[Message], texts: Sequence[str]) -> list[Score]:
        """Return how likely each of ``texts`` is as the beginning of the answer; see ``Scorer``."""
        return self._asking(messages, texts, lambda asked, _: asked.score_each(texts))

    def departures(
        self, messages: list[Message], text: str, *, was_cut: bool = False, most: float = math.inf
    ) -> list[Departure]:
        """Return where the model would not have said what an answer says, from its beginning on.

        Args:
            messages: What was asked.
            text: The answer.
            was_cut: Whether a limit cut it off: ``num_predict``, or the window.
            most: The first place with a larger gap, in nats, is the last one that is looked for.

        Raises:
            OreError: What ``score`` raises.
        """
        return self._asking(
            messages,
            [text],
            lambda asked, request: retraced(asked, request, text, was_cut, most),
        )

    def _asking(
        self,
        messages: list[Message],
        texts: Sequence[str],
        score: Callable[[Asking, dict[str, Any]], Scored],
    ) -> Scored:
        check_messages(messages)
        encoded(Message("assistant", text) for text in texts)
        deadline = Deadline.of_turn(self.settings.deadline)
        try:
            engine, _ = self._loaded(deadline)
            self._doing = "scoring"
            request = self._request(engine)
            with asking(engine, self.model_id, messages, request, self.settings, deadline) as asked:
                return score(asked, request)
        finally:
            self._doing = "waiting"

    def _request(self, engine: Engine) -> dict[str, Any]:
        """Return what is asked of the engine besides the messages."""
        thinking = thinking_of(self.settings.think, engine.template)
        own = self._modelfile.parameters
        return request_of(self.settings, self._longest(), own, engine.window) | thinking

    def _notes(self, engine: Engine) -> tuple[str, ...]:
        """Return what of the model is not as Ollama runs it."""
        made = self._modelfile
        return (*made.notes, *made.about_template(engine.template))

    def in_force(self) -> dict[str, Any]:
        """Return what ``ore.backends.effective`` takes of the last turn; nothing once it is closed."""
        if self._engine is None:
            return {}
        own = self._modelfile.parameters
        return in_force(self._engine, self.settings, self._longest(), own)

    def _longest(self) -> int:
        return PINNED_ANSWER_TOKENS if self._model.is_pinned else -1

    def is_replaced(self) -> bool:
        """Return whether the model's name is now that of other files than those that were loaded."""
        if self._marks is None:
            return False
        with suppress(OSError, OreError):  # of files that are gone nothing false can be said
            model = self._model
            path = model.path if model.on_shelf is None else local_models.find(self.model_id).path
            return weights.marks_of(path) != self._marks
        return False

    def phase(self) -> str:
        """Return what the reasoner is doing, in a few words."""
        return self._doing

    def close(self) -> None:
        """Unload the model, also one that is being loaded; may be called twice, and at any time.

        A later turn loads it again.
        """
        self._closings += 1
        self._unload()

    def _unload(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _loaded(self, deadline: Deadline) -> tuple[Engine, int]:
        """Return the engine and how long this turn waited for it to load, in nanoseconds."""
        with self._loading():  # several turns may be under way
            closings, engine = self._closings, self._engine
            if engine is not None and engine.answers(deadline):
                if engine.is_asked or not self.is_replaced():
                    return engine, 0
            self._unload()
            self._model = model = local_models.find_again(self.model_id, self._model)
            self._modelfile = _modelfile(model)
            if model.on_shelf is not None:
                self._doing = f"checking {model.name}, the first time only"
                try:
                    local_models.check_bytes(model, deadline=deadline)
                except TimeoutError as exc:
                    raise timeout_error(None, deadline) from exc
            settings, own = self.settings, self._modelfile.parameters
            window = settings.options.get(LOADED_WITH, own.get(LOADED_WITH))
            check_fits(model, window or WINDOW, slots := settings.at_once or 1)
            self._doing = f"loading {model.name}"
            with suppress(OSError):  # loading it says why
                self._marks = weights.marks_of(model.path)
            engine = Engine(
                model.path,
                window=window,
                slots=slots,
                layers=settings.options.get(CARD_LAYERS),
                template=settings.chat_template,
                deadline=deadline,
            )
            self._engine = engine  # from here on whoever closes it ends it
            if self._closings != closings:  # meanwhile, by another thread or a signal's handler
                self._unload()
                raise closed_error()
            return engine, engine.load_duration

    def _take(self, event: dict[str, Any], answer: Answer, last: dict[str, Any]) -> str:
        """Take in one event of the engine's, in ``last`` what it says at the end; return its text."""
        if timings := event.get("timings"):
            last["timings"] = timings
        if progress := event.get("prompt_progress"):
            read, total = progress["processed"], progress["total"]
            self._doing = f"reading the prompt ({read} of {total} tokens)"
        text = ""
        for choice in event.get("choices") or ():
            if told := choice.get("logprobs"):
                last.setdefault("logprobs", Logprobs()).note(told.get("content"))
            if reason := choice.get("finish_reason"):
                last["finish_reason"] = reason
            delta = choice.get("delta") or {}
            if thinking := delta.get("reasoning_content"):
                self._doing = "thinking"
                answer.think(thinking)
            if content := delta.get("content"):
                self._doing = "answering"
                text += answer.say(content)
        return text

    def _explained(self, error: BackendError | TooLarge, answer: Answer) -> BackendError:
        if isinstance(error, TooLarge):
            error = too_large_error(error)
        if isinstance(error, ContextTruncatedError) and not self.settings.strict_context:
            error = TurnTooLargeError(str(error))
        error.partial = answer.text
        return error


def _modelfile(model: local_models.LocalModel) -> Modelfile:
    found = model.on_shelf
    if found is None:
        return Modelfile()
    return read_modelfile(found.shelf, found.name, found.manifest)
