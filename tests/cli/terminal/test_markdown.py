"""Markdown on a terminal: block by block, in any pieces, with nothing that a terminal obeys."""

from __future__ import annotations

import itertools
import re
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sequences import SEQUENCES, obeyed, rows_of

pytest.importorskip("rich")
from ore.cli.terminal import markdown  # noqa: E402
from ore.cli.terminal.markdown import LABELS, Markdown  # noqa: E402
from ore.cli.terminal.text import AnswerText  # noqa: E402

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
SOURCE = """# Title

Some *text* with **bold** and `code`.

1. one

   more of one

2. two

~~~python
x = 1

You: in code
~~~

| a | b |
|---|---|
| 1 | 2 |

Last."""


def shown(*pieces: str, width: int = 40, has_colour: bool = False) -> str:
    blocks = Markdown(width, has_colour)
    return "".join([*(blocks.feed(piece) for piece in pieces), blocks.end()])


WHOLE = shown(SOURCE)


def test_blocks_look_as_they_should():
    lines = [line.rstrip() for line in WHOLE.splitlines()]
    text = "\n".join(lines)
    assert "Title" in text and "#" not in text and "*" not in text
    assert " 1 one\n   more of one\n 2 two\n" in text
    assert " x = 1\n\n You: in code\n" in text
    assert lines[-1] == "Last."


@pytest.mark.parametrize(
    "source, expected", [("- a", " • a"), ("| a |\n|---|\n| 1 |", " a\n ─\n 1")]
)
def test_a_block_has_no_empty_lines_around_it(source, expected):
    assert shown(source) == f"\n{expected}\n"


def test_a_block_is_shown_when_the_next_one_begins():
    blocks = Markdown(40, False)
    assert blocks.feed("One *para") == ""
    assert blocks.feed("graph*.\n\n") == ""
    assert blocks.feed("Next\n").strip() == "One paragraph."
    assert blocks.end().strip() == "Next"


def test_colour_is_used_only_where_it_is_allowed():
    assert not COLOUR.search(WHOLE)
    coloured = shown(SOURCE, has_colour=True)
    assert COLOUR.search(coloured) and not obeyed(COLOUR.sub("", coloured))


@pytest.mark.slow
def test_nothing_is_obeyed_whatever_the_markdown_says():
    entities = "&#27;[31m &#x9b;31m &#x202e; &NewLine; &#7; &#13;"
    for number, sequence in enumerate((*SEQUENCES, entities)):  # colour in every other one
        for kind, source in enumerate(
            (
                sequence,
                f"`{sequence}`",
                f"```{sequence}\n{sequence}\n```",
                f"[{sequence}](http://x/{sequence})",
                f"![{sequence}](<{sequence}>)",
                f"# {sequence}\n\n- {sequence}\n\n> {sequence}\n\n| {sequence} |\n|---|\n| {sequence} |",
                f"<{sequence}>",
            )
        ):
            out = shown(source, has_colour=(number + kind) % 2 == 0)
            assert obeyed(COLOUR.sub("", out)) == set(), source


def test_an_address_is_shown_and_never_hidden_behind_a_text():
    out = shown("[my bank](http://evil.example)", has_colour=True)
    assert "http://evil.example" in out and "\x1b]8" not in out


@pytest.mark.parametrize("source", ["You: yes", "**You:** yes", "&#89;ou: yes", "a\\\nYou: yes"])
def test_a_forged_label_is_indented(source):
    out = COLOUR.sub("", shown(source, has_colour=True))
    assert not [line for line in out.splitlines() if line.startswith("You:")]
    assert " You: yes" in out


def test_no_label_is_at_the_edge_of_a_terminal_that_does_not_tell_its_width():
    text = shown("\n\n".join(f"{'a' * n} You: x" for n in range(80)), width=0)
    for width in range(20, 90):
        assert not [row for row in rows_of(text, width, {}) if row.startswith("You:")]


def test_no_label_is_at_the_edge_where_a_terminal_shows_more_columns_than_were_laid_out():
    widths = {"\u200d": 0, "\U0001f469": 2, "\U0001f467": 2}  # xterm joins no emoji
    for count in range(25):
        text = shown("\U0001f469\u200d\U0001f467" * count + "aYou: x", width=25)
        assert not [row for row in rows_of(text, 25, widths) if row.startswith("You:")]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["\n", "\r\n"]), st.integers(0, len(SOURCE)), st.integers(0, len(SOURCE)))
def test_it_does_not_matter_where_pieces_end_or_how_lines_do(line_end, first, second):
    source, (low, high) = SOURCE.replace("\n", line_end), sorted((first, second))
    assert shown(source[:low], source[low:high], source[high:]) == WHOLE


@settings(max_examples=50, deadline=None)
@given(st.text(st.sampled_from("ab \n#*_`~>|-1.[]()<>&;\\\t\x1b")))
def test_any_text_is_shown(text):
    assert obeyed(shown(text)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-s"]])
def test_render_is_for_terminals_and_changes_nothing_in_a_pipe(ore, flags):
    terminal = ore("Hi", "--render", *flags, replies=[[SOURCE]], terminal="out err")
    assert terminal.out.startswith("[AYA]: \n") and "**" not in terminal.out
    assert ore("Hi", "--render", *flags, replies=[[SOURCE]]).out == SOURCE + "\n"


NEVER_ENDING = "~~~autoit\n" + " " * 4_000 + "x\n~~~"
SLOW = {
    "a lexer": NEVER_ENDING,
    "headings": "# a\n" * 16_000,
    "rules": "***\n" * 16_000,
    "a table": "|a" * 8_000 + "\n" + "|-" * 8_000 + "\n" + "|b" * 8_000,
    "a long block": "a b\n" * 20_000,
}


@pytest.mark.invariant
@pytest.mark.slow
@pytest.mark.parametrize("source", SLOW.values(), ids=list(SLOW))
def test_what_takes_long_to_lay_out_is_shown_as_it_was_written(source, monkeypatch):
    monkeypatch.setattr(markdown, "MOST_SECONDS", 0.6)
    blocks = Markdown(40, False, show=markdown.bounded())
    text = blocks.feed(f"first\n\n{source}\n\nlast\n") + blocks.end()
    assert blocks.is_plain
    assert text.startswith("\nfirst\n") and text.endswith("last\n")
    assert "".join(source.split()) in "".join(text.split())


@pytest.mark.parametrize(
    "source",
    [
        "> " * 20 + "word",
        "- " * 10 + "word",
        "".join(f"{'  ' * depth}- {depth}\n" for depth in range(10)) + "  " * 10 + "- word",
        "| a " * 13 + "| word |\n" + "|-" * 14 + "|\n" + "| 1 " * 14 + "|",
        "| a | b |\n|---|---|\n| 1 | 2 | word |",
        "> | a |\n> |---|\n> | `one|word` |",
        "1. a\n\n   b | c\n   --|--\n   1 | 2 | word",
        "```json word\n1\n```",
        "```py:src/word.py\n1\n```",
        '[a](https://a.example "word")',
        "1945. the war\n1989. word",
        "1969. the moon\n1969. the mud",
        "- a\n\n  3. third\n  2. second\n\n  1. word",
        "\n".join(f"{'>' * depth} {depth}" for depth in range(1, 14)) + " word",
        "\n".join("> > > " + row * 11 + "|" for row in ("| b ", "|---", "| 1 ")),
    ],
    ids=[
        "quotes",
        "lists",
        "list of lines",
        "table",
        "cells",
        "code in a cell",
        "cells in a list",
        "beside a fence",
        "path",
        "title",
        "years",
        "a year",
        "numbers down",
        "narrow quotes",
        "table in quotes",
    ],
)
def test_what_a_layout_would_leave_out_is_shown_as_it_was_written(source):
    blocks = Markdown(40, False)
    text = blocks.feed(f"first\n\n{source}\n\n**last**\n") + blocks.end()
    assert blocks.is_plain and text.endswith("\nlast\n")
    assert "".join(source.split()) in "".join(text.split())


@pytest.mark.parametrize(
    "source",
    [
        "a List<String> b",
        "<div>word</div>",
        "- <li>word</li>",
        "<!-- word -->",
        "see [1]\n\n[1]: https://a.example",
        "[^1]: word",
    ],
)
def test_tags_and_references_are_text(source):
    assert "".join(shown(source).split()).replace("•", "-") == "".join(source.split())


def test_of_an_image_its_address_is_shown():
    assert shown("![chart](https://a.example/b.png)") == "\n!chart (https://a.example/b.png)\n"


@pytest.mark.parametrize("row", ["| 1 | 2 |  |", "| 1 |", r"| 1 \| 1 | 2 |", "1 | 2"])
def test_a_table_whose_cells_all_have_a_column_is_laid_out(row):
    text = shown(f"| a | b |\n|---|---|\n{row}")
    assert "|--" not in text and text.split()[:2] == ["a", "b"]


@pytest.mark.parametrize(
    "source, numbers",
    [
        ("1. a\n1. b\n\n   7. c\n\n2) d", "1 2 7 2"),
        ("0. a\n1. b", "0 1"),
        ("007. a\n8. b\n- c\n- d", "7 8 • •"),
    ],
)
def test_a_list_that_is_counted_is_laid_out(source, numbers):
    assert shown(source).split()[::2] == numbers.split()


@pytest.mark.parametrize("language", ["", "python", " c++", "objective-c", "html+jinja"])
def test_code_with_a_language_is_laid_out(language):
    assert shown(f"```{language}\nword\n```").split() == ["word"]


def test_a_long_word_in_a_table_is_not_cut():
    address = "https://a.example/" + "0123456789" * 12
    text = shown(f"| a | b |\n|---|---|\n| {address} | {address} |")
    assert not {"…", "|"} & set(text) and text.count("0") == text.count("9") == 24


@pytest.mark.slow
def test_a_person_is_told_that_a_part_is_not_laid_out(ore, monkeypatch):
    monkeypatch.setattr(markdown, "MOST_SECONDS", 0.6)
    result = ore("Hi", "--render", replies=[[NEVER_ENDING]], terminal="out err")
    assert result.code == 0 and "~~~autoit" in result.out
    assert "can't be laid out, and is shown as it was written." in result.err


@pytest.mark.slow
def test_the_time_of_a_line_grows_with_its_pieces_and_not_with_their_square():
    blocks, began = Markdown(40, False, show=lambda block, *_: block), time.process_time()
    for _ in range(400_000):
        assert blocks.feed("word") == ""
    assert "".join(blocks.end().split()) == "word" * 400_000
    assert time.process_time() - began < 10


BLOCKS = "one\n\ntwo\n\nthree\n\nfour\n\nfive\n"


def laid_out(source: str, error: Exception | None = None) -> tuple[str, int]:
    """What is shown where laying a block out may fail; and how often that was tried."""
    tried = []

    def show(block: str, *_: object) -> str:
        tried.append(block)
        if error is not None:
            raise error
        return f"\n<{block.strip()}>\n"

    blocks = Markdown(40, False, show=show)
    return blocks.feed(source) + blocks.end(), len(tried)


@pytest.mark.parametrize("error", [TimeoutError("it takes too long"), ValueError("no"), OSError()])
def test_after_a_block_that_can_not_be_laid_out_the_rest_is_not_tried(error):
    assert laid_out(BLOCKS, error=error) == ("\none\n\ntwo\n\nthree\n\nfour\n\nfive\n", 1)


@pytest.mark.slow
def test_many_blocks_that_are_not_laid_out_take_as_long_as_a_plain_text():
    began = time.process_time()
    plain = AnswerText(40, "", LABELS)
    plain.feed("a\n\n" * 200_000)
    once, began = time.process_time() - began, time.process_time()
    text, _ = laid_out("a\n\n" * 200_000, error=OSError())
    assert text == "\n" + "a\n\n" * 199_999 + "a\n"
    assert time.process_time() - began < 5 * once


def test_pieces_that_are_not_laid_out_are_shown_as_their_blocks_are_complete():
    def show(*_: object) -> str:
        raise OSError

    blocks = Markdown(40, False, show=show)
    pieces = [blocks.feed(each) for each in ("a\n\nb\n\nc\nd", "\n\n~~~\ne\n\nf", "\n~~~\n\ng\n")]
    assert pieces == ["\na\n\nb\n", "\nc\nd\n", "\n~~~\ne\n\nf\n~~~\n"]
    assert blocks.end() == "\ng\n"


def test_all_blocks_together_have_a_time_to_be_laid_out(monkeypatch):
    clock = SimpleNamespace(monotonic=itertools.count(step=2).__next__)  # two seconds at each look
    monkeypatch.setattr(markdown, "time", clock)
    text, tried = laid_out(BLOCKS)
    assert text == "\n<one>\n\n<two>\n\nthree\n\nfour\n\nfive\n" and tried == 2


def test_the_longest_blocks_are_not_laid_out(monkeypatch):
    monkeypatch.setattr(markdown, "MOST_CHARACTERS", 5)
    text, tried = laid_out(BLOCKS)
    assert (tried, text.count("<")) == (4, 4) and "\nthree\n" in text  # with its blank line
    blocks = Markdown(20, False, show=lambda *_: "")
    assert (
        blocks.feed("one two three four five\n") + blocks.end() == "\none two three four \nfive\n"
    )


@pytest.mark.slow
def test_one_blank_line_is_between_a_rendered_answer_and_the_next_prompt(ore):
    result = ore("-i", "--render", stdin="one\n", replies=["# A\n\nb"], terminal="in out err")
    assert result.out.rstrip(" ").endswith("b\n\nYou:")
