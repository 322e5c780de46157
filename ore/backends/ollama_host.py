"""The address of an Ollama server: the flag, the variable or the default, and the key for it.

Opens no connection and resolves no name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ore.backends.address import Host, is_loopback, normalised, sendable, unquoted
from ore.errors import UsageError

DEFAULT_URL = "http://127.0.0.1:11434"
DEFAULT_PORT = 11434

_CLOUD = "ollama.com"


def resolve_host(flag: str | None = None, environ: Mapping[str, str] | None = None) -> Host:
    """Return the server to ask: ``--host``, else ``OLLAMA_HOST``, else the default address.

    A blank ``OLLAMA_HOST`` counts as not set; a blank ``--host`` is an error.

    Raises:
        UsageError: The value that was given is no address.
    """
    if flag is not None:
        return Host(normalise_host(flag, "--host"), "--host")
    named = (os.environ if environ is None else environ).get("OLLAMA_HOST", "")
    if unquoted(named):
        return Host(normalise_host(named, "OLLAMA_HOST"), "OLLAMA_HOST")
    return Host(DEFAULT_URL, "default")


def as_host(host: str | Host | None) -> Host:
    """Return ``host`` as a ``Host``; None is what ``resolve_host`` finds in the environment.

    Raises:
        UsageError: The text is no address.
    """
    if isinstance(host, Host):
        return host
    return resolve_host() if host is None else Host(normalise_host(host, "host"))


def normalise_host(text: str, source: str = "host") -> str:
    """Return ``scheme://host:port[/path]`` for what a user may write as an Ollama server's address.

    As Ollama's own command line does: the port defaults to 11434, ``ollama.com`` means https; the
    rest is as in ``ore.backends.address.normalised``.

    Raises:
        UsageError: It is no address; the message names the value and ``source``.
    """
    named = unquoted(text).partition("/")[0].removesuffix(":").lower()
    return normalised(
        f"https://{unquoted(text)}" if named == _CLOUD else text, source, DEFAULT_PORT
    )


def authorization(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the ``Authorization`` header for a server: ``OLLAMA_API_KEY``, if it can be sent.

    Raises:
        UsageError: The key can't stand in a header, and the server is not this machine.
    """
    named = (os.environ if environ is None else environ).get("OLLAMA_API_KEY", "")
    try:
        key = sendable(named, "OLLAMA_API_KEY", url)
    except UsageError:
        if is_loopback(url):
            return None
        raise
    return f"Bearer {key}" if key else None
