"""One way to take a turn, for the single turn and for the REPL: ask, keep, show, tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

from ore.backends.effective import in_words
from ore.backends.http import SPENT, Deadline
from ore.backends.look_ups import beside_turn
from ore.backends.schema import as_document
from ore.backends.turn_errors import TurnTooLargeError
from ore.cli.context import Context
from ore.cli.cut_conversations import compare_counts, tell_of_cut
from ore.cli.keep import Recorded, record, tell_of_prompt
from ore.cli.numbers import show_choice, tell_numbers
from ore.cli.record import Told, in_force
from ore.cli.runs import Run
from ore.cli.stopping import is_unsaved, outcome_of_record, outcome_of_stop
from ore.cli.terminal.console import Console
from ore.cli.terminal.documents import beginning_and_rest
from ore.errors import (
    CheckFailedError,
    ContextTruncatedError,
    OreError,
    OutputError,
    ReaderGoneError,
    Terminated,
)
from ore.files.afterwards import add_later
from ore.files.whole import is_stalled
from ore.glass.choosing import check
from ore.glass.limits import IN_CIRCLES, RepeatedLines, notices_of, read_whole, warnings_of
from ore.types import Response

Taken = TypeVar("Taken")

SHOWN_APART = (
    *("choice", "expectation", "format", "joined", "logprobs", "notes", "rendered"),
    "thinking",
)
"""Metadata that ``--verbose`` does not repeat: it is long, and the user has seen it."""


class Turn(NamedTuple):
    """A turn that was answered; ``not_kept`` says why it is not on disk as it was to be, if so."""

    response: Response
    not_kept: OreError | None


def answer_once(run: Run, context: Context) -> Response | None:
    """Take the single turn and return its answer, or with ``--dry-run`` show what it would send.

    Raises:
        OreError: The turn failed, or was answered and can't be shown or kept.
        KeyboardInterrupt: It was interrupted; the text says what became of it.
    """
    if run.options.dry_run:
        from ore.cli.plan import show_plan

        _beside(show_plan, run, context)
        return None
    before = run.conversation.length
    try:
        turn = take_turn(run, context)
    except KeyboardInterrupt as exc:
        raise KeyboardInterrupt(str(exc) or outcome_of_stop(run, before)) from None
    if turn.not_kept is not None:
        raise turn.not_kept
    if run.options.min_confidence is not None:
        check(turn.response, run.options.min_confidence)
    if run.options.extract:
        block = _code_block(turn.response.content)
        if isinstance(block, CheckFailedError):
            raise block
    return turn.response


def take_turn(run: Run, context: Context) -> Turn:
    """Ask one prompt: one model call, the answer kept, then shown to its end.

    Raises:
        OreError: The turn failed and nothing of it was kept, or it was and can't be shown.
        KeyboardInterrupt: It was interrupted; where its artifact is written, the text says so.
    """
    return _beside(_taken, run, context)


def _beside(take: Callable[[Run, Context], Taken], run: Run, context: Context) -> Taken:
    """Return what ``take`` does, which looks nothing up for long after the turn's deadline."""
    spent = SPENT.set(context.seconds)
    try:
        return beside_turn(Deadline.of_turn(run.asked.settings.deadline), take, run, context)
    finally:
        SPENT.reset(spent)


def _taken(run: Run, context: Context) -> Turn:
    """Take a turn: see ``take_turn``."""
    console = run.console
    console.begin_waiting(run.backend.phase)
    try:
        response = _ask(run, context)
    except (ContextTruncatedError, TurnTooLargeError):
        if run.conversation.length:
            console.notice(
                f"The prompt is the whole conversation, {run.conversation.length} messages so far: "
                f"a new one begins with none."
            )
        raise
    finally:
        console.end_waiting()
        console.end_thinking()
    recorded, not_kept = Recorded(None, []), None
    try:
        told = cache(lambda: in_force(run, response))  # it is asked for once at most
        try:
            with console.telling_below(), console.following_stops(), _ending_line(run):
                found = compare_counts(run, response)  # before it is recorded
                recorded, not_kept = _keep(run, context, response, told)
                _show(run, context, response, recorded.document)
        except (OutputError, ReaderGoneError):
            not_kept = _signed(run, recorded, not_kept)
            raise
        not_kept = _signed(run, recorded, not_kept)
        tell_of_cut(run, response, found)
        _tell(run, response, told, is_cut=found.cut is not None)
        if response.metadata.keys() & {"joined", "notes"}:
            tell_of_prompt(run, response)
    except (OutputError, ReaderGoneError) as exc:
        if not_kept is not None:
            console.error(not_kept)
        elif run.conversation.name is not None and isinstance(exc, OutputError):
            console.notice(f"The turn is part of the session '{run.conversation.name}'.")
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(outcome_of_record(run, response, not_kept)) from None
    except Terminated as exc:
        # As a REPL ends, it saves its session once more, and says what is wrong then.
        if not_kept is not None and not (run.options.is_repl and is_unsaved(run, not_kept)):
            add_later(exc, not_kept)
        raise
    return Turn(response, not_kept)


def _ask(run: Run, context: Context) -> Response:
    """Return the answer, or show it as it arrives: whatever happens, the model is told to stop."""
    given = (context.prompt, run.conversation.session, context.tool_results, context.skill_context)
    images, after = run.asked.images, run.asked.after
    console, circles = run.console, RepeatedLines()
    if run.asked.settings.format is not None:  # what judges the answer has it read, too
        return run.engine.execute(*given, images=images, after=after)
    stream = run.engine.execute_stream(*given, images=images, after=after)
    if not run.streams:
        return read_whole(stream, console.notice)
    with console.following_stops(), closing(stream) as chunks, _ending_line(run):
        console.begin_answer()
        try:
            while True:
                text = next(chunks)
                if not circles.closed_by(text):
                    console.chunk(text)
                    continue
                lines, end, begun = text.rpartition("\n")
                console.chunk(lines + end)
                console.notice_in_answer(IN_CIRCLES)
                console.chunk(begun)
        except StopIteration as end:
            response: Response = end.value
            return response


@contextmanager
def _ending_line(run: Run) -> Iterator[None]:
    """End the line of an answer that is cut short here; who stops waits for no reader."""
    console = run.console
    try:
        yield
    except (OutputError, ReaderGoneError):
        raise
    except BaseException as exc:
        is_stop = isinstance(exc, KeyboardInterrupt)
        goes_on = is_stop and run.options.is_repl and console.stdin_is_terminal
        is_end = isinstance(exc, Terminated) or is_stop and not goes_on
        if is_end:
            console.give_up_stalled()
        try:
            # The next answer ends the line of a full pipe; a terminal that is full holds up ORE, too.
            if console.stdout_is_terminal or not (goes_on and is_stalled(console.stdout)):
                console.break_answer()
        except (OutputError, ReaderGoneError) as error:
            if not is_end:
                if isinstance(exc, OreError) and isinstance(error, OutputError):
                    error.args = (f"{exc} {error}",)
                raise
            console.abandon_stdout()
        raise


def _keep(
    run: Run, context: Context, response: Response, told: Told
) -> tuple[Recorded, OreError | None]:
    """Save the session and write the artifact; return what became of it, and not raise what went wrong.

    An answer that can't be kept still has to be shown, and one that can't be shown to be kept.
    """
    unsaved = run.conversation.keep()
    if run.options.artifact_out is None and run.log is None:
        return Recorded(None, []), unsaved
    recorded = record(run, context, response, told)
    errors = [*([unsaved] if unsaved is not None else []), *recorded.errors]
    for error in errors[:-1]:
        run.console.error(error)
    return recorded, errors[-1] if errors else None


def _signed(run: Run, recorded: Recorded, not_kept: OreError | None) -> OreError | None:
    """Sign what waits for the answer to be shown; return what went wrong last, ``not_kept`` before it."""
    error = recorded.sign(run)
    if error is not None and not_kept is not None:
        run.console.error(not_kept)
    return error or not_kept


def _show(run: Run, context: Context, response: Response, document: str | None) -> None:
    """Write the answer to stdout as text, JSON or an artifact; of a stream, only its end."""
    console, options = run.console, run.options
    if options.artifact_out == "-":
        if document is not None:
            console.document(document, is_json=True)
    elif options.extract:
        block = _code_block(response.content)
        if isinstance(block, str):
            console.document(block)
    elif options.json:
        console.json(_document(run, response, context))
    elif run.asked.settings.choices is not None:
        show_choice(run, response)
    else:
        if run.streams:
            console.end_answer()
        else:
            text = response.content
            _show_whole(console, text if options.schema is None else as_document(text))


def _show_whole(console: Console, text: str) -> None:
    """Write an answer that came at once; on a terminal, what is far behind in it as a document."""
    head, rest = beginning_and_rest(text) if console.stdout_is_terminal else (text, "")
    console.begin_answer()
    console.chunk(head)
    console.end_answer()
    if rest and console.markdown:
        console.notice("The answer is long: from here on, it is shown as it was written.")
    if rest:
        console.document(rest)


@lru_cache(maxsize=1)
def _code_block(answer: str) -> str | CheckFailedError:
    """Return the last code block of an answer, or why none is shown."""
    from ore.glass.fences import code_block_in_time

    try:
        block = code_block_in_time(answer)
    except CheckFailedError as exc:
        return exc
    shown = answer.replace("`", "'")  # no advice of ours
    why = CheckFailedError(f"The answer has no fenced code block: it is\n{shown}")
    why.text = shown
    return why if block is None else block


def _tell(run: Run, response: Response, told: Told, *, is_cut: bool) -> None:
    _tell_limits(run, response, is_cut=is_cut)
    tell_numbers(run, response)
    if run.asked.images and run.conversation.name is not None:
        what = "image is" if len(run.asked.images) == 1 else "images are"
        run.console.notice(
            f"The {what} not kept in the session '{run.conversation.name}': later turns see the "
            f"text only."
        )
    if run.options.verbose and not run.options.quiet:
        shown = {name: v for name, v in response.metadata.items() if name not in SHOWN_APART}
        run.console.metadata(response.id, response.model_id, shown)
        samples = run.asked.settings.choices is None
        run.console.change(in_words(told(), samples=samples))


def _tell_limits(run: Run, response: Response, *, is_cut: bool) -> None:
    """Say what the answer alone does not show: that it is empty, was cut, or not all was read.

    The last is said already where the prompt ``is_cut`` as earlier ones tell.
    """
    for text in notices_of(response, in_session=run.conversation.session is not None):
        if text == IN_CIRCLES and RepeatedLines().closed_by(response.content):
            continue  # it was told as it came
        run.console.notice(text)
    warnings = [*warnings_of(response, run.asked.settings)]
    for text in warnings[:-1] if is_cut else warnings:
        run.console.warning(text)


def _document(run: Run, response: Response, context: Context) -> dict[str, Any]:
    keys = ("id", "model_id", "content", "timestamp", "metadata")
    document = {key: getattr(response, key) for key in keys}
    if context.decision is not None:
        document["routing"] = asdict(context.decision)
    if run.asked.link is not None and run.asked.link.artifact.continuation.requested:
        document["continuation"] = asdict(run.asked.link.artifact.continuation)
    return document
