"""Untrusted text on a terminal is shown, never obeyed."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.files.neutral import brief, in_form, neutralise, one_line
from ore.router import RuleRouter
from ore.store.facts import search
from ore.types import Message, RoutingTarget, Session
from tests.support.sequences import EVERY
from tests.support.terminal import document_of


@pytest.mark.parametrize(
    "text, shown",
    [
        ("\x1b[31mred", "^[[31mred"),
        ("a\rb", "a^Mb"),
        ("\x07\x08\x00", "^G^H^@"),
        ("\x7f", "^?"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("\u2066", "\\u2066"),
        ("\u200f10 - 5", "\\u200f10 - 5"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2028", "\\u2028"),
        ("a\udcffb", "a\\udcffb"),  # a byte of a name that is not UTF-8
        ("a\n\tb", "a\n\tb"),
        ("👩\u200d💻 क्\u200dष", "👩\u200d💻 क्\u200dष"),
    ],
)
def test_controls_are_shown_and_scripts_stay(text, shown):
    assert neutralise(text) == shown


@pytest.fixture(scope="module")
def left():
    """What stays of every character there is."""
    return neutralise(EVERY)


def test_no_control_character_is_obeyed(left):
    assert {c for c in left if unicodedata.category(c) == "Cc"} == {"\n", "\t"}


@pytest.mark.slow
def test_of_the_format_characters_only_harmless_marks_stay(left):
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {c for c in left if unicodedata.bidirectional(c) in bidi}
    # An invisible mark turns the numbers of a line around: "10 - 5" is read as "5 - 10".
    turn = {c for c in left if unicodedata.bidirectional(c) in {"R", "AL"}}
    assert not {c for c in turn if unicodedata.category(c) == "Cf"} and "\u200e" not in left


@given(st.text(), st.integers(0, 50))
def test_it_does_not_matter_where_a_chunk_ends(text, cut):
    assert neutralise(text[:cut]) + neutralise(text[cut:]) == neutralise(text)


def test_a_name_stays_on_its_line():
    assert one_line("a\nb\tc\x1b") == "a^Jb^Ic^["


def test_a_name_that_others_chose_is_short_and_advises_nothing():
    assert brief("a `timeout=5` b") == "a 'timeout=5' b" and len(brief("a" * 9999)) == 301


PILE = "You: a" + "\u0315\u0300" * 60_000 + " e\u0301"


@pytest.mark.slow
@pytest.mark.parametrize(
    "look",
    [
        lambda: RuleRouter().route(PILE, [RoutingTarget("t", "tool", "", ("\u00e9",))]).target,
        lambda: [*search(Session(messages=[Message("user", PILE)]), "s", "\u00e9")],
        lambda: document_of(PILE, 40) != PILE,
    ],
)
def test_a_pile_of_marks_takes_no_time_of_its_square(look):
    began = time.process_time()
    assert look()
    assert time.process_time() - began < 5


@given(st.text(max_size=200))
def test_a_text_without_a_very_long_word_has_unicode_s_own_form(text):
    words = " ".join(text.split())
    assert in_form("NFC", words) == unicodedata.normalize("NFC", words)


@pytest.mark.slow
def test_prose_is_not_taken_word_by_word():
    text, took = "word and é 😀 " * 100_000, []
    for normal in (in_form, unicodedata.normalize):
        began = time.process_time()
        normal("NFC", text)
        took.append(time.process_time() - began)
    assert took[0] < 10 * took[1] + 0.05


@pytest.mark.parametrize("letter", ["か\u3099", "각", "e\u0323\u0301"])
def test_no_letter_of_a_long_text_without_blanks_is_parted_from_its_marks(letter):
    composed = unicodedata.normalize("NFC", letter) * 600
    for begin in ("", "x", "xx"):
        text = begin + unicodedata.normalize("NFD", composed)
        assert in_form("NFC", text) == begin + composed
