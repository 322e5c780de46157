"""A real Ollama server, and ORE asked about it, for the checks by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0  # seconds for one command, on a busy machine
WINDOW = 512  # tokens
NOT_PASSED_ON = ("ORE_", "OLLAMA_", "OPENAI_")


class Server:
    """A real server, and ORE as a process of its own in an empty home.

    Args:
        host: The server's address.
        model: The model to ask.
        home: An empty folder.
    """

    def __init__(self, host: str, model: str, home: Path) -> None:
        self.host, self.model, self.home = host, model, home

    def ask(self, path: str, document: Any = None, method: str | None = None) -> Any:
        """Ask the server itself, without ORE; return its JSON."""
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.host + path, data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def ore(self, *args: str, code: int = 0, stdin: str = "", **env: str) -> tuple[str, str]:
        """Run ORE, which has to end with ``code``; return both of its streams."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
        done = subprocess.run(
            [sys.executable, "-m", "ore", *args],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.home,
            env={
                **environ,
                "HOME": str(self.home),
                "PYTHONPATH": str(ROOT),
                "ORE_TRACEBACK": "1",
                **env,
            },
            timeout=PATIENCE,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code and "Traceback" not in err, (args, done.returncode, out, err)
        return out, err

    def turn(self, prompt: str, *flags: str, model: str = "", window: int | None = WINDOW) -> dict:
        """Take a turn of a few tokens; return what became of its prompt."""
        limits = ("-o", "num_predict=8", "-o", "temperature=0")
        limits += () if window is None else ("-o", f"num_ctx={window}")
        asked = ("--host", self.host, "--model", model or self.model, "--no-system", "--json")
        out, _ = self.ore(*asked, *limits, *flags, stdin=prompt)
        return json.loads(out)["metadata"]["context"]
