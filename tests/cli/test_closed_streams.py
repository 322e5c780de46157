"""A standard stream that is closed: nothing is opened in its place, and it stays closed for ORE."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.process import ROOT, environment

STREAMS = ("<&-", ">&-", "2>&-")
COMBINATIONS = [each for n in range(4) for each in itertools.combinations(range(3), n)]

# What a native library says on stderr while a request is on its way, and what is behind 0 to 2.
PROGRAM = """
import atexit, os
from ore.backends import ollama_wire

def after(hooks, response):
    os.write(2, b"said by a library\\n")
    return answered(hooks, response)

def tell():
    null = os.stat(os.devnull)
    with open(os.environ["NOTE"], "w") as file:
        file.write(" ".join(str(n) for n in range(3) if os.path.samestat(os.stat(n), null)))

answered, ollama_wire.Hooks.after = ollama_wire.Hooks.after, after
atexit.register(tell)
from ore.__main__ import start
start()
"""


@pytest.mark.slow
@pytest.mark.parametrize("closed", COMBINATIONS, ids=str)
def test_no_file_and_no_socket_gets_the_number_of_a_closed_stream(closed, tmp_path):
    note = tmp_path / "note"
    command = [sys.executable, "-c", PROGRAM, "-n", "Hi"]
    redirected = f'exec "$@" {" ".join(STREAMS[number] for number in closed)}'
    with FakeOllama(reply="Paris.") as server, open("/dev/zero") as other:
        done = subprocess.run(
            ["sh", "-c", redirected, "sh", *command],
            cwd=ROOT,
            env=environment(OLLAMA_HOST=server.url, NOTE=str(note)),
            stdin=other,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert note.read_text().split() == [str(number) for number in closed]
    assert done.returncode == (1 if 1 in closed else 0)
    assert done.stdout == ("" if 1 in closed else "Paris.\n")
