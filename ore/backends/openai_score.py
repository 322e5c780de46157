"""How likely a given text is as an answer of a model on a server: llama.cpp's and vLLM's can be asked."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ore.backends.address import Host
from ore.backends.failures import OPENAI, no_model_error
from ore.backends.http import Deadline, shorten
from ore.backends.llama_score import Asking, well_formed
from ore.backends.llama_tokens import tokens_of
from ore.backends.openai_beside import known
from ore.backends.openai_client import Call
from ore.backends.openai_models import (
    LOOK_UP_SECONDS,
    NoListError,
    entry_of,
    listed,
    names_of,
    window_of,
)
from ore.backends.openai_request import request_of
from ore.backends.openai_template import arriving
from ore.backends.settings import Settings
from ore.backends.vllm_score import VLLM, VllmAsking
from ore.errors import BackendError, CapabilityError, ModelNotFoundError
from ore.types import Message

LLAMA = "llamacpp"
"""The owner of the models that llama.cpp's server lists."""


@dataclass(frozen=True)
class Server:
    """A model on llama.cpp's server; see ``ore.backends.llama_tokens.Llama``."""

    host: Host
    key: str | None = field(repr=False)
    model: str
    window: int
    silence: float | None
    larger_window: str = "Start the server with a larger one (its -c), or shorten them."

    @property
    def name(self) -> str:
        return f"The server at {self.host}"

    def posted(
        self, path: str, request: dict[str, Any], longest: int, deadline: Deadline
    ) -> dict[str, Any]:
        """Return what it answers, which is ``REPLY_LIMIT`` bytes long at most, whatever ``longest``."""
        call = Call(self.host, self.key, timeout=self.silence, deadline=deadline)
        with closing(call), known(call, self.host, path):
            return call.ask(path, {"model": self.model, **request})

    def events(
        self,
        request: dict[str, Any],
        *,
        silence: float | None,
        deadline: Deadline,
        path: str,
        longest: int = 0,
        is_marked: bool = False,
    ) -> Generator[dict[str, Any]]:
        """Yield the events of one request; a mark at their end is taken where there is one."""
        body = {"model": self.model, **request, "stream": True, "return_progress": True}
        with closing(Call(self.host, self.key, timeout=silence, deadline=deadline)) as call:
            try:
                with known(call, self.host, path):
                    yield from call.events(path, body, longest)
            except BackendError as exc:
                if "grammar" not in str(exc):
                    raise
                raise CapabilityError(
                    f"{self.name} takes no grammar of tokens, so it can't say how likely a text is: "
                    f"use a later llama.cpp (December 2025 or newer), or `reasoner('embedded:NAME')`.",
                    host=self.host.url,
                ) from exc


@contextmanager
def asking(
    host: Host,
    key: str | None,
    model_id: str,
    messages: list[Message],
    settings: Settings,
) -> Iterator[Asking | VllmAsking]:
    """Yield what scores answers to messages.

    Args:
        host, key: The server, and the key to send, or None.

    Raises:
        CapabilityError: The server has no way to say it, or not after images.
    """
    deadline, silence = Deadline.of_turn(settings.deadline), settings.timeout
    seconds = min(silence or LOOK_UP_SECONDS, LOOK_UP_SECONDS)
    try:
        found = listed(host, key, deadline, seconds)
    except NoListError as exc:
        raise _no_way(host, " If it is one, check the address; it often ends in /v1.") from exc
    entry = entry_of(found, (model_id,))
    owner, window = entry.get("owned_by"), window_of(entry)
    owners = [each.get("owned_by") for each in found]
    is_routed = "status" in entry  # by llama.cpp's, which answers for its own names only
    lacks = is_routed and model_id not in names_of(entry)
    if lacks or not entry and (VLLM in owners or LLAMA in owners):
        raise no_model_error(host, model_id, OPENAI, tuple(each["id"] for each in found))
    if owner == LLAMA and window is None:
        raise _no_window(host, model_id, found)
    if owner not in (VLLM, LLAMA):
        raise _no_way(host)
    if any(message.images for message in messages):
        raise CapabilityError("No text can be scored as an answer to images: leave `images=` out.")
    if settings.joins:
        messages, _ = arriving(messages, host, key, deadline)
    request = request_of(model_id, messages, settings)
    with _named(host, model_id, found):
        if owner == VLLM or window is None:
            if settings.think is not None:
                raise CapabilityError(
                    "vLLM scores a text without thinking only: leave `think=` out."
                )
            laid = VllmAsking(host, key, model_id, request["messages"], silence, deadline)
            with well_formed(laid.name):
                yield laid
            return
        server = Server(host, key, model_id, window, silence)
        with well_formed(server.name):
            call = Call(host, key, timeout=silence, deadline=deadline)
            with closing(call), known(call, host, "/apply-template"):
                prompt = call.applied(request.pop("messages"), **request)
            tokens = [number for number, _ in tokens_of(server, prompt, deadline)]
            # It answers for any name with the model that it lists.
            answers = model_id if model_id in names_of(entry) else shorten(entry["id"])
            yield Asking(server, answers, prompt, tokens, silence, deadline)


@contextmanager
def _named(host: Host, model_id: str, found: list[dict[str, Any]]) -> Iterator[None]:
    """Name the model, and those that the server lists, where it says in the block that it lacks it."""
    try:
        yield
    except ModelNotFoundError as exc:
        names = tuple(each["id"] for each in found)
        if model_id in names:
            raise
        raise no_model_error(host, model_id, OPENAI, names) from exc


def _no_way(host: Host, more: str = "") -> CapabilityError:
    return CapabilityError(
        f"The server at {host} can't say how likely a given text is: llama.cpp's and vLLM's can, and so "
        f"can `reasoner('embedded:NAME')`.{more}",
        host=host.url,
    )


def _no_window(host: Host, model_id: str, found: list[dict[str, Any]]) -> CapabilityError:
    """The list of llama.cpp's server says no window, as its router's does of what is not loaded."""
    can = [
        shorten(each["id"]) for each in found if each.get("owned_by") == LLAMA and window_of(each)
    ]
    others = f", or use one that is: {', '.join(can[:20])}" if can else ""
    return CapabilityError(
        f"The server at {host} does not say how large the context window of '{shorten(model_id)}' is, as "
        f"llama.cpp's router does not before a model is loaded, so no text can be scored: ask it for an "
        f"answer first{others}. If that does not help, start llama.cpp's server with this model alone.",
        host=host.url,
    )
