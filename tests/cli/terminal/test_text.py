"""Texts on a terminal: whole words, no forged labels, and lists."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.cli.terminal import documents
from ore.cli.terminal.labels import LABELS, with_own
from ore.cli.terminal.documents import document_parts, laying_out
from ore.cli.terminal.text import (
    LONGEST_CELL,
    NARROWEST,
    WIDEST_COLUMN,
    AnswerText,
    laid_out,
    list_lines,
    width_of,
)
from ore.files.neutral import neutralise
from tests.support.sequences import rows_of
from tests.support.terminal import document_of

TEXTS = st.text(
    st.sampled_from(" \n\tab:[]AYAYou\u00a0\u200d\u0301語👩\x1b\u202e-") | st.characters()
)


def shown(*pieces: str, width: int = 0, before: str = "") -> str:
    lines = AnswerText(width, before)
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
        ("\u200d[AYA]: yes", " \u200d[AYA]: yes"),
        ("Thank You: it was", "Thank You: it was"),
        ("Your: own", "Your: own"),
        ("  You: indented", "  You: indented"),
    ],
)
def test_a_line_that_begins_with_a_label_is_indented(text, expected):
    assert shown(text) == expected
    assert shown(*text) == expected


def test_the_line_that_has_a_label_already_is_not_indented():
    assert shown("You: said so", before="[AYA]: ") == "You: said so"


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


@pytest.mark.parametrize("before", ["a", "1234567", "- item", "    code"])
def test_no_label_is_at_the_edge_where_a_terminal_has_no_tab_stops(before):
    """Without them a tab goes to the last column, and a letter after it fills the line."""
    assert laid_out(f"{before}\tbYou: x", 40, "[AYA]: ") == f"{before}\tb\n You: x"


@pytest.mark.parametrize("label", ["Y\ufe0fou:", "[\ufe0fAYA]:"])
def test_no_label_is_at_the_edge_where_a_mark_makes_its_first_letter_wide(label):
    """It does not fit into the last column then: the terminal shows it in the next line."""
    for width in (19, 40):
        text = "a" * (width - 1) + label
        assert document_of(text, width) == "a" * (width - 1) + f"\n {label}"


@pytest.mark.parametrize("before", ["", "[AYA]: "])
@pytest.mark.parametrize("label", ["You:", "[AYA]:", "Y\u043eu:", "ore:"])
def test_no_label_is_at_the_edge_of_a_terminal_that_does_not_tell_its_width(label, before):
    """That of a serial line says that it has 0 columns, and cuts lines all the same."""
    text = "".join(f"{'a' * n} {'b' * (n // 3)}{label} yes\n" for n in range(80))
    for out in (before + laid_out(text, 0, before), document_of(text, 0)):
        for width in range(NARROWEST, 90):
            below = rows_of(out, width, {})[1:]  # the first row may begin with ORE's own label
            assert not [row for row in below if row.startswith(label)]


UNSURE = "\u200d\u0301\u00ad\u1160\u115f\u3164\u302e\uffa0\u2764\ufe0f\U0001f1e6\U0001f3fb\u0e33é’│\ue000\U000bdf35"
PARTS = st.sampled_from(
    [*UNSURE, *" \tab中", "\n", "You:", "[aya]:", "ore: ", "Yo", "u:", "x" * 19]
)


@pytest.mark.invariant
@given(
    st.lists(st.tuples(PARTS, st.integers(1, 25)), max_size=8),
    st.fixed_dictionaries({each: st.integers(0, 2) for each in UNSURE + "中"}),
    st.sampled_from([2, 3, 7, 10, 20, 21, 40]),
)
def test_no_label_is_at_the_left_edge_whatever_the_terminal_takes_for_the_width(
    parts, columns, width
):
    text = shown("".join(part * count for part, count in parts), width=width)
    labels = [label for label in LABELS if len(label) <= width]
    assert not [
        row for row in rows_of(text, width, columns) if row.casefold().startswith((*labels, "?"))
    ]


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    "name", ["café", "\u0130x", "\u01c5", "가", "アヤ", "\u03ac", "µ", "ß", "щит"]
)
def test_the_label_of_a_persona_is_indented_however_it_is_composed(name, form):
    label = f"[{name.upper()}]: "
    text = unicodedata.normalize(form, label) + "hi"
    assert laid_out(text, 40, "", (*LABELS, label.rstrip().lower())).lstrip("\n") == " " + text


@pytest.mark.parametrize(
    "name, end", [("assistant", "[a\xdf"), ("fin", "[\ufb01"), ("stoic", "[\ufb06")]
)
@pytest.mark.parametrize("number", range(17, 21))
def test_a_letter_that_is_two_in_lower_case_is_one_in_a_word_that_is_cut(name, end, number):
    text = "x" * number + end + "xxxx"
    assert "".join(laid_out(text, 20, "", (*LABELS, f"[{name}]:")).split()) == text


@pytest.mark.parametrize("text", ["You: x", ":You", "x \u05e9:[AYA]"])
def test_no_label_is_at_the_edge_behind_the_label_of_a_persona_in_hebrew(text):
    label = "[\u05e9\u05dc\u05d5\u05dd]: "
    shown = laid_out(text, 40, label, (*LABELS, label.rstrip()))
    assert "\n " in shown and shown.replace("\n ", "") == text


def test_the_label_of_a_persona_is_indented_in_letters_of_other_scripts():
    for name, forged in (
        ("bob", "\u0412\u041e\u0412"),
        ("cleo", "\u03f9L\u0415\u041e"),
        ("ai", "Al"),
    ):
        label = f"[{name}]:"
        assert laid_out(f"[{forged}]: hi", 40, "", (*LABELS, label)) == f" [{forged}]: hi"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("\u1160You: x", " \u1160You: x"),
        ("Yo\u1160u: x", " Yo\u1160u: x"),
        ("Yo\u115fu: x", " Yo\u115fu: x"),
        ("[\u302eAYA]: x", " [\u302eAYA]: x"),  # marks of Korean: wide, or over the letter
        ("Yo\u302fu: x", " Yo\u302fu: x"),
        ("“You: x”", " “You: x”"),
        ("𝐘𝐨𝐮: x", " 𝐘𝐨𝐮: x"),
        ("Ｙｏｕ： x", " Ｙｏｕ： x"),
        ("You： x", " You： x"),
        ("［ＡＹＡ］: x", " ［ＡＹＡ］: x"),
        ("Y\u043eu: x", " Y\u043eu: x"),  # a Cyrillic o
        ("\u03a5ou: x", " \u03a5ou: x"),  # a Greek Upsilon
        ("Y\u10ffu: x", " Y\u10ffu: x"),  # a Georgian o
        ("\u2ca8\u2c9fu: x", " \u2ca8\u2c9fu: x"),  # Coptic
        ("\u028f\u1d0f\u1d1c: x", " \u028f\u1d0f\u1d1c: x"),  # small capitals
        ("Y\U0001042cu: x", " Y\U0001042cu: x"),  # Deseret
        ("Yo\U0001042cu: x", " Yo\U0001042cu: x"),  # which another terminal drops
        ("Y\U000118c8u: x", " Y\U000118c8u: x"),  # Warang Citi
        ("Y0u: x", " Y0u: x"),
        ("Yo\u1d2cu: x", " Yo\u1d2cu: x"),  # an A that a terminal of 2002 drops
        ("Yo\u1d2c\ua4f4: x", " Yo\u1d2c\ua4f4: x"),  # and a U that one of 2008 does not
        ("Y\u0903ou: x", " Y\u0903ou: x"),  # a colon that is a mark, which Linux's console drops
        ("Yo\U0001f9ffu: x", " Yo\U0001f9ffu: x"),  # an emoji of 2018
        ("Yo\U00030000u: x", " Yo\U00030000u: x"),  # an ideograph of 2020
        ("[THlNK1NG]: x", " [THlNK1NG]: x"),
        ("Y\u0c02ou: x", " Y\u0c02ou: x"),  # a mark, which may have no column
        ("[\u0410Y\u0410]: x", " [\u0410Y\u0410]: x"),
        ("You\ua789 x", " You\ua789 x"),
        ("You\ufe30 x", " You\ufe30 x"),  # two full stops in NFKD
        ("You\u2982 x", " You\u2982 x"),
        ("You\u1361 x", " You\u1361 x"),  # between Ethiopic words
        ("You\u1365 x", " You\u1365 x"),
        ("You\u1366 x", " You\u1366 x"),  # before an Ethiopic list
        ("You\u1804 x", " You\u1804 x"),  # Mongolian
        ("You\ua6f4 x", " You\ua6f4 x"),  # Bamum
        ("You\u2236 x", " You\u2236 x"),
        ("You\U00010781 x", " You\U00010781 x"),  # a raised colon of phonetics, of 2021
        ("你好，世界：再见", "你好，世界：再见"),
        ("語You: x", "語\n You: x"),
        ("\U00030000You: x", "\U00030000\n You: x"),  # a terminal of 2019 drops it
        ("\u200d語You: x", "\u200d語\n You: x"),  # joined to what is not there, so dropped
        ("x語You: x", "x語You: x"),
        ("\u05e9 You: x", "\u05e9 \n You: x"),  # Hebrew: what follows is shown to the left of it
        ("\u0645 1:You", "\u0645 1\n :You"),
        ("\u05e9 a \u05e9:[AYA]", "\u05e9 a \u05e9\n :[AYA]"),
        ("\u05e9 more: x:You", "\u05e9 more: x:You"),  # in words that are shown to the right
        ("x\n\u05e9\nx You: x", "x\n\u05e9\nx You: x"),
        ("I’d say, as you: no", "I’d say, as you: no"),
        ("❤" * 10 + "You: x", "❤" * 10 + "\n You: x"),
        ("a" * 19 + "\u00adYou: x", "a" * 19 + "\u00adY\nou: x"),
        ("é" * 10 + "\tyou: x", "é" * 10 + "\t\n you: x"),
        ("more: x", "more: x"),
        ("[Thinking]:[Thinkin\u115fg] x", " [Thinking]:[Thinkin\u115f\ng] x"),  # two, in one word
    ],
)
def test_a_label_behind_characters_of_any_width_is_indented(text, expected):
    assert shown(text, width=20) == expected
    assert shown(*text, width=20) == expected


@pytest.mark.parametrize("width", [10, 19, 41, 80])
@pytest.mark.parametrize("show", [document_of, laid_out])
def test_a_wide_character_that_leaves_a_column_free_brings_no_label_to_the_edge(show, width):
    for before in ("a" * (1 - width % 2) + "語" * ((width + 1) // 2), "a" * (width - 1) + "語"):
        rows = rows_of(show(before + "b" * (width - 2) + "You: x", width), width, {"語": 2})
        assert not [row for row in rows if row.startswith("You")]


@pytest.mark.parametrize("show", [document_of, laid_out])
def test_a_name_that_is_not_utf_8_brings_no_label_to_the_edge(show):
    for before in range(40):
        text = show("a" * before + "\udcff" * 6 + "You: x", 40)
        rows = rows_of(text.replace("\udcff", r"\udcff"), 40, {})  # as a stream writes it
        assert not [row for row in rows if row.startswith("You")]


@pytest.mark.parametrize("show", [document_of, laid_out])
@pytest.mark.parametrize("number", [1, 3, 12])
def test_a_character_that_takes_a_column_away_brings_no_label_to_the_edge(show, number):
    for after in range(20, 60):  # as xterm breaks lines, which adds up widths of -1
        text = show("\u1f1e" * number + "a" * after + "You: x", 40)
        rows = rows_of(text, 40, {"\u1f1e": -1})
        assert not [row for row in rows if row.startswith("You")]


@pytest.mark.parametrize("show", [document_of, laid_out])
def test_a_label_that_begins_with_a_wide_letter_comes_to_no_edge(show):
    for before in (39, 79, 119):
        rows = rows_of(show("a" * before + "\uff39ou: x", 40), 40, {"\uff39": 2})
        assert not [row for row in rows if row.startswith("\uff39ou")]


def test_a_label_in_a_document_is_found_where_a_terminal_drops_a_letter_of_it():
    assert document_of("a\nYo\u1d2cu: x", 40) == "a\n Yo\u1d2cu: x"
    assert document_of("a\nYo\u1d2c\ua4f4: x", 40) == "a\n Yo\u1d2c\ua4f4: x"


@pytest.mark.parametrize(
    "name",
    ["\u0434\u0430\u0440\u044c\u044f", "\u03b5\u03c1\u03bc\u03ae\u03c2", "\u0561\u0576\u056b"],
)
def test_the_label_of_a_persona_in_a_document_is_found_in_capitals_of_other_scripts(name):
    """A letter may look like one of ASCII only as a capital, or only as a small one."""
    label = f"[{name.upper()}]: "
    for text in (label + "hi", label.lower() + "hi"):
        assert "".join(document_parts(text, lambda: 80, with_own(label))) == " " + text


def test_a_label_in_a_document_is_found_where_a_line_is_shown_from_right_to_left():
    assert document_of("a\n\u05e9:You", 40) == "a\n\u05e9\n :You"


def test_many_labels_in_one_word_are_no_work():
    text = "You:x" * 20_000
    assert shown(text, width=4).count("\n You:") > 1_000


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
    lines = shown(" ".join(words), width=20, before=" " * column).split("\n")
    assert all(len(line) <= 20 for line in [" " * column + lines[0].rstrip(" "), *lines[1:]])


def test_rows_stand_below_each_other_in_any_script():
    rows = [("日本", "first"), ("longer", "second")]
    assert list_lines(rows, True) == ["日本    first", "longer  second"]
    assert list_lines([], True) == []


def test_a_name_of_a_megabyte_among_many_is_cut_and_widens_no_column_but_its_own_line():
    long, wide = "x" * 1_000_000, "y" * (WIDEST_COLUMN + 9)
    rows = [(f"model{number}", "") for number in range(20_000)]
    lines = list_lines([*rows, ("a", "default"), (wide, "default"), (long, "default")], True)
    assert lines[0] == "model0"
    assert lines[-3:-1] == ["a".ljust(WIDEST_COLUMN) + "  default", f"{wide}  default"]
    assert lines[-1] == "x" * (LONGEST_CELL - 1) + "…  default"
    assert list_lines([(long, "default")], False) == [f"{long}\tdefault"]


def test_the_last_column_of_a_list_is_shown_whole():
    assert list_lines([("a", "x" * 1000)], True) == ["a  " + "x" * 1000]


@pytest.mark.parametrize(
    "pieces", [["one\r\ntwo\r"], list("one\r\ntwo\r"), ["one\r", "\ntwo", "\r"]]
)
def test_crlf_is_one_line_end_wherever_the_stream_is_cut(pieces):
    text = AnswerText(40)
    assert "".join(map(text.feed, pieces)) + text.end() == "one\ntwo^M"


@pytest.mark.parametrize("after", [60, 75])
def test_a_label_behind_a_change_of_width_is_in_a_line_of_its_own(after):
    """Some terminals lay a line anew then, and others leave it and the cursor where they are."""
    lines = AnswerText(40)
    assert lines.feed("a" * 45) == "a" * 40
    lines.width = 80
    assert (lines.feed("a" * after + "You: x") + lines.end()).endswith("a\n You: x")


@pytest.mark.parametrize(
    "lay",
    [
        lambda text, width: document_parts(text, width, LABELS),
        lambda text, width: laying_out(text, width, "", LABELS),
    ],
)
def test_a_width_that_changes_while_a_long_text_is_written_counts_from_there(lay):
    widths = [80]
    parts = lay(("word " * 12 + "you: x\n") * 400, lambda: widths[-1])
    next(parts)
    widths.append(60)
    later = "".join(parts).partition("\n")[2]  # one line has begun in the old width
    assert later.count("you:") > 250
    assert not [row for row in rows_of(later, 60, {}) if row.startswith("you:")]


def test_after_a_stop_the_answer_goes_on_at_the_left_edge():
    lines = AnswerText(20)
    assert lines.feed("one two thr") == "one two "
    lines.is_moved = True
    assert lines.feed("ee You: x four five ") == "three You: x four \nfive "
    lines.is_moved = True
    assert lines.feed("You: x ") == " You: x "


@pytest.mark.parametrize("width", [0, 6, 24, 80])
def test_json_stays_json_where_a_label_may_be_at_the_edge(width):
    value = {"You: a": ["b" * 30 + ' you: c " ', "\\[AYA]: d", "e: f"], "g": {"h:": 'i"ore: j"'}}
    for indent in (2, None):
        shown = document_of(json.dumps(value, indent=indent), width, is_json=True)
        assert json.loads(shown) == value
        assert shown.count("\n") == json.dumps(value, indent=indent).count("\n")
        assert document_of(shown, width) == shown  # nothing is at the edge


def test_json_is_laid_out_up_to_its_first_label_at_the_edge():
    text, looks = json.dumps("x you: " * 100_000), list[int]()
    shown = document_parts(text, lambda: looks.append(20) or 20, LABELS, is_json=True)
    assert json.loads("".join(shown)) == json.loads(text)
    assert len(looks) < 5


@pytest.mark.parametrize(
    "label, apart",
    [("You: ", "You : "), ("[AYA]\uff1a ", "[AYA] \uff1a "), ("\u05d0 :you ", "\u05d0 : you ")],
)
def test_of_labels_without_end_not_all_are_laid_out(monkeypatch, label, apart):
    """13 MB of them took more than 20 seconds."""
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 200)
    lines = document_of(f"at 12:30\n{label * 20}\n{label * 40}\nat 12:30", 80).split("\n")
    assert (lines[0], lines[-2].split()) == ("at 12:30", apart.split() * 40)
    assert lines[-1] == "at 12 : 30"  # it isn't looked for a label


@pytest.mark.parametrize("word", ["\u0926\u0941\u0903\u0916", "\u0aa6\u0ac1\u0a83\u0a96"])
def test_words_with_marks_like_colons_are_no_labels_of_a_long_document(monkeypatch, word):
    """Of Hindi and Gujarati: behind labels without end, spaces would be around each of the marks."""
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 10)
    text = f"{word} 12:30 {word}"
    assert document_of(text, 80) == text


@pytest.mark.parametrize(
    "label", ["you: ", "\uff39\uff4f\uff55\uff1a", "\uff39\uff4f\uff55\uff1a\n"]
)
def test_what_takes_longer_counts_for_more_of_what_is_laid_out(monkeypatch, label):
    laid_out, original = list[int](), AnswerText._letter

    def counted(self, character):
        laid_out.append(1 if character.isascii() else 8)
        original(self, character)

    monkeypatch.setattr(AnswerText, "_letter", counted)
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 8000)
    document_of(label * 2000, 80)
    document_of(f"{label.strip()}\n" * 2000, 80)
    assert sum(laid_out) <= 2 * 8000


def test_a_line_by_itself_counts_for_what_is_laid_out(monkeypatch):
    """Of lines of four letters, two MiB took more than six seconds."""
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 8000)
    assert document_of("You:\n" * 2000, 80).count("\n You:") < 500


def test_lines_that_have_to_be_looked_at_are_not_looked_at_without_end(monkeypatch):
    """16 MiB of them took eight seconds."""
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 8000)
    lines = document_of("\u00e9: a\n" * 4000, 80).split("\n")
    assert (lines[0], lines[1500], lines[-2]) == ("\u00e9: a", "\u00e9: a", "\u00e9 :  a")
    assert document_of("plain: a\n" * 4000, 80).endswith("plain: a\n")


def test_short_lines_are_not_looked_at_without_end(monkeypatch):
    """16 MiB of lines of a colon took nine seconds."""
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 1000)
    lines = document_of(":\n" * 4000, 80).split("\n")
    assert (lines[0], lines[900], lines[-2]) == (":", ":", " : ")


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_what_is_far_behind_in_a_text_is_not_laid_out_word_by_word(monkeypatch, end):
    """An answer of 16 MiB took half a minute, which no deadline ended."""
    monkeypatch.setattr(documents, "_MOST_WRAPPED", 100)
    text = f"one two three four five{end}" * 20 + "You: x and more words"
    shown = "".join(laying_out(text, lambda: 20, "", LABELS))
    assert shown.startswith("one two three four \nfive")
    assert shown.endswith("\none two three four five\n You: x and more words") == (end != " ")
    assert "".join(shown.split()) == "".join(text.split())
    if end != " ":  # no line of its own is broken where the document begins
        lines = text.replace("\r\n", "\n").replace("You:", " You:")
        assert shown.replace(" \nfive", " five") == lines
    assert not [row for row in rows_of(shown, 20, {}) if row.lower().startswith("you:")]


def test_json_stays_json_where_not_all_is_laid_out(monkeypatch):
    monkeypatch.setattr(documents, "_MOST_LAID_OUT", 0)
    text = json.dumps({"you:": "x [AYA]: y"}, indent=2)
    shown = document_of(text, 80, is_json=True)
    assert json.loads(shown) == json.loads(text) and "]:" not in shown
