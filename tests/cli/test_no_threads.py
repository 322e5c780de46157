"""A system that gives no more threads, as a container may: ORE goes on without what one was for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.engine import needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.gguf import write_model
from tests.support.process import ROOT, Ended, end, environment
from tests.support.terminal import OnTerminal

NO_THREADS = """
import sys, threading
def refuse(*_, **__):
    raise RuntimeError("can't start new thread")
threading._start_new_thread = threading._start_joinable_thread = refuse
from ore.__main__ import start
start()
"""
COMMAND = [sys.executable, "-c", NO_THREADS]


def run(*args: str, stdin: bytes = b"", cwd=None) -> Ended:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = environment(PYTHONPATH=str(ROOT))
    return end(subprocess.Popen([*COMMAND, *args], env=env, cwd=cwd, **pipes), stdin)


def check(server, backend: str, args: tuple[str, ...], folder) -> None:
    with server() as fake:
        stdin = b"" if args[:1] == ("Hi",) else b"Hello\n"
        done = run(*args, "--backend", backend, "--host", fake.url, stdin=stdin, cwd=folder)
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert done.out.strip()


@pytest.mark.parametrize(
    "args",
    [("Hi", "--session", "s"), ("Hi", "--artifact-out", "run.json"), (), ("--session", "s")],
    ids=lambda args: " ".join(args) or "piped",
)
def test_every_mode_answers_without_a_thread(tmp_path, args):
    check(FakeOllama, "ollama", args, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("args", [("Hi",), ("-c",)], ids=lambda args: args[0])
def test_the_openai_backend_needs_no_thread(tmp_path, args):
    check(FakeOpenAI, "openai", args, tmp_path)


def test_a_terminal_gets_its_answer_without_a_waiting_line(home):
    with FakeOllama() as fake:
        command = [*COMMAND, "-c", "--host", fake.url, "--model", "llama3.2"]
        with OnTerminal(command=command) as terminal:
            terminal.wait_for("You:")
            terminal.type("Hello\r")
            terminal.wait_for("[AYA]:")
            terminal.wait_for("You:")
            terminal.type("quit\r")
            code, rest = terminal.end()
    assert code == 0 and b"Traceback" not in rest


@needs_engine
def test_the_embedded_engine_needs_none_of_ore_s(tmp_path):
    path = write_model(tmp_path / "m.gguf")
    done = run("Hi", "--model", str(path), "-j", "-o", "num_predict=4")
    assert done.code == 0 and json.loads(done.out)["metadata"]["eval_count"] == 4
