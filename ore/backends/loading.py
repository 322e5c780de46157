"""Starting the embedded engine: is it installed, can it run here, what does the model's file say.

All of it is found out before native code sees anything. The only module that imports the engine's
package, and only when a model is loaded.
"""

from __future__ import annotations

import io
import math
import os
import struct
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ore.errors import BackendError, CapabilityError, ExtraNotInstalledError, FileAccessError
from ore.files import read_regular
from ore.files.extras import install_command

_PACKAGE = "xllamacpp"
_BATCH_TOKENS = 64
"""How many are computed in one go. Nothing stops a batch, not even the end of the process, and half
as many cost a tenth more processor time a prompt."""

_NEEDED = {"avx2", "bmi2", "f16c", "fma"}  # what the engine's wheels for x86-64 are built with
_CPU_INFO = Path("/proc/cpuinfo")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")

_MAGIC = b"GGUF"
_HEAD_BYTES = 1 << 20  # what is looked for stands before the long lists of tokens
_STRING, _ARRAY = 8, 9
_NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}


def start_server(path: Path, key: str, window: int) -> Any:
    """Load a model and return the engine's server, which listens on a loopback port of its own.

    Every request must carry ``key``; ``window`` is in tokens and not larger than the model's.

    Raises:
        ExtraNotInstalledError: The engine's package, or a library that it needs, is missing.
        CapabilityError: The processor can't run the engine.
        BackendError: The file can't be loaded.
    """
    xllamacpp = _import_engine()
    try:
        parameters = _parameters(xllamacpp, path, key, window)
    except (AttributeError, TypeError) as exc:
        raise BackendError(
            f"ORE does not know this release of {_PACKAGE}: {install_command('embedded')}."
        ) from exc
    except UnicodeEncodeError as exc:
        raise BackendError(
            f"The engine can't open a file of the name {os.fsencode(path)!r}: rename the file."
        ) from exc
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as exc:
        raise BackendError(
            f"{path} can't be loaded: it is damaged, of a kind that the engine does not know, or "
            f"too large for this machine's memory."
        ) from exc


def is_installed() -> bool:
    """Return whether the engine's package is there; does not import it."""
    return find_spec(_PACKAGE) is not None


def check_installed() -> None:
    """Raise ``ExtraNotInstalledError`` where the engine's package is missing."""
    if not is_installed():
        raise ExtraNotInstalledError(
            f"The embedded engine is not installed: {install_command('embedded')}.", "embedded"
        )


def engine_version() -> str | None:
    """Return the engine's package and release, or None where it is not installed."""
    from importlib import metadata

    try:
        return f"{_PACKAGE} {metadata.version(_PACKAGE)}"
    except metadata.PackageNotFoundError:
        return None


def _import_engine() -> Any:
    check_installed()
    if missing_features(_text_of(_CPU_INFO)):  # an illegal instruction can't be caught
        raise CapabilityError(
            "This processor can't run the embedded engine, which needs AVX2, FMA, F16C and BMI2: "
            "use Ollama."
        )
    # Threads that spin while they wait bring a busy machine to a standstill. Read at the import.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # an aborting engine would start a debugger
    try:
        return import_module(_PACKAGE)
    except ImportError as exc:
        step = install_command("embedded", again=True)
        if "libgomp" in str(exc):
            step = "install OpenMP (Debian and Ubuntu: apt-get install libgomp1)"
        raise ExtraNotInstalledError(
            f"The embedded engine can't be loaded ({exc}): {step}.", "embedded"
        ) from exc


def _parameters(xllamacpp: Any, path: Path, key: str, window: int) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.verbosity = -1
    parameters.offline = True
    # The port is there in any case: loopback only, a key for everything, no page, no foreign site.
    parameters.api_keys = [key]
    parameters.ui = False
    parameters.cors_origins = ""
    parameters.cors_credentials = False
    parameters.endpoint_slots = False
    parameters.sse_ping_interval = -1
    parameters.n_ctx = window
    parameters.ctx_shift = False
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0
    parameters.n_batch = parameters.n_ubatch = _BATCH_TOKENS
    parameters.warmup = False
    parameters.prefill_assistant = False
    cores = thread_count()
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = cores
    return parameters


def missing_features(cpu_info: str) -> set[str]:
    """Return what the engine needs and a processor lacks, from the text of ``/proc/cpuinfo``."""
    flags = _values(cpu_info, "flags")  # there are none on other processors than x86-64
    return _NEEDED - set(flags[0].split()) if flags else set()


def thread_count() -> int:
    """Return how many threads to compute with: one a physical core that this process may use.

    A second thread on a core slows the engine down.
    """
    usable = len(os.sched_getaffinity(0))
    physical = physical_cores(_text_of(_CPU_INFO)) or usable
    return min(usable, physical, quota_cores(_text_of(_CPU_QUOTA)) or usable)


def physical_cores(cpu_info: str) -> int:
    """Return how many physical cores ``/proc/cpuinfo`` lists; 0 where it does not say."""
    return len(set(zip(_values(cpu_info, "physical id"), _values(cpu_info, "core id"))))


def _values(cpu_info: str, name: str) -> list[str]:
    pairs = (line.partition(":") for line in cpu_info.splitlines())
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def quota_cores(cpu_max: str) -> int:
    """Return a control group's limit in whole cores, from the text of ``cpu.max``; 0 without one."""
    try:
        quota, period = map(int, cpu_max.split())
        return max(1, math.ceil(quota / period))
    except (ValueError, ZeroDivisionError):
        return 0


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def check_kind(path: Path) -> None:
    """Raise ``FileAccessError`` for a file that can't be read or is not GGUF."""
    if read_regular(path, sys.maxsize, head=len(_MAGIC)) != _MAGIC:
        raise FileAccessError(f"{path} is not a GGUF model: name a file in that format.", path)


def context_length(path: Path) -> int | None:
    """Return the largest context window that a model was made for, in tokens; None if unsaid.

    Follows GGUF versions 2 and 3 (a head, then keys with typed values, all little-endian) without
    trusting a byte of the file, which has passed ``check_kind``.
    """
    head = io.BytesIO(read_regular(path, sys.maxsize, head=_HEAD_BYTES))
    found: dict[str, Any] = {}
    try:
        _, known, _, keys = _take(head, "4sIQQ")
        for _ in range(keys if known in (2, 3) else 0):
            key = _string(head)
            found[key] = _value(head, *_take(head, "I"))
            length = found.get(f"{found.get('general.architecture')}.context_length")
            if type(length) is int and length > 0:
                return length
    except (struct.error, UnicodeDecodeError, KeyError, OverflowError):
        pass  # damaged, or longer than what was read
    return None


def _take(head: io.BytesIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{layout}", head.read(struct.calcsize(f"<{layout}")))


def _string(head: io.BytesIO) -> str:
    return str(head.read(*_take(head, "Q")), "utf-8")


def _value(head: io.BytesIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(head)
    if kind != _ARRAY:
        return _take(head, _NUMBERS[kind])[0]
    kind, count = _take(head, "IQ")
    if kind != _STRING:
        head.seek(count * struct.calcsize(_NUMBERS[kind]), os.SEEK_CUR)
        return None
    for _ in range(count):
        _string(head)
    return None
