"""A run: all that the turns of one command line are taken with, opened and closed again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ore.artifact import check_output
from ore.backends import Backend
from ore.backends.choice import model_of
from ore.backends.joining import JoiningReasoner
from ore.backends.schema import SchemaReasoner
from ore.backends.settings import Settings
from ore.cli.chosen import connector, wanted_of
from ore.cli.context import Context, ContextSource
from ore.cli.conversation import Conversation, open_conversation
from ore.cli.options import Options, on_or_off, with_default_system
from ore.cli.prompt import Asked, read_asked
from ore.cli.terminal.console import Console
from ore.core import ORE
from ore.errors import OutputError, UsageError
from ore.files.neutral import brief
from ore.glass.choosing import reasoner_of
from ore.glass.limits import read_whole
from ore.reasoner import Reasoner
from ore.types import Session

if TYPE_CHECKING:  # a run that is not logged does not load it
    from ore.artifact.log import RunLog
    from ore.artifact.signing import Signer
    from ore.rows.given import Given


class Run(NamedTuple):
    """What turns are taken with.

    Attributes:
        source: Makes the context of each turn.
        first: The context of the single turn; None in a REPL, which asks ``asked.prompt`` first.
        streams: Whether answers are shown as they are written.
        log: Where an artifact of each turn is written, or None.
        signer: What signs the artifacts that are written, or None.
        pin: What the model's digest was asked to begin with, or None.
        backend: What made the engine's reasoner, for ``model_id`` and with ``asked.settings``.
    """

    options: Options
    console: Console
    asked: Asked
    source: ContextSource
    conversation: Conversation
    first: Context | None
    streams: bool
    log: RunLog | None
    backend: Backend
    model_id: str
    engine: ORE
    signer: Signer | None = None
    pin: str | None = None


@contextmanager
def open_run(
    options: Options,
    console: Console,
    connect: Callable[..., Backend],
    given: Given | None = None,
    change: Callable[[Settings, Backend], Settings] | None = None,
) -> Iterator[Run]:
    """Check everything that needs no model, then open the backend, and yield the run.

    Args:
        given: What a file gives to the turn, or None.
        change: Returns what is asked of the model, given what the flags say; None changes nothing.
    """
    _check_usage(options)
    streams = _streams(options, console)
    log = None
    if options.runs is not None or options.names_last or os.environ.get("ORE_RUNS"):
        from ore.cli.runlog import run_log, with_last

        options, log = with_last(options, os.environ), run_log(options, os.environ)
    asked = read_asked(options, console, given)
    if asked.planned is None:
        options = with_default_system(options, os.environ)
    console.answers_as(asked.speaker)
    signer = _checked_output(options, console, log)
    source = ContextSource(options, console.notice)
    with open_conversation(options, console.notice) as conversation:
        if conversation.store is not None:
            from ore.cli import beginning

            options, asked = beginning.as_begun(options, asked, conversation, console.notice)
            console.answers_as(asked.speaker)
        first = _first(options, asked, source, conversation)
        backend = _backend(asked, options, connect)
        if change is not None:
            asked = asked._replace(settings=change(asked.settings, backend))
        model_id, pin, first = _chosen(asked, options, backend, first)
        if conversation.is_new:
            conversation.beginning = beginning.beginning_of(
                options, asked, backend, model_id, conversation.session, pin
            )
        _tell(options, console, asked, backend, model_id)
        with closing(reasoner_for(backend, model_id, asked, options, console)) as reasoner:
            yield Run(
                options=options,
                console=console,
                asked=asked,
                source=source,
                conversation=conversation,
                first=first,
                streams=streams,
                log=log,
                backend=backend,
                model_id=model_id,
                engine=ORE(reasoner, asked.system_prompt),
                signer=signer,
                pin=pin,
            )


def _first(
    options: Options, asked: Asked, source: ContextSource, conversation: Conversation
) -> Context | None:
    """Return the context of the single turn, None in a REPL.

    That of a turn that was planned is as it was then, with its conversation, in memory only.
    """
    planned = asked.planned
    if planned is None:
        has_turn = asked.prompt is not None and not options.is_repl
        return source.gather(asked.prompt or "", asked.typed) if has_turn else None
    if planned.session:
        conversation.session = Session(list(planned.session))
        conversation.source = planned.session_source
    return Context(
        planned.prompt,
        skill_context=planned.skill_context or None,
        tool_results=planned.tool_results or None,
        decision=planned.decision,
    )


def _tell(
    options: Options, console: Console, asked: Asked, backend: Backend, model_id: str
) -> None:
    """Say which model answers where nobody named it, or somebody looks on; and with ``-v`` as whom."""
    if asked.model is None and (told := backend.about_default(model_id)):
        console.notice(told)
    elif console.stderr_is_terminal:
        console.notice(f"Model: {brief(model_id)} ({brief(backend.name)})")
    if options.verbose:
        is_planned = asked.planned is not None
        said = "that of the plan." if is_planned else _persona(options, asked.system_from)
        console.notice(f"System prompt: {said}")


def _persona(options: Options, chosen_by: str) -> str:
    """Return which system prompt is sent, and what chose it where no flag of this run did."""
    by = "" if chosen_by == "default" or chosen_by.startswith("--") else f" ({chosen_by})"
    if options.has_own_system:
        return f"{'none' if options.no_system else 'your own'}{by}."
    if options.persona is not None:
        return f"the persona '{options.persona}'{by}."
    return "Aya, ORE's own persona; --persona, --system or --no-system changes it."


def _chosen(
    asked: Asked, options: Options, backend: Backend, first: Context | None
) -> tuple[str, str | None, Context | None]:
    """Return the model that answers, its pin, and the single turn, whose time it takes to find out."""
    if first is not None and options.deadline is not None:
        backend.prepare()  # which takes nothing of the deadline
    started = time.monotonic()
    model_id, pin = _model(asked, backend, os.environ)
    if pin is not None:
        backend.check_digest(model_id, pin)
    spent = time.monotonic() - started
    return model_id, pin, first and first._replace(seconds=first.seconds + spent)


def _model(asked: Asked, backend: Backend, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the model that answers, and the digits that its digest is to begin with, or None."""
    if asked.link is not None and asked.link.rerun is not None:
        return asked.link.rerun.model, asked.link.rerun.pin
    return model_of(backend, asked.model, environ)


def _backend(asked: Asked, options: Options, connect: Callable[..., Backend]) -> Backend:
    rerun = asked.link.rerun if asked.link is not None else None
    if rerun is None:
        return connect(options.replace(model=asked.model))
    backend = rerun.connect(wanted_of(options), connector(options, connect))
    replace(rerun, pin=None).check(backend)  # the pin is looked at as that of any turn
    return backend


def _check_usage(options: Options) -> None:
    """Raise ``UsageError`` for what a file lacks, or a wrong switch of what a REPL keeps."""
    if options.min_confidence is not None and options.choose is None:
        raise UsageError("--min-confidence needs --choose: the file gives no words to choose from.")
    if options.is_repl:
        on_or_off("ORE_HISTORY", os.environ.get("ORE_HISTORY"))


def _streams(options: Options, console: Console) -> bool:
    """Whether answers are shown as they are written: where that was asked for, or on a terminal.

    What is judged or written as a whole is shown as a whole.
    """
    if options.stream or options.no_stream:
        return options.stream
    wish = on_or_off("ORE_STREAM", os.environ.get("ORE_STREAM"))
    is_whole = options.json or options.schema is not None or options.artifact_out == "-"
    is_whole = is_whole or options.extract or options.choose is not None
    return console.stdout_is_terminal and not (is_whole or wish is False)


def _checked_output(options: Options, console: Console, log: RunLog | None) -> Signer | None:
    """Return what signs the artifacts, or None, once the answer can be shown, written and signed."""
    if console.stdout is None:
        raise OutputError("The answer can't be written: stdout is closed.")
    if options.render:
        from ore.cli.terminal.markdown import check_rich

        check_rich()
        console.markdown = True
    if options.artifact_out is not None and options.artifact_out != "-":
        check_output(options.artifact_out)
    if log is not None and not options.dry_run:
        log.check()
    if options.sign is None or options.dry_run:
        return None
    from ore.artifact.signing import Signer

    signer = Signer(options.sign, once=options.artifact_out is not None and log is None)
    signer.check()
    if options.artifact_out is not None:
        signer.check_place(options.artifact_out)
    return signer


def reasoner_for(
    backend: Backend, model_id: str, asked: Asked, options: Options, console: Console
) -> Reasoner:
    """Return the backend's reasoner; with a schema, one that lets only fitting answers through."""
    reasoner = reasoner_of(backend, model_id, asked.settings)
    if options.join_messages == "always":
        reasoner = JoiningReasoner(reasoner)
    if asked.settings.format is not None:
        read = partial(read_whole, notice=console.notice)
        reasoner = SchemaReasoner(reasoner, asked.settings.format, read)
    return reasoner if asked.given is None else asked.given.around(reasoner)
