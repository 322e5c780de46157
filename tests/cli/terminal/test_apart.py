"""Code of tools: what of the process is as it was after it."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from ore.cli.terminal.console import apart
from tests.support.process import environment, run

PACKAGE = """\
import os
from ore.tools import Tool
os.system("echo of a program")
os.write(1, b"of its own\\n")
class T(Tool):
    name, description, required_permissions = "odd", "Odd.", frozenset()
    def run(self, args): ...
"""


def test_what_a_tool_starts_writes_to_stderr(tmp_path):
    about = tmp_path / "odd-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("[ore.tools]\nodd = odd_package:T\n")
    (tmp_path / "odd_package.py").write_text(PACKAGE)
    ended = run("--list-tools", env=environment(PYTHONPATH=str(tmp_path)))
    assert (ended.code, ended.err) == (0, "of a program\nof its own\n")
    assert "odd\t-\tOdd.\n" in ended.out and "of " not in ended.out.split("\n")[0]


@pytest.mark.parametrize("fails", [False, True])
def test_the_folder_the_signals_the_hooks_and_the_limit_of_recursion_are_given_back(folder, fails):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers], sys.getrecursionlimit()
    hooks = sys.excepthook, threading.excepthook
    try:
        with apart():
            os.chdir("/")
            sys.setrecursionlimit(100_000)
            sys.excepthook = threading.excepthook = None
            for number in numbers:
                signal.signal(number, lambda *_: None)
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    assert os.getcwd() == str(folder.resolve())
    assert ([signal.getsignal(number) for number in numbers], sys.getrecursionlimit()) == before
    assert (sys.excepthook, threading.excepthook) == hooks


def test_a_folder_that_is_gone_is_no_error(folder):
    folder.rmdir()
    with apart():
        os.chdir("/")
    with pytest.raises(FileNotFoundError):
        os.getcwd()
