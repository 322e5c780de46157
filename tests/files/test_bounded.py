"""A function in a process of its own: what it returns, and that every call ends."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading

import pytest

from ore.files.bounded import Bounded
from ore.tools.running import run_bounded
from tests.support.faults import interrupted_starts

APART = "tests.support.apart"


@pytest.fixture
def bounded():
    made = []

    def make(name: str, seconds: float = 30.0) -> Bounded:
        made.append(Bounded(f"{APART}:{name}", seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def many_files():
    """So many open files that the next one has a number above 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("the system gives no more than 2,048 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield opened
    for each in opened:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("value", ["a", 7, ["x", None], "\u2028\ud800", "x" * 3_000_000])
def test_what_the_function_returns_comes_back(bounded, value):
    assert bounded("doubled")(value) == value * 2


def test_the_folder_may_be_removed_that_modules_are_also_looked_for_in(
    bounded, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend("")  # as for `python -c`, and in a notebook
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert bounded("doubled")("a") == "aa"


def test_one_process_serves_many_calls_and_passes_what_is_refused(bounded):
    call = bounded("doubled")
    assert call(1) == 2
    child = call._child.pid
    with pytest.raises(ValueError, match="^nothing to double$"):
        call(None)
    assert call(3) == 6


@pytest.mark.slow
def test_what_never_ends_is_ended_and_the_next_call_has_a_new_process(bounded):
    call = bounded("search", 0.3)
    with pytest.raises(TimeoutError):
        call("^(a+)+$", "a" * 60 + "!")
    assert call("a", "ba") is True


@pytest.mark.parametrize("name", ["grow", "leave", "none"])
def test_a_process_that_ends_by_itself_is_an_error(bounded, name):
    with pytest.raises(OSError):
        bounded(name)()


def test_a_system_that_gives_no_more_processes_is_said_in_words(bounded, monkeypatch):
    def none(*_, **more):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("ore.files.bounded.subprocess.Popen", none)
    with pytest.raises(OSError, match=r"^the system gives no more processes: raise .*ulimit -u"):
        bounded("doubled")(1)


def test_nothing_is_left_where_it_was_not_closed():
    call = Bounded(f"{APART}:doubled", 30.0)
    call.start()
    child = call._child.pid
    del call
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_an_interrupt_ends_the_process_of_a_call(bounded, monkeypatch):
    call = bounded("doubled")
    call.start()
    child = call._child.pid
    monkeypatch.setattr("ore.files.bounded.is_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        call(1)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_signal_for_a_program_with_threads_does_not_end_a_process_that_starts(
    bounded, monkeypatch
):
    def held(*_, **more):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        raise OSError("seen")

    masks: list[set[int]] = []
    monkeypatch.setattr("ore.files.bounded.subprocess.Popen", held)
    ended = threading.Event()
    threading.Thread(target=ended.wait).start()
    try:
        with pytest.raises(OSError, match="seen"):
            bounded("doubled").start()
    finally:
        ended.set()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= masks[0]


def interrupt(*_):
    raise KeyboardInterrupt


def test_it_works_where_more_files_are_open_than_select_takes(bounded, many_files):
    assert many_files[-1] > 1024
    assert bounded("doubled")(1) == 2
    assert run_bounded(["echo", "hi"], os.environ, 10, 100) == b"hi\n"


def test_a_command_that_a_signal_comes_with_is_ended(monkeypatch):
    started = interrupted_starts(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(["sleep", "9"], os.environ, 9.0, 100)
    assert started[0].returncode == -signal.SIGKILL
