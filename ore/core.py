"""The loop: build the messages, call the reasoner once, return its response.

Knows nothing about backends, files, flags or terminals. A session is an argument and is never kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ore.errors import PersonaError, UsageError
from ore.reasoner import Reasoner, require_pieces, require_response
from ore.reasoner.closing import Closing
from ore.reasoner.stop import add_unless_stopped
from ore.reasoner.stream import Stream
from ore.types import ExecutionArtifact, Message, Response, RoutingDecision, Session, ToolResult
from ore.types.sent import Sent, count_of_messages, listed, note_sent

if TYPE_CHECKING:  # a turn without an event loop, or a plan, needs neither
    from ore.reasoner.awaiting import AsyncStream
    from ore.types.turn_plan import Plan

AYA_PROMPT_PATH = Path(__file__).parent / "prompts" / "aya.txt"


def load_aya_system_prompt() -> str:
    """Return Aya's system prompt.

    Raises:
        PersonaError: The file is missing or unreadable; the message names its path.
    """
    try:
        return AYA_PROMPT_PATH.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise PersonaError(
            f"Aya's prompt can't be read from {AYA_PROMPT_PATH} ({exc}): reinstall ORE, or give "
            f"ORE(system_prompt=...) a text of your own."
        ) from exc


def build_messages(
    prompt: str,
    *,
    system_prompt: str,
    session: Session | None = None,
    tool_results: list[ToolResult] | None = None,
    skill_context: list[str] | None = None,
    images: Sequence[bytes] | None = None,
    after: ExecutionArtifact | None = None,
) -> list[Message]:
    """Return ``[system] + skills + tools + [artifact] + session + [user]``; changes no argument.

    Args:
        prompt: The user's text, sent verbatim, last.
        system_prompt: Sent first; an empty one sends no system message.
        session: Its messages are sent as they are.
        tool_results: Each is a message of the role ``user``, prefixed ``[Tool:name]``.
        skill_context: Texts that are sent as they are given, with the role ``system``.
        images: The bytes of images, sent with the prompt.
        after: Its answer is a message of the role ``user``, prefixed ``[Artifact:id]``.
    """
    messages = [Message("system", system_prompt)] if system_prompt else []
    messages += [Message("system", text) for text in skill_context or ()]
    messages += [
        Message("user", f"[Tool:{result.tool_name}]\n{result.output}")
        for result in tool_results or ()
    ]
    if after is not None:
        messages.append(Message("user", after.as_text()))
    messages += session.messages if session is not None else ()
    messages.append(Message("user", prompt, images=tuple(images or ())))
    return messages


def to_send(
    system_prompt: str,
    prompt: str,
    session: Session | None = None,
    tool_results: list[ToolResult] | None = None,
    skill_context: list[str] | None = None,
    images: Sequence[bytes] | None = None,
    after: ExecutionArtifact | None = None,
) -> Sent:
    """Return what a turn would send.

    ``system_prompt``, ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images`` and
    ``after`` are those of ``build_messages``.

    Raises:
        UsageError: The prompt is not text, or what must be a list is not one.
    """
    if not isinstance(prompt, str):
        raise UsageError(f"A prompt is text, not {type(prompt).__name__}: nothing was sent.")
    earlier = count_of_messages(session)
    skills, tools = listed("skill_context", skill_context), listed("tool_results", tool_results)
    messages = build_messages(
        prompt,
        system_prompt=system_prompt,
        session=session,
        tool_results=tools,
        skill_context=skills,
        images=listed("images", images),
        after=after,
    )
    sent = tuple(messages)
    return Sent(sent, system_prompt, tuple(skills), tuple(tools), after, earlier)


class ORE(Closing):
    """The orchestrator: one reasoner and one system prompt, no other state.

    As a context manager it closes the reasoner at the end of the block.

    Args:
        reasoner: What answers.
        system_prompt: None is Aya's prompt; ``""`` sends no system message.
    """

    def __init__(self, reasoner: Reasoner, system_prompt: str | None = None) -> None:
        self.reasoner = reasoner
        text = load_aya_system_prompt() if system_prompt is None else system_prompt
        self.system_prompt: str = text

    def execute(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> Response:
        """Take one turn: exactly one call of ``reasoner.reason``.

        On success the session, if one is given, gets the user message that was sent and one
        assistant message, with the id of the response. On any failure it is left as it was.

        Args:
            prompt: The user's text, sent verbatim.
            session: What was said before; None is a turn on its own.
            tool_results: What tools returned, for this turn only.
            skill_context: Texts of the role ``system``, for this turn only.
            images: The bytes of images (PNG, JPEG or WebP) that belong to the prompt.
            after: The run whose answer the model reads first, for this turn only.

        Raises:
            UsageError: The prompt is not text.
            ReasonerContractError: The reasoner returned something else than a ``Response`` of text.
            OreError: Whatever the reasoner raises goes through.
        """
        given = (prompt, session, tool_results, skill_context, images, after)
        sent = to_send(self.system_prompt, *given)
        response = self.reasoner.reason(list(sent.messages))
        return self._finish(response, sent, session)

    def execute_stream(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> Generator[str, None, Response]:
        """Take one turn like ``execute``, yielding the answer's text as it arrives.

        ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images``, ``after`` and what
        is raised are those of ``execute``. The generator's return value is the ``Response``. The
        session is extended only once the generator is exhausted; closing it earlier stops the model
        and changes nothing.
        """
        given = (prompt, session, tool_results, skill_context, images, after)
        sent = to_send(self.system_prompt, *given)
        response = yield from require_pieces(self.reasoner.stream_reason(list(sent.messages)))
        return self._finish(response, sent, session)

    def stream(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> Stream:
        """Take one turn like ``execute_stream``, as an object that any thread may close.

        ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images``, ``after`` and what
        is raised are those of ``execute``. Nothing is sent before the first piece is asked for.
        """
        given = (prompt, session, tool_results, skill_context)
        return Stream(self.execute_stream(*given, images=images, after=after))

    async def aexecute(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> Response:
        """Take one turn like ``execute``, in a thread of its own; cancelling the task stops the model.

        ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images``, ``after`` and what
        is raised are those of ``execute``.
        """
        from ore.reasoner.awaiting import awaited

        given = (prompt, session, tool_results, skill_context)
        return await awaited(lambda: self.execute(*given, images=images, after=after), session)

    def astream(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> AsyncStream:
        """Take one turn like ``stream``, for ``async for``; cancelling the task stops the model.

        ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images``, ``after`` and what
        is raised are those of ``execute``.
        """
        from ore.reasoner.awaiting import AsyncStream

        given = (prompt, session, tool_results, skill_context)
        return AsyncStream(self.stream(*given, images=images, after=after), session)

    def record(
        self,
        response: Response,
        *,
        persona: str | None = None,
        session: str | None = None,
        parent: ExecutionArtifact | Path | str | None = None,
        routing: RoutingDecision | None = None,
        grants: Iterable[str] = (),
        continuation: str | None = None,
        full: bool = False,
        system_text: bool | None = None,
    ) -> ExecutionArtifact:
        """Return the sealed artifact of a turn of this engine's; may ask its server for a digest.

        Args:
            response: What ``execute``, or a stream of the engine, has returned: the very object.
            persona: The name of the persona that the system prompt is, if it is one.
            session: The name that the session is saved under, by which a replay finds its messages.
            parent: The run that this one was made from, as an artifact or a file; None is ``after``. The
                model has read its answer, its turn is in the session, or its prompt was asked again.
            routing: What the router chose, or None.
            grants: The permissions that tools were granted, by their names.
            continuation: Why more is to follow, or None.
            full: Whether the messages themselves are kept, too.
            system_text: Whether the system prompt's text is kept; None keeps one of up to 64 KiB.

        Raises:
            UsageError: No engine has returned that response, or it has nothing of its ``parent``.
            ArtifactError: It holds what an artifact can't, or ``parent`` can't be read.
        """
        made: ExecutionArtifact = import_module("ore.glass.recording").record(
            self,
            response,
            persona=persona,
            session=session,
            parent=parent,
            routing=routing,
            grants=grants,
            continuation=continuation,
            full=full,
            system_text=system_text,
        )
        return made

    def plan(
        self,
        prompt: str,
        session: Session | None = None,
        tool_results: list[ToolResult] | None = None,
        skill_context: list[str] | None = None,
        *,
        images: Sequence[bytes] | None = None,
        after: ExecutionArtifact | None = None,
    ) -> Plan:
        """Return what ``execute`` would send, and what the model would read; nothing is generated.

        ``prompt``, ``session``, ``tool_results``, ``skill_context``, ``images``, ``after`` and what
        is raised are those of ``execute``.
        """
        given = (prompt, session, tool_results, skill_context, images, after)
        sent = to_send(self.system_prompt, *given)
        made: Plan = import_module("ore.glass.planning").plan(self, sent)
        return made

    def close(self) -> None:
        """Close the reasoner. May be called twice."""
        self.reasoner.close()

    @staticmethod
    def _finish(returned: object, sent: Sent, session: Session | None) -> Response:
        response = note_sent(require_response(returned), sent)
        if session is not None:
            add_unless_stopped(session.messages, [sent.messages[-1], _answer(response, session)])
        return response


def _answer(response: Response, session: Session) -> Message:
    """Return the response as a message of the same id, but that no two in a session have one id."""
    if any(message.id == response.id for message in session.messages):
        return Message("assistant", response.content)
    return Message("assistant", response.content, response.id)
