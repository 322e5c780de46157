"""How likely a given text is as an answer of the embedded engine's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ore.backends.engine import Engine
from ore.backends.engine_prompt import prompt_of
from ore.backends.http import Deadline
from ore.backends.llama_score import Asking, well_formed
from ore.backends.llama_tokens import tokens_of
from ore.backends.settings import Settings
from ore.types import Message


@contextmanager
def asking(
    engine: Engine,
    model_id: str,
    messages: list[Message],
    request: dict[str, Any],
    settings: Settings,
    deadline: Deadline,
) -> Iterator[Asking]:
    """Yield what scores answers to messages; ``request`` is what a turn sends besides them."""
    with well_formed(engine.name):
        prompt = prompt_of(engine, messages, request, deadline, joins=settings.joins).rendered
        tokens = [number for number, _ in tokens_of(engine, prompt, deadline)]
        yield Asking(engine, model_id, prompt, tokens, settings.timeout, deadline)
