"""Standard streams that other processes share: one that they make non-blocking."""

from __future__ import annotations

import array
import fcntl
import os
import subprocess
import sys
import termios
import time
from subprocess import DEVNULL, PIPE

import pytest

from tests.cli.test_stalled_output import is_full
from tests.support.fake_ollama import FakeOllama
from tests.support.process import ROOT, environment, running, until


def last_sent(server: FakeOllama) -> str:
    return server.chats[-1].json["messages"][-1]["content"]


@pytest.mark.slow
@pytest.mark.parametrize("args", [[], ["-c"], ["--rows", "-", "--rows-format", "text", "{{line}}"]])
def test_a_stdin_that_becomes_non_blocking_is_read_to_its_end(args):
    reading, writing = os.pipe()
    with FakeOllama(reply="Paris.") as server:
        with running(*args, stdin=reading, env=environment(OLLAMA_HOST=server.url)) as process:
            os.write(writing, b"one ")
            until(lambda: _is_empty(reading))
            os.set_blocking(reading, False)
            for part in (b"two ", b"three\n"):
                os.write(writing, part)
                time.sleep(0.3)  # the pipe is empty meanwhile, and not at its end
            os.close(writing)
            os.close(reading)
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        assert last_sent(server).strip() == "one two three"


READ_BEFORE = """
import sys
from ore.cli import main
assert {first}.strip() in ("first", b"first")
sys.exit(main(["-c", "--backend", "ollama", *sys.argv[1:]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["sys.stdin.readline()", "sys.stdin.buffer.readline()", "input()"]
)
def test_what_a_program_has_not_read_of_stdin_is_asked(first):
    with FakeOllama(reply="Paris.") as server:
        command = [sys.executable, "-c", READ_BEFORE.format(first=first)]
        env = environment(OLLAMA_HOST=server.url, PYTHONPATH=str(ROOT), PYTHONUTF8="1")
        lines = "first\nsecond 語\nthird\n".encode()
        result = subprocess.run(command, input=lines, env=env, capture_output=True, timeout=60)
        assert (result.returncode, result.stdout) == (0, b"Paris.\nParis.\n"), result.stderr
        assert [sent.json["messages"][-1]["content"] for sent in server.chats] == [
            "second 語",
            "third",
        ]


@pytest.mark.slow
def test_a_line_that_a_program_has_not_read_is_asked_before_the_next_one_comes():
    with FakeOllama(reply="Paris.") as server:
        command = [sys.executable, "-c", READ_BEFORE.format(first="sys.stdin.buffer.readline()")]
        env = environment(OLLAMA_HOST=server.url, PYTHONPATH=str(ROOT), PYTHONUTF8="1")
        with subprocess.Popen(
            command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=env
        ) as process:
            assert process.stdin is not None
            process.stdin.write(b"first\nsecond\n")
            process.stdin.flush()
            until(lambda: len(server.chats) == 1)


def _is_empty(pipe: int) -> bool:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0] == 0


LONG = "word " * 20_000
"""More than a pipe holds."""


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "args, name, says",
    [
        (["-j"], "stdout", {"reply": LONG}),
        (["-s", "--think", "on"], "stderr", {"thinking": LONG}),
        (["--artifact-out", "/dev/stdout"], "stdout", {"reply": LONG}),
    ],
)
def test_all_is_written_to_a_stream_that_becomes_non_blocking(args, name, says, unbuffered):
    reading, writing = os.pipe()
    with FakeOllama(**says, num_ctx=1 << 18) as server:
        env = environment(OLLAMA_HOST=server.url, PYTHONUNBUFFERED=unbuffered)
        streams = {"stdout": DEVNULL, "stderr": DEVNULL, name: writing}
        with running(*args, "Hi", **streams, env=env) as process:
            until(lambda: is_full(writing))
            os.set_blocking(writing, False)  # who writes waits already
            written = os.read(reading, 1 << 15)
            time.sleep(0.3)
            os.set_blocking(writing, False)
            os.close(writing)
            with open(reading, "rb") as pipe:
                written += pipe.read()
            assert process.wait(60) == 0
    assert written.count(b"word") >= LONG.count("word")
