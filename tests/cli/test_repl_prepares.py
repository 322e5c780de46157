"""A REPL on a terminal imports what the first turn needs before it asks for a prompt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from ore.errors import BackendError, ExtraNotInstalledError
from tests.support.harness import Result, ScriptedBackend, run_ore
from tests.support.process import ROOT

TERMINAL = "in out err"

IN_THE_MIDDLE = """
import sys, threading, time
from ore.backends.ollama_wire import import_ollama
found = []
def late_turn():
    while "ollama" not in sys.modules:
        time.sleep(0.0005)
    found.append(import_ollama().Client)
late = threading.Thread(target=late_turn)
late.start()
import_ollama()
late.join()
assert len(found) == 1
"""
INTERRUPTED = """
import signal, sys
from ore.backends.ollama_wire import import_ollama
def press(event, args):
    if event == "import" and args[0] == "ollama._types":
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(press)
try:
    import_ollama()
except KeyboardInterrupt:
    assert sys.modules["ollama"].Client
else:
    raise AssertionError("the signal was lost")
"""


class Prepared(ScriptedBackend):
    """A backend that notes when it is prepared."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.work = work
        self.events: list[str] = []
        self.engine.replies = [lambda _: self.events.append("turn") or "Yes."]

    def prepare(self) -> None:
        self.work()
        self.events.append("prepared")


def repl(backend: Prepared, *args: str, terminal: str = TERMINAL) -> Result:
    return run_ore(*args, stdin="Hi\n", terminal=terminal, open_backend=lambda *_: backend)


def test_what_the_first_turn_needs_is_prepared_once():
    backend = Prepared()
    assert "Yes." in repl(backend, "-c").out
    assert backend.events == ["prepared", "turn"]


@pytest.mark.parametrize(
    "args, terminal", [(["-c"], "out err"), (["-c", "Hello"], TERMINAL), (["Hello"], TERMINAL)]
)
def test_nothing_is_prepared_where_nobody_is_about_to_type(args, terminal):
    backend = Prepared()
    assert repl(backend, *args, terminal=terminal).code == 0
    assert backend.events == ["turn"]


@pytest.mark.parametrize(
    "error", [ExtraNotInstalledError("no httpx", "x"), BackendError("It can't be imported.")]
)
def test_what_fails_while_preparing_is_left_to_the_turn_to_say(error, capfd):
    def fail() -> None:
        raise error

    backend = Prepared(work=fail)
    result = repl(backend, "-c")
    assert (result.code, backend.events) == (0, ["turn"])
    assert str(error) not in result.err + capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("script", [IN_THE_MIDDLE, INTERRUPTED], ids=["threads", "Ctrl-C"])
def test_importing_leaves_the_package_whole(script):
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
