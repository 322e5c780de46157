"""What the embedded engine needs of a processor, and how many threads compute best on it."""

from __future__ import annotations

import math
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from ore.files.bounded import usable_processors

_NEEDED = {"avx2", "bmi2", "f16c", "fma"}  # what the engine's wheels for x86-64 are built with
SMALL_MODEL_BYTES = 128 << 20
_FEW_PAGES = 256
_MUCH_BYTES = 128 << 20
_RESIDENT, _SHARED, _TIMES = 1, 2, slice(11, 13)  # of /proc/PID/statm, and of stat behind the name
_STOPPED, _STOP_SECONDS = (["T"], ["t"]), 1.0
_MEMORY, _CPU_INFO = Path("/proc/meminfo"), Path("/proc/cpuinfo")
_GROUPS = Path("/sys/fs/cgroup")
_CPU_QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
_MEMORY_QUOTAS = (("memory.max",), ("memory/memory.limit_in_bytes",))
"""Where a control group's limits stand, by their version: 2, and 1."""


class Circles:
    """Finds out that a process computes, and gets no further with the files that it has mapped.

    It gets further as it reads a page of them, and as it takes much more memory: once all is read, a
    large model's weights are put in another order, and its window's memory is cleared. Where the system
    does not say it (``/proc``), nothing is found out.

    Args:
        process: Its id.
    """

    def __init__(self, process: int) -> None:
        self._proc = Path(f"/proc/{process}")
        self._pages, self._own, self._since = 0, 0, 0.0

    def seconds(self) -> float:
        """Return for how many seconds of processor time it has done so."""
        memory = _text_of(self._proc / "statm").split()
        times = _status_of(self._proc)[_TIMES]
        if len(memory) < _SHARED + 1 or not times:
            return 0.0
        pages, computed = int(memory[_SHARED]), sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        own = (int(memory[_RESIDENT]) - pages) * os.sysconf("SC_PAGE_SIZE")
        if abs(pages - self._pages) > _FEW_PAGES or own - self._own > _MUCH_BYTES:
            self._pages, self._own, self._since = pages, max(own, self._own), computed
        return computed - self._since


class Stops:
    """Counts how long a process, or this one that waits for it, is stopped (Ctrl-Z) and can do nothing.

    It has to be looked at several times a second.

    Args:
        process: Its id.
    """

    def __init__(self, process: int) -> None:
        self._proc = Path(f"/proc/{process}")
        self._looked, self._seconds = time.monotonic(), 0.0

    def seconds(self) -> float:
        """Return for how many seconds it was so since this was made."""
        now = time.monotonic()
        passed, self._looked = now - self._looked, now
        state = _status_of(self._proc)[:1]
        if state in _STOPPED or passed > _STOP_SECONDS:  # nobody looked for so long: this one was
            self._seconds += passed
        return self._seconds


def lacking() -> set[str]:
    """Return what the engine needs and this processor lacks."""
    return missing_features(_text_of(_CPU_INFO))


def missing_features(cpu_info: str) -> set[str]:
    """Return what the engine needs and a processor lacks, from the text of ``/proc/cpuinfo``."""
    flags = _values(cpu_info, "flags")  # there are none on other processors than x86-64
    return _NEEDED - set(flags[0].split()) if flags else set()


def thread_count() -> int:
    """Return how many threads to compute with; a second one on a core slows the engine down."""
    usable = usable_processors()
    physical = physical_cores(_text_of(_CPU_INFO)) or usable
    return min(usable, physical, quota_cores(_quota(_CPU_QUOTAS)) or usable)


def generating_threads(threads: int, model_bytes: int) -> int:
    """Return how many of ``threads`` generate with a model of a size; all read a prompt.

    Threads wait for each other some hundred times a token: of a small model, more than two were not
    measured (``docs/tried.md``). What else the machine computes must not count, though a second thread
    is slow beside it: behind a prompt of some hundred tokens, another number of threads gives other last
    digits, and so another answer.
    """
    return threads if model_bytes >= SMALL_MODEL_BYTES else min(threads, 2)


def physical_cores(cpu_info: str) -> int:
    """Return how many physical cores ``/proc/cpuinfo`` lists; 0 where it does not say."""
    return len(set(zip(_values(cpu_info, "physical id"), _values(cpu_info, "core id"))))


def _values(cpu_info: str, name: str) -> list[str]:
    pairs = (line.partition(":") for line in cpu_info.splitlines())
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def quota_cores(cpu_max: str) -> int:
    """Return a control group's limit in whole cores, from its quota and period; 0 without one."""
    with suppress(ValueError, ZeroDivisionError):
        quota, period = map(int, cpu_max.split())
        return max(1, math.ceil(quota / period)) if quota > 0 else 0
    return 0


def free_bytes() -> int | None:
    """Return how much memory programs can still get; None where the system does not say it.

    What the system keeps of files counts as free, and a control group's limit is one.
    """
    return free_memory(_text_of(_MEMORY), _quota(_MEMORY_QUOTAS))


def free_memory(mem_info: str, memory_max: str) -> int | None:
    """Return the free bytes from the texts of ``/proc/meminfo`` and of ``memory.max``."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", mem_info, re.M)
    if found is None:
        return None
    free = int(found[1]) << 10
    return min(free, int(memory_max)) if memory_max.strip().isdecimal() else free


def memory_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _status_of(proc: Path) -> list[str]:
    return _text_of(proc / "stat").rpartition(")")[2].split()


def _quota(versions: tuple[tuple[str, ...], ...]) -> str:
    """Return what the control group says of a limit, in the words of version 2; empty without one."""
    texts = ("".join(_text_of(_GROUPS / name) for name in names) for names in versions)
    return next(filter(None, texts), "")


def _text_of(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
