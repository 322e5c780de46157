"""Whether an Ollama server answers at an address, asked without an HTTP library."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

from ore.backends.http import REFUSAL_LIMIT, Deadline

_PROBE_SECONDS = 2.0


def answers(url: str, seconds: float = _PROBE_SECONDS) -> bool:
    """Tell whether an Ollama server answers at an http address within ``seconds``.

    Imports no HTTP library: where nobody is there, that would be most of the work.
    """
    parts, deadline, reply = urlsplit(url), Deadline(seconds), b""
    try:
        with socket.create_connection((parts.hostname, parts.port or 80), seconds) as connection:
            head = f"GET {parts.path}/api/version HTTP/1.0\r\nHost: {parts.netloc}\r\n"
            head += "Connection: close\r\n\r\n"
            connection.sendall(head.encode("ascii"))
            while len(reply) < REFUSAL_LIMIT:
                connection.settimeout(deadline.wait(None))
                if not (data := connection.recv(REFUSAL_LIMIT)):
                    break
                reply += data
        status, _, body = reply.partition(b"\r\n\r\n")
        return b" 200 " in status.splitlines()[0] and isinstance(json.loads(body)["version"], str)
    except (OSError, LookupError, TypeError, ValueError, RecursionError):
        return False
