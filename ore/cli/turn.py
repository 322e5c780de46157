"""The single turn, and one way to take a turn, which the REPL uses too.

Knows nothing about the parser, or about what a backend is made of.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from ore.backends import Backend, Settings
from ore.cli.asked import Asked
from ore.cli.context import Context, ContextSource
from ore.cli.conversation import Conversation
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.core import ORE
from ore.errors import OreError, OutputError, ReaderGoneError
from ore.types import Response

NEARLY_FULL = 0.9
"""The part of the context window from which a prompt is said to fill it."""

_DROPPED = "Stopped: the turn was dropped."

SAID_APART = ("format", "thinking")
"""What ``--verbose`` does not repeat of the metadata: it is long, and the user has seen it."""


@dataclass(frozen=True)
class Origin:
    """Where the parts of a turn that the flags choose came from.

    Attributes:
        system: The source of the system message: ``"persona"`` or ``"system"``.
        persona: The name of the persona that was asked for, or None.
        session: The name of the session whose messages are sent, or None.
        prompt: ``"prompt"``, ``"stdin"``, or ``"prompt+stdin"`` where both make one message.
        parent: ``{"execution_id", "sha256"}`` of the artifact whose prompt is asked, or None.
    """

    system: str
    persona: str | None
    session: str | None
    prompt: str
    parent: dict[str, str] | None

    @classmethod
    def of(cls, options: Options, asked: Asked, session: str | None) -> Origin:
        """Return the origin of what is asked, in a session of that name or in none."""
        return cls(
            system="persona" if options.system is None else "system",
            persona=options.persona,
            session=session,
            prompt=asked.source,
            parent=asked.parent,
        )


@dataclass(frozen=True)
class Run:
    """What a mode works with; ``backend`` and ``settings`` are what made the engine's reasoner."""

    options: Options
    console: Console
    backend: Backend
    settings: Settings
    engine: ORE
    model_id: str
    context: ContextSource
    conversation: Conversation
    images: tuple[bytes, ...]
    origin: Origin


@dataclass(frozen=True)
class Turn:
    """A turn that was answered; ``not_kept`` says why it is not on disk as it was to be, if so."""

    response: Response
    not_kept: OreError | None


def take_turn(run: Run, prompt: str, context: Context) -> Turn:
    """Ask one prompt: one model call, the answer kept, then shown to its end.

    Raises:
        OreError: The turn failed and nothing of it was kept, or it was and can't be shown.
        KeyboardInterrupt: It was interrupted; where its artifact is written, the text says so.
    """
    console = run.console
    console.begin_waiting(run.backend.phase)
    try:
        response = (_stream if run.options.stream else _whole)(run, prompt, context)
    finally:
        console.end_waiting()
        console.end_thinking()
    not_kept: OreError | None = None
    try:
        not_kept = _keep(run, prompt, context, response)
        _show(run, prompt, context, response)
        _tell(run, response)
    except (OutputError, ReaderGoneError) as exc:
        if not_kept is not None:
            console.error(str(not_kept))
        elif run.conversation.name is not None and isinstance(exc, OutputError):
            console.notice(f"The turn is part of the session '{run.conversation.name}'.")
        raise
    except KeyboardInterrupt:
        if run.options.artifact_out in (None, "-"):
            raise
        raise KeyboardInterrupt(_outcome_of_artifact(run, response, not_kept)) from None
    return Turn(response, not_kept)


def _keep(run: Run, prompt: str, context: Context, response: Response) -> OreError | None:
    """Save the session or write the artifact; return, not raise, what went wrong.

    An answer that can't be kept still has to be shown, and one that can't be shown to be kept.
    """
    if run.options.artifact_out in (None, "-"):
        return run.conversation.keep()
    from ore.artifact import write_artifact
    from ore.cli.record import artifact_of

    try:
        write_artifact(artifact_of(run, prompt, context, response), run.options.artifact_out)
    except OreError as exc:
        return exc
    return None


def _show(run: Run, prompt: str, context: Context, response: Response) -> None:
    """Write the answer to stdout as text, JSON or an artifact; of a stream, only its end."""
    console, options = run.console, run.options
    if options.artifact_out == "-":
        from ore.artifact import encode_artifact
        from ore.cli.record import artifact_of

        console.document(encode_artifact(artifact_of(run, prompt, context, response)))
    elif options.json:
        console.json(_document(response, context))
    else:
        if not options.stream:
            console.begin_answer()
            console.chunk(_shown(run, response))
        console.end_answer()


def _shown(run: Run, response: Response) -> str:
    if run.options.schema is None:
        return response.content
    from ore.backends.schema import as_document

    return as_document(response.content)


def _outcome_of_artifact(run: Run, response: Response, not_kept: OreError | None) -> str:
    from ore.artifact import is_artifact_of

    path = run.options.artifact_out
    if not_kept is not None:
        run.console.error(str(not_kept))
    elif path is not None and is_artifact_of(response.id, path):
        return "Stopped: the turn was answered already, and its artifact is written."
    return _DROPPED


def _tell(run: Run, response: Response) -> None:
    _tell_limits(run, response)
    if run.options.verbose:
        said = {key: response.metadata[key] for key in response.metadata if key not in SAID_APART}
        run.console.metadata(response.id, response.model_id, said)


def _tell_limits(run: Run, response: Response) -> None:
    """Say what the answer alone does not show: that it is empty, was cut, or not all was read."""
    console, context = run.console, response.metadata.get("context") or {}
    window, tokens = context.get("window"), context.get("prompt_tokens") or 0
    written, used, advice = response.metadata.get("eval_count") or 0, tokens, ""
    if run.conversation.session is not None:  # the answer is a part of the next turn's prompt
        used += written
        advice = "; go on with a larger one (-o num_ctx=N), or in another conversation"
    if not response.content.strip():
        console.notice("The answer is empty.")
    if response.metadata.get("done_reason") == "length":
        console.notice(
            "The answer was cut off by a limit: -o num_predict=N, the model's own, or the context "
            "window."
        )
    if context.get("status") == "truncated":
        size = f" of {window} tokens" if window else ""
        overflows = window and tokens < window <= tokens + written
        what = "prompt and its answer" if overflows else "prompt"
        console.notice(
            f"The {what} did not fit the context window{size}: the model has not seen all of it."
        )
    elif window and used > NEARLY_FULL * window:
        console.notice(f"The context window is nearly full: {used} of {window} tokens{advice}.")


def _whole(run: Run, prompt: str, context: Context) -> Response:
    return run.engine.execute(
        prompt,
        run.conversation.session,
        context.tool_results,
        context.skill_context,
        images=run.images,
    )


def _stream(run: Run, prompt: str, context: Context) -> Response:
    """Show the answer as it arrives; whatever happens, the model is told to stop."""
    console = run.console
    stream = run.engine.execute_stream(
        prompt,
        run.conversation.session,
        context.tool_results,
        context.skill_context,
        images=run.images,
    )
    with closing(stream) as chunks:
        try:
            console.begin_answer()
            while True:
                console.chunk(next(chunks))
        except StopIteration as end:
            response: Response = end.value
            return response
        except (OutputError, ReaderGoneError):
            raise
        except BaseException:
            console.break_answer()
            raise


def run_once(run: Run, prompt: str, context: Context) -> None:
    """Take a single turn.

    Raises:
        OreError: The turn failed, or was answered and can't be shown or kept.
        KeyboardInterrupt: It was interrupted; the text says what became of it.
    """
    before = run.conversation.length
    try:
        turn = take_turn(run, prompt, context)
    except KeyboardInterrupt as exc:
        raise KeyboardInterrupt(str(exc) or outcome_of_stop(run, before)) from None
    if turn.not_kept is not None:
        raise turn.not_kept


def outcome_of_stop(run: Run, before: int) -> str:
    """Return what became of a turn that was interrupted, after saving it if it was answered.

    Args:
        before: How many messages the session had before the turn.
    """
    if run.conversation.length == before:
        return _DROPPED
    error = run.conversation.keep()
    if error is None:
        return "Stopped: the turn was answered already, and is part of the session."
    run.console.error(str(error))
    return "Stopped: the turn was answered already, and is not saved."


def _document(response: Response, context: Context) -> dict[str, Any]:
    keys = ("id", "model_id", "content", "timestamp", "metadata")
    document = {key: getattr(response, key) for key in keys}
    if context.decision is not None:
        document["routing"] = asdict(context.decision)
    return document
