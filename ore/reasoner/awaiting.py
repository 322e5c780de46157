"""Turns in an event loop: each in a thread of its own, and stopped where its task is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ore.errors import OreError, UsageError
from ore.reasoner.stop import STOP, Stop
from ore.reasoner.stream import UNREAD, Stream
from ore.types import Response, Session

T = TypeVar("T")


async def awaited(take: Callable[[], T], session: Session | None) -> T:
    """Return what ``take``, a turn of ``session``, returns, or raise what it raises.

    Where the task is cancelled, or another error is thrown into it, the turn is stopped: its
    connection closes at once.

    Raises:
        OreError: The system gives no thread for it.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    if session is not None:
        stop.hold_back(session.messages)
    done: asyncio.Future[T] = loop.create_future()

    def finish(act: Callable[..., None], what: object) -> None:
        if not done.done():
            act(what)

    def run() -> None:
        STOP.set(stop)  # a thread has a context of its own
        try:
            told: tuple[Callable[..., None], object] = done.set_result, take()
        except BaseException as exc:
            told = done.set_exception, _raisable(exc)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, *told)

    _begin(run)
    try:
        answer = await done
    except BaseException:  # the turn's own, or one that is thrown into the task that waits for it
        stop.ask()
        with suppress(RuntimeError):  # the loop is closed
            done.cancel()  # else asyncio would warn that its error was never asked for
        raise
    stop.keep()
    return answer


class AsyncStream(AsyncIterator[str]):
    """The text of one answer, piece by piece, for ``async for``; and at its end the response.

    Cancelling the task that waits for a piece, or another error that is thrown into it, ``close``, leaving
    ``async with``, or letting go of the stream stops the model. Nothing begins before the first piece is
    asked for.

    Args:
        stream: What is read, in a thread of its own, which may be ahead of the reader of this.
        session: What its turn is added to, once this was read to its end; None is no session.
    """

    _is_over = True  # where __init__ has failed, there is nothing to stop

    def __init__(self, stream: Stream, session: Session | None = None) -> None:
        self._stream, self._stop, self._session = stream, stream._stop, session
        self._is_over = self._is_closed = False
        self._pieces: asyncio.Queue[tuple[str, BaseException | None]] | None = None

    async def __anext__(self) -> str:
        """Return the next piece; raises what ``Stream`` does."""
        if self._is_closed:
            raise StopAsyncIteration
        if self._pieces is None:
            if self._session is not None:
                self._stop.hold_back(self._session.messages)
            pieces: asyncio.Queue[tuple[str, BaseException | None]] = asyncio.Queue()
            _begin(partial(_read, self._stream, pieces, asyncio.get_running_loop()))
            self._pieces = pieces
        try:
            text, over = await self._pieces.get()
        except BaseException:  # one that is thrown into the task that waits for it
            self.close()
            raise
        if over is not None:
            self._pieces.put_nowait((text, over))  # the next call raises it again
            self._is_over = not self._is_closed
            self._stop.keep()
            raise over
        return text

    @property
    def is_closed(self) -> bool:
        """Whether it was closed before its end."""
        return self._is_closed

    @property
    def response(self) -> Response:
        """The whole answer, once the stream was read to its end.

        Raises:
            UsageError: It was not, or it was closed.
        """
        if not self._is_over:
            raise UsageError(UNREAD)
        return self._stream.response

    def close(self) -> None:
        """Stop the model, from any thread and at any time; may be called twice."""
        if not self._is_over:
            self._is_closed = True
            self._stop.ask()
            self._stream.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is half gone, and with it what its modules have
            pass


def _begin(work: Callable[[], None]) -> None:
    """Do something in a thread of its own; ``OreError`` where the system gives none."""
    try:
        threading.Thread(target=work, name="ore-turn", daemon=True).start()
    except RuntimeError as exc:
        raise OreError(
            f"ORE can start no thread for the turn ({exc}): end other programs, or take it with "
            f"execute or stream, which need none."
        ) from exc


def _read(
    stream: Stream,
    pieces: asyncio.Queue[tuple[str, BaseException | None]],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Read a stream to its end, and hand each piece over to a loop."""
    over: BaseException = StopAsyncIteration()
    try:
        for text in stream:
            loop.call_soon_threadsafe(pieces.put_nowait, (text, None))
    except BaseException as exc:
        over = _raisable(exc)
    finally:
        stream.close()  # a loop that is closed reads no more
    with suppress(RuntimeError):  # the loop is closed: nobody reads any more
        loop.call_soon_threadsafe(pieces.put_nowait, ("", over))


def _raisable(error: BaseException) -> BaseException:
    """Return an error as a loop may raise it: an end of an iteration, or a task, is another's there."""
    ends = (StopIteration, StopAsyncIteration, GeneratorExit, asyncio.CancelledError)
    if not isinstance(error, ends):
        return error
    told = RuntimeError(str(error))
    told.__cause__ = error  # most have no words of their own
    return told
