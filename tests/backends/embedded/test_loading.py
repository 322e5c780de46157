"""Starting the engine where something is missing: one sentence, before native code can fail."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ore.backends import engine, engine_child, engine_load, hardware
from ore.backends.engine_failures import crash_error
from ore.backends.engine_package import check_installed, engine_version
from ore.backends.load_failures import load_error, read_outcome
from ore.backends.turn_errors import NothingAnswersError
from ore.errors import IncompleteAnswerError
from tests.support.gguf import write_model
from tests.support.process import ROOT, environment

PYTHON = shlex.quote(sys.executable)
PIP = f"{PYTHON} -m ensurepip && {PYTHON} -m pip"  # started without any package
NEEDS = f"-r {shlex.quote(f'{ROOT}/requirements-embedded.txt')}"

START = """
import sys
sys.base_prefix = "/nowhere"  # a virtual environment, whoever's Python runs the tests
from pathlib import Path
from ore.backends.engine import Engine
from ore.backends.turn_errors import NothingAnswersError
from ore.errors import OreError
try:
    Engine(Path({path!r}), window=512)
except OreError as exc:
    sys.stdout.write(f"{{type(exc).__name__}}: {{exc}}")
"""

# What the engine's package looks like to ORE.
PACKAGE = """
import json, os
class Any:
    def __init__(self): self.path = self.n_threads = None
class CommonParams:
    def __init__(self): self.model, self.cpuparams, self.cpuparams_batch = Any(), Any(), Any()
class Server:
    def __init__(self, parameters):
        raise RuntimeError(repr(vars(parameters)))
"""


def started(folder: Path, package: str | None, before: str = "", **variables) -> str:
    """Start an engine with a package of our own (None: with none) and return what came of it.

    ``before`` is run first.
    """
    if package is not None:
        (folder / "xllamacpp.py").write_text(package)
    path = write_model(folder / "m.gguf")
    done = subprocess.run(
        [sys.executable, "-S", "-c", before + START.format(path=str(path))],
        env=environment(PYTHONPATH=f"{folder}:{ROOT}", PATH="/nowhere", **variables),  # without uv
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_missing_engine_names_the_requirements_file(tmp_path):
    assert started(tmp_path, None) == (
        f"ExtraNotInstalledError: The embedded engine is not installed: {PIP} install {NEEDS}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, said",
    [
        (
            "raise ImportError('libgomp.so.1: cannot open shared object file')",
            "ExtraNotInstalledError: The embedded engine can't be loaded (libgomp.so.1: cannot open "
            "shared object file): install OpenMP (Debian and Ubuntu: apt-get install libgomp1).",
        ),
        (
            "raise ImportError('undefined symbol')",
            "ExtraNotInstalledError: The embedded engine can't be loaded (undefined symbol): "
            f"{PIP} install --force-reinstall {NEEDS}",
        ),
        (
            "raise OSError(5, 'Input/output error')",
            "ExtraNotInstalledError: The embedded engine can't be loaded ([Errno 5] Input/output "
            f"error): {PIP} install --force-reinstall {NEEDS}",
        ),
        (
            PACKAGE.replace("self.model, ", "self.x, "),
            f"BackendError: ORE does not know this release of xllamacpp: {PIP} install {NEEDS}",
        ),
        *(
            (
                f"raise {raised}",
                "NothingAnswersError: FOLDER/m.gguf can't be loaded: it needs more than the SOME MB that "
                "ORE lets it have, or than the system does (ulimit -v): use a smaller window "
                "(`options['num_ctx']`), or another model.",
            )
            for raised in (
                "MemoryError",
                "ImportError('x.so: failed to map segment from shared object')",
            )
        ),
    ],
    ids=["libgomp", "broken", "unreadable", "another release", "no memory", "no room"],
)
def test_an_engine_that_can_t_start_says_why(tmp_path, package, said):
    came = started(tmp_path, package).replace(str(tmp_path), "FOLDER")
    assert re.sub(r"the [\d,]+ MB", "the SOME MB", came) == said


def test_the_server_is_closed_to_others_and_silent():
    names = "path socket key window batch threads batch_threads layers"
    asked = dict.fromkeys(names.split())
    asked |= {"socket": "engine.sock", "key": "secret", "window": 512, "slots": 1, "template": ""}
    parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
    package = SimpleNamespace(CommonParams=lambda: SimpleNamespace(**parts))
    set_to = vars(engine_child._parameters(package, asked))
    expected = {
        "hostnames": ["engine.sock"],
        "api_keys": ["secret"],
        "ui": False,
        "cors_origins": "\n",
        "cors_credentials": False,
        "endpoint_slots": False,
        "offline": True,
        "verbosity": 1,
        "n_ctx": 512,
        "ctx_shift": False,
        "fit_params": False,
    }
    assert {name: set_to[name] for name in expected} == expected


WAITING = "import os; raise ImportError('/'.join(map(str, map(os.environ.get, %r))))"
THREADS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@pytest.mark.slow
@pytest.mark.parametrize(
    "named, used",
    [
        ({}, "passive/1000"),
        ({"OMP_WAIT_POLICY": "active"}, "active/None"),
        ({"GOMP_SPINCOUNT": "7"}, "None/7"),
    ],
)
def test_waiting_threads_spin_for_a_moment_unless_the_user_says_how_they_wait(
    tmp_path, named, used
):
    environ = {**dict.fromkeys(THREADS), **named}
    assert f"({used})" in started(tmp_path, WAITING % (THREADS,), **environ)


@pytest.mark.embedded
def test_the_release_is_known_without_an_import():
    check_installed()
    assert engine_version().startswith("xllamacpp 20")


@pytest.mark.embedded
def test_the_release_is_told_without_what_reads_metadata():
    program = (
        "import sys; from ore.backends.engine_package import engine_version; print(engine_version()); "
        "sys.exit('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("xllamacpp 20")


@pytest.mark.parametrize(
    "log",
    [
        "terminate called after throwing an instance of 'std::system_error'\n"
        "  what():  Resource temporarily unavailable",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
    ],
)
def test_an_engine_that_gets_no_threads_does_not_blame_the_model(log):
    error = load_error(Path("/m.gguf"), log, "SIGABRT", 1 << 30)
    assert str(error) == (
        "/m.gguf can't be loaded: the system gives it no more threads, or no memory for them: raise the "
        "limit (ulimit -u and -v; in a container, its limit of processes)."
    )


def test_a_container_that_forbids_threads_is_not_the_model_s_fault():
    error = load_error(Path("/m.gguf"), "Operation not permitted", "", 1 << 30)
    assert str(error) == (
        "/m.gguf can't be loaded: the system forbids the engine to start threads, as Docker before "
        "20.10.10 does: use a newer one."
    )


@pytest.mark.parametrize(
    "log",
    [
        "0.00.24 E ggml_aligned_malloc: insufficient memory (attempted to allocate  41.96 MB)\n",
        "/llama.cpp/ggml/src/ggml.c:1644: GGML_ASSERT(ctx->mem_buffer != NULL) failed\n0.00.29 E ",
        "Traceback (most recent call last):\n  File x\nMemoryError\n",
    ],
)
@pytest.mark.parametrize("ended", ["SIGABRT", "exit code 1"])
def test_an_engine_that_gets_no_memory_does_not_blame_the_model(log, ended):
    said = str(load_error(Path("/m.gguf"), log, ended, 1 << 30))
    assert said.startswith("/m.gguf can't be loaded: it needs more than the 1,073 MB that ORE lets")


LACKS = {
    "files": (
        "0.00.1 E gguf_init_from_file: failed to open GGUF file '/m.gguf' (Too many open files)",
        "",
        "the engine may open no more files: raise the limit (ulimit -n), or end the program that connects "
        "to it over and over.",
    ),
    "a process": (
        "",
        "SIGKILL",
        "the engine's process was killed (SIGKILL), as the system does where memory is short. Try again "
        "with a smaller window (`options['num_ctx']`), or use another model.",
    ),
    "a socket": (
        "0.02.1 E srv start: couldn't bind HTTP server socket, hostname: engine.sock, port: 0",
        "",
        "the engine can make no socket in its temporary folder: free some room there, name another folder "
        "with TMPDIR, or allow Unix sockets (systemd's RestrictAddressFamilies).",
    ),
    "a map": (
        "0.00.1 E llama_model_load: error loading model: mmap failed: No such device\n",
        "",
        "its disk lets no program map a file into memory (No such device): copy it to another disk.",
    ),
}


@pytest.mark.parametrize("log, ended, why", LACKS.values(), ids=LACKS)
def test_an_engine_that_lacks_something_does_not_blame_the_model(log, ended, why):
    said = str(load_error(Path("/m.gguf"), log, ended, 1 << 30))
    assert said == f"/m.gguf can't be loaded: {why}"


LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (3, {hard}))\n"
"""For each process; ORE's own takes less than one of these seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("hard", [3, "resource.RLIM_INFINITY"])
def test_an_engine_that_had_all_its_processor_time_does_not_blame_the_model(tmp_path, hard):
    said = started(tmp_path, "while True: pass", LIMITED.format(hard=hard))
    assert re.fullmatch(
        r"NothingAnswersError: .*m\.gguf can't be loaded: the system lets a process compute for "
        r"3 seconds: raise the limit \(ulimit -t\)\.",
        said,
    )


@pytest.mark.parametrize(
    "ended, limit, used, is_told",
    [
        ("SIGKILL", 3, 2.35, True),  # as was counted beside many other programs
        ("SIGXCPU", 3, 1.2, True),
        ("SIGKILL", 3600, 4.0, False),  # memory was short
        ("SIGSEGV", 3, 2.9, False),
        ("SIGXCPU", resource.RLIM_INFINITY, 2.9, False),
    ],
)
def test_on_a_busy_machine_less_processor_time_is_counted_than_its_limit(
    ended, limit, used, is_told, monkeypatch
):
    monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))
    counted = SimpleNamespace(ru_utime=used, ru_stime=0.0)
    monkeypatch.setattr("resource.getrusage", lambda who: counted)
    said = str(load_error(Path("/m.gguf"), "", ended, 1 << 30))
    assert ("lets a process compute" in said) == is_told


def test_a_file_that_can_t_be_read_to_its_end_is_not_called_made_to_do_harm():
    why = "It was changed meanwhile, or its disk fails, or it is damaged"
    assert str(load_error(Path("/m.gguf"), "", "SIGBUS", 1 << 30)) == (
        f"/m.gguf can't be loaded: the engine could not read all of it (SIGBUS). {why}: try again, or "
        f"fetch it again."
    )
    assert str(crash_error(Path("/m.gguf"), "", "SIGBUS", 1 << 30)).endswith(
        f"nothing was kept of it. It could not read all of /m.gguf. {why}."
    )


@pytest.mark.parametrize("given", [False, True], ids=["its own template", "a given one"])
def test_an_engine_that_is_killed_in_a_turn_does_not_blame_the_model(given):
    said = str(crash_error(Path("/m.gguf"), "", "SIGKILL", 1 << 30, has_given_template=given))
    assert said == (
        "The embedded engine ended in the middle of the turn (SIGKILL): nothing was kept of it. Its "
        "process was killed, as the system does where memory is short. Try again with a smaller window "
        "(`options['num_ctx']`), or use another model."
    )


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.parametrize(
    "act, said",
    [
        (lambda process: os.kill(process.pid, signal.SIGKILL), "(SIGKILL): nothing was kept of it"),
        (lambda process: shutil.rmtree(os.path.dirname(process.socket)), "turn; try again."),
    ],
    ids=["killed", "folder gone"],
)
def test_an_engine_that_is_lost_as_it_says_what_it_has_loaded_is_not_the_model_s_fault(
    tmp_path, monkeypatch, act, said
):
    def ask(self, *given):
        act(self._process)
        return asked(self, *given)

    asked = engine.Engine.ask
    monkeypatch.setattr(engine.Engine, "ask", ask)
    with pytest.raises(IncompleteAnswerError) as raised:
        engine.Engine(write_model(tmp_path / "m.gguf"), window=512)
    assert said in str(raised.value)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "begin, said",
    [
        (
            "import sys; sys.executable = '/bin/false'",  # as in a program that Python is a part of
            " (exit code 1: no reason): check that /bin/false is a Python that runs, or use Ollama.",
        ),
        (
            "import sys; sys.executable = '/bin/echo'",
            " (it says '-I -S {child}'): check that /bin/echo is a Python that runs, or use Ollama.",
        ),
        (
            "import os, sys; sys.executable = None; os.environ['PATH'] = '/dev'",
            " (No such file or directory): check that python3 is a Python that runs, or use Ollama.",
        ),
        (
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
            ": this process may open no more files; raise the limit (ulimit -n), or close some.",
        ),
    ],
    ids=["no Python", "another program", "unknown", "no files"],
)
def test_an_engine_that_can_t_be_started_says_why_and_does_not_blame_the_model(
    tmp_path, begin, said
):
    path = write_model(tmp_path / "m.gguf")
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{START.format(path=str(path))}"],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.stdout + done.stderr == (
        f"NothingAnswersError: The embedded engine can't be started{said.format(child=engine_load._CHILD)}"
    )


@pytest.mark.embedded
@pytest.mark.parametrize(
    "does",
    ["os.kill(os.getpid(), 7)", "get_device_info = lambda: os.abort()"],
    ids=["SIGBUS", "SIGABRT"],
)
def test_a_crash_before_the_model_is_read_does_not_blame_the_model(tmp_path, does, monkeypatch):
    (tmp_path / "xllamacpp.py").write_text(f"import os\n{does}\n")
    monkeypatch.setattr(engine_load, "check_installed", lambda: str(tmp_path))
    with pytest.raises(
        NothingAnswersError,
        match=r"engine can't be started \(SIG(BUS|ABRT) before it read a model",
    ):
        engine.Engine(write_model(tmp_path / "m.gguf"), window=512)


@pytest.mark.parametrize(
    "layers, width, size, megabytes",
    [
        (30, 576, 98_362_432, 1_787),  # SmolLM2-135M
        (32, 4096, 1_600_000_000, 7_768),  # seven thousand million numbers, in 1.6 bits each
        (200, 3800, 30_550_560, 1_382),  # its layers have no bytes for so wide a head
        (None, 576, 98_362_432, 1_221),
        (30, 0, 98_362_432, 1_221),
    ],
)
def test_a_file_gets_no_memory_for_a_width_that_it_only_claims(
    layers, width, size, megabytes, monkeypatch
):
    monkeypatch.setattr(hardware, "memory_bytes", lambda: 64 << 30)
    head = {"general.architecture": "x", "x.block_count": layers, "x.embedding_length": width}
    assert engine_load.memory_limit(head, 4096, size) // 1_000_000 == megabytes


@pytest.mark.parametrize("said", [b"null\n", b"\xff\n", b"[" * 100_000 + b"\n"], ids=len)
def test_what_another_program_says_is_not_taken_for_an_engine_s(said):
    with pytest.raises(NothingAnswersError, match="check that .* is a Python that runs"):
        read_outcome(said)


@pytest.mark.parametrize(
    "found, limit, said",
    [
        (engine_load._CIRCLES_SECONDS, 5, "loading stops after five seconds of computing in which"),
        (engine_load._LOAD_SECONDS, 60, "In any case it stops after a minute, plus a second"),
        (engine_load._LOAD_BYTES_A_SECOND, 20 << 20, "plus a second for each 20 MiB"),
        (
            engine_load._SPARE_BYTES,
            1 << 30,
            "in a model of that many layers and that width, and 1 GiB",
        ),
        (engine._TEMPLATE_SECONDS, 8, "Making the text of a prompt stops after eight seconds"),
        (engine._STOP_SECONDS, 3, "If you stop an answer, it ends within three seconds"),
        (engine_child.CONNECTIONS, 16, "The engine takes 16 connections at a time"),
        (engine_load._BATCH_TOKENS, 64, "the model stops within 64 tokens"),
        (engine.WINDOW, 4096, "4,096 tokens, or `-o num_ctx=N`"),
        (hardware.SMALL_MODEL_BYTES, 128 << 20, "a model below 128 MiB"),
    ],
)
def test_the_limits_are_those_of_the_page(found, limit, said):
    page = (ROOT / "docs/embedded.md").read_text(encoding="utf-8")
    assert found == limit and said in " ".join(page.split())
