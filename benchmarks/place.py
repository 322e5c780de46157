"""Where everything is measured: folders, an environment, a server of its own, and the peer.

Nothing is left behind: all of it is in one folder that is taken away. Knows nothing about what is
measured there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Comparison

ROOT = Path(__file__).parent.parent
PYTHON = sys.executable
MAIN = str(ROOT / "main.py")
MODEL = "llama3.2"
PEER_MODEL = f"ollama/{MODEL}"


@dataclass(frozen=True)
class Place:
    """What a measurement is made with.

    Attributes:
        folder: A folder on the disk that is measured.
        environ: The environment of what is run: a home of its own with a ``.env`` in it, and
            nothing of the user's ``ORE_`` variables.
        runs: How often each case is run.
        is_quick: Whether few and small cases are enough.
        python: The interpreter that runs ORE and the scripts beside it.
        peer: The program of the peer, or None.
    """

    folder: Path
    environ: dict[str, str]
    runs: int
    is_quick: bool
    python: str = PYTHON
    peer: str | None = None

    def ore(self, *arguments: str) -> tuple[str, ...]:
        """Return ORE's command line."""
        return (self.python, MAIN, *arguments)

    def script(self, text: str, *arguments: str) -> tuple[str, ...]:
        """Return the command line of a Python script that is given as text."""
        return (self.python, "-c", text, *arguments)

    def for_peer(self, url: str = "http://127.0.0.1:9") -> dict[str, str]:
        """Return the environment that the peer is run in, with a server's address."""
        return {**self.environ, "OLLAMA_HOST": url}


@dataclass(frozen=True)
class Topic:
    """Something that is measured.

    Attributes:
        name: What ``--only`` calls it.
        title: Its heading.
        text: What its figures mean, as Markdown.
        measure: Does it; may raise ``NotHere``.
    """

    name: str
    title: str
    text: str
    measure: Callable[[Place], list[Comparison]]


class NotHere(Exception):
    """Something can't be measured on this machine; the text is the reason, without a full stop."""


@contextmanager
def place(disk: Path, runs: int, is_quick: bool) -> Iterator[Place]:
    """Make a place on a disk; it and all that is in it are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ore-benchmarks-", dir=disk) as name:
        folder = Path(name)
        (folder / ".ore").mkdir()
        (folder / ".ore/.env").write_text("ORE_BACKEND=ollama\n", encoding="utf-8")
        environ = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("ORE_", "OLLAMA_", "LLM_", "PYTHON"))
        }
        environ |= {
            "HOME": name,
            "PYTHONPATH": str(ROOT),
            # Compiled once, as for whoever installed it, and not into anybody's folders.
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "LLM_USER_PATH": str(folder / "llm"),
        }
        yield Place(folder, environ, runs, is_quick)


def install(folder: Path, requirements: str) -> Path:
    """Make a virtual environment, unless it is there, with packages in it; return its programs.

    Args:
        requirements: The file that names the packages, in the repository.

    Raises:
        OSError: It can't be made.
        subprocess.CalledProcessError: It can't be installed; ``stderr`` says why.
    """
    programs = folder / "bin"
    if not programs.is_dir():
        venv.create(folder, with_pip=True)
    command = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
    command += ["--disable-pip-version-check", "-r", str(ROOT / requirements)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return programs


def server(*options: str) -> AbstractContextManager[str]:
    """A stand-in for Ollama in a process of its own; yields its address.

    Args:
        options: Of ``tests.support.fake_ollama``.
    """
    return serving("-m", "tests.support.fake_ollama", *options)


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run a server of Python's in a process of its own; yields the line that it writes first."""
    process = subprocess.Popen([PYTHON, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate()
