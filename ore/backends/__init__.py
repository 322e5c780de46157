"""What a backend is: where models live, and what makes reasoners for them.

One module of this package per backend; only the chosen one is imported. Knows nothing about flags,
sessions or terminals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ore.reasoner import Reasoner

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes there are and the bytes expected (0: not known)."""


@dataclass(frozen=True)
class Settings:
    """What a turn needs beyond its messages; every backend refuses what it does not have.

    Attributes:
        timeout: The longest silence to accept, in seconds; None waits.
        deadline: The longest a whole turn may take, in seconds; None waits.
        strict_context: A prompt that does not fit the context window is an error.
        conversation: Turns of one conversation follow each other, so a prompt cache pays.
    """

    timeout: float | None = None
    deadline: float | None = None
    strict_context: bool = False
    conversation: bool = False


class Backend(ABC):
    """A place where models run.

    Attributes:
        name: ``"ollama"``, ``"embedded"``, as ``--backend`` says it.
        host: The address of the server, or None for a model in this process.
    """

    name: str
    host: str | None = None

    @abstractmethod
    def models(self) -> list[str]:
        """Return the names of the models that are there.

        Raises:
            BackendError: The backend does not answer.
        """

    @abstractmethod
    def default_model(self) -> str | None:
        """Return the model to use when none is named, or None when there is none."""

    @abstractmethod
    def pull(self, name: str, progress: Progress) -> None:
        """Fetch a model, saying how far it is; on any failure nothing is left behind."""

    @abstractmethod
    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return a reasoner for one model; whether the model exists is checked before it is called.

        Raises:
            ModelNotFoundError: The backend knows already that there is no such model.
        """
