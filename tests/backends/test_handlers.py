"""A signal's handler uses a reasoner whose first turn it interrupts; so does a forked child."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ore.reasoner.stop import OwnLock
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.process import PATIENCE, ROOT, environment

# The handler comes in the middle of what the first turn does before it asks.
ASK = """
import signal, sys
import ore
name, host, act, seconds = sys.argv[1:]
host = {"host": host} if host else {}
engine, said = ore.ORE(ore.reasoner(name, options={"num_predict": 3}, **host), ""), []

def handler(*_):
    said.append("heard")
    if act == "close":
        engine.close()
    elif act == "ask":
        said.append(bool(engine.execute("Why?").content))
    else:
        raise ZeroDivisionError("my own")

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, float(seconds))
try:
    said.append(bool(engine.execute("Why?").content))
except (ore.IncompleteAnswerError, ZeroDivisionError) as exc:
    said.append(type(exc).__name__)
signal.setitimer(signal.ITIMER_REAL, 0)
sys.stdout.write(repr([*said, bool(engine.execute("Why?").content)]))
"""

FORK = """
import os, sys, threading, time
import ore
engine = ore.ORE(ore.reasoner("embedded:smollm2:135m", options={"num_predict": 3}), "")
if sys.argv[1] == "loading":
    thread = threading.Thread(target=engine.execute, args=("Why?",))
    thread.start()
    time.sleep(0.1)  # loading takes longer
else:
    engine.execute("Why?")
child = os.fork()
if child == 0:
    code = 1
    try:
        made = engine.execute("Why?")
        code = 0 if made.metadata["load_duration"] else 2  # else it was its parent's that answered
        engine.close()
    finally:
        os._exit(code)
for _ in range(600):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(child, 9)
    status = "the child waits"
if sys.argv[1] == "loading":
    thread.join()
sys.stdout.write(repr((status, engine.execute("Why?").metadata["load_duration"])))
"""


def said_by(code: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *args],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["0.001", "0.05"])
@pytest.mark.parametrize(
    "act, said",
    [
        ("close", "['heard', True, True]"),
        ("ask", "['heard', True, True, True]"),
        ("raise", "['heard', 'ZeroDivisionError', True]"),
    ],
)
@pytest.mark.parametrize("backend", ["ollama", "openai"])
def test_a_handler_may_close_and_ask_and_raise_while_the_package_is_imported(
    backend, act, said, seconds
):
    with FakeOllama() if backend == "ollama" else FakeOpenAI() as server:
        name = "llama3.2" if backend == "ollama" else server.models[0]
        assert said_by(ASK, f"{backend}:{name}", server.url, act, seconds) == said


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["0.001", "0.1"])
@pytest.mark.parametrize(
    "act, said",
    [
        ("close", "['heard', 'IncompleteAnswerError', True]"),
        ("ask", "['heard', True, True, True]"),
        ("raise", "['heard', 'ZeroDivisionError', True]"),
    ],
)
def test_a_handler_may_close_and_ask_and_raise_while_the_model_is_loaded(
    model_dir, act, said, seconds
):
    assert said_by(ASK, "embedded:smollm2:135m", "", act, seconds) == said


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.parametrize("when", ["loading", "loaded"])
def test_a_forked_child_loads_the_model_for_itself(model_dir, when):
    assert said_by(FORK, when) == "(0, 0)"


def test_a_lock_is_the_process_s_own():
    lock = OwnLock()
    with lock(), lock():
        child = os.fork()
        if child == 0:
            os._exit(int(not lock().acquire(blocking=False)))
    assert os.waitpid(child, 0)[1] == 0
