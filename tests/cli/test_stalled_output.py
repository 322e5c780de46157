"""An output that nobody reads, as that of a pager that waits: who is told to end does end."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from select import PIPE_BUF

import pytest

from ore.files.whole import GRACE
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_ollama.replies import Ollama
from tests.support.process import MAIN, end, environment, running, start, until
from tests.support.runs import record
from tests.support.terminal import OnTerminal

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets the size of a pipe")
LONG = "word " * 60_000
"""More than a pipe holds."""


def is_full(pipe: int) -> bool:
    """Whether a pipe takes no more; its last page still takes some where ``select`` says none."""
    if select.select([], [pipe], [], 0)[1]:
        return False
    before = held(pipe)
    time.sleep(0.3)
    return held(pipe) == before


def held(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


@pytest.fixture
def writing():
    """Yield the end of a pipe that is written to, and that nobody reads."""
    ends = os.pipe()
    yield ends[1]
    for each in ends:
        os.close(each)


STOPS = pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
TURNS = [
    (["-s", "Hi"], b""),
    pytest.param(["-j", "Hi"], b"", marks=pytest.mark.slow),
    pytest.param(["-S", "one", "-s", "Hi"], b"", marks=pytest.mark.slow),
    pytest.param(["-c", "-s"], b"One\nTwo\n", marks=pytest.mark.slow),
]


@pytest.mark.slow
@STOPS
@pytest.mark.parametrize("args, typed", TURNS)
def test_a_signal_ends_a_turn_whose_answer_nobody_reads(
    args, typed, number, code, tmp_path, writing
):
    prompts, typing = os.pipe()  # it stays open: there may be a next prompt
    os.write(typing, typed)
    with FakeOllama(reply=LONG) as server:
        env = environment(OLLAMA_HOST=server.url, HOME=str(tmp_path))
        streams = {"stdin": prompts if typed else subprocess.DEVNULL, "stdout": writing}
        with running(*args, **streams, stderr=subprocess.DEVNULL, env=env) as process:
            until(lambda: is_full(writing))
            process.send_signal(number)
            assert process.wait(10) == code
    for each in (prompts, typing):
        os.close(each)


@pytest.mark.slow
@STOPS
def test_nobody_waits_for_a_reader_of_what_is_told_below_the_answer(
    number, code, tmp_path, writing
):
    def answer(request):
        (tmp_path / ".ore/sessions/s.json").mkdir()  # so that two things can't be kept
        return LONG

    args = ["--session", "s", "--artifact-out", "/dev/full", "Hi"]
    with FakeOllama(reply=answer) as server:
        env = environment(OLLAMA_HOST=server.url, HOME=str(tmp_path))
        streams = {"stdin": subprocess.DEVNULL, "stdout": writing, "stderr": writing}
        with running(*args, **streams, env=env) as process:
            until(lambda: is_full(writing))
            process.send_signal(number)
            assert process.wait(10) == code


@pytest.mark.slow
@pytest.mark.parametrize("args", [["-c"], ["-c", "-s"]])
def test_one_ctrl_c_stops_the_turn_of_a_repl_whose_answer_nobody_reads(args, tmp_path):
    os.mkfifo(tmp_path / "answers")
    pipe = os.open(tmp_path / "answers", os.O_RDWR)
    shell = ["sh", "-c", 'exec "$@" >"$0"', str(tmp_path / "answers")]
    answers = iter([LONG, "Done."])
    with FakeOllama(reply=lambda request: next(answers)) as server:
        command, env = [*shell, sys.executable, MAIN, *args], {"OLLAMA_HOST": server.url}
        with OnTerminal(command=command, env=env) as terminal:
            terminal.wait_for("You: ")
            terminal.type("Hi\r")
            until(lambda: is_full(pipe))
            terminal.type("\x03")
            terminal.wait_for("Stopped: ")
            terminal.wait_for("You: ")
            terminal.type("Hi\r")
            read = b""
            while not read.endswith(b"Done.\n"):
                read += os.read(pipe, 1 << 16)
            assert b"\nDone." in read
            terminal.wait_for("You: ")
    os.close(pipe)


@pytest.mark.slow
@pytest.mark.parametrize("args", [["-c"], ["-c", "-s"]])
def test_nothing_of_an_answer_comes_below_what_is_said_where_a_terminal_stood_still(args):
    with FakeOllama(reply=LONG) as server:
        command, env = [sys.executable, MAIN, *args], {"OLLAMA_HOST": server.url, "NO_COLOR": "1"}
        with OnTerminal(command=command, env=env) as terminal:
            terminal.wait_for("You: ")
            terminal.type("Hi\r")
            terminal.wait_for("word")
            time.sleep(1)  # until the terminal takes no more
            terminal.type("\x03")
            time.sleep(2 * GRACE)
            assert terminal.wait_for("Stopped: the turn was dropped.").count(b"word") > 100
            assert b"word" not in terminal.wait_for("You: ")


@pytest.mark.slow
@STOPS
def test_a_signal_ends_a_run_over_rows_of_which_nobody_reads_anything(
    number, code, folder, writing
):
    (folder / "t.csv").write_text("a\n" + "x\n" * 9)
    with FakeOllama(reply="x" * 200_000) as server:
        flags = ["--host", server.url, "--model", "llama3.2", "--backend", "ollama"]
        streams = {"stdout": writing, "stderr": writing}
        with running("--rows", "t.csv", "{{a}}", *flags, **streams, cwd=folder) as process:
            until(lambda: is_full(writing))
            process.send_signal(number)
            assert process.wait(20) == code


@pytest.mark.slow
@STOPS
def test_a_signal_ends_a_pull_whose_steps_nobody_reads(
    number, code, monkeypatch, tmp_path, writing
):
    steps = ({"status": f"{at}" * 1_000} for at in range(1_000))
    monkeypatch.setattr(Ollama, "pull_lines", lambda *_: steps)
    with FakeOllama() as server:
        env = environment(OLLAMA_HOST=server.url, HOME=str(tmp_path))
        with running("--pull", "new", stdout=writing, stderr=writing, env=env) as process:
            until(lambda: is_full(writing))
            process.send_signal(number)
            assert process.wait(20) == code


@pytest.mark.slow
@STOPS
@pytest.mark.parametrize("is_read", [False, pytest.param(True, marks=LINUX)])
def test_a_signal_ends_a_replay_whose_lines_are_not_read_in_time(number, code, is_read, folder):
    record(folder / "a.json", "Hi", replies=["A."])
    paths, asked = ["./" * 2040 + "a.json"] * 20, []  # their lines are more than a pipe holds

    def reply(request: dict) -> str:
        asked.append(request)
        if len(asked) == len(paths):
            process.send_signal(number)
            time.sleep(5)
        return "A."

    def read() -> None:  # as a script does that takes a while for each line
        while os.read(reading, PIPE_BUF):
            time.sleep(0.4)
        os.close(reading)

    reading, writing = os.pipe()
    if is_read:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BUF)
        threading.Thread(target=read, daemon=True).start()
    streams = {"stdin": subprocess.DEVNULL, "stdout": writing}
    with FakeOllama(reply=reply) as server, open(folder / "told", "w+") as told:
        flags = ["--host", server.url, "--model", "llama3.2", "--backend", "ollama"]
        with running("--replay", *paths, *flags, **streams, stderr=told, cwd=folder) as process:
            until(lambda: len(asked) == len(paths), 60)
            assert process.wait(5 if is_read else 20) == code
        told.seek(0)
        assert told.read().endswith("ore: The answer can't be written: nobody reads it.\n")
    os.close(writing)
    if not is_read:  # else the other thread reads on
        os.close(reading)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize(
    "sign, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (None, 1)], ids=str
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_has_ended_a_run_is_told_where_its_lines_can_not_be_written(more, sign, code, folder):
    for name in ("a.json", "b.json"):
        record(folder / name, "Hi", replies=["A."])
    flags = ["--deadline", "2"] if sign is None else []
    process, asked = None, []

    def reply(request: dict) -> str:
        asked.append(request)
        if len(asked) > 1:
            if sign is not None:
                process.send_signal(sign)
            time.sleep(5)
        return "A."

    with FakeOllama(reply=reply) as server, open("/dev/full", "w") as full:
        args = ["--replay", "a.json", "b.json", *more, "--host", server.url, *flags]
        args += ["--model", "llama3.2", "--backend", "ollama"]
        process = start(*args, cwd=folder, stdout=full, stdin=subprocess.DEVNULL)
        result = end(process)
    assert result.code == code
    assert "The answer can't be written: No space left on device." in result.err.splitlines()[-1]
    assert sign is not None or "give it longer with --deadline" in result.err


def limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))


@pytest.mark.slow
def test_what_has_ended_an_answer_is_told_where_its_last_line_can_not_be_ended(folder, tmp_path):
    with FakeOllama(reply="word " * 20, delay=6.0) as server, open(tmp_path / "out", "w") as out:
        args = ["--host", server.url, "--model", "llama3.2", "--stream", "--deadline", "3", "Hi"]
        result = end(start(*args, stdin=subprocess.DEVNULL, stdout=out, preexec_fn=limit_files))
    assert (tmp_path / "out").read_text() == "word" and result.code == 1
    assert "give it longer with --deadline. The answer can't be written: " in result.err


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_where_nothing_else_went_wrong_it_is_said_that_lines_can_not_be_written(folder):
    record(folder / "a.json", "Hi", replies=["A."])
    with FakeOllama(reply="A.") as server, open("/dev/full", "w") as full:
        args = ["--replay", "a.json", "--host", server.url, "--model", "llama3.2"]
        args += ["--backend", "ollama"]
        result = end(start(*args, cwd=folder, stdout=full, stdin=subprocess.DEVNULL))
    assert result.code == 1
    assert "The answer can't be written: No space left on device." in result.err.splitlines()[-1]
