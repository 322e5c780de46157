"""An answer as it arrives, as an object that any thread may close."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress

from ore.errors import UsageError
from ore.reasoner.closing import Closing
from ore.reasoner.stop import STOP, Stop
from ore.types import Response

UNREAD = "There is no response yet: read the stream to its end."
_READ_ALREADY = (
    "This stream is being read already, by another thread or by what a signal's handler has interrupted: "
    "read it in one place."
)


class Stream(Closing, Iterator[str]):
    """The text of one answer, piece by piece, and at its end the response.

    It is read by one thread at a time, and may be closed by any. A turn that was closed before its
    end leaves its session as it was. Use it in a ``with`` block, so that the model never computes
    for nobody::

        with engine.stream("Why is the sky blue?") as stream:
            for text in stream:
                print(text, end="")
        print(stream.response.metadata["eval_count"])

    Args:
        chunks: What a reasoner's ``stream_reason``, or ``ORE.execute_stream``, returned.
    """

    def __init__(self, chunks: Generator[str, None, Response]) -> None:
        self._chunks = chunks
        self._stop = Stop()
        self._response: Response | None = None
        self._is_over = False

    def __next__(self) -> str:
        """Return the next piece of the answer.

        Raises:
            OreError: Whatever the turn raises, but not after ``close``: then the stream is over.
            UsageError: It is being read already; that reader goes on.
        """
        if self._is_over or self._stop.is_asked:
            self._end()
            raise StopIteration
        before = STOP.get()
        try:
            STOP.set(self._stop)  # here, for a signal's handler may raise right after it
            text = next(self._chunks)
        except StopIteration as end:
            self._response, self._is_over = end.value, True
            raise
        except Exception:
            if getattr(self._chunks, "gi_frame", None) is not None:  # the other reader goes on
                raise UsageError(_READ_ALREADY) from None
            self._is_over = True
            if self._stop.is_asked:
                raise StopIteration from None
            raise
        finally:
            STOP.set(before)
        if self._stop.is_asked:
            self._end()
            raise StopIteration
        return text

    @property
    def is_closed(self) -> bool:
        """Whether it was closed before its end."""
        return self._stop.is_asked and self._response is None

    @property
    def response(self) -> Response:
        """The whole answer, once the stream was read to its end.

        Raises:
            UsageError: It was not, or it was closed.
        """
        if self._response is None:
            raise UsageError(UNREAD)
        return self._response

    def close(self) -> None:
        """Stop the model, from any thread and at any time; may be called twice.

        It returns at once. A thread that waits for the next piece is woken: for it the stream is over.
        """
        if not self._is_over:
            self._stop.ask()
            self._end()

    def _end(self) -> None:
        with suppress(ValueError):  # another thread runs it, and ends it when it comes back
            self._chunks.close()
            self._is_over = True
