"""The modes: one turn, and the lists; and one way to take a turn, which the REPL uses too.

Knows nothing about the parser, or about what a backend is made of.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from ore.backends import Backend, Settings
from ore.console import Console
from ore.context import Context, ContextSource
from ore.conversation import Conversation
from ore.core import ORE
from ore.errors import OutputError, ReaderGoneError
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


def take_turn(run: Run, prompt: str, context: Context) -> Response:
    """Ask one prompt: one model call, the answer saved, then shown to its end.

    Raises:
        OreError: The turn failed and nothing of it was kept, or (a ``SessionError``) the answer
            was shown and could not be saved.
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
    if not_saved is not None:
        raise not_saved
    return response


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


def run_once(run: Run, prompt: str) -> None:
    """Take a single turn, and emit it as text, JSON or an artifact."""
    options = run.options
    context = run.context.gather(prompt)
    response = take_turn(run, prompt, context)
    if options.artifact_out is not None:
        _emit_artifact(run, prompt, context, response)
    if options.json:
        run.console.json(_document(response, context))


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


def list_models(console: Console, backend: Backend, as_json: bool) -> None:
    """List the installed models, the default marked."""
    names = backend.models()
    default = backend.default_model()
    rows = [{"name": name, "default": name == default} for name in names]
    if not rows:
        console.notice("No model is installed: fetch one with --pull NAME.")
    _list(console, as_json, rows, lambda row: (row["name"], "default" if row["default"] else ""))


def list_tools(console: Console, as_json: bool) -> None:
    """List the tools and the permissions that they need."""
    from ore.tools import TOOL_REGISTRY

    rows = [
        {
            "name": tool.name,
            "permissions": sorted(p.value for p in tool.required_permissions),
            "description": tool.description,
        }
        for _, tool in sorted(TOOL_REGISTRY.items())
    ]
    _list(
        console,
        as_json,
        rows,
        lambda row: (row["name"], ",".join(row["permissions"]) or "-", row["description"]),
    )


def list_skills(console: Console, as_json: bool) -> None:
    """List the skills; what can't be loaded is said on stderr."""
    from ore.skills import build_skill_registry

    registry = build_skill_registry(report=console.notice)
    rows = [
        {"name": skill.name, "description": skill.description, "hints": list(skill.hints)}
        for _, skill in sorted(registry.items())
    ]
    if not rows:
        console.notice("There are no skills: put a folder with a SKILL.md into ~/.ore/skills.")
    _list(console, as_json, rows, lambda row: (row["name"], row["description"]))


def _list(console: Console, as_json: bool, rows: list[dict[str, Any]], columns) -> None:
    if as_json:
        console.json(rows)
    else:
        console.rows([columns(row) for row in rows])


def pull(console: Console, backend: Backend, name: str) -> None:
    """Fetch a model with progress on stderr."""
    try:
        backend.pull(name, console.progress)
    finally:
        console.end_progress()
    console.notice(f"{name} is ready.")
