"""The command line: parses it, runs what was asked for, and turns errors into exit codes.

The one place that does the latter. Knows nothing about how a turn is taken or a model is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ore.cli.input import decode_argv
from ore.cli.parser import Answered, build_parser
from ore.cli.terminal.console import Console
from ore.errors import OreError, OutputError, ReaderGoneError, Terminated, UsageError

TYPE_CHECKING = False  # not typing's, which would cost every start
if TYPE_CHECKING:  # imported when they are needed
    from ore.backends import Backend
    from ore.cli.context import Context
    from ore.cli.options import Options
    from ore.cli.turn import Run

INTERRUPTED = 130


def run(argv: Sequence[str] | None = None, env_files: Mapping[str, str] | None = None) -> None:
    """Run the command line as a process: ``SystemExit`` with the exit code when it is not 0.

    Args:
        argv: The arguments without the program's name; None is the process's own.
        env_files: The file that each variable came from, where it came from one.
    """
    try:
        with _sigterm_raises():
            code = main(argv, env_files=env_files)
    except Terminated as exc:
        code = exc.exit_code
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
        open_backend: What makes the backend, given an ``ore.backends.choice.Choice``, the environment, ``env_files``
            and what is told of it; None is ``ore.backends.choice.open_backend``.
        env_files: The file that each environment variable came from, where it came from one.
    """
    console = console or Console.from_system()
    try:
        code = _run(argv, console, open_backend, env_files or {})
        console.flush()
        return code
    except UsageError as exc:
        console.reply(build_parser().format_usage().rstrip())
        return _report(console, exc)
    except OreError as exc:
        return _report(console, exc)
    except KeyboardInterrupt as exc:
        if console.stderr_is_terminal:
            console.stopped(str(exc) or "Stopped.")
        return INTERRUPTED


def _report(console: Console, error: OreError) -> int:
    if isinstance(error, (OutputError, ReaderGoneError)):
        console.abandon_stdout()
    if not isinstance(error, ReaderGoneError):
        console.error(str(error))
    return error.exit_code


def _run(
    argv: Sequence[str] | None,
    console: Console,
    open_backend: Callable[..., Backend] | None,
    env_files: Mapping[str, str],
) -> int:
    try:
        args = build_parser().parse_args(decode_argv(sys.argv[1:] if argv is None else argv))
    except Answered as text:
        console.document(str(text))
        return 0
    from ore.cli.options import Options

    options = Options.from_args(args)
    console.quiet = options.quiet
    for path in (path for path, source in env_files.items() if not source):
        console.notice(f"{path} can't be read, so nothing of it is used.")

    def opened(chosen: Options) -> Backend:
        from ore.backends import choice

        bounds = [each for each in (chosen.timeout, chosen.deadline) if each is not None]
        wanted = choice.Choice(
            backend=chosen.backend,
            model=chosen.model,
            host=chosen.host,
            seconds=min(bounds, default=None),
            pulls=chosen.pull is not None,
        )
        make = open_backend or choice.open_backend
        return make(wanted, os.environ, env_files, console.notice)

    if options.verb:
        _run_verb(options, console, opened)
        return 0
    return _run_turns(options, console, opened)


def _run_verb(
    options: Options, console: Console, open_backend: Callable[[Options], Backend]
) -> None:
    from ore.cli import verbs as lists
    from ore.cli.options import SESSION_VERBS

    if options.verb in SESSION_VERBS:
        from ore.cli.sessions import run_session_verb

        run_session_verb(options, console)
    elif options.verify:
        from ore.artifact.verify import run_verify

        run_verify(options.verify, console, options.json)
    elif options.diff:
        from ore.artifact.compare import run_diff

        run_diff(options.diff, console, options.json)
    elif options.replay:
        from ore.cli.replay import run_replay

        run_replay(options, console, open_backend, os.environ)
    elif options.list_tools:
        lists.list_tools(console, options.json)
    elif options.list_skills:
        lists.list_skills(console, options.json)
    elif options.pull is not None:
        lists.pull(console, open_backend(options), options.pull, options.json)
    else:
        lists.list_models(console, open_backend(options), options.json)


def _run_turns(
    options: Options, console: Console, open_backend: Callable[[Options], Backend]
) -> int:
    """Check everything that needs no model, then open the backend and run the mode."""
    from contextlib import closing
    from dataclasses import replace

    from ore.cli.asked import read_asked
    from ore.cli.context import ContextSource
    from ore.cli.conversation import open_conversation
    from ore.cli.persona import system_prompt_of
    from ore.cli.request import checked, images_of, settings_of
    from ore.cli.turn import Origin, Run
    from ore.core import ORE

    system_prompt = system_prompt_of(options)
    settings = settings_of(options, console.thinking)
    images = images_of(options)
    asked = read_asked(options, console.stdin, console.notice)
    _check_output(options, console)
    source = ContextSource(options, console.notice)
    with open_conversation(options, console.notice) as conversation:
        context = None
        if asked.prompt is not None and not options.is_repl:
            context = source.gather(asked.prompt, asked.typed)
        options = replace(options, model=asked.model)
        backend = open_backend(options)
        model_id = _model(options, backend)
        if console.stderr_is_terminal:
            console.notice(f"Model: {model_id} ({backend.name})")
        with closing(checked(backend.reasoner(model_id, settings), settings)) as reasoner:
            run = Run(
                options=options,
                console=console,
                backend=backend,
                settings=settings,
                engine=ORE(reasoner, system_prompt),
                model_id=model_id,
                context=source,
                conversation=conversation,
                images=images,
                origin=Origin.of(options, asked, conversation.source),
            )
            return _run_mode(run, asked.prompt, context)


def _run_mode(run: Run, prompt: str | None, context: Context | None) -> int:
    """Take the one turn whose context is given, or where there is none, the turns of a REPL."""
    if prompt is None or context is None:
        from ore.cli.repl import run_repl

        return run_repl(run, prompt)
    if run.options.dry_run:
        from ore.cli.record import plan_of

        run.console.json(plan_of(run, prompt, context))
    else:
        from ore.cli.turn import run_once

        run_once(run, prompt, context)
    return 0


def _check_output(options: Options, console: Console) -> None:
    """Find out before anything is asked whether the answer can be shown and written."""
    if console.stdout is None:
        raise OutputError("The answer can't be written: stdout is closed.")
    if options.render:
        from ore.cli.terminal.markdown import check_rich

        check_rich()
        console.markdown = True
    if options.artifact_out is not None and options.artifact_out != "-":
        from ore.artifact import check_output

        check_output(options.artifact_out)


def _model(options: Options, backend: Backend) -> str:
    from ore.errors import ModelNotFoundError

    model = options.model or backend.default_model()
    if model is None:
        raise ModelNotFoundError(backend.no_default(), model="", host=backend.host)
    return model


class _sigterm_raises:
    """While it is entered, SIGTERM unwinds the stack, so that what is open is closed."""

    def __enter__(self) -> None:
        import signal
        import threading

        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._terminate)

    def __exit__(self, *_: object) -> None:
        import signal

        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _terminate(*_: object) -> None:
        raise Terminated
