"""Signals that are held back while something must be done whole; streams that are waited for."""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from types import FrameType
from typing import Any

# Those that end a program, and those that a program has a handler of its own for.
_ITS_OWN = (signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *_ITS_OWN)
_CALLBACKS = {
    ("<frozen importlib._bootstrap>", "cb"),  # of each package that is loaded
    ("<frozen importlib._bootstrap>", "remove"),  # of each, since Python 3.12
    ("weakref.py", "remove"),
    ("_weakrefset.py", "_remove"),
}
_MOMENT = 0.001
_END_SECONDS = 5.0
_finals: dict[Callable[[], object], Any] = {}
_exits: list[float] = []  # when the program's end began


@contextmanager
def deferred_signals(
    *, starts_threads: bool = False, starts_program: bool = False
) -> Iterator[None]:
    """Deliver a SIGINT, SIGTERM, SIGHUP, SIGALRM or SIGUSR that arrives in the block at its end.

    Keep the block to milliseconds, or to the import of a package. In another thread than the main
    one nothing is deferred, for Python runs the handlers in the main thread only.

    Args:
        starts_threads: Whether the block starts threads, which will never take these signals, or forks:
            the child takes none before it unblocks them.
        starts_program: Whether it starts a program of others, which is to take them: a mask would be
            its own, too.
    """
    # A mask holds a signal from one thread only; where there is another, that one would take it.
    masks = not starts_program and _is_alone()
    arrived: list[int] = []
    undo: list[Callable[[], object]] = []
    try:
        if not masks and threading.current_thread() is threading.main_thread():
            for number in _DEFERRED:
                with suppress(ValueError):  # in a subinterpreter, where no signal is heard
                    _note(number, arrived, undo)
        if masks or starts_threads:
            # Every call first runs the handlers of what has arrived, and they may raise.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            undo.append(lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before))
            signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
        yield
    finally:
        try:
            take_back(undo)
        finally:
            _deliver(arrived)


def comes_again(number: int, frame: FrameType | None) -> bool:
    """Have a signal come again in a moment where Python would drop what its handler raises; say whether so.

    It drops whatever a weak reference's callback raises. Those of Python's own are over at once.

    Args:
        number: The signal.
        frame: What it interrupts, as a handler is told.
    """
    while frame is not None and not _is_callback(frame):
        frame = frame.f_back  # a callback waits for the thread below, where time is short
    if frame is None:
        return False

    def send() -> None:
        sleep(_MOMENT)
        os.kill(os.getpid(), number)

    with suppress(RuntimeError):  # the system has no thread left
        threading.Thread(target=send, daemon=True).start()
        return True
    return False


def _is_callback(frame: FrameType) -> bool:
    code = frame.f_code
    return (os.path.basename(code.co_filename), code.co_name) in _CALLBACKS


def _is_alone() -> bool:
    """Return whether the process has one thread; Python knows nothing of those of native code."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:  # another system than Linux
        return threading.active_count() == 1


def _note(number: int, arrived: list[int], undo: list[Callable[[], object]]) -> None:
    """Install a handler that only notes that the signal arrived."""
    handler = signal.getsignal(number)
    # What is ignored stays so, in a child too; what Python did not install can't be put back, as that of
    # faulthandler.register, where Python knows of none. A loop of asyncio hears of a signal by itself, and
    # would do so twice.
    is_native = handler is None or (
        handler == signal.SIG_DFL and (number in _ITS_OWN or _is_caught(number))
    )
    is_loops = getattr(handler, "__module__", "") == "asyncio.unix_events"
    if handler != signal.SIG_IGN and not (is_native or is_loops):
        signal.signal(number, handler)  # where none can be installed, there is nothing to undo
        undo.append(lambda: signal.signal(number, handler))
        signal.signal(number, lambda *_: None if number in arrived else arrived.append(number))


def _is_caught(number: int) -> bool:
    """Return whether the system calls something for a signal of which Python knows no handler."""
    with suppress(OSError), open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False  # another system than Linux


def take_back(undo: list[Callable[[], object]]) -> None:
    """Undo each step, the last first, again where a signal's handler raised before it took effect."""
    if undo:
        try:
            undo[-1]()
            undo.pop()
        finally:
            take_back(undo)


def _deliver(arrived: list[int]) -> None:
    """Raise the signals, one of them also if the handler of another raises."""
    if arrived:
        try:
            signal.raise_signal(arrived.pop())
        finally:
            _deliver(arrived)


def being_raised() -> BaseException | None:
    """Return what was being raised as this signal's handler was called, and would be lost: raise it.

    ``input()`` calls the handlers of further signals while it raises what the first one raised. A
    builtin's call tells of it then, where no attribute was looked up before: that may drop it. So
    this is the first thing that a handler calls, by the name that it is imported under.
    """
    try:
        monotonic()
    except SystemError as exc:
        return exc.__cause__
    return None


def hear_no_more() -> None:
    """Ignore Ctrl-C from here on: the process ends, and its exit code is decided.

    What is left is the interpreter's own end, where a signal would be a traceback. One that came in the
    middle of a text that was run, as those of dataclasses, would still end ``python -m`` in its place.
    """
    with suppress(ValueError):  # not in the main thread, which alone is interrupted
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(MemoryError):
        exec("")  # Python remembers it until the next text is run


def at_exit(call: Callable[[], object]) -> None:
    """Have ``call`` called as the program ends; what it ends may make a thread ``end_with_program``."""
    atexit.register(call)
    atexit.unregister(_note_exit)
    atexit.register(_note_exit)  # the last one is called first
    # A forked child of this package ends without atexit.
    if processes := sys.modules.get("multiprocessing.util"):
        _finals[call] = processes.Finalize(None, _end, (call,), exitpriority=0)


def not_at_exit(call: Callable[[], object]) -> None:
    """Take back what ``at_exit`` was told."""
    atexit.unregister(call)
    if final := _finals.pop(call, None):
        final.cancel()


class _Ender(threading.Thread):
    """Calls ``_end`` where all threads that a process waits for are done: it waits for this one, too."""

    def __init__(self, call: Callable[[], object], before: list[threading.Thread]) -> None:
        super().__init__(daemon=False)
        self._call, self._before = call, before

    def run(self) -> None:
        for each in self._before:
            each.join()
        _end(self._call)


def _end(call: Callable[[], object]) -> None:
    """End what ``at_exit`` was told of, after the turns of the threads that are waited for next."""
    ours = (threading.main_thread(), threading.current_thread())
    others = [each for each in threading.enumerate() if not each.daemon and each not in ours]
    if before := [each for each in others if not isinstance(each, _Ender)]:
        with suppress(RuntimeError):  # the system has no thread left
            _Ender(call, before).start()
        return
    _note_exit()
    call()


def _note_exit() -> None:
    _exits.append(monotonic())


def end_with_program() -> None:
    """Where the program ends, wait in another thread than the main one until that stops the thread.

    A program whose end waits for its threads is held up once, not by each of their turns. A process of
    multiprocessing that has told of its end will tell nothing that begins later.
    """
    if threading.current_thread().daemon and (processes := sys.modules.get("multiprocessing.util")):
        if processes.is_exiting():
            sleep(_END_SECONDS)
    if _exits and threading.current_thread() is not threading.main_thread():
        sleep(max(0.0, _exits[0] + _END_SECONDS - monotonic()))


@contextmanager
def on_continue(call: Callable[[], None]) -> Iterator[None]:
    """Have ``call`` called in the block whenever the process goes on after a stop (Ctrl-Z, ``fg``)."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGCONT) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGCONT, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, signal.SIG_DFL)


def is_ready(number: int, seconds: float | None, event: int = select.POLLIN) -> bool:
    """Return whether a file descriptor can be read within ``seconds``; the number may be any.

    ``select.select`` takes none above 1023, and a service may have more files open than that.

    Args:
        number: Of an open file.
        seconds: The longest wait; what is below 0 does not wait, None has no end.
        event: What is waited for; ``select.POLLOUT`` is that it can be written.
    """
    poll = select.poll()
    poll.register(number, event)
    return bool(poll.poll(None if seconds is None else 1000 * max(seconds, 0.0)))
