"""The command line: parses it, runs what was asked for, and turns errors into exit codes.

The one place that does the latter. Knows nothing about how a turn is taken or a model is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from ore.console import Console
from ore.errors import ArtifactError, OreError, OutputError, ReaderGoneError, Terminated, UsageError
from ore.input import decode_argv
from ore.parser import Answered, build_parser

INTERRUPTED = 130


def run(argv: Sequence[str] | None = None, env_files: Mapping[str, str] | None = None) -> None:
    """Run the command line as a process: ``SystemExit`` with the exit code when it is not 0.

    Args:
        argv: The arguments without the program's name; None is the process's own.
        env_files: The file that each variable came from, where it came from one.
    """
    _end_on_sigterm()
    code = main(argv, env_files=env_files)
    if code:
        raise SystemExit(code)


def main(
    argv: Sequence[str] | None = None,
    console: Console | None = None,
    open_backend: Callable[..., object] | None = None,
    env_files: Mapping[str, str] | None = None,
) -> int:
    """Run the command line and return its exit code; never raises ``SystemExit``.

    Args:
        argv: The arguments without the program's name; None is the process's own.
        console: The streams to use; None is the process's own.
        open_backend: What makes the backend; None is ``ore.backends.choice.open_backend``.
        env_files: The file that each environment variable came from, where it came from one.
    """
    console = console or Console.from_system()
    try:
        code = _run(argv, console, open_backend, env_files or {})
        console.flush()
        return code
    except UsageError as exc:
        console.usage(build_parser().format_usage())
        return _report(console, exc)
    except OreError as exc:
        return _report(console, exc)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as exc:
        return exc.exit_code


def _report(console: Console, error: OreError) -> int:
    if isinstance(error, (OutputError, ReaderGoneError)):
        console.abandon_stdout()
    if not isinstance(error, ReaderGoneError):
        console.error(str(error))
    return error.exit_code


def _run(argv, console: Console, open_backend, env_files: Mapping[str, str]) -> int:
    try:
        args = build_parser().parse_args(decode_argv(sys.argv[1:] if argv is None else argv))
    except Answered as text:
        console.document(str(text))
        return 0
    from ore.options import Options

    options = Options.from_args(args)
    console.quiet = options.quiet
    for path in (path for path, source in env_files.items() if not source):
        console.notice(f"{path} can't be read, so nothing of it is used.")
    if open_backend is None:
        from ore.backends.choice import open_backend
    if options.verb:
        return _run_verb(options, console, open_backend, env_files)
    return _run_turns(options, console, open_backend, env_files)


def _run_verb(options, console: Console, open_backend, env_files: Mapping[str, str]) -> int:
    import os

    from ore import modes
    from ore.options import SESSION_VERBS

    if options.verb in SESSION_VERBS:
        from ore.session_verbs import run_session_verb

        run_session_verb(options, console)
    elif options.verify:
        from ore.verify import run_verify

        run_verify(options.verify, console, options.json)
    elif options.diff:
        from ore.compare import run_diff

        run_diff(options.diff, console, options.json)
    elif options.replay:
        from ore.replay import run_replay

        run_replay(
            options,
            console,
            lambda chosen: open_backend(chosen, os.environ, env_files, console.notice),
        )
    elif options.list_tools:
        modes.list_tools(console, options.json)
    elif options.list_skills:
        modes.list_skills(console, options.json)
    else:
        backend = open_backend(options, os.environ, env_files, console.notice)
        if options.list_models:
            modes.list_models(console, backend, options.json)
        else:
            modes.pull(console, backend, options.pull)
    return 0


def _run_turns(options, console: Console, open_backend, env_files: Mapping[str, str]) -> int:
    """Check everything that needs no model, then open the backend and run the mode."""
    import os
    from contextlib import closing

    from ore import modes
    from ore.context import ContextSource
    from ore.conversation import open_conversation
    from ore.core import ORE
    from ore.persona import system_prompt_of
    from ore.request import checked, images_of, settings_of

    if options.render:
        from ore.rendering import check_rich

        check_rich()
        console.markdown = True
    system_prompt = system_prompt_of(options)
    settings = settings_of(options, console.thinking)
    images = images_of(options)
    given = options
    options, parent = _with_input(options, console)
    source = ContextSource(options, console.notice)
    with open_conversation(options, console.notice) as conversation:
        if options.artifact_out not in (None, "-"):
            from ore.artifact import check_output

            check_output(options.artifact_out)
        backend = open_backend(options, os.environ, env_files, console.notice)
        model_id = _model(options, backend)
        if console.stderr_is_terminal:
            console.notice(f"Model: {model_id} ({backend.name})")
        with closing(checked(backend.reasoner(model_id, settings), settings)) as reasoner:
            run = modes.Run(
                options=options,
                console=console,
                backend=backend,
                settings=settings,
                engine=ORE(reasoner, system_prompt),
                model_id=model_id,
                context=source,
                conversation=conversation,
                images=images,
                origin=_origin(given, options, conversation.name, parent),
            )
            if options.dry_run:
                from ore.plan import plan_of

                console.json(plan_of(run, options.prompt))
                return 0
            if options.is_repl:
                from ore.repl import run_repl

                return run_repl(run, options.prompt)
            modes.run_once(run, options.prompt)
            return 0


def _origin(given, options, session: str | None, parent: dict[str, str] | None):
    """Return where the turn's parts came from; ``given`` has the prompt as it was written."""
    from ore.modes import Origin

    prompt = "prompt" if given.prompt in (options.prompt, None) else "prompt+stdin"
    if given.prompt is None and parent is None:
        prompt = "stdin"
    return Origin(
        system="persona" if options.system is None else "system",
        persona=options.persona,
        session=options.resume_session or session,
        prompt=prompt,
        parent=parent,
    )


def _with_input(options, console: Console):
    """Return the options with the prompt that argv, stdin or an artifact make, and the parent."""
    if options.is_repl:
        return options, None
    if options.artifact_in is None:
        from ore.input import read_prompt

        return options.with_prompt(_prompt(options, console, read_prompt)), None
    from ore.artifact import parse_artifact, read_bytes
    from ore.neutral import one_line
    from ore.provenance import parent_of

    data = read_bytes(options.artifact_in, console.stdin)
    artifact = parse_artifact(data, "stdin" if options.artifact_in == "-" else options.artifact_in)
    model = options.model or artifact.input.model_id
    _check_artifact(options, artifact.input.prompt, model)
    run = one_line(artifact.execution_id)
    console.notice(f"Running the prompt of {run} with the model {one_line(model)}.")
    return options.with_prompt(artifact.input.prompt, model), parent_of(artifact, data)


def _check_artifact(options, prompt: str, model: str) -> None:
    """Refuse an artifact with nothing to ask, or whose model only the user may choose."""
    source = options.artifact_in
    if not prompt.strip():
        raise ArtifactError(f"The prompt in {source} is blank: there is nothing to ask.")
    if not model.strip():
        raise ArtifactError(f"The artifact {source} names no model: name one with --model.")
    if options.model is None and model.lower().endswith(".gguf"):
        raise ArtifactError(
            f"The artifact {source} names a file as its model: if you trust that file, name it "
            f"yourself with --model."
        )


def _prompt(options, console: Console, read_prompt) -> str:
    try:
        return read_prompt(options.prompt, console.stdin, console.notice)
    except UsageError as exc:
        taken = options.artifact_out
        if options.prompt is None and taken not in (None, "-"):
            raise UsageError(
                f"There is no prompt: --artifact-out took '{taken}' as its PATH. Put the prompt "
                f"before it, or write --artifact-out=-."
            ) from exc
        raise


def _model(options, backend) -> str:
    from ore.errors import ModelNotFoundError

    model = options.model or backend.default_model()
    if model is None:
        where = f" on {backend.host}" if backend.host else ""
        raise ModelNotFoundError(
            f"No model is installed{where}: fetch one with --pull NAME, for example "
            f"--pull llama3.2.",
            model="",
            host=backend.host,
        )
    return model


def _end_on_sigterm() -> None:
    """Make SIGTERM unwind the stack, so that what is open is closed."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        return

    def terminate(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
