"""The prompt that the embedded engine makes of messages: each of them arrives, and it is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ore.backends.engine import Engine
from ore.backends.engine_failures import system_refused_error
from ore.backends.http import REPLY_LIMIT, Deadline
from ore.backends.joining import Groups, joined, left_out
from ore.backends.llama_tokens import tokens_of
from ore.backends.model_options import natural
from ore.backends.reading import Part, Reading, counted, missing_from, parts_of
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnRefusedError
from ore.backends.window import Estimate, estimate
from ore.errors import ContextTruncatedError
from ore.types import Message

_NO_TEMPLATE = (
    "The model has no chat template, perhaps because it was not trained to chat: the engine's own, "
    "ChatML, is used."
)
_CHATML = (
    "{%- for message in messages -%}\n  {{- '<|im_start|>' + message.role + '\n' + message.content + "
    "'<|im_end|>\n' -}}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n  {{- "
    "'<|im_start|>assistant\n' -}}\n{%- endif -%}"
)
"""What the engine takes where a file has no template."""
_MARKS = 2
"""What a tokenizer may put around a text: a mark before it, and one after."""
_FOLDED = (
    "The chat template has no system messages: the engine puts their text into the user's message."
)


@dataclass(frozen=True)
class Prompt:
    """Messages as the engine takes them, and what its template makes of them.

    Attributes:
        sent: The messages of the request.
        parts: What the prompt is made of.
        groups: Which messages were joined; None where none was.
        notes: What is to be known of it, in sentences.
    """

    sent: list[dict[str, str]]
    parts: list[Part]
    groups: Groups | None = None
    notes: tuple[str, ...] = ()

    @property
    def rendered(self) -> str:
        """The text that the model reads."""
        return "".join(part.text for part in self.parts)

    def as_metadata(self) -> dict[str, Any]:
        """Return what an answer's metadata says of its prompt."""
        return {
            "rendered_sha256": sha256(self.rendered.encode()).hexdigest(),
            **({} if self.groups is None else {"joined": self.groups}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


def prompt_of(
    engine: Engine,
    messages: list[Message],
    request: dict[str, Any],
    deadline: Deadline,
    *,
    joins: bool = True,
) -> Prompt:
    """Return the prompt for ``messages``.

    Args:
        request: What is sent besides the messages.
        joins: Whether messages are joined where one would not arrive otherwise.

    Raises:
        BackendError: The template refuses the messages, or leaves one out, joined too.
        BackendTimeoutError: The deadline has passed.
    """
    groups: Groups | None = None
    while True:
        try:
            return _made(engine, messages, groups, request, deadline)
        except TurnRefusedError as exc:
            fewer, found = joined(messages) if joins and groups is None else (messages, None)
            if found is None:
                raise _blaming_system(exc, engine, messages, request, deadline) from exc
            messages, groups = fewer, found


def _blaming_system(
    refused: TurnRefusedError,
    engine: Engine,
    messages: Sequence[Message],
    request: dict[str, Any],
    deadline: Deadline,
) -> TurnRefusedError:
    """Return the error for what was refused: of system messages, where the rest alone is taken."""
    rest = [message for message in messages if message.role != "system"]
    if not refused.said or not rest or len(rest) == len(messages):
        return refused
    try:
        _made(engine, rest, None, request, deadline)
    except TurnRefusedError:
        return refused
    return system_refused_error(refused.said, has_given_template=engine.has_given_template)


def _made(
    engine: Engine,
    messages: Sequence[Message],
    groups: Groups | None,
    request: dict[str, Any],
    deadline: Deadline,
) -> Prompt:
    sent = [{"role": message.role, "content": message.content} for message in messages]
    texts = [message.content for message in messages]

    def render(texts: Sequence[str]) -> str:
        pairs = zip(sent, texts, strict=True)
        asked = [{**each, "content": text} for each, text in pairs]
        return _rendered(engine, {**request, "messages": asked}, deadline)

    parts = parts_of(texts, render, TurnRefusedError)
    if lost := missing_from(parts, texts):
        left, is_blank = messages[lost[0]], not any(part.text.strip() for part in parts)
        is_given = engine.has_given_template
        raise TurnRefusedError(left_out(left, has_given_template=is_given, is_blank=is_blank))
    folds = not engine.takes_system and any(message.role == "system" for message in messages)
    notes = [_NO_TEMPLATE] if engine.template == _CHATML else []
    return Prompt(sent, parts, groups, (*notes, _FOLDED) if folds else tuple(notes))


def planned_tokens(
    engine: Engine, prompt: Prompt, settings: Settings, deadline: Deadline
) -> int | None:
    """Return how many tokens a prompt has, before it is read; None where it surely fits.

    Where the answer is left less than it may have (``num_predict``), it is warned of.

    Raises:
        ContextTruncatedError: The prompt does not fit the window; or, with strict context, the
            answer would have less room than it may have.
    """
    window, limit = engine.window, natural(settings.options, "num_predict") or 0
    most = len(prompt.rendered.encode()) + _MARKS
    if not settings.strict_context and most + limit < window:
        return None
    if (least := estimate([prompt.rendered.encode()]).least) > 2 * window:  # counting takes long
        said = f"The prompt has {least} tokens at least and the model's window holds {window}"
        raise _no_room(said, engine, least)
    tokens = len(_pieces(engine, prompt.rendered, deadline))
    if tokens >= window:
        said = f"The prompt has {tokens} tokens and the model's window holds {window}"
        raise _no_room(said, engine, tokens)
    if (left := window - tokens) < limit:
        said = (
            f"The prompt has {tokens} of the {window} tokens of the context window: {left} "
            f"{'is' if left == 1 else 'are'} left "
            f"for the answer, less than `options[num_predict={limit}]`"
        )
        if settings.strict_context:
            raise _no_room(said, engine, tokens + limit - 1, "lower `options['num_predict']`")
        if settings.on_warning is not None:
            larger = (
                "" if window >= engine.longest else "; `options['num_ctx']` makes the window larger"
            )
            settings.on_warning(f"{said}{larger}.")
    return tokens


def _no_room(
    said: str, engine: Engine, tokens: int, step: str = "shorten the prompt"
) -> ContextTruncatedError:
    larger = "raise the window with `options['num_ctx']`"
    if max(tokens, engine.window) >= engine.longest:  # the model was trained with no larger one
        larger = "use a model with a larger window"
    return ContextTruncatedError(f"{said}, so nothing was sent to the model: {step}, or {larger}.")


def read(
    engine: Engine,
    messages: list[Message],
    request: dict[str, Any],
    deadline: Deadline,
    *,
    joins: bool = True,
) -> Reading:
    """Return what the model reads of a turn, counted; for the rest, see ``prompt_of``."""
    prompt = prompt_of(engine, messages, request, deadline, joins=joins)
    pieces = _pieces(engine, prompt.rendered, deadline)
    size, limit = len(pieces), request["max_tokens"]
    return Reading(
        Estimate(size, size, size),
        counted(prompt.parts, pieces),
        window=engine.window,
        limit=limit if limit >= 0 else None,
        rendered=prompt.rendered,
        groups=prompt.groups,
        notes=prompt.notes,
    )


def _rendered(engine: Engine, request: dict[str, Any], deadline: Deadline) -> str:
    """Return the prompt that the chat template makes of a request."""
    longest = REPLY_LIMIT + 8 * sum(len(message["content"]) for message in request["messages"])
    return str(engine.posted("/apply-template", request, longest, deadline)["prompt"])


def _pieces(engine: Engine, text: str, deadline: Deadline) -> list[bytes]:
    """Return the tokens that a prompt is read as, each as the text that it stands for."""
    return [piece for _, piece in tokens_of(engine, text, deadline)]
