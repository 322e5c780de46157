"""An output that nobody reads, as that of a pager that waits: who is told to end does end."""

from __future__ import annotations

import os
import select
import signal
import subprocess

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.process import environment, running, until

LONG = "word " * 60_000
"""More than a pipe holds."""


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("args", [["-s", "Hi"], ["-j", "Hi"], ["-S", "one", "-s", "Hi"]])
def test_a_signal_ends_a_turn_whose_answer_nobody_reads(args, number, code, tmp_path):
    reading, writing = os.pipe()
    with FakeOllama(reply=LONG) as server:
        env = environment(OLLAMA_HOST=server.url, HOME=str(tmp_path))
        with running(*args, stdout=writing, stderr=subprocess.DEVNULL, env=env) as process:
            until(lambda: not select.select([], [writing], [], 0)[1])
            process.send_signal(number)
            assert process.wait(10) == code
    os.close(reading)
    os.close(writing)
