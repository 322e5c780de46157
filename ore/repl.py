"""The REPL: reads a prompt, takes a turn, and goes on after a turn that failed or was stopped.

Knows nothing about the parser, or about how a turn is taken.
"""

from __future__ import annotations

from ore.console import Console
from ore.errors import OreError, OutputError, ReaderGoneError, UsageError
from ore.input import decode_line
from ore.modes import Run, take_turn

LEAVE = ("quit", "exit")


def run_repl(run: Run, first: str | None) -> int:
    """Take turns until the input ends or says so; return the exit code.

    A failed turn is reported and the loop goes on. On a terminal the code is 0; on a pipe it is 1
    if any turn failed. It is 1 wherever turns were never saved.
    """
    console, conversation = run.console, run.conversation
    _greet(run)
    failed = first is not None and not _repl_turn(run, first)
    while (prompt := _next_prompt(console)) is not None:
        if prompt.strip():
            failed |= not _repl_turn(run, prompt)
    if conversation.unsaved and (error := conversation.keep()):
        console.error(str(error))
    return int(conversation.unsaved or (failed and not console.stdin_is_terminal))


def _repl_turn(run: Run, prompt: str) -> bool:
    """Take one turn of a REPL; report a failure, or that it was dropped, and say whether it held."""
    console, before = run.console, run.conversation.length
    try:
        take_turn(run, prompt, run.context.gather(prompt))
        return True
    except (OutputError, ReaderGoneError):
        raise
    except OreError as exc:
        console.error(str(exc))
    except KeyboardInterrupt:
        if not console.stdin_is_terminal:
            raise
        if run.conversation.length > before and (error := run.conversation.keep()):
            console.error(str(error))
        elif run.conversation.length == before:
            console.notice("Stopped: the turn was dropped.")
    return False


def _next_prompt(console: Console) -> str | None:
    """Return what is typed or piped next; None when the input ends or says so."""
    while True:
        try:
            line = console.ask()
            if line is None:
                return None
            text = decode_line(line)
        except KeyboardInterrupt:
            if not console.stdin_is_terminal:
                raise
            console.end_line()
            console.notice("Ctrl-D or quit leaves.")
        except UsageError as exc:
            if not console.stdin_is_terminal:
                raise
            console.error(str(exc))
        else:
            return None if text.strip().lower() in LEAVE else text


def _greet(run: Run) -> None:
    if not run.console.stdin_is_terminal:
        return
    kind = "a conversation" if run.conversation.session is not None else "every turn on its own"
    if run.conversation.name:
        kind = f"session '{run.conversation.name}', saved after each turn"
    run.console.notice(f"ORE: {kind}. quit, exit or Ctrl-D leaves.")
    if run.conversation.length:
        from ore.session_verbs import last_exchange

        for text in last_exchange(run.conversation.session):
            run.console.notice(text)
