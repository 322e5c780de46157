"""On a terminal that takes each byte by itself, no part of a letter is a command."""

from __future__ import annotations

import errno
import io
import os
import pty
import termios

import pytest

from ore.cli.terminal import bytewise
from ore.cli.terminal.bytewise import is_bytewise, on_terminal, write_text
from ore.cli.terminal.labels import with_own
from ore.cli.terminal.streams import Streams
from ore.cli.terminal.text import laid_out
from ore.files.neutral import neutralise


def test_letters_are_numbers_there_and_files_have_every_letter(monkeypatch):
    text = "caf\u00e9 \u00c5\u011b \ub960 \U0001f600"
    assert on_terminal(text) == text
    monkeypatch.setattr(bytewise, "_ARE_THERE", True)
    assert on_terminal(text) == r"caf\xe9 \xc5\u011b \ub960 \U0001f600"
    assert neutralise(text) == text  # as in reports and in JUnit's files


def test_an_answers_label_has_the_columns_of_its_numbers_there(monkeypatch):
    monkeypatch.setattr(bytewise, "_ARE_THERE", True)
    shown = laid_out("a" * 18 + "You: no", 40, "[\u65e5\u672c\u8a9e]: ")  # shown as 22 columns
    assert shown == "\n" + "a" * 18 + "You: no"


def test_an_answers_own_label_is_none_of_its_text_there_in_either_case(monkeypatch):
    monkeypatch.setattr(bytewise, "_ARE_THERE", True)
    for text in ("[CAF\u00c9]: no", "[caf\u00e9]: no", r"[CAF\xC9]: no", r"[CAF\xE9]: no"):
        assert laid_out(text, 40, "", with_own("[CAF\u00c9]: ")) == " " + on_terminal(text)


@pytest.mark.parametrize(
    "environ, is_told, expected, sent",
    [
        ({"LANG": "C", "TERM": "screen"}, False, True, b""),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8", "TERM": "screen"}, False, True, b""),  # Python's own
        ({"LANG": "en_US.ISO-8859-1", "TERM": "xterm"}, False, True, b""),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, False, True, b""),
        ({"LANG": "C", "TERM": "xterm"}, False, False, b"\x1b%G"),
        ({"TERM": "xterm-256color"}, False, False, b"\x1b%G"),
        ({"LANG": "C", "TERM": "screen"}, True, False, b""),
        ({"LANG": "C.UTF-8", "TERM": "screen"}, False, False, b""),
        ({"LANG": "C", "LC_CTYPE": "de_DE.utf8", "found": "de_DE.utf8"}, False, False, b""),
        # A window of screen has what the terminal around it is told.
        ({"LANG": "C", "TERM": "screen", "STY": "1.tty"}, True, True, b""),
        ({"LANG": "C.UTF-8", "TERM": "screen", "STY": "1.tty"}, True, False, b""),
        # Not installed: screen and xterm take bytes then.
        ({"LANG": "xx_YY.UTF-8", "TERM": "screen"}, False, True, b""),
        ({"LANG": "xx_YY.UTF-8", "TERM": "xterm"}, False, False, b"\x1b%G"),
        ({"LANG": "xx_YY.UTF-8", "TERM": "xterm"}, True, False, b""),
        ({"LC_ALL": "xx_YY.UTF-8", "TERM": "screen", "found": "C"}, False, True, b""),
    ],
)
def test_a_terminal_of_which_nothing_says_that_it_knows_utf_8_may_take_bytes(
    environ, is_told, expected, sent
):
    ours, theirs = pty.openpty()
    try:
        modes = termios.tcgetattr(theirs)
        modes[0] = modes[0] | 0x4000 if is_told else modes[0] & ~0x4000
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        with open(theirs, "w", encoding="utf-8", closefd=False) as stream:
            assert is_bytewise(stream, environ, environ.pop("found", "C.UTF-8")) == expected
            for text in (".", "\u00e9", "\u00e9", "!"):  # JSON is ASCII: programs read it
                write_text(stream, text)
        seen = b""
        while not seen.endswith(b"!"):
            seen += os.read(ours, 100)
        assert seen == b"." + sent + "\u00e9\u00e9!".encode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_what_is_no_terminal_takes_utf_8(stream):
    assert not is_bytewise(stream, {"LANG": "C", "TERM": "screen"}, "C")


def test_no_terminal_of_an_earlier_call_is_asked():
    bytewise._UNASKED.append(io.StringIO())
    bytewise.look_for_bytewise(None, environ={})
    assert bytewise._UNASKED == [] and not bytewise.may_be_bytewise()


def test_a_terminal_is_asked_also_for_what_is_written_after_a_stop():
    terminal = io.StringIO()
    streams = Streams(None, terminal, None)
    streams.is_stopped = lambda: True
    bytewise._UNASKED[:] = [terminal]
    streams._write("\u06db[2J")
    assert terminal.getvalue() == "\x1b%G\u06db[2J" and bytewise._UNASKED == []


def test_a_terminal_that_takes_nothing_is_told_by_the_text_that_follows():
    """As one that stops programs in the background (stty tostop), whose shell is gone."""

    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(errno.EIO, "Input/output error")

    bytewise._UNASKED[:] = [stream := Gone()]
    bytewise.ask_for_utf8(stream)
    assert bytewise._UNASKED == []
