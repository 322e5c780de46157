"""The REPL: reads a prompt, takes a turn, and goes on after a turn that failed or was stopped."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from ore.cli.commands import Talk, complete, perform
from ore.cli.conversation import Conversation
from ore.cli.options import on_or_off
from ore.cli.parser import decode
from ore.cli.runs import Run
from ore.cli.stopping import outcome_of_stop
from ore.cli.terminal.asking import LONGEST_LINE, MORE_LABEL, PROMPT_LABEL, LineTooLong
from ore.cli.terminal.console import Console
from ore.cli.turn import take_turn
from ore.errors import OreError, OutputError, ReaderGoneError, UsageError
from ore.files.home import ore_home

LEAVE = ("quit", "exit")
QUOTES = '"""'


def loop(run: Run) -> int:
    """Take turns until the input ends or says so; return the exit code.

    A failed turn is reported and the loop goes on. On a terminal the exit code is 0, on a pipe 1 if
    any turn failed, and 1 on both if turns could not be saved. Commands and texts in quotes are for
    a terminal: a line on a pipe is a prompt as it is.
    """
    console, conversation, first = run.console, run.conversation, run.asked.prompt
    talk = Talk(run)
    if console.stdin_is_terminal:
        console.edit_lines(_history_file(run), lambda line: complete(talk, line))
        if first is None:
            with suppress(OreError):  # what is wrong is wrong in the turn too, which says so
                run.backend.prepare()
    _greet(run)
    try:
        failed = first is not None and not _turn(talk, first)
        while not talk.is_over:
            try:
                prompt = _next_prompt(talk)
            except LineTooLong as exc:
                console.error(exc)
                failed = True
                continue
            if prompt is None:
                break
            if prompt.strip():
                failed |= not _turn(talk, prompt)
    finally:
        talk.run.engine.reasoner.close()
        _forget_if_nothing_was_said(conversation)
        if conversation.unsaved and (error := conversation.keep()):
            console.error(error)
    return int(conversation.unsaved or (failed and not console.stdin_is_terminal))


def _forget_if_nothing_was_said(conversation: Conversation) -> None:
    """Where the session has no turn, and so no file, leave none with what was typed either."""
    if not conversation.length and conversation.typed_file is not None:
        with suppress(OSError):
            conversation.typed_file.unlink()


def _history_file(run: Run) -> Path | None:
    """Return where what is typed is kept: beside a session that is saved, or where it was asked for."""
    wish = on_or_off("ORE_HISTORY", os.environ.get("ORE_HISTORY"))
    if wish is False or os.environ.get("ORE_NO_HISTORY"):
        return None
    if run.conversation.typed_file is not None:
        return run.conversation.typed_file
    with suppress(OreError):  # there is nowhere to keep it
        return ore_home() / "history" if wish else None
    return None


def _turn(talk: Talk, prompt: str) -> bool:
    """Take one turn, leave a line free below it, and return whether it succeeded."""
    has_succeeded = _attempt(talk, prompt)
    talk.run.console.blank_line()
    return has_succeeded


def _attempt(talk: Talk, prompt: str) -> bool:
    """Take one turn; report a failure, or that it was dropped, and return whether it succeeded."""
    run = talk.run
    console, before = run.console, run.conversation.length
    talk.asked = prompt
    try:
        with console.hide_typing():
            started = time.monotonic()
            if run.pin is not None:  # the name may have become another model's
                run.backend.check_digest(run.model_id, run.pin)
            checked = time.monotonic() - started
            context = run.source.gather(prompt)
            turn = take_turn(run, context._replace(seconds=context.seconds + checked))
        talk.answered = turn.response
        talk.turns += 1
        if turn.not_kept is None:
            return True
        console.error(turn.not_kept)
    except (OutputError, ReaderGoneError):
        raise
    except OreError as exc:
        console.error(exc)
    except KeyboardInterrupt as exc:
        outcome = str(exc) or outcome_of_stop(run, before)
        if not console.stdin_is_terminal:
            raise KeyboardInterrupt(outcome) from None
        console.stopped(outcome)
    return False


def _next_prompt(talk: Talk) -> str | None:
    """Return what is to be asked next, ``""`` for nothing, or None when the input ends or says so."""
    console = talk.run.console
    if not console.stdin_is_terminal:
        line = console.ask()
        text = None if line is None else _text(line)
        return None if text is None or _leaves(text) else text
    try:
        line = console.ask()
        if line is None:
            return None
        if (quoted := _as_it_is(line).lstrip()).startswith(QUOTES):
            return _quoted(console, quoted)
        text = _text(line)
        if text.strip():
            console.remember(text)
        if _leaves(text):
            return None
        if text.startswith("/") and "\n" not in text:
            return perform(talk, text) or ""
        return text
    except KeyboardInterrupt:
        console.end_line()
        if not console.typed.strip():
            console.notice("Ctrl-D or /bye leaves.")
    except (OutputError, ReaderGoneError, LineTooLong):
        raise
    except OreError as exc:
        console.error(exc)
    return ""


def _text(line: bytes) -> str:
    return decode(line, "The line").rstrip("\r\n")


def _as_it_is(line: bytes) -> str:
    """Return a line as a text from which its bytes can be had again, whatever they are."""
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _leaves(text: str) -> bool:
    return text.strip().lower() in LEAVE


def _quoted(console: Console, text: str) -> str | None:
    """Read on to the closing quotes; return the text between, or None where the input ends.

    Where a line can't be used, that is said at once, and all of it is dropped: what follows in the quotes
    is no prompt of its own.
    """
    is_dropped = is_too_long = False
    while len(text.rstrip()) < 2 * len(QUOTES) or not text.rstrip().endswith(QUOTES):
        try:
            line = console.ask(MORE_LABEL)
        except KeyboardInterrupt:
            console.end_line()
            console.notice("The text was dropped.")
            return ""
        except UsageError as exc:
            if not is_dropped:
                console.error(exc)
                console.notice(f"The text is dropped, up to the closing {QUOTES}.")
            is_dropped = True
            continue
        if line is None:  # readline can't go on after the end of the input without a stray line
            console.error(f"The text was dropped: the closing {QUOTES} is missing.")
            return None
        text += "\n" + _as_it_is(line)
        if len(text) > LONGEST_LINE:
            text, is_too_long = QUOTES + text[-len(QUOTES) :], True
    if is_dropped:
        return ""
    if is_too_long:
        raise LineTooLong
    text = decode(text.encode("utf-8", "surrogateescape"), "The text")
    console.remember(text)
    return text.rstrip()[len(QUOTES) : -len(QUOTES)].removeprefix("\n").removesuffix("\n")


def _greet(run: Run) -> None:
    if not run.console.stdin_is_terminal:
        return
    session = run.conversation.session
    kind = "a conversation" if session is not None else "every turn on its own"
    if run.conversation.name:
        kind = f"session '{run.conversation.name}', saved after each turn"
    run.console.notice(f"ORE: {kind}. /help lists commands, Ctrl-D leaves.")
    if session is not None and session.messages:
        for message in session.messages[-2:]:
            label = PROMPT_LABEL if message.role == "user" else run.console.answer_label
            run.console.recall(label, message.content)
        run.console.notice("")  # a line is left free, as below an answer
