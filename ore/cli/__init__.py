"""The command line: runs what was asked for, and turns errors into exit codes, here alone."""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from ore.cli.advice import said
from ore.cli.parser import USAGE, build_parser
from ore.cli.terminal.console import Console
from ore.errors import (
    INTERRUPTED,
    NO_MEMORY,
    HungUp,
    OreError,
    OutputError,
    ReaderGoneError,
    Terminated,
    UsageError,
    is_shortage,
)
from ore.files.signals import being_raised, comes_again

if TYPE_CHECKING:  # --version and --help do without
    from ore.backends import Backend
    from ore.cli.options import Options

_RAISED: dict[int, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}
_AGAIN_SECONDS = 0.2
"""How soon a signal comes again that is not heard: a person who presses Ctrl-C twice is slower."""
_ENDING_SECONDS = 5.0
"""How long what ends the process may take, and is not interrupted."""
_MOST_TOLD = 20  # lines of a .env that can't be used


def run(argv: Sequence[str] | None = None, env_files: Mapping[str, str] | None = None) -> None:
    """Run the command line as a process: ``SystemExit`` with the exit code when it is not 0.

    Args:
        argv: The arguments without the program's name; None is the process's own.
        env_files: The file that each variable came from, where it came from one.
    """
    console = Console.from_system()
    console.is_last = True
    try:
        with _signals_raise():
            code = main(argv, console, env_files=env_files)
    except Terminated as exc:
        code = exc.exit_code
    except Exception as exc:
        if isinstance(exc.__cause__, (KeyboardInterrupt, Terminated)):
            # It came while a class was made, as a module was loaded: Python 3.11 wraps it there.
            code = getattr(exc.__cause__, "exit_code", INTERRUPTED)
        elif os.environ.get("ORE_TRACEBACK") or is_shortage(exc):
            raise  # who starts the process has a sentence for a shortage
        else:
            code = _report(console, OreError(_fault(exc)))
    finally:
        console.end()
    if code:
        raise SystemExit(code)


def main(
    argv: Sequence[str] | None = None,
    console: Console | None = None,
    open_backend: Callable[..., Backend] | None = None,
    env_files: Mapping[str, str] | None = None,
) -> int:
    """Run the command line and return its exit code; never raises ``SystemExit``.

    Args:
        argv: The arguments without the program's name; None is the process's own.
        console: The streams to use; None is the process's own.
        open_backend: What makes the backend, given an ``ore.backends.choice.Choice``, the
            environment, ``env_files``, and what notices and warnings are given to; None is
            ``ore.backends.choice.open_backend``.
        env_files: The file that each environment variable came from, where it came from one.
    """
    console = console or Console.from_system()
    console.said = said
    try:
        code = _dispatch(argv, console, open_backend, env_files or {})
        console.flush()
        return code
    except UsageError as exc:
        console.reply(USAGE)
        return _report(console, exc)
    except OreError as exc:
        return _report(console, exc)
    except KeyboardInterrupt as exc:
        console.give_up_stalled()
        if console.stderr_is_terminal:
            console.stopped(str(exc) or "Stopped.")
        _tell_cause(console, exc)
        console.end()
        return INTERRUPTED
    except Terminated as exc:
        console.give_up_stalled()
        if str(exc):
            console.notice(str(exc))
        _tell_cause(console, exc)
        console.end()
        raise
    except Exception as exc:
        if not is_shortage(exc):
            raise
    return _report(console, OreError(NO_MEMORY))  # what took the memory has been let go


def _fault(exc: Exception) -> str:
    """Return the sentence for an error that ORE does not expect: where it is, and how to see more.

    What the error itself says is left out: it may hold a prompt, or a key.
    """
    if isinstance(exc, OSError) and exc.errno in (errno.EMFILE, errno.ENFILE):
        return "This process may open no more files: raise the limit (ulimit -n), or close some."
    own, where = os.path.dirname(os.path.dirname(__file__)), ""
    at = exc.__traceback__
    while at is not None:
        if (path := at.tb_frame.f_code.co_filename).startswith(own + os.sep):
            where = f" in ore{path[len(own):]}, line {at.tb_lineno}"
        at = at.tb_next
    return (
        f"ORE has a fault ({type(exc).__name__}{where}): run this again with ORE_TRACEBACK=1 to see "
        f"where, and please report it."
    )


def _tell_cause(console: Console, stop: BaseException) -> None:
    """Say what went wrong after the stop: see ``add_later``."""
    if isinstance(stop.__cause__, OreError):
        console.error(stop.__cause__)


def _report(console: Console, error: OreError) -> int:
    if isinstance(error, (OutputError, ReaderGoneError)):
        console.abandon_stdout()
    if isinstance(error, ReaderGoneError):
        return error.exit_code
    try:
        console.error(error)
        return error.exit_code
    except Exception as exc:  # an answer that it quotes may be large
        if not is_shortage(exc):
            raise
    error = OreError(NO_MEMORY)
    console.error(error)
    return error.exit_code


def _dispatch(
    argv: Sequence[str] | None,
    console: Console,
    open_backend: Callable[..., Backend] | None,
    env_files: Mapping[str, str],
) -> int:
    """Show a text, do a verb, or take turns, as the arguments say."""
    args = build_parser().parse_args(argv)
    if args.text is not None:
        console.document(args.text)
        return 0
    from ore.cli.options import Options

    options = Options.from_args(args)
    console.quiet = options.quiet
    bad = [each for each, source in env_files.items() if not source]
    for each in bad[:_MOST_TOLD]:
        console.notice(f"{each} can't be used, so it was ignored.")
    if len(bad) > _MOST_TOLD:
        console.notice(f"And {len(bad) - _MOST_TOLD:,} more.")

    def connect(chosen: Options, is_name: bool = False) -> Backend:
        from ore.backends import choice

        bounds = [each for each in (chosen.timeout, chosen.deadline) if each is not None]
        wanted = choice.Choice(
            backend=chosen.backend,
            model=chosen.model,
            host=chosen.host,
            seconds=min(bounds, default=None),
            pulls=chosen.pull is not None,
            is_name=is_name,
            scheduler=chosen.scheduler,
            deadline=chosen.deadline,
            answers=not (chosen.list_models or chosen.dry_run or chosen.show_license),
        )
        make = open_backend or choice.open_backend
        return make(wanted, os.environ, env_files, console.notice, console.warning)

    if options.verb or options.run_file is not None:
        from ore.cli.verbs import do_verb

        do_verb(options, console, connect)
        return 0
    from ore.cli import runs, turn

    with runs.open_run(options, console, connect) as opened:
        if opened.first is None:
            from ore.cli.repl import loop

            return loop(opened)
        turn.answer_once(opened, opened.first)
        return 0


@contextmanager
def _signals_raise() -> Iterator[None]:
    """While it is entered, SIGTERM and SIGHUP unwind the stack, so that what is open is closed.

    So does Ctrl-C. What unwinds is left in peace: one that comes again at once is not heard, nor is
    Ctrl-C where the process is to end. It would take the other's place, or be a traceback.
    """
    heard = dict.fromkeys(_RAISED, -math.inf)

    def hear(number: int, frame: FrameType | None) -> None:
        first = being_raised()
        if first is None and comes_again(number, frame):
            return
        now = time.monotonic()
        end = max(heard[signal.SIGTERM], heard[signal.SIGHUP])
        is_late = number == signal.SIGINT and now - end < _ENDING_SECONDS
        if is_late or now - heard[number] < _AGAIN_SECONDS:
            if first is not None:
                raise first
            return
        heard[number] = now
        if number == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a shell sends another, in mid-closing
        raise first if isinstance(first, Terminated) else _RAISED[number]

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    found = {number: signal.getsignal(number) for number in heard}
    # One that was not installed from Python can't be put back.
    before = {number: handler for number, handler in found.items() if handler is not None}
    if before.get(signal.SIGINT) is not signal.default_int_handler:  # a program's own, or ignored
        before.pop(signal.SIGINT, None)
    if before.get(signal.SIGHUP) is signal.SIG_IGN:  # what nohup asks for
        del before[signal.SIGHUP]
    ends_of_children = signal.getsignal(signal.SIGCHLD)
    try:
        for number in before:
            signal.signal(number, hear)
        if ends_of_children is signal.SIG_IGN:  # every program's exit code would be 0
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hear or number == signal.SIGHUP:  # else it is ignored
                signal.signal(number, handler)
        if ends_of_children is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
