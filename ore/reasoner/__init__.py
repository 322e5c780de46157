"""The reasoner: an ordered list of messages in, one response out; and what scores a given one.

``AyaReasoner``, which asks an Ollama server, is found here by name and loaded when it is used.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ore.errors import ReasonerContractError
from ore.reasoner.closing import Closing
from ore.types import Message, Response

if TYPE_CHECKING:
    from ore.backends.ollama import AyaReasoner as AyaReasoner
    from ore.types.score import Score


class Reasoner(Closing, ABC):
    """What every backend implements: an ordered list of messages becomes one response."""

    @abstractmethod
    def reason(self, messages: list[Message]) -> Response:
        """Answer ``messages`` with exactly one model call.

        Raises:
            BackendError: The backend could not give a complete answer.
        """

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer to ``messages`` in chunks as it arrives, and return the response.

        A backend that can't stream yields the whole answer as one chunk. Closing the generator
        stops the model.
        """
        response = require_response(self.reason(messages))
        yield response.content
        return response

    def close(self) -> None:
        """Give back what the reasoner holds (connections, a loaded model). May be called twice."""


_FIELDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    *(("content", str, "text"), ("model_id", str, "text"), ("id", str, "text")),
    *(("timestamp", (int, float), "a number"), ("metadata", Mapping, "a dict")),
)


def require_response(response: object) -> Response:
    """Return the ``response`` that a reasoner has returned, which may be anything.

    Raises:
        ReasonerContractError: It is not a ``Response``, or one of its fields has another type.
    """
    if not isinstance(response, Response):
        raise ReasonerContractError(
            f"The reasoner returned {type(response).__name__}, not a Response: "
            f"nothing was kept of this turn."
        )
    for name, kind, wanted in _FIELDS:
        if not isinstance(value := getattr(response, name), kind):
            raise ReasonerContractError(
                f"The reasoner's response has a {name} of the type {type(value).__name__}, not "
                f"{wanted}: nothing was kept of this turn."
            )
    return response


def require_pieces(chunks: Any) -> Generator[str, None, object]:
    """Yield the pieces of a stream, and return what it returns; closing this closes ``chunks``.

    Args:
        chunks: What a reasoner's ``stream_reason`` has returned, which may be anything.

    Raises:
        ReasonerContractError: It is not a generator, or has yielded something else than text.
    """
    if not (hasattr(chunks, "__iter__") and hasattr(chunks, "close")):
        raise ReasonerContractError(
            f"The reasoner's stream is {type(chunks).__name__}, not a generator: nothing was kept of "
            f"this turn."
        )
    with contextlib.closing(chunks):
        pieces = iter(chunks)
        while True:
            try:
                piece: object = next(pieces)
            except StopIteration as end:
                returned: object = end.value
                return returned
            if not isinstance(piece, str):
                raise ReasonerContractError(
                    f"The reasoner's stream has a piece of the type {type(piece).__name__}, not text: "
                    f"nothing was kept of this turn."
                )
            yield piece


class StreamingReasoner(Reasoner):
    """A reasoner that always streams; an answer in one piece is a stream read to its end."""

    _doing = "waiting"

    def phase(self) -> str:
        """Return what a call that is under way is doing, in a few words."""
        return self._doing

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one model call; see ``stream_reason`` for what is raised."""
        with contextlib.closing(self.stream_reason(messages)) as chunks:
            while True:
                try:
                    next(chunks)
                except StopIteration as end:
                    response: Response = end.value
                    return response

    @abstractmethod
    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer's text as it arrives; closing the generator stops the model."""


class Scorer(ABC):
    """What a backend implements, too, if it can say how likely a given answer is.

    Nothing is written by the model: a text is laid before it, token by token.
    """

    @abstractmethod
    def score(self, messages: list[Message], text: str, *, ended: bool = True) -> Score:
        """Return how likely ``text`` is as the whole answer to ``messages``.

        Args:
            ended: Whether the end of the answer is scored too. An answer that a limit has cut off
                (``metadata["done_reason"] == "length"``) has none.

        Raises:
            UsageError: The text can't be sent.
            CapabilityError: The model or the server can't do it.
            BackendError: The backend could not give a complete score.
        """

    @abstractmethod
    def score_each(self, messages: list[Message], texts: Sequence[str]) -> list[Score]:
        """Return how likely it is that the answer to ``messages`` begins with each of ``texts``.

        They are asked for together, whatever their number; it raises what ``score`` does. The order
        of the texts is that of the scores, and has no part in them.
        """

    def close(self) -> None:
        """Give back what the scorer holds (connections, a loaded model). May be called twice."""


def __getattr__(name: str) -> object:
    if name == "AyaReasoner":
        from ore.backends.ollama import AyaReasoner

        return AyaReasoner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Callable(ModuleType):
    """This module, which ``ore.reasoner("ollama:llama3.2")`` calls: see ``ore.backends.named``."""

    def __call__(self, name: str, **settings: Any) -> Reasoner:
        made: Reasoner = import_module("ore.backends.named").reasoner(name, **settings)
        return made


sys.modules[__name__].__class__ = _Callable
