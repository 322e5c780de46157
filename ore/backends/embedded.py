"""The embedded backend: a GGUF model in this process, for when there is no Ollama.

Nothing is loaded before the first turn. Knows nothing about flags, sessions or terminals.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

from ore.backends import Backend, Progress, Settings, weights
from ore.backends.engine import Engine, check_installed
from ore.errors import (
    BackendError,
    CapabilityError,
    ContextTruncatedError,
    IncompleteAnswerError,
    OreError,
    UsageError,
)
from ore.reasoner import Reasoner
from ore.types import Message, Response

ROLES = ("system", "user", "assistant")
SMALL_MODEL_TOKENS = 1024
"""The longest answer of the pinned model, in tokens: it tends to go round in circles."""

_SAMPLING = {"temperature": 0, "repeat_penalty": 1.1}
_UNDERSTOOD = {"timeout", "deadline", "strict_context", "conversation"}


class EmbeddedBackend(Backend):
    """Models that run in this process.

    Args:
        model: What ``default_model`` answers; None chooses.
    """

    name = "embedded"

    def __init__(self, model: str | None = None) -> None:
        self._model = model

    def has_engine(self) -> bool:
        """Return whether the engine's package is there; does not import it."""
        try:
            check_installed()
        except OreError:
            return False
        return True

    def is_installed(self) -> bool:
        """Return whether the engine's package and a model are there; imports neither."""
        try:
            return self.has_engine() and bool(weights.installed())
        except OreError:
            return False

    def models(self) -> list[str]:
        """Return the names of the models that are there, the pinned one first."""
        return list(weights.installed())

    def default_model(self) -> str | None:
        """Return ``ORE_MODEL`` if it is set, else the pinned model, else the first one."""
        chosen = self._model or os.environ.get("ORE_MODEL")
        if chosen:
            return chosen
        return next(iter(weights.installed()), None)

    def pull(self, name: str, progress: Progress) -> None:
        """Fetch the pinned model; see ``ore.backends.weights.pull``."""
        weights.pull(name, progress)

    def reasoner(self, model_id: str, settings: Settings) -> EmbeddedReasoner:
        """Return a reasoner for a model's name or a GGUF file's path; nothing is loaded yet.

        Raises:
            ExtraNotInstalledError: The engine's package is not installed.
            ModelNotFoundError: There is no such model.
            CapabilityError: A setting that this backend does not have.
        """
        return EmbeddedReasoner(model_id, settings)


class EmbeddedReasoner(Reasoner):
    """Answers with a model in this process. The model is loaded at the first turn, then kept.

    Sampling is fixed: temperature 0 and a repeat penalty of 1.1, so that the same messages get
    the same answer on the same machine. Within a conversation (``Settings.conversation``) the
    engine keeps what it has computed; then an answer may differ from one computed afresh.
    """

    def __init__(self, model_id: str, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        _refuse_unknown(settings)
        check_installed()
        self.model_id = model_id
        weights.find(model_id)
        self._settings = settings
        self._engine: Engine | None = None
        self._is_answering = False

    def phase(self) -> str:
        """Return whether the model is being loaded, reads the prompt, or answers."""
        if self._engine is None:
            return f"loading {self.model_id}"
        return "answering" if self._is_answering else "reading the prompt"

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one model call; see ``stream_reason`` for what is raised."""
        with closing(self.stream_reason(messages)) as chunks:
            while True:
                try:
                    next(chunks)
                except StopIteration as done:
                    return done.value

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer token by token; closing the generator stops the model.

        Raises:
            UsageError: The messages are none that a model can be given.
            ContextTruncatedError: With strict context, the prompt does not fit the window.
            BackendTimeoutError: The model was silent too long, or the turn took too long.
            IncompleteAnswerError: The answer has no proper end.
            BackendError: The model can't be loaded, the prompt does not fit, or the engine failed.
        """
        started = time.monotonic()
        request = {"messages": _checked(messages), **_SAMPLING}
        engine, load_duration = self._loaded()
        request["cache_prompt"] = self._settings.conversation
        request["max_tokens"] = self._longest_answer(engine)
        deadline = self._settings.deadline
        end = None if deadline is None else started + deadline
        answer = _Answer()
        self._is_answering = False
        try:
            with closing(engine.events(request, silence=self._settings.timeout, end=end)) as events:
                for event in events:
                    text = answer.take(event)
                    if text:
                        self._is_answering = True
                        yield text
            metadata = answer.metadata(engine.window)
        except BackendError as exc:
            exc.partial = answer.text()
            if isinstance(exc, ContextTruncatedError) and not self._settings.strict_context:
                raise BackendError(str(exc)) from exc
            raise
        metadata["load_duration"] = load_duration
        metadata["total_duration"] = int((time.monotonic() - started) * 1e9)
        return Response(answer.text(), self.model_id, metadata=metadata)

    def close(self) -> None:
        """Unload the model; may be called twice. A later turn loads it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _loaded(self) -> tuple[Engine, int]:
        """Return the engine and how long this turn waited for it to load, in nanoseconds."""
        if self._engine is not None:
            return self._engine, 0
        self._engine = Engine(weights.find(self.model_id))
        return self._engine, self._engine.load_duration

    def _longest_answer(self, engine: Engine) -> int:
        if self.model_id in weights.PINNED:
            return min(SMALL_MODEL_TOKENS, engine.window)
        return engine.window


class _Answer:
    """One answer as it grows, and what the engine says of it in the end."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._thinking: list[str] = []
        self._reason: str | None = None
        self._timings: dict[str, Any] = {}

    def take(self, event: dict[str, Any]) -> str:
        """Add an event; return the text that it brings, which may be empty."""
        self._timings = event.get("timings") or self._timings
        text = ""
        for choice in event.get("choices") or ():
            self._reason = choice.get("finish_reason") or self._reason
            delta = choice.get("delta") or {}
            self._thinking.append(delta.get("reasoning_content") or "")
            text += delta.get("content") or ""
        self._parts.append(text)
        return text

    def text(self) -> str:
        return "".join(self._parts)

    def metadata(self, window: int) -> dict[str, Any]:
        """Return the counts (tokens) and durations (nanoseconds) of a finished answer.

        Raises:
            IncompleteAnswerError: The engine never said that it was done.
        """
        if self._reason is None or not self._timings:
            raise IncompleteAnswerError(
                "The embedded engine ended its answer without saying that it was done: nothing "
                "was kept of this turn; try again."
            )
        cached = _count(self._timings, "cache_n")
        prompt = _count(self._timings, "prompt_n") + cached
        thinking = "".join(self._thinking)
        return {
            "eval_count": _count(self._timings, "predicted_n"),
            "eval_duration": _nanoseconds(self._timings, "predicted_ms"),
            "prompt_eval_count": prompt,
            "prompt_eval_duration": _nanoseconds(self._timings, "prompt_ms"),
            "prompt_cached_count": cached,
            "done_reason": self._reason,
            "context": {"status": "complete", "window": window, "prompt_tokens": prompt},
            **({"thinking": thinking} if thinking else {}),
        }


def _count(timings: dict[str, Any], key: str) -> int:
    return int(timings.get(key) or 0)


def _nanoseconds(timings: dict[str, Any], key: str) -> int:
    return int((timings.get(key) or 0) * 1_000_000)


def _checked(messages: list[Message]) -> list[dict[str, str]]:
    """Return the messages as the engine takes them; it would answer nothing, or any role."""
    if not messages:
        raise UsageError("There is no message to answer: give a prompt.")
    for message in messages:
        if message.role not in ROLES:
            raise UsageError(
                f"A message has the role {message.role!r}: use one of {', '.join(ROLES)}."
            )
        try:
            message.content.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise UsageError(
                f"The {message.role} message is no Unicode text at character {exc.start}: "
                f"leave that character out."
            ) from exc
    return [{"role": message.role, "content": message.content} for message in messages]


def _refuse_unknown(settings: Settings) -> None:
    """Refuse a setting that was changed and that this backend does not have."""
    plain = Settings()
    for name, value in vars(settings).items():
        if name not in _UNDERSTOOD and value != getattr(plain, name, None):
            raise CapabilityError(
                f"The embedded engine has no setting '{name}': leave it out, or use Ollama."
            )
