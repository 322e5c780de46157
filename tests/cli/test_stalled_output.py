"""An output that nobody reads, as that of a pager that waits: who is told to end does end."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.process import environment, running, until

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


TURNS = [
    (["-s", "Hi"], b""),
    pytest.param(["-j", "Hi"], b"", marks=pytest.mark.slow),
    pytest.param(["-S", "one", "-s", "Hi"], b"", marks=pytest.mark.slow),
    pytest.param(["-c", "-s"], b"One\nTwo\n", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("args, typed", TURNS)
def test_a_signal_ends_a_turn_whose_answer_nobody_reads(args, typed, number, code, tmp_path):
    reading, writing = os.pipe()
    prompts, typing = os.pipe()  # it stays open: there may be a next prompt
    os.write(typing, typed)
    with FakeOllama(reply=LONG) as server:
        env = environment(OLLAMA_HOST=server.url, HOME=str(tmp_path))
        streams = {"stdin": prompts if typed else subprocess.DEVNULL, "stdout": writing}
        with running(*args, **streams, stderr=subprocess.DEVNULL, env=env) as process:
            until(lambda: is_full(writing))
            process.send_signal(number)
            assert process.wait(10) == code
    for number in (reading, writing, prompts, typing):
        os.close(number)
