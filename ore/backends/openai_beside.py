"""What a server is asked beside the OpenAI protocol, where something between may pass on only that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ore.backends.address import Host
from ore.backends.openai_client import Call
from ore.errors import BackendError, CapabilityError, ModelNotFoundError

_UNKNOWN = (404, 405)


@contextmanager
def known(call: Call, host: Host, path: str) -> Iterator[None]:
    """Raise ``CapabilityError`` where what ``call`` asks in the block is a question that nobody knows."""
    try:
        yield
    except ModelNotFoundError:
        raise
    except BackendError as exc:
        if call.status not in _UNKNOWN:
            raise
        way = ""
        if path.startswith("/"):  # beside the protocol
            way = "name the server itself if a proxy before it passes on /v1 only, or "
        raise CapabilityError(
            f"The server at {host} does not know /{path.lstrip('/')}, which ORE needs to score a text: "
            f"{way}use a later one, or `reasoner('embedded:NAME')`.",
            host=host.url,
        ) from exc
