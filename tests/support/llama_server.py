"""llama.cpp's own server with a real model, on a port: ``python -m tests.support.llama_server MODEL``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEY, WINDOW = "key-of-the-tests", 1024


@contextmanager
def llama_server(model: Path) -> Iterator[str]:
    """Run it for the block, and yield its address; it wants ``KEY`` and its window is ``WINDOW``."""
    command = [sys.executable, "-m", "tests.support.llama_server", str(model)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def main(model: str) -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.verbosity, parameters.offline, parameters.ui = -1, True, False
    parameters.api_keys = [KEY]
    parameters.n_ctx, parameters.n_parallel, parameters.cache_ram_mib = WINDOW, 1, 0
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
