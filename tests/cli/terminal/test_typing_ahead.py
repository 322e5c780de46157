"""What is typed while an answer comes is not shown, not lost, and the terminal is as it was."""

from __future__ import annotations

import io
import os
import pty
import select
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from ore.cli.terminal import editing
from ore.cli.terminal.editing import forget_typed, hidden_typing


@pytest.fixture
def terminal() -> Iterator[tuple[int, io.BufferedIOBase]]:
    """The end that a person types at, and a process's stdin."""
    ours, theirs = pty.openpty()
    with open(theirs, "rb", buffering=0) as raw:
        yield ours, io.BufferedReader(raw)
    os.close(ours)


def local_modes(stdin: io.BufferedIOBase) -> int:
    return termios.tcgetattr(stdin.fileno())[3]


@pytest.mark.parametrize(
    "is_edited, off", [(True, termios.ECHO | termios.ICANON), (False, termios.ECHO)]
)
def test_the_terminal_shows_nothing_in_the_block_and_is_as_it_was_after_it(
    terminal, is_edited, off
):
    _, stdin = terminal
    before = local_modes(stdin)
    with (
        pytest.raises(KeyboardInterrupt),
        hidden_typing(stdin, lambda _: None, is_edited=is_edited),
    ):
        assert local_modes(stdin) == before & ~off | termios.NOFLSH
        raise KeyboardInterrupt
    assert local_modes(stdin) == before


def test_what_was_typed_is_read_after_the_block(terminal):
    ours, stdin = terminal
    with hidden_typing(stdin, lambda _: None, is_edited=False):
        os.write(ours, b"next\n")
    assert stdin.readline() == b"next\n"


@pytest.mark.slow
@pytest.mark.parametrize("is_edited", [True, False])
def test_of_a_paste_that_is_too_long_nothing_is_read_not_even_what_comes_after_the_block(
    terminal, is_edited
):
    ours, stdin = terminal
    lost: list[str] = []

    def paste_on() -> None:
        for _ in range(5):
            time.sleep(0.02)
            os.write(ours, b"a line of it\n")

    pasting = threading.Thread(target=paste_on)
    with hidden_typing(stdin, lambda _: None, is_edited=is_edited, lost=lost.append):
        os.write(ours, b"a line of it\n" * 300)
        time.sleep(0.3)  # it is seen to be too long
        pasting.start()
    pasting.join()
    assert lost and not select.select([stdin], [], [], 0)[0]


@pytest.mark.slow
def test_a_key_that_is_held_down_is_not_waited_for(terminal, monkeypatch):
    ours, stdin = terminal
    monkeypatch.setattr(editing, "_LONGEST_SECONDS", 0.2)
    is_over = threading.Event()

    def hold() -> None:
        for _ in range(300):
            if is_over.wait(0.01):
                return
            os.write(ours, b"\n")

    held = threading.Thread(target=hold)
    os.write(ours, b"\n")
    held.start()
    forget_typed(stdin)
    assert held.is_alive()
    is_over.set()
    held.join()


@pytest.mark.parametrize("marks, shown", [(True, ["\x1b[?2004h", "\x1b[?2004l"]), (False, [])])
def test_pastes_are_marked_where_the_reader_knows_the_marks(terminal, marks, shown):
    _, stdin = terminal
    written: list[str] = []
    with hidden_typing(stdin, written.append, is_edited=True, marks_pastes=marks):
        pass
    assert written == shown


def test_ctrl_c_while_the_terminal_is_put_back_leaves_it_as_it_was_all_the_same(terminal):
    _, stdin = terminal
    before, written = local_modes(stdin), []

    def show(mark: str) -> None:
        written.append(mark)
        if written[-2:] == ["\x1b[?2004h", "\x1b[?2004l"]:
            written.append("^C")
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        hidden_typing(stdin, show, is_edited=True, marks_pastes=True),
    ):
        pass
    assert written == ["\x1b[?2004h", "\x1b[?2004l", "^C", "\x1b[?2004l"]
    assert local_modes(stdin) == before


def test_a_file_or_memory_is_left_alone(tmp_path):
    (tmp_path / "file").write_bytes(b"text\n")
    written: list[str] = []
    with open(tmp_path / "file", "rb") as file:
        for stdin in (file, io.BytesIO(b"text\n")):
            with hidden_typing(stdin, written.append, is_edited=True, marks_pastes=True):
                assert stdin.readline() == b"text\n"
    assert written == []


def test_a_terminal_that_goes_away_in_the_block_is_not_an_error(terminal):
    _, stdin = terminal
    with hidden_typing(stdin, lambda _: None, is_edited=False):
        stdin.close()
