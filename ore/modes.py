"""The single turn, and one way to take a turn, which the REPL uses too.

Knows nothing about the parser, or about what a backend is made of.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from ore.asked import Asked
from ore.backends import Backend, Settings
from ore.console import Console
from ore.context import Context, ContextSource
from ore.conversation import Conversation
from ore.core import ORE
from ore.errors import OutputError, ReaderGoneError, SessionError
from ore.options import Options
from ore.types import Response

NEARLY_FULL = 0.9
"""The part of the context window from which a prompt is said to fill it."""


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

    system: str = "persona"
    persona: str | None = None
    session: str | None = None
    prompt: str = "prompt"
    parent: dict[str, str] | None = None

    @classmethod
    def of(cls, options: Options, asked: Asked, session: str | None) -> Origin:
        """Return the origin of what is asked, in a session of that name or in none."""
        return cls(
            system="persona" if options.system is None else "system",
            persona=options.persona,
            session=options.resume_session or session,
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
    images: tuple[bytes, ...] = ()
    origin: Origin = Origin()


@dataclass(frozen=True)
class Turn:
    """A turn that was answered; ``not_saved`` says why the session could not be saved, if so."""

    response: Response
    not_saved: SessionError | None


def take_turn(run: Run, prompt: str, context: Context) -> Turn:
    """Ask one prompt: one model call, the answer saved, then shown to its end.

    Raises:
        OreError: The turn failed and nothing of it was kept.
    """
    console = run.console
    silent = run.options.json or run.options.artifact_out == "-"
    arguments = (prompt, run.conversation.session, context.tool_results, context.skill_context)
    console.begin_waiting(run.engine.reasoner.phase)
    try:
        answer = _stream if run.options.stream else _whole
        response = answer(run, arguments)
    finally:
        console.end_waiting()
        console.end_thinking()
    not_saved = run.conversation.keep()
    if not silent and not run.options.stream:
        console.begin_answer()
        console.chunk(_shown(run, response))
    if not silent:
        console.end_answer()
    if not response.content.strip():
        console.notice("The answer is empty.")
    _tell_context(console, response)
    if run.options.verbose:
        said = {key: response.metadata[key] for key in response.metadata if key not in SAID_APART}
        console.metadata(response.id, response.model_id, said)
    return Turn(response, not_saved)


def _shown(run: Run, response: Response) -> str:
    if run.options.schema is None:
        return response.content
    from ore.schema import as_document

    return as_document(response.content)


def _tell_context(console: Console, response: Response) -> None:
    """Say that the context window was too small, or is nearly full."""
    context = response.metadata.get("context") or {}
    window, tokens = context.get("window"), context.get("prompt_tokens") or 0
    if context.get("status") == "truncated":
        size = f" of {window} tokens" if window else ""
        console.notice(
            f"The prompt did not fit the context window{size}: the model has not seen all of it."
        )
    elif window and tokens > NEARLY_FULL * window:
        console.notice(f"The context window is nearly full: {tokens} of {window} tokens.")


def _whole(run: Run, arguments: tuple) -> Response:
    return run.engine.execute(*arguments, images=run.images)


def _stream(run: Run, arguments: tuple) -> Response:
    """Show the answer as it arrives; whatever happens, the model is told to stop."""
    console = run.console
    with closing(run.engine.execute_stream(*arguments, images=run.images)) as chunks:
        try:
            console.begin_answer()
            while True:
                console.chunk(next(chunks))
        except StopIteration as end:
            return end.value
        except (OutputError, ReaderGoneError):
            raise
        except BaseException:
            console.break_answer()
            raise


def run_once(run: Run, prompt: str, context: Context) -> None:
    """Take a single turn, and emit it as text, JSON or an artifact.

    Raises:
        SessionError: The answer was emitted and could not be saved.
        OreError: The turn failed, or its artifact can't be written.
    """
    turn = take_turn(run, prompt, context)
    if run.options.artifact_out is not None:
        _emit_artifact(run, prompt, context, turn.response)
    if run.options.json:
        run.console.json(_document(turn.response, context))
    if turn.not_saved is not None:
        raise turn.not_saved


def _document(response: Response, context: Context) -> dict[str, Any]:
    keys = ("id", "model_id", "content", "timestamp", "metadata")
    document = {key: getattr(response, key) for key in keys}
    if context.decision is not None:
        document["routing"] = asdict(context.decision)
    return document


def _emit_artifact(run: Run, prompt: str, context: Context, response: Response) -> None:
    from ore.artifact import encode_artifact, write_artifact
    from ore.provenance import artifact_of

    artifact = artifact_of(run, prompt, context, response)
    if run.options.artifact_out == "-":
        run.console.document(encode_artifact(artifact))
    else:
        write_artifact(artifact, run.options.artifact_out)
