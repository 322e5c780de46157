"""The only writer: what goes where, and what a terminal is spared."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import time

import pytest

from ore.cli.terminal.console import Console
from ore.errors import OutputError, ReaderGoneError, ReasonerContractError, UsageError
from tests.support.artifacts import nested
from tests.support.harness import XTERM, Terminal, TypedInput

HOSTILE = "a\x1b]52;c;aGk=\x07\u202eb"


def console(out=None, err=None, stdin=None) -> Console:
    return Console(stdin, out or io.StringIO(), err or io.StringIO(), XTERM)


def say(target: Console, *chunks: str) -> str:
    target.begin_answer()
    for chunk in chunks:
        target.chunk(chunk)
    target.end_answer()
    return target.stdout.getvalue()


def test_in_a_pipe_the_answer_is_verbatim_with_one_newline():
    assert say(console(), HOSTILE, "\nend") == HOSTILE + "\nend\n"


def test_on_a_terminal_the_answer_is_labelled_and_neutral():
    assert say(console(Terminal()), HOSTILE) == "[AYA]: a^[]52;c;aGk=^G\\u202eb\n"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_on_a_terminal_an_answer_that_ends_its_own_line_gets_no_second_end(end):
    assert say(console(Terminal()), "Paris." + end) == "[AYA]: Paris.\n"


def test_of_an_earlier_message_only_the_end_is_laid_out():
    target, began = console(err=Terminal()), time.process_time()
    target.recall("[AYA]: ", "You: a line\n" * 400_000 + "the end")
    assert time.process_time() - began < 3
    assert target.stderr.getvalue() == "[AYA]: …\n" + " You: a line\n" * 11 + "the end\n"


def test_a_broken_answer_ends_its_line_and_no_other():
    target = console()
    target.break_answer()
    target.chunk("half")
    target.break_answer()
    target.break_answer()
    assert target.stdout.getvalue() == "half\n"


def test_nothing_of_a_bar_is_left_beside_what_is_told_meanwhile():
    target = console(err=Terminal())
    target.bar("12 of 100 rows")
    target.error("row 12: no")
    target.bar("13 of 100 rows")
    target.end_progress()
    bars = [f"1{digit} of 100 rows\r{' ' * 14}\r" for digit in "23"]
    assert target.stderr.getvalue() == f"{bars[0]}ore: row 12: no\n{bars[1]}"


@pytest.mark.parametrize("write", ["notice", "error", "reply"])
def test_stderr_is_neutral_on_a_terminal_and_verbatim_in_a_pipe(write):
    for err, expected in ((Terminal(), "a^[]52;c;aGk=^G\\u202eb"), (io.StringIO(), HOSTILE)):
        target = console(err=err)
        getattr(target, write)(HOSTILE)
        assert err.getvalue().removeprefix("ore: ") == expected + "\n"


def test_a_notice_begins_in_the_first_column_of_a_narrow_terminal():
    for write in ("notice", "reply"):
        target = console(err=Terminal())
        target._columns = lambda stream: 13
        getattr(target, write)("1 of 2: runs/You: no")  # the 14th letter begins the next line
        assert target.stderr.getvalue() == "1 of 2: runs/\n You: no\n"


def test_quiet_leaves_errors_only():
    target = console()
    target.quiet = True
    target.notice("notice")
    target.metadata("id", "model", {})
    target.progress("pulling", 1, 2)
    target.error("error")
    assert target.stderr.getvalue() == "ore: error\n"


def test_rows_are_tab_separated_in_a_pipe_and_aligned_on_a_terminal():
    rows = [("a", "first"), ("longer", "x\ty\n\x1b")]
    piped, terminal = console(), console(Terminal())
    piped.rows(rows)
    terminal.rows(rows)
    assert piped.stdout.getvalue() == "a\tfirst\nlonger\tx y \x1b\n"
    assert terminal.stdout.getvalue().splitlines()[0] == "a       first"
    assert "\x1b" not in terminal.stdout.getvalue()


def test_json_is_one_ascii_document():
    target = console(Terminal())
    target.json({"a": "é\x9b\u202e", "b": [1]})
    text = target.stdout.getvalue()
    assert text.isascii() and text.endswith("}\n")
    assert json.loads(text) == {"a": "é\x9b\u202e", "b": [1]}


@pytest.mark.parametrize(
    "value", [{"a": {1, 2}}, {"a": float("nan")}, nested(100_000)], ids=range(3)
)
def test_a_value_without_json_is_an_error_and_nothing_is_written(value):
    target = console()
    with pytest.raises(ReasonerContractError):
        target.json(value)
    assert target.stdout.getvalue() == ""


def test_metadata_reads_durations_in_units_and_nested_keys():
    target = console()
    values = {"eval_count": 3, "eval_duration": 1_500_000_000, "load_duration": 2_000_000}
    target.metadata("1", "m", {**values, "context": {"status": "complete", "window": None}})
    assert target.stderr.getvalue() == (
        "[Metadata]: id=1 model=m eval_count=3 eval_duration=1.50s load_duration=2.0ms "
        "context.status=complete context.window=None\n"
    )


def test_a_closed_stdout_is_an_error_and_a_closed_stderr_is_survived():
    target = Console(None, None, None)
    target.error("nobody hears this")
    with pytest.raises(OutputError, match="stdout is closed"):
        target.chunk("x")


def test_a_reader_that_went_away_is_not_taken_for_a_full_disk():
    reading, writing = os.pipe()
    os.close(reading)
    target = console(open(writing, "w", encoding="utf-8"))
    with pytest.raises(ReaderGoneError):
        target.chunk("x")
    drop(target)
    target = console(open("/dev/full", "w", encoding="utf-8"))
    with pytest.raises(OutputError, match="[Nn]o space"):
        target.chunk("x")
    drop(target)


def drop(target: Console) -> None:
    """Close a stream that can't be flushed."""
    try:
        target.stdout.close()
    except OSError:
        pass


class Partly(io.RawIOBase):
    """A file that takes three bytes at a time, as a disk that is nearly full may, under ``python -u``."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.taken += bytes(data[:3])
        return len(data[:3])


def test_an_answer_is_written_whole_even_without_a_buffer():
    raw = Partly()
    target = console(io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    target.json({"answer": "long enough"})
    assert json.loads(raw.taken) == {"answer": "long enough"}


@pytest.mark.parametrize(
    "terminals, out, err",
    [("in out err", "You: ", ""), ("in err", "", "You: "), ("in", "", "You: "), ("", "", "")],
)
def test_the_prompt_goes_where_a_person_types(terminals, out, err):
    ends = terminals.split()
    target = Console(
        (TypedInput if "in" in ends else io.BytesIO)(b"hello\n"),
        (Terminal if "out" in ends else io.StringIO)(),
        (Terminal if "err" in ends else io.StringIO)(),
    )
    assert target.ask() == b"hello\n"
    assert (target.stdout.getvalue(), target.stderr.getvalue()) == (out, err)


def test_progress_is_a_bar_on_a_terminal_and_a_line_a_step_where_none_can_be_drawn():
    terminal, piped = console(err=Terminal()), console()
    dumb = Console(None, None, Terminal(), {"TERM": "dumb"})
    for target in (terminal, piped, dumb):
        target.progress("reading", 1_000_000, 2_000_000)
        target.progress("reading", 1_500_000, 2_000_000)
        target.progress("checking", 0, 0)
        target.end_progress()
    assert piped.stderr.getvalue() == dumb.stderr.getvalue() == "reading\nchecking\n"
    shown = terminal.stderr.getvalue()
    assert "50% of 2.0 MB" in shown and shown.endswith("\r") and "\n" not in shown


def test_a_bar_covers_the_longer_one_before_it_and_is_not_drawn_too_often():
    target = console(err=Terminal())
    for done in (1_000_000, 1_100_000):
        target.progress("reading", done, 2_000_000)
    target.progress("read", 1_000_000, 0)
    long, short, rest = target.stderr.getvalue().split("\r")
    assert (short.rstrip(), len(short), rest) == ("read: 1.0 MB", len(long), "")


def test_a_bar_never_makes_a_second_line_in_a_narrow_terminal():
    target = console(err=Terminal())
    target._columns = lambda stream: 40
    target.progress("reading", 1_000_000, 2_000_000)
    target.end_progress()
    drawn = target.stderr.getvalue().split("\r")
    bar = "reading: [######.......]  50% of 2.0 MB"
    assert drawn == [bar, " " * len(bar), ""] and len(bar) < 40


def test_a_bar_of_wide_characters_makes_no_second_line_either_and_is_covered_whole():
    target = console(err=Terminal())
    target._columns = lambda stream: 40
    target.bar("語" * 19 + "xYou: forged")
    target.end_progress()
    assert target.stderr.getvalue() == f"{'語' * 19}x\r{' ' * 39}\r"


def test_a_bar_of_letters_from_right_to_left_makes_no_second_line_before_a_label():
    target = console(err=Terminal())
    target._columns = lambda stream: 40
    target.bar("\u05d0You: forged")
    assert target.stderr.getvalue() == "\u05d0 You: forged\r"


def test_a_bar_with_a_label_is_taken_away_whole():
    target = console(err=Terminal())
    target._columns = lambda stream: 40
    target.bar("You: forged")
    target.end_progress()
    assert target.stderr.getvalue() == f" You: forged\r{' ' * 12}\r"


def test_a_terminal_that_is_lost_is_the_end_of_the_input_and_a_lost_pipe_an_error():
    class Lost(TypedInput):
        def readline(self, size=-1):
            raise OSError(errno.EIO, "Input/output error")

    err = Terminal()
    assert console(err=err, stdin=Lost()).ask() is None
    assert console(err=err, stdin=Lost()).confirm("Sure?") is False
    assert err.getvalue().count("stdin can't be read: Input/output error.") == 2
    lost = Lost()
    lost.isatty = lambda: False
    with pytest.raises(UsageError, match="Input/output error"):
        console(stdin=lost).ask()
    assert console().ask() is None


def test_nobody_can_be_asked_without_a_terminal_on_both_ends():
    for stdin, err in ((None, Terminal()), (io.BytesIO(b"y\n"), Terminal()), (TypedInput(), None)):
        assert console(err=err, stdin=stdin).confirm("Sure?") is None
    assert console(err=Terminal(), stdin=TypedInput(b" YES\n")).confirm("Sure?") is True


def test_a_question_that_the_end_of_the_input_answers_leaves_its_line():
    err = Terminal()
    assert console(err=err, stdin=TypedInput(b"")).confirm("Sure?") is False
    assert err.getvalue() == "Sure? [y/N] \n"


def test_streams_that_others_closed_are_not_terminals_and_are_survived():
    out, err = Terminal(), io.StringIO()
    err.close()
    target = console(out, err)
    assert not target.stderr_is_terminal
    target.notice("unheard")
    target.error("unheard")
    say(target, "heard")
    assert out.getvalue() == "[AYA]: heard\n"


@pytest.mark.parametrize("label", ["You: hi", "[AYA]: hi", "ore: hi"])
def test_a_server_s_word_for_a_step_passes_for_none_of_ore_s(label):
    err = Terminal()
    Console(None, None, err, {}).progress(label, 1, 2)
    drawn = Terminal()
    Console(None, None, drawn, XTERM).progress(label, 1, 2)
    assert err.getvalue() == f" {label}\n"
    assert drawn.getvalue().startswith(f" {label}")


def test_a_line_that_fills_what_a_terminal_passes_on_is_not_sent_for_its_rest_would_be_gone():
    full = console(stdin=TypedInput(b"x" * 4_095 + b"\nnext\n"))
    with pytest.raises(UsageError, match="4,095 bytes.*nothing was sent.*-f PATH"):
        full.ask()
    assert full.ask() == b"next\n"
    assert len(console(stdin=TypedInput(b"x" * 4_094 + b"\n")).ask()) == 4_095


@pytest.mark.parametrize("name", ["You", "ore"])
def test_the_head_of_a_transcript_does_not_pass_for_a_line_of_ores(name):
    target = console(out=Terminal())
    target.transcript(f"{name}: 1 turn", [("You: ", "Hi")])
    assert target.stdout.getvalue().startswith(f" {name}: 1 turn\n\n")


def test_what_was_held_before_a_thought_in_mid_answer_begins_no_line_as_one_of_ores():
    shown = Terminal()
    target = console(out=shown, err=shown)
    target.begin_answer()
    target.chunk("It is You:")
    target.thinking("hm, ")
    target.thinking("so")
    target.end_answer()
    assert shown.getvalue() == "[AYA]: It is \n[THINKING]: hm, so\n You:\n"


def test_an_answer_that_begins_after_ctrl_z_is_laid_out_beside_its_label():
    target = console(out=Terminal())
    target._columns = lambda stream: 40
    target.begin_answer()
    with target.following_stops():
        signal.raise_signal(signal.SIGCONT)
        target.chunk("x" * 32 + " You: x")
    target.end_answer()
    assert target.stdout.getvalue().endswith("x \n You: x\n")


class Slow(Terminal):
    """A terminal on which the first long text is written in two parts, between which something is done."""

    def __init__(self, act):
        super().__init__()
        self._act = act

    def write(self, text):
        if len(text) < 40 or self._act is None:
            return super().write(text)
        act, self._act = self._act, None
        super().write(text[:40])
        act()
        return super().write(text[40:])


def write_part(stream, what):
    out, err = (Slow(stream), Terminal()) if what == "chunk" else (Terminal(), Slow(stream))
    target = console(out=out, err=err)
    target._columns = lambda stream: 40
    target.begin_answer()
    return target, target.stdout if what == "chunk" else target.stderr


@pytest.mark.parametrize("what", ["chunk", "thinking"])
def test_where_ctrl_c_cuts_a_text_short_what_was_held_of_it_is_not_shown(what):
    def stop():
        raise KeyboardInterrupt

    target, shown = write_part(stop, what)
    with pytest.raises(KeyboardInterrupt):
        getattr(target, what)("\n" * 50 + "a You:")
    target.break_answer()
    target.end_thinking()
    assert shown.getvalue().endswith("\n\n") and "You:" not in shown.getvalue()


@pytest.mark.parametrize("what", ["chunk", "thinking"])
def test_where_ctrl_z_comes_as_a_text_is_written_no_label_is_at_the_left_edge(what):
    target, shown = write_part(lambda: signal.raise_signal(signal.SIGCONT), what)
    with target.following_stops():
        getattr(target, what)("\n" * 50 + "x" * 38 + " You:")
        target.end_thinking()
        target.break_answer()
    assert shown.getvalue().endswith("x \n You:\n")


@pytest.mark.parametrize("what", ["chunk", "thinking"])
def test_a_text_follows_the_terminal_that_is_made_narrower_and_shows_no_label_at_its_edge(what):
    target = console(out=Terminal(), err=Terminal())
    target._columns = lambda stream: 60
    target.begin_answer()
    getattr(target, what)("Well, \n")
    target._columns = lambda stream: 30
    getattr(target, what)("x" * 29 + " You: rm -rf /\n")
    shown = target.stdout if what == "chunk" else target.stderr
    assert shown.getvalue().endswith(": Well, \n" + "x" * 29 + " \n You: rm -rf /\n")


@pytest.mark.parametrize("out, err", [(Terminal, io.StringIO), (io.StringIO, Terminal)])
def test_a_thought_in_mid_answer_that_goes_elsewhere_leaves_the_answer_as_it_is(out, err):
    target = console(out=out(), err=err())
    target.begin_answer()
    target.chunk("It is ")
    target.thinking("hm")
    target.chunk("so.")
    target.end_answer()
    assert target.stdout.getvalue().endswith("It is so.\n")
    assert target.stderr.getvalue() == "[THINKING]: hm\n"


class Written(Terminal):
    """A terminal that knows how long the texts were that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths = list[int]()

    def write(self, text: str) -> int:
        self.lengths.append(len(text))
        return super().write(text)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a line\n" * 40_000, "you: " * 60_000, " You: b\n" * 30_000])
def test_a_long_document_is_written_while_it_is_laid_out(text):
    target = console(out=Written())
    target.document(text)
    assert target.stdout.getvalue().replace("\n", "").replace(" ", "") == "".join(text.split())
    assert len(target.stdout.lengths) > 2 and max(target.stdout.lengths) < 140_000


def test_a_long_transcript_is_written_while_it_is_laid_out():
    text, target = "word " * 14_000, console(out=Written())
    target.transcript("trip: 1 turn", [("You: ", text), ("[AYA]: ", "Yes")])
    assert target.stdout.getvalue().startswith("trip: 1 turn\n\nYou: word word")
    assert target.stdout.getvalue().endswith(" word \n\n[AYA]: Yes\n")
    assert len(target.stdout.lengths) > 5 and max(target.stdout.lengths) < len(text)


@pytest.mark.parametrize("rest", ["You: rm", "You: rm -rf /\n", "[AYA]: yes\n"])
def test_after_a_thought_in_mid_answer_no_line_passes_for_one_of_ores(rest):
    shown = Terminal()
    target = console(out=shown, err=shown)
    target.begin_answer()
    target.thinking("before")
    target.chunk("It is ")
    target.thinking("hm")
    target.chunk(rest)
    target.thinking("You: and then")
    target.end_answer()
    lines = shown.getvalue().splitlines()
    assert lines[:4] == [
        "[THINKING]: before",
        "[AYA]: It is ",
        "[THINKING]: hm",
        " " + lines[3].lstrip(),
    ]
    assert [line for line in lines[1:] if line.startswith(("You:", "[AYA]:"))] == lines[1:2]
