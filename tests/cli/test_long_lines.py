"""A line without an end is bounded: it is said, and it takes no memory to speak of."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.support.process import ROOT, environment

MOST = 400 << 20


def bound() -> None:
    """Let the process have no more memory than that."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))


@pytest.mark.slow
def test_a_line_without_an_end_is_refused_before_it_takes_the_memory(home):
    command = [sys.executable, "-m", "tests.support.scripted", "[]", "-i"]
    with open("/dev/zero", "rb") as zero:
        process = subprocess.Popen(
            command,
            stdin=zero,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            preexec_fn=bound,
        )
    assert process.stderr is not None
    try:
        assert b"A line is longer than 16 MiB" in process.stderr.readline()
        assert process.poll() is None  # it skips the rest
    finally:
        process.kill()
        process.communicate()
