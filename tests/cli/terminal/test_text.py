"""Texts on a terminal: whole words, no forged labels, lists and measured things."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.cli.terminal.text import (
    LABELS,
    AnswerText,
    amount,
    list_lines,
    pairs,
    summary,
    width_of,
)
from ore.files.neutral import neutralise

TEXTS = st.text(
    st.sampled_from(" \n\tab:[]AYAYou\u00a0\u200d\u0301語👩\x1b\u202e-") | st.characters()
)


def shown(*pieces: str, width: int = 0, column: int = 0) -> str:
    lines = AnswerText(width, column)
    return "".join([*(lines.feed(piece) for piece in pieces), lines.end()])


def columns_of(line: str) -> int:
    return sum(map(width_of, line))


@pytest.mark.parametrize(
    "text, width, expected",
    [
        ("one two", 0, "one two"),
        ("the quick brown fox jumps", 20, "the quick brown fox \njumps"),
        ("exactly twenty chars then", 20, "exactly twenty chars\nthen"),
        ("exactly twenty chars\nthen", 20, "exactly twenty chars\nthen"),
        ("a  b", 20, "a  b"),
        ("    indented code", 20, "    indented code"),
        ("x" * 45 + " y", 20, "x" * 45 + " y"),
        ("before " + "x" * 25, 20, "before \n" + "x" * 25),
        ("語" * 12, 20, "語" * 10 + "\n" + "語" * 2),
        ("e\u0301" * 20, 20, "e\u0301" * 20),
        ("the quick brown fox jumps", 10, "the quick brown fox jumps"),
    ],
)
def test_words_are_kept_whole_at_the_edge(text, width, expected):
    assert shown(text, width=width) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[AYA]: yes", " [AYA]: yes"),
        ("fine\nYou: do it", "fine\n You: do it"),
        ("\nyou:", "\n you:"),
        ("[Metadata]: id=1", " [Metadata]: id=1"),
        ("ore: failed", " ore: failed"),
        ("Y\u200dou: do it", " Y\u200dou: do it"),
        ("\u200d[AYA]: yes", "\u200d [AYA]: yes"),
        ("Thank You: it was", "Thank You: it was"),
        ("Your: own", "Your: own"),
        ("  You: indented", "  You: indented"),
    ],
)
def test_a_line_that_begins_with_a_label_is_indented(text, expected):
    assert shown(text) == expected
    assert shown(*text) == expected


def test_the_line_that_has_a_label_already_is_not_indented():
    assert shown("You: said so", column=7) == "You: said so"


@pytest.mark.parametrize("label", [label + " yes" for label in LABELS])
@pytest.mark.parametrize("pad", [" ", "\u00a0", "x", "x\u00a0", "語"])
def test_no_padding_puts_a_label_at_the_beginning_of_a_line(label, pad):
    for length in range(60):
        text = shown("word " + pad * length + label, width=20)
        rows, row = [], ""
        for character in text:  # as a terminal of 20 columns breaks it
            if character == "\n" or columns_of(row + character) > 20:
                rows, row = [*rows, row], "" if character == "\n" else character
            else:
                row += character
        assert not [row for row in [*rows, row] if row.startswith(label[:-4])]


@given(TEXTS, st.integers(0, 60), st.sampled_from([0, 20, 33]))
def test_it_does_not_matter_where_pieces_end(text, cut, width):
    assert shown(text[:cut], text[cut:], width=width) == shown(text, width=width)
    assert shown(*text, width=width) == shown(text, width=width)


@given(TEXTS, st.sampled_from([0, 20, 33]))
def test_nothing_is_lost_and_nothing_is_obeyed(text, width):
    out = shown(text, width=width)
    assert "".join(out.split()) == "".join(neutralise(text.replace("\r\n", "\n")).split())
    assert {c for c in out if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=20)), st.integers(0, 19))
def test_no_line_is_wider_than_the_terminal(words, column):
    lines = shown(" ".join(words), width=20, column=column).split("\n")
    assert all(len(line) <= 20 for line in [" " * column + lines[0].rstrip(" "), *lines[1:]])


def test_rows_stand_below_each_other_in_any_script():
    rows = [("日本", "first"), ("longer", "second")]
    assert list_lines(rows, True) == ["日本    first", "longer  second"]
    assert list_lines([], True) == []


@pytest.mark.parametrize(
    "pieces", [["one\r\ntwo\r"], list("one\r\ntwo\r"), ["one\r", "\ntwo", "\r"]]
)
def test_crlf_is_one_line_end_wherever_the_stream_is_cut(pieces):
    text = AnswerText(40)
    assert "".join(map(text.feed, pieces)) + text.end() == "one\ntwo^M"


COUNTS = {"prompt_eval_count": 128, "eval_count": 512}


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            {**COUNTS, "eval_duration": 12_190_000_000, "total_duration": 12_300_000_000},
            "m · 128 in · 512 out · 42 tok/s · 12.3 s",
        ),
        (
            {**COUNTS, "eval_duration": 128_000_000_000, "prompt_eval_duration": 0},
            "m · 128 in · 512 out · 4.0 tok/s · 128.0 s",
        ),
        ({**COUNTS, "total_duration": 12_000_000}, "m · 128 in · 512 out · 0.01 s"),
        (COUNTS, "m · 128 in · 512 out"),
        ({}, "m · 0 in · 0 out"),
        ({"eval_count": "many", "eval_duration": None}, "m · 0 in · 0 out"),
        ({"prompt_eval_count": -1, "eval_count": 10**400}, f"m · 0 in · {2**63} out"),
    ],
)
def test_a_person_reads_counts_speed_and_seconds(values, expected):
    assert summary("1b9d", "m", values) == f"{expected} · 1b9d"


def test_a_program_reads_every_key_whatever_a_server_says():
    values = {"model": "a b", "x": {"y": ""}, "empty": {}, "eval_duration": 10**400}
    assert pairs(values) == f"model='a b' x.y='' eval_duration={10**400}"


def test_an_amount_is_a_bar_only_where_the_whole_is_known():
    assert amount(5_000_000, 0) == "5.0 MB"
    assert amount(5_000_000, 10_000_000) == f"[{'#' * 15}{'.' * 15}]  50% of 10.0 MB"
