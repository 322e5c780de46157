"""Where the OpenAI-compatible server of a run is, and which key it may be sent.

Opens no connection, and never shows a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from ore.backends.address import Host, normalised, sendable, unquoted
from ore.errors import UsageError


def resolve_server(flag: str | None, environ: Mapping[str, str]) -> Host:
    """Return the server to ask: ``--host``, else ``OPENAI_BASE_URL``; ``/v1`` is its usual path.

    There is no default: where prompts go has to be said.

    Raises:
        UsageError: No server was named, or the value is no address.
    """
    source = "--host" if flag is not None else "OPENAI_BASE_URL"
    text = unquoted(flag if flag is not None else environ.get(source, ""))
    if not text:
        raise UsageError(
            "The openai backend needs a server: name it with --host URL or OPENAI_BASE_URL, as in "
            "http://127.0.0.1:8000/v1."
        )
    url = normalised(text, source, 80)
    return Host(url if urlsplit(url).path else f"{url}/v1", source)


def key_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return ``OPENAI_API_KEY`` if it can be sent: see ``ore.backends.address.sendable``.

    Raises:
        UsageError: It holds characters that no key has.
    """
    return sendable(environ.get("OPENAI_API_KEY", ""), "OPENAI_API_KEY", url)
