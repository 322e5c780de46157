"""The embedded backend: a GGUF model in this process, for when there is no Ollama.

Nothing is loaded before the first turn. Knows nothing about flags, sessions or terminals.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

from ore.backends import Backend, Progress, Settings, StreamingReasoner, embedded_request, weights
from ore.backends.answer import Answer
from ore.backends.engine import Engine
from ore.backends.http import TooLarge
from ore.backends.loading import check_installed, engine_version
from ore.errors import BackendError, ContextTruncatedError, IncompleteAnswerError, OreError
from ore.types import Message, Response

PINNED_ANSWER_TOKENS = 1024
"""The longest answer of a pinned model, in tokens: a small model may go round in circles."""


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
        """Return whether the engine's package and a model are there; loads neither."""
        try:
            return self.has_engine() and bool(weights.installed())
        except OreError:
            return False

    def models(self) -> list[str]:
        """Return the names of the models that are there, the pinned one first."""
        return list(weights.installed())

    def default_model(self) -> str | None:
        """Return the model that was named, else the pinned one, else the first one."""
        return self._model or next(iter(weights.installed()), None)

    def no_default(self) -> str:
        """Return where a model comes from, for when there is none."""
        return (
            f"No model is installed: fetch the small one with --pull {weights.DEFAULT_MODEL}, or "
            f"put a GGUF file into {weights.models_folder()}."
        )

    def pull(self, name: str, progress: Progress) -> None:
        """Fetch the pinned model; see ``ore.backends.weights.pull``."""
        weights.pull(name, progress)

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return the engine's release and the SHA-256 of the model's file."""
        try:
            digest = weights.file_digest(weights.find(model_id))
        except OreError:
            digest = None
        return {"server_version": engine_version(), "model_digest": digest}

    def reasoner(self, model_id: str, settings: Settings) -> EmbeddedReasoner:
        """Return a reasoner for a model's name or a GGUF file's path; nothing is loaded yet.

        Raises:
            ExtraNotInstalledError: The engine's package is not installed.
            ModelNotFoundError: There is no such model.
            FileAccessError: The model's file can't be read, or is none.
            CapabilityError: A setting that this backend does not have.
        """
        made = EmbeddedReasoner(model_id, settings)
        self._phase = made.phase
        return made


class EmbeddedReasoner(StreamingReasoner):
    """Answers with a model in this process. The model is loaded at the first turn, then kept.

    The same messages get the same answer on the same machine, for the temperature is 0 unless
    asked otherwise. Within a conversation (``Settings.conversation``) the engine keeps what it has
    computed; then an answer may differ from one that is computed afresh.
    """

    def __init__(self, model_id: str, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        embedded_request.check_settings(settings)
        check_installed()
        weights.find(model_id)
        self.model_id = model_id
        self._settings = settings
        self._engine: Engine | None = None
        self._doing = "waiting"

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
        request = embedded_request.request_of(messages, self._settings, self._longest())
        silence, deadline = self._settings.timeout, self._settings.deadline
        end = None if deadline is None else started + deadline
        answer, last = Answer(self._settings.on_thinking), _Last()
        try:
            engine, load_duration = self._loaded()
            request.update(embedded_request.thinking_of(self._settings.think, engine.template))
            self._doing = "reading the prompt"
            with closing(engine.events(request, silence=silence, end=end)) as events:
                for event in events:
                    if text := self._take(event, answer, last):
                        yield text
            if text := answer.end():
                yield text
            metadata = last.metadata(engine.window)
        except (BackendError, TooLarge) as exc:
            raise self._explained(exc, answer) from exc.__cause__
        finally:
            self._doing = "waiting"
        metadata["load_duration"] = load_duration
        metadata["total_duration"] = int((time.monotonic() - started) * 1e9)
        if answer.thinking:
            metadata["thinking"] = answer.thinking
        metadata.update(self._settings.asked())
        return Response(answer.text, self.model_id, metadata=metadata)

    def phase(self) -> str:
        return self._doing

    def close(self) -> None:
        """Unload the model; may be called twice. A later turn loads it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _loaded(self) -> tuple[Engine, int]:
        """Return the engine and how long this turn waited for it to load, in nanoseconds."""
        if self._engine is not None:
            return self._engine, 0
        self._doing = f"loading {self.model_id}"
        window = self._settings.options.get(embedded_request.LOADED_WITH)
        self._engine = Engine(weights.find(self.model_id), window=window)
        return self._engine, self._engine.load_duration

    def _longest(self) -> int:
        """Return how long an answer may become, in tokens; -1 is up to the end of the window."""
        return PINNED_ANSWER_TOKENS if self.model_id in weights.PINNED else -1

    def _take(self, event: dict[str, Any], answer: Answer, last: _Last) -> str:
        """Take in one event of the engine's; return the text that it brings, which may be empty."""
        last.note(event)
        if progress := event.get("prompt_progress"):
            self._doing = (
                f"reading the prompt ({progress['processed']} of {progress['total']} tokens)"
            )
        text = ""
        for choice in event.get("choices") or ():
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
            error = BackendError(
                f"The answer is larger than {error.limit:,} bytes and was stopped: nothing was "
                f"kept of this turn; ask for less."
            )
        if isinstance(error, ContextTruncatedError) and not self._settings.strict_context:
            error = BackendError(str(error))
        error.partial = answer.text
        return error


class _Last:
    """What the engine says of an answer in its last event."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._timings: dict[str, Any] = {}

    def note(self, event: dict[str, Any]) -> None:
        self._timings = event.get("timings") or self._timings
        for choice in event.get("choices") or ():
            self._reason = choice.get("finish_reason") or self._reason

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
        cached = self._count("cache_n")
        prompt = self._count("prompt_n") + cached
        return {
            "eval_count": self._count("predicted_n"),
            "prompt_eval_count": prompt,
            "eval_duration": self._nanoseconds("predicted_ms"),
            "prompt_eval_duration": self._nanoseconds("prompt_ms"),
            "prompt_cached_count": cached,
            "done_reason": self._reason,
            "context": {"status": "complete", "window": window, "prompt_tokens": prompt},
        }

    def _count(self, key: str) -> int:
        return int(self._timings.get(key) or 0)

    def _nanoseconds(self, key: str) -> int:
        return int((self._timings.get(key) or 0) * 1_000_000)
