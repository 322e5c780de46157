"""What this machine has for the embedded engine: processor features and cores.

Knows nothing about models; reads only what the system says of itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_NEEDED = {"avx2", "bmi2", "f16c", "fma"}  # what the engine's wheels for x86-64 are built with
_CPU_INFO = Path("/proc/cpuinfo")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_CHECK_SECONDS = 60


def missing_features(cpu_info: str) -> set[str]:
    """Return what the engine needs and a processor lacks, from the text of ``/proc/cpuinfo``.

    A processor that lists no ``flags`` is no x86-64 and lacks nothing.
    """
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return _NEEDED - set(value.split())
    return set()


def can_import(module: str) -> bool:
    """Return whether this processor can run a native module, without risking this process.

    An illegal instruction can't be caught. Where the system lists the processor's features they
    are looked up; elsewhere a child imports the module, and an error that Python can report is
    left to the real import.
    """
    if _CPU_INFO.exists():
        return not missing_features(_read(_CPU_INFO))
    try:
        child = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path = {sys.path!r}; import {module}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_CHECK_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return child.returncode in (0, 1)  # 1: an exception; anything else: it was killed


def thread_count() -> int:
    """Return how many threads to compute with: one a physical core that this process may use.

    A second thread on a core slows the engine down. A limit on processor time (a container's) is
    rounded up to whole cores.
    """
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    physical = physical_cores(_read(_CPU_INFO)) or usable
    return max(1, min(usable, physical, quota_cores(_read(_CPU_QUOTA)) or usable))


def physical_cores(cpu_info: str) -> int:
    """Return how many physical cores ``/proc/cpuinfo`` lists; 0 where it does not say."""
    cores, package = set(), ""
    for line in cpu_info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "physical id":
            package = value.strip()
        elif name.strip() == "core id":
            cores.add((package, value.strip()))
    return len(cores)


def quota_cores(cpu_max: str) -> int:
    """Return a control group's limit in cores, from the text of ``cpu.max``; 0 without one."""
    quota, _, period = cpu_max.strip().partition(" ")
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return 0
    return max(1, -(-int(quota) // int(period)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
