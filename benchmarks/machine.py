"""What a run was made on and with, in a few words that name neither a date nor a path."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from ore import __version__

OURS = ("ollama", "PyYAML", "xllamacpp")
PEERS = ("llm", "llm-ollama")


def described(disk: Path, peer: str | None) -> list[tuple[str, str]]:
    """Return what the machine and the packages are, as names and values.

    Args:
        disk: A folder of the disk that was measured.
        peer: The peer's program, or None.
    """
    return [
        ("machine", f"{_cores()} cores, {_processor()}, {platform.system()}"),
        ("file system", _file_system(disk)),
        ("Python", platform.python_version()),
        ("ORE", __version__),
        *((name, version) for name in OURS if (version := _version(name))),
        *(_peers(peer) if peer else []),
    ]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _peers(peer: str) -> list[tuple[str, str]]:
    """Return the versions of the peer's packages, asked of its own Python."""
    code = f"from importlib.metadata import version; print(*map(version, {PEERS!r}))"
    python = str(Path(peer).parent / "python")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return list(zip(PEERS, done.stdout.split()))
