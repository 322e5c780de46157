"""Code of tools: what of the process is as it was after it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ore.cli.terminal.apart import given_back
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


def test_no_descriptor_stays_open(folder):
    with open(1, "w", closefd=False) as stdout:
        before = os.listdir("/dev/fd")
        with given_back(stdout, sys.stderr):
            assert len(os.listdir("/dev/fd")) == len(before) + 2
        assert os.listdir("/dev/fd") == before


def test_ctrl_c_as_the_block_begins_leaves_stdout_where_it_was():
    before = os.fstat(1)
    with ThreadPoolExecutor(1) as thread:  # of its own: no other's lines are traced
        for number in range(1, 100):
            is_entered = thread.submit(_entered, number).result()
            assert os.path.samestat(os.fstat(1), before), number
            if is_entered:
                break
    assert is_entered and number > 10


def _entered(number: int) -> bool:
    """Return whether the block is entered where Ctrl-C comes at a line of it, the first of which is 1."""
    lines = iter(range(1, number))

    def at_line(frame, event, _):
        if event == "line" and next(lines, None) is None:
            raise KeyboardInterrupt
        return at_line

    with open(1, "w", closefd=False) as stdout:
        sys.settrace(lambda frame, *_: at_line if frame.f_code.co_name == "given_back" else None)
        try:
            with given_back(stdout, sys.stderr):
                sys.settrace(None)
                return True
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(None)
