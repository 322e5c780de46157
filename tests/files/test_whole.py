"""What is written whole: to a file that does not block, and to a stream of a program's own."""

from __future__ import annotations

import io
import os
import threading
import time

import pytest

from ore.cli.terminal.streams import redirect_to_null
from ore.files.whole import WhileRead, is_stalled, write_text, write_whole

DATA = b"0123456789" * 20_000  # more than a pipe takes at once


@pytest.mark.parametrize("buffering", [0, 4096], ids=["raw", "buffered"])
def test_all_is_written_to_a_pipe_that_does_not_block(buffering):
    came, (reader, writer) = [], os.pipe()
    os.set_blocking(writer, False)

    def read() -> None:
        time.sleep(0.02)  # the pipe is full by then
        with open(reader, "rb") as file:
            came.append(file.read())

    with open(writer, "wb", buffering=buffering) as file:
        thread = threading.Thread(target=read)
        thread.start()
        write_whole(file, DATA)
        assert os.get_blocking(writer)
    thread.join()
    assert came == [DATA]


class Tee(io.TextIOWrapper):
    """A text file that keeps what is written to it."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.seen = []

    def write(self, text):
        self.seen.append(text)
        return super().write(text)


def test_a_stream_with_a_write_of_its_own_is_given_the_text():
    tee = Tee()
    write_text(tee, "Paris.\n")
    assert tee.seen == ["Paris.\n"] and tee.buffer.getvalue() == b"Paris.\n"


def test_what_a_program_has_written_before_comes_first():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stream.write("The capital: ")
    write_text(stream, "Paris.\n")
    assert stream.buffer.getvalue() == b"The capital: Paris.\n"


def test_what_only_takes_text_is_never_stalled():
    class Kept(list):
        def write(self, text):
            self.append(text)

        def flush(self):
            pass

    kept = Kept()
    WhileRead()(kept, "x" * 2000)
    redirect_to_null(kept)
    assert not is_stalled(kept) and "".join(kept) == "x" * 2000
