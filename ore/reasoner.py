"""The reasoner: messages in, one response out.

Knows nothing about personas, sessions, flags or terminals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator

from ore.types import Message, Response


class Reasoner(ABC):
    """What every backend implements: an ordered list of messages becomes one response."""

    @abstractmethod
    def reason(self, messages: list[Message]) -> Response:
        """Answer ``messages`` with exactly one model call.

        Raises:
            BackendError: The backend could not give a complete answer.
        """

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        """Yield the answer in chunks as it arrives; the generator's return value is the response.

        A backend that can't stream yields the whole answer as one chunk. Closing the generator
        stops the model.
        """
        response = self.reason(messages)
        yield response.content
        return response

    def close(self) -> None:
        """Give back what the reasoner holds (connections, a loaded model). May be called twice."""
