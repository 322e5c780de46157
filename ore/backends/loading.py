"""Starting the embedded engine on a model: is it installed, can it run here, how is it set up.

The only module that imports the engine's package, and only when a model is loaded. Knows nothing
about requests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ore.backends import hardware
from ore.errors import BackendError, CapabilityError, ExtraNotInstalledError
from ore.files.extras import install_command

_PACKAGE = "xllamacpp"
_BATCH_TOKENS = 64
"""How many are computed in one go. Nothing stops a batch, not even the end of the process, and half
as many cost a tenth more processor time a prompt."""


def start_server(path: Path, key: str, window: int) -> Any:
    """Load a model and return the engine's server, which listens on a loopback port of its own.

    Args:
        path: The model's file.
        key: What every request must carry.
        window: The context window in tokens, no larger than what the model was made for.

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
            f"This release of {_PACKAGE} is not the one that ORE knows: "
            f"{install_command('embedded')}."
        ) from exc
    except UnicodeEncodeError as exc:
        raise BackendError(
            f"{os.fsencode(path)!r} is no name that the engine can open: rename the file."
        ) from exc
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as exc:
        raise BackendError(
            f"{path} can't be loaded: it is damaged, of a kind that the engine does not know, or "
            f"too large for this machine's memory."
        ) from exc


def check_installed() -> None:
    """Raise ``ExtraNotInstalledError`` where the engine's package is missing; imports nothing."""
    from importlib.util import find_spec

    if find_spec(_PACKAGE) is None:
        raise ExtraNotInstalledError(
            f"The embedded engine is not installed: {install_command('embedded')}.", "embedded"
        )


def engine_version() -> str | None:
    """Return the engine's package and release, or None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return None


def _import_engine() -> Any:
    from importlib import import_module

    check_installed()
    if not hardware.can_import(_PACKAGE):
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
        if "libgomp" in str(exc):
            step = (
                "install the system's OpenMP library (Debian and Ubuntu: apt-get install libgomp1)"
            )
        else:
            step = install_command("embedded", again=True)
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
    cores = hardware.thread_count()
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = cores
    return parameters
