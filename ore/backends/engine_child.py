"""The process that a model runs in: native code over a stranger's file, apart from ORE.

It is run as a file, by itself, and imports nothing of ORE. What to load comes as a line of JSON on
its standard input, what became of it goes as another to its standard output, and when its standard
input ends, so does it: nothing is left where ORE was killed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

LOG_BYTES = 1 << 20
"""The most that is written to any one file: it writes its log, and nothing else."""
CONNECTIONS = 16
"""How many may be open at a time: each has a thread, and without room for one the process ends."""
_SHORTAGES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
LOOK_SECONDS = 2.0
"""How often it looks whether ORE is there: a process that ORE forked may hold the input open."""


def run() -> None:
    """Load what is asked for, say so, and stay until nobody wants it any more."""
    asked = json.loads(_line())
    os.umask(0o077)  # ORE's own may keep its owner from the socket
    _confine(asked["memory"])
    _end_with(asked["parent"])
    sys.path.append(asked["packages"])
    try:
        xllamacpp = import_module("xllamacpp")
        _bound_connections(4 * CONNECTIONS)  # files are opened as well
        cards = _cards(xllamacpp)
        if (asked["layers"] or 0) > 0 and not cards:
            raise LookupError("no graphics card")
        parameters = _parameters(xllamacpp, asked)
        os.write(1, b" ")  # what ends this process before is no fault of the model's
        server = xllamacpp.Server(parameters)
        _bound_connections(CONNECTIONS)
        became = {"ready": server.listening_address, "cards": cards}
    except Exception as exc:
        became = {"failed": type(exc).__name__, "said": str(exc)}
        is_short = isinstance(exc, MemoryError) or getattr(exc, "errno", None) in _SHORTAGES
        if "xllamacpp" not in sys.modules and not is_short:
            became["failed"] = "ImportError"  # whatever a package raises that is damaged
    os.write(1, json.dumps(became).encode() + b"\n")
    _stop_ending()
    while os.getppid() == asked["parent"]:
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            break
    for left in (asked["socket"], asked["log"]):  # where ORE was killed nobody else does
        with suppress(OSError):
            os.unlink(left)
    with suppress(OSError):
        os.rmdir(os.getcwd())
    os._exit(0)  # unloading takes its time, and the system does it at once


def _line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 1 << 16)
        if not read:
            os._exit(1)
        line += read
    return line


def _confine(memory: int) -> None:
    """Take from this process what a damaged or hostile model could do harm with."""
    for kind, limit in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_CORE, 1),  # it would hold the prompts; 0 allows one that goes to a program
        (resource.RLIMIT_FSIZE, LOG_BYTES),
    ):
        _limit(kind, limit)
    # Where memory is short, this process goes first. A hard limit of 0 stays, and so a core that goes to a
    # program has none of the memory in it.
    for name, value in (("oom_score_adj", "1000"), ("coredump_filter", "0")):
        with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(value)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all: ORE decides


def _bound_connections(most: int) -> None:
    """Have those who connect once too often wait, whoever they are."""
    number = os.dup(0)  # the lowest that is free: those below it are taken
    os.close(number)
    _limit(resource.RLIMIT_NOFILE, number + most)


def _limit(kind: int, limit: int) -> None:
    most = resource.getrlimit(kind)[1]
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(kind, (limit, limit))


def _end_with(parent: int) -> None:
    """Have the system end this process when its standard input ends, whatever native code does."""
    # Whoever started ORE may ignore the signal that does it, or hold it back.
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGIO])
    with suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(0, fcntl.F_GETFL)
        fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO, which ends a process
    if os.getppid() != parent:
        os._exit(1)


def _stop_ending() -> None:
    """From now on the end of the standard input is read, so that files can be removed."""
    with suppress(OSError):
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) & ~os.O_ASYNC)


def _cards(xllamacpp: Any) -> list[str]:
    """Return the names of the graphics cards that this build of the engine computes with."""
    found = xllamacpp.get_device_info()
    return [str(each["name"]) for each in found if "GPU" in getattr(each["type"], "name", "")]


def _parameters(xllamacpp: Any, asked: dict[str, Any]) -> Any:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = asked["path"]
    parameters.verbosity = 1  # errors only
    parameters.offline = True
    # No port: a socket in a private folder. A key all the same, no page, no foreign site.
    parameters.hostnames = [asked["socket"]]
    parameters.api_keys = [asked["key"]]
    parameters.ui = parameters.cors_credentials = parameters.endpoint_slots = False
    # What no header may hold is left out of them; an empty text would be an empty header.
    parameters.cors_origins = parameters.cors_methods = parameters.cors_headers = "\n"
    parameters.sse_ping_interval = -1
    parameters.n_threads_http = 8
    parameters.n_ctx = asked["window"]
    parameters.chat_template = asked["template"]  # empty: the model's own
    if asked["layers"] is not None:  # else as many as the build can
        parameters.n_gpu_layers = asked["layers"]
    parameters.n_parallel = asked["slots"]
    parameters.cache_ram_mib = 0
    parameters.n_batch = parameters.n_ubatch = asked["batch"]
    parameters.ctx_shift = parameters.warmup = parameters.prefill_assistant = False
    parameters.fit_params = False  # for graphics cards, and reads the model's head twice
    parameters.cpuparams.n_threads = asked["threads"]
    parameters.cpuparams_batch.n_threads = asked["batch_threads"]
    return parameters


if __name__ == "__main__":
    run()
