"""argv, stdin and the prompt that they make."""

from __future__ import annotations

import errno
import io
import os
import threading

import pytest

from ore.cli import prompt as asking
from ore.cli.options import Options
from ore.cli.parser import build_parser
from ore.cli.prompt import LONGEST_PROMPT, is_readable, read_prompt
from ore.errors import UsageError


def ignore(_: str) -> None:
    pass


@pytest.mark.parametrize(
    "prompt, piped, expected",
    [
        ("why?", None, "why?"),
        (None, b"text\n", "text\n"),
        ("why?", b"text\n", "why?\n\ntext\n"),
        ("why?", b"", "why?"),
        ("why?", b" \n\t", "why?"),
        (" why? ", None, " why? "),
        (None, "é\u200d\n".encode(), "é\u200d\n"),
    ],
)
def test_argument_and_stdin_make_the_prompt(prompt, piped, expected):
    stdin = None if piped is None else io.BytesIO(piped)
    assert read_prompt(Options(prompt), stdin, ignore) == expected


@pytest.mark.parametrize("piped", [None, b"", b"  \n"])
def test_no_prompt_and_nothing_on_stdin_is_a_usage_error(piped):
    with pytest.raises(UsageError, match="no prompt"):
        read_prompt(Options(), None if piped is None else io.BytesIO(piped), ignore)


def test_stdin_that_is_not_utf8_names_the_byte():
    with pytest.raises(UsageError, match="stdin is not UTF-8 at byte 2"):
        read_prompt(Options("why?"), io.BytesIO(b"ab\xff"), ignore)


def test_a_pdf_on_stdin_is_told_what_makes_text_of_it():
    with pytest.raises(UsageError, match="stdin is a PDF: turn it into text first"):
        read_prompt(Options("why?"), io.BytesIO(b"%PDF-1.4\n\xe2\xe3"), ignore)


def test_an_argument_that_is_not_utf8_names_the_byte():
    with pytest.raises(UsageError, match="not UTF-8 at byte 1"):
        build_parser().parse_args([os.fsdecode(b"a\xff")])


def test_an_argument_that_is_not_text_at_all_is_refused():
    with pytest.raises(UsageError, match="not text at character 1"):
        build_parser().parse_args(["a\ud800"])


def test_a_line_loses_only_its_line_end(ore):
    assert ore("-i", stdin=b" a \r\na\n b").prompts == [" a ", "a", " b"]


def test_only_a_pipe_a_file_and_a_socket_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    reading, writing = os.pipe()
    with open(tmp_path / "file", "rb") as file, open(reading, "rb") as pipe:
        assert is_readable(file) and is_readable(pipe)
    os.close(writing)
    with open("/dev/null", "rb") as device:
        assert not is_readable(device)
    leader, follower = os.openpty()
    with open(follower, "rb") as terminal, open(leader, "rb"):
        assert not is_readable(terminal)


@pytest.mark.parametrize(
    "prompt, way",
    [
        ("why?", "to ask without it, add -n or </dev/null."),
        (None, "to ask without it, write a prompt and add -n."),
    ],
)
def test_a_silent_pipe_is_named_and_then_read_to_its_end(monkeypatch, prompt, way):
    monkeypatch.setattr(asking, "PATIENCE", 0.05)
    reading, writing = os.pipe()
    told = threading.Event()

    def write_once_told() -> None:
        told.wait(5)
        os.write(writing, b"late")
        os.close(writing)

    writer = threading.Thread(target=write_once_told)
    writer.start()
    notices: list[str] = []

    def notice(text: str) -> None:
        notices.append(text)
        told.set()

    with open(reading, "rb") as pipe:
        assert read_prompt(Options(prompt), pipe, notice).endswith("late")
    writer.join()
    assert len(notices) == 1 and notices[0].endswith(way)


def test_a_pipe_that_speaks_at_once_is_not_named():
    notices: list[str] = []
    assert read_prompt(Options(), io.BytesIO(b"now"), notices.append) == "now"
    assert notices == []


def test_stdin_that_cannot_be_read_is_reported():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(UsageError, match="stdin can't be read: input/output error"):
        read_prompt(Options("why?"), Broken(), ignore)


class Endless(io.RawIOBase):
    """A stdin that never ends; ``given`` is how many bytes were read of it."""

    given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        self.given += len(buffer)
        return len(buffer)


@pytest.mark.parametrize("prompt", [None, "why?"])
def test_more_than_a_prompt_can_have_is_refused_before_more_is_read(prompt):
    endless = Endless()
    with pytest.raises(UsageError, match="more than 64 MiB"):
        read_prompt(Options(prompt), io.BufferedReader(endless), ignore)
    assert endless.given < LONGEST_PROMPT + 3 * 2**20


def test_a_prompt_may_be_as_long_as_it_can_be(monkeypatch):
    monkeypatch.setattr(asking, "LONGEST_PROMPT", 8)
    assert read_prompt(Options(), io.BytesIO(b"12345678"), ignore) == "12345678"
    with pytest.raises(UsageError):
        read_prompt(Options(), io.BytesIO(b"123456789"), ignore)


def test_no_stdin_reads_none(ore):
    assert ore("why?", "-n", stdin="text").prompts == ["why?"]
    for flags, said in (
        (["-n"], "There is no prompt: write one; --no-stdin leaves stdin alone."),
        (["-n", "--artifact-in", "-"], "--no-stdin can't be used with an artifact from stdin"),
        (["-n", "-i"], "--no-stdin can't be used with a REPL"),
        (["-n", "--session", "trip"], "--no-stdin can't be used with a REPL"),
    ):
        result = ore(*flags, stdin="text")
        assert (result.code, result.calls) == (2, []) and said in result.err
