"""What a run was made on and with, in a few words that name neither a date nor a path."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

from benchmarks.place import Place
from ore import __version__
from ore.files.bounded import usable_processors

OURS = ("ollama", "httpx", "pydantic")
PEERS = ("llm", "llm-ollama")


def described(here: Place) -> list[tuple[str, str]]:
    """Return what the machine and the packages are, as names and values."""
    peer = str(Path(here.peer).parent / "python") if here.peer else None
    return [
        ("machine", f"{usable_processors()} cores, {_processor()}, {platform.system()}"),
        ("file system", _file_system(here.folder)),
        ("Python", platform.python_version()),
        ("ORE", __version__),
        *_versions(here.python, OURS),
        *(_versions(peer, PEERS) if peer else []),
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _file_system(disk: Path) -> str:
    """Return the type of the file system that a folder is on, where the system says so."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "not known"
    found = ("", "not known")
    for line in mounts:
        _, point, kind, *_ = line.split()
        if disk.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def _versions(python: str, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the versions of packages, asked of the Python that imports them."""
    code = f"from importlib.metadata import version; print(*map(version, {names!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return list(zip(names, done.stdout.split()))
