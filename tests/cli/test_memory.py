"""Where the system gives no more memory: one sentence and exit 1, and what was kept is whole."""

from __future__ import annotations

import errno
import resource
import signal
import subprocess
import sys

import pytest

from ore import cli
from ore.errors import NO_MEMORY, BackendError
from tests.support.process import MAIN, ROOT, environment

SHORTAGES = [
    MemoryError(),
    SystemError("error return without exception set"),
    SystemError("<built-in function compile> returned NULL without setting an exception"),
    RuntimeError("can't allocate lock"),
    RuntimeError("Failed to load /x/lib.so: failed to map segment from shared object"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("/x/_ssl.so: failed to map segment from shared object"),
    ImportError("/x/_ssl.so: cannot read file data: Cannot allocate memory"),
]


@pytest.mark.parametrize("error", SHORTAGES, ids=repr)
@pytest.mark.parametrize("flags", [(), ("--stream",), ("--json",), ("--session", "s")])
def test_a_turn_without_memory_is_one_sentence(ore, error, flags, home):
    result = ore("Hi", *flags, replies=[["par", error]])
    assert (result.code, result.err.splitlines()[-1]) == (1, f"ore: {NO_MEMORY}")
    assert not (home / ".ore/sessions/s.json").exists()


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Error calling __set_name__ on 'field' instance 'a' in 'Loaded'"),
        ValueError("uncompilable regex"),  # pygments'
    ],
    ids=repr,
)
def test_a_shortage_that_is_wrapped_is_one(ore, error):
    """Python 3.11 wraps what is raised while a class is made, and a package what it likes."""
    error.__cause__ = MemoryError()
    result = ore("Hi", replies=[error])
    assert (result.code, result.err) == (1, f"ore: {NO_MEMORY}\n")


def test_no_memory_for_an_error_s_own_sentence_is_said(ore, monkeypatch):
    """Where an answer that it quotes is large, ORE said that it has a fault."""

    def said(sentence):
        if "quoted" in str(sentence):
            raise MemoryError
        return cli.advice.said(sentence)

    monkeypatch.setattr(cli, "said", said)
    result = ore("Hi", replies=[BackendError("quoted")])
    assert (result.code, result.err) == (1, f"ore: {NO_MEMORY}\n")


def test_no_memory_for_any_sentence_is_no_fault(monkeypatch):
    """The process's entry has a sentence that takes none."""

    def said(sentence):
        if "fault" not in str(sentence):
            raise MemoryError
        return cli.advice.said(sentence)

    monkeypatch.delenv("ORE_TRACEBACK")
    monkeypatch.setattr(cli, "said", said)
    heard = signal.getsignal(signal.SIGINT)
    with pytest.raises(MemoryError):
        cli.run(["--verify"])
    signal.signal(signal.SIGINT, heard)  # the process would end here


@pytest.mark.parametrize("error", [SystemError("bad argument"), ImportError("no module")], ids=repr)
def test_no_other_error_is_called_so(ore, error):
    with pytest.raises(type(error)):
        ore("Hi", replies=[error])


@pytest.mark.slow
@pytest.mark.parametrize("mebibytes", [26, 32, 44, 50])
@pytest.mark.parametrize("flags", [("--list-models",), ("Hi",), ("--backend", "openai", "Hi")])
def test_a_process_without_memory_shows_no_traceback(mebibytes, flags):
    limit = mebibytes << 20
    done = subprocess.run(
        [sys.executable, MAIN, "--host", "http://127.0.0.1:1", *flags],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    # A package in another language may end the process by itself.
    assert done.returncode == 1 or done.returncode < 0, done
    assert "Traceback" not in done.stderr or done.returncode < 0


NOTHING_LEFT = """
import sys
class Shortage:
    def find_spec(self, name, *_):
        if name == "ore.cli":
            raise {error}
sys.meta_path.insert(0, Shortage())
from ore.__main__ import start
start()
"""


@pytest.mark.parametrize("error", SHORTAGES, ids=repr)
def test_a_process_without_memory_to_begin_with_is_one_sentence(error):
    done = subprocess.run(
        [sys.executable, "-c", NOTHING_LEFT.format(error=repr(error)), "Hi"],
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"ore: {NO_MEMORY}\n")


ENDING = """
import atexit, runpy, sys
from unittest import mock
def short(*_, **more):
    raise MemoryError
atexit.register(short)
with mock.patch("ore.cli.run", short):
    runpy.run_module("ore", run_name="__main__")
"""


def test_a_process_whose_end_has_no_memory_says_nothing_more():
    done = subprocess.run(
        [sys.executable, "-c", ENDING, "Hi"],
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, f"ore: {NO_MEMORY}\n")


LEFT = """
import sys, threading, time
from unittest import mock
import ore.__main__ as entry
import ore.cli
entry._THREADS_SECONDS = 0.1
def short(*_, **more):
    threading.Thread(target=time.sleep, args=(30,)).start()
    raise MemoryError
with mock.patch("ore.cli.run", short):
    entry.start()
"""


def test_a_process_without_memory_waits_for_no_thread_that_a_tool_has_left():
    done = subprocess.run(
        [sys.executable, "-c", LEFT, "Hi"],
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (1, f"ore: {NO_MEMORY}\n")


FULL = """
import resource
from ore.files.signals import hear_no_more
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, size))
held = None
for power in range(20, 12, -1):
    try:
        while True:
            held = (bytearray(1 << power), held)
    except MemoryError:
        pass
hear_no_more()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_that_ends_without_memory_ends_without_a_traceback():
    done = subprocess.run(
        [sys.executable, "-c", FULL],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_process_that_may_open_no_more_files_says_so(tmp_path):
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)); "
    code = few + "from ore.__main__ import start; start()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--list-tools"],
        cwd=ROOT,
        env=environment(HOME=str(tmp_path), ORE_TRACEBACK=None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("ore: This process may open no more files: raise the limit")
