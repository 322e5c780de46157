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

FEW_THREADS = """
import sys, threading
real = getattr(threading, "_start_joinable_thread", None) or threading._start_new_thread
left = int(sys.argv.pop(1))
def start_one(*args, **kwargs):
    global left
    if not left:
        raise RuntimeError("can't start new thread")
    left -= 1
    return real(*args, **kwargs)
threading._start_new_thread = threading._start_joinable_thread = start_one
from ore.__main__ import start
start()
"""
COMMAND = [sys.executable, "-c", FEW_THREADS, "0"]


def run(*args: str, stdin: bytes = b"", cwd=None, threads: int = 0) -> Ended:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = environment(PYTHONPATH=str(ROOT))
    command = [*COMMAND[:-1], str(threads), *args]
    return end(subprocess.Popen(command, env=env, cwd=cwd, **pipes), stdin)


def check(server, backend: str, args: tuple[str, ...], folder) -> None:
    with server() as fake:
        stdin = b"" if args[:1] == ("Hi",) else b"Hello\n"
        done = run(*args, "--backend", backend, "--host", fake.url, stdin=stdin, cwd=folder)
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert done.out.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [("Hi", "--session", "s"), ("Hi", "--artifact-out", "run.json"), (), ("--session", "s")],
    ids=lambda args: " ".join(args) or "piped",
)
def test_every_mode_answers_without_a_thread(tmp_path, args):
    check(FakeOllama, "ollama", args, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_every_row_is_asked_by_as_many_threads_as_there_are(tmp_path, threads):
    table = "n\n" + "".join(f"{number}\n" for number in range(100))
    with FakeOllama() as fake:
        asked = ("--rows", "-", "Say {{n}}", "--jobs", "4", "--host", fake.url, "--csv")
        asked = (*asked, "--rows-format", "csv")
        done = run(*asked, stdin=table.encode(), cwd=tmp_path, threads=threads)
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    assert [line.partition(",")[0] for line in done.out.splitlines()] == table.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("args", [("Hi",), ("-c",)], ids=lambda args: args[0])
def test_the_openai_backend_needs_no_thread(tmp_path, args):
    check(FakeOpenAI, "openai", args, tmp_path)


@pytest.mark.slow
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


@pytest.mark.slow
@needs_engine
def test_the_embedded_engine_needs_none_of_ore_s(tmp_path):
    path = write_model(tmp_path / "m.gguf")
    done = run("Hi", "--model", str(path), "-j", "-o", "num_predict=4")
    assert done.code == 0 and json.loads(done.out)["metadata"]["eval_count"] == 4
