"""Running ORE's ``main`` in process: real parser, modes, store and console; a scripted model."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ore.backends import Backend, Progress
from ore.backends.settings import Settings
from ore.cli.terminal.console import Console
from ore.errors import ModelNotFoundError
from ore.reasoner import Reasoner
from ore.types import Message, Response

METADATA = {
    "eval_count": 7,
    "prompt_eval_count": 21,
    "eval_duration": 70_000_000,
    "prompt_eval_duration": 30_000_000,
}


class ScriptedReasoner(Reasoner):
    """Answers from a list; an exception in the list is raised, a list is streamed in chunks.

    An exception inside a streamed list is raised at that point. ``calls`` holds the messages of
    each call, ``closed`` how many streams were closed or exhausted.
    """

    def __init__(self, replies: Sequence[Any], model_id: str = "scripted") -> None:
        self.replies = list(replies)
        self.model_id = model_id
        self.calls: list[list[Message]] = []
        self.closed = 0
        self.metadata = dict(METADATA)

    def _next(self, messages: list[Message]) -> Any:
        self.calls.append(list(messages))
        reply = self.replies.pop(0) if self.replies else "(no reply was scripted)"
        if isinstance(reply, BaseException):
            raise reply
        return reply(messages) if callable(reply) else reply

    def reason(self, messages: list[Message]) -> Response:
        reply = self._next(messages)
        for chunk in reply if isinstance(reply, list) else ():
            if isinstance(chunk, BaseException):
                raise chunk
        content = "".join(reply) if isinstance(reply, list) else reply
        return Response(content, self.model_id, metadata=dict(self.metadata))

    def stream_reason(self, messages: list[Message]) -> Generator[str, None, Response]:
        reply = self._next(messages)
        chunks = reply if isinstance(reply, list) else [reply]
        try:
            for chunk in chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                yield chunk
        finally:
            self.closed += 1
        return Response("".join(chunks), self.model_id, metadata=dict(self.metadata))


class ScriptedBackend(Backend):
    """A backend whose one reasoner follows a script."""

    name = "scripted"

    def __init__(self, replies: Sequence[Any] = (), models: Sequence[str] = ("scripted",)) -> None:
        self.installed = list(models)
        self.engine = ScriptedReasoner(replies)
        self.settings: Settings | None = None
        self.pulled: list[str] = []

    def models(self) -> list[str]:
        return self.installed

    def default_model(self) -> str | None:
        return self.installed[0] if self.installed else None

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        progress("reading", 1, 2)
        self.pulled.append(f"{name} over http" if insecure else name)

    def licenses(self, model_id: str) -> list[str]:
        return ["SCRIPTED LICENSE 1.0\n\nDo as you like.\n"]

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        if model_id not in self.installed:
            raise ModelNotFoundError(f"There is no model '{model_id}'.", model=model_id)
        self.settings = settings
        self.engine.model_id = model_id
        return self.engine


XTERM = {"TERM": "xterm", "NO_COLOR": "1"}
"""The environment of a terminal that can draw a line again, and has no colours."""


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class TypedInput(io.BytesIO):
    """Standard input that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Result:
    """What one run did: exit code, both streams, and what the model was sent."""

    code: int
    out: str
    err: str
    backend: ScriptedBackend = field(repr=False)

    @property
    def calls(self) -> list[list[Message]]:
        return self.backend.engine.calls

    @property
    def prompts(self) -> list[str]:
        """The last message of every call: what the user asked."""
        return [messages[-1].content for messages in self.calls]

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_ore(
    *args: str,
    stdin: str | bytes | None = None,
    replies: Sequence[Any] = ("Paris.",),
    models: Sequence[str] = ("scripted",),
    terminal: str = "",
    metadata: dict[str, Any] | None = None,
    open_backend: Callable[..., Backend] | None = None,
) -> Result:
    """Run ``main`` with the given arguments.

    Args:
        stdin: What is piped in, or typed where stdin is a terminal; None is a closed stdin.
        replies: One item per turn: see ``ScriptedReasoner``.
        metadata: What the reasoner says of each turn besides the four counts.
        terminal: Which of ``in``, ``out``, ``err`` are terminals, separated by spaces.
    """
    from ore.cli import main

    ends = terminal.split()
    data = stdin.encode() if isinstance(stdin, str) else stdin
    source = None if data is None else (TypedInput if "in" in ends else io.BytesIO)(data)
    out = Terminal() if "out" in ends else io.StringIO()
    err = Terminal() if "err" in ends else io.StringIO()
    backend = ScriptedBackend(replies, models)
    backend.engine.metadata.update(metadata or {})
    code = main(
        list(args),
        console=Console(source, out, err, XTERM),
        open_backend=open_backend or (lambda *_: backend),
    )
    return Result(code, out.getvalue(), err.getvalue(), backend)
