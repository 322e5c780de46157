"""The signs of a prompt that was cut, and the estimate that they are held against."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends.window import Estimate, estimate, half_counts, outcome
from tests.support.token_counts import SAMPLES

FITS = Estimate(least=60, likely=100, most=600)
OVERFLOWS = Estimate(least=3000, likely=5000, most=20_000)
DENSE = Estimate(least=10, likely=5000, most=20_000)


@pytest.mark.parametrize(
    "expected, window, prompt, answer, status",
    [
        (FITS, 4096, 90, 50, "complete"),
        (FITS, 4096, 60, 0, "complete"),
        # fewer tokens than the text can have, whatever the window
        (FITS, 4096, 59, 0, "truncated"),
        (FITS, None, 59, 0, "truncated"),
        (OVERFLOWS, 4096, 2999, 0, "truncated"),
        (OVERFLOWS, 4096, 3000, 0, "unknown"),
        # nobody knows
        (FITS, None, 90, 50, "unknown"),
        (FITS, 4096, 0, 50, "unknown"),
        (FITS, 4096, None, None, "unknown"),
        (FITS, 4096, -5, 50, "unknown"),
        (OVERFLOWS, 2048, None, None, "truncated"),
        # the prompt fills the window
        (FITS, 4096, 4095, 0, "truncated"),
        (FITS, 4096, 4096, 0, "truncated"),
        (DENSE, 4096, 4094, 0, "unknown"),
        # cut to half of it
        (DENSE, 4096, 2048, 0, "truncated"),
        (DENSE, 4096, 2050, 0, "truncated"),
        (DENSE, 4096, 2047, 0, "unknown"),
        (DENSE, 4096, 2057, 0, "unknown"),
        (Estimate(10, 40_000, 90_000), 32768, 16387, 0, "truncated"),
        # that count exactly is a cut, also of a prompt that was estimated to fit
        (Estimate(10, 3000, 9000), 4096, 2050, 0, "truncated"),
        (Estimate(10, 3000, 9000), 4096, 2051, 0, "truncated"),
        (Estimate(10, 3000, 9000), 4096, 2052, 0, "complete"),
        (Estimate(10, 3000, 4095), 4096, 2050, 0, "complete"),  # it had no more bytes
        # the answer pushes the prompt out
        (FITS, 4096, 90, 4006, "complete"),
        (FITS, 4096, 90, 4007, "truncated"),
    ],
)
def test_the_outcome_follows_from_the_counts(expected, window, prompt, answer, status):
    assert outcome(expected, window, prompt, answer) == {
        "status": status,
        "window": window,
        "prompt_tokens": prompt,
    }


@pytest.mark.parametrize("count, status", [(2050, "truncated"), (3500, "complete")])
def test_where_no_message_can_be_dropped_a_cut_leaves_a_known_count(count, status):
    assert outcome(DENSE, 4096, count, 0, before=0)["status"] == status


@pytest.mark.parametrize(
    "count, status", [(258, "truncated"), (257, "complete"), (300, "complete")]
)
def test_a_short_prompt_whose_template_alone_does_not_fit_is_cut_in_half_too(count, status):
    short = estimate([b"What is the capital of France?"])
    assert outcome(short, 512, count, 1, before=0)["status"] == status


def test_a_prompt_of_as_many_tokens_as_a_cut_leaves_is_whole_where_its_text_likely_has_them():
    whole = Estimate(60, 270, 500)
    assert outcome(whole, 512, 258, 1, before=0)["status"] == "complete"


@pytest.mark.parametrize(
    "most, status", [(595, "complete"), (596, "unknown"), (20_000, "unknown"), (None, "unknown")]
)
def test_a_prompt_that_would_have_fitted_with_all_that_can_be_left_out_is_complete(most, status):
    assert outcome(DENSE, 4096, 3500, 0, before=most)["status"] == status
    assert outcome(DENSE, 4096, 2050, 0, before=most)["status"] == "truncated"


@pytest.mark.parametrize("most, status", [(300, "complete"), (400, "unknown")])
def test_what_a_model_adds_itself_can_be_left_out_too(most, status):
    added = (None, Estimate(0, 50, most))
    assert outcome(DENSE, 4096, 3500, 0, before=250, own=lambda: added)["status"] == status
    assert outcome(DENSE, 4096, 1500, 0, before=250, own=lambda: added)["status"] == "complete"
    added = (None, Estimate(0, 50, 2500))
    assert outcome(DENSE, 4096, 1500, 0, before=250, own=lambda: added)["status"] == "unknown"


@pytest.mark.parametrize("tokens, times", [(63, 0), (64, 1)])
def test_what_a_model_adds_itself_is_not_asked_for_where_the_prompt_is_short(tokens, times):
    asked = []

    def own() -> tuple[None, Estimate]:
        asked.append(tokens)
        return None, estimate([])

    expected = Estimate(10, 80, 300)
    found = outcome(expected, 4096, tokens, 0, before=0, own=own, may_add=True)
    assert found["status"] == "complete" and len(asked) == times


@pytest.mark.parametrize(
    "expected, window, prompt, status",
    [
        (DENSE, 4096, 3500, "complete"),
        (DENSE, 4096, 2050, "complete"),
        (DENSE, 4096, 4096, "complete"),
        (DENSE, 4096, 4097, "truncated"),
        (OVERFLOWS, 4096, 2999, "truncated"),
        (FITS, None, 90, "unknown"),
        (FITS, 4096, None, "unknown"),
    ],
)
def test_a_server_that_refuses_settles_what_is_not_clear_and_nothing_else(
    expected, window, prompt, status
):
    assert outcome(expected, window, prompt, 0, refuses=lambda: True)["status"] == status


@pytest.mark.parametrize(
    "prompt, answer, room, status",
    [
        (279, 60, 512, "complete"),
        (318, 4, 512, "complete"),
        (279, 233, 512, "complete"),  # as in a window of 512
        (279, 234, 512, "truncated"),
        (511, 1, 512, "truncated"),
        (279, 60, 301, "truncated"),
        (300, 0, 301, "truncated"),
        (153, 300, 512, "truncated"),  # cut to half of it, and then a long answer
    ],
)
def test_a_window_that_a_server_rounds_up_has_room_for_more(prompt, answer, room, status):
    expected = Estimate(least=60, likely=290, most=800)
    found = outcome(expected, 301, prompt, answer, room=lambda: room, before=0)
    assert found == {"status": status, "window": 301, "prompt_tokens": prompt}


def test_whether_a_server_refuses_is_asked_where_it_matters_only():
    asked = []
    assert outcome(FITS, 4096, 90, 5, refuses=lambda: bool(asked.append(1)))["status"] == "complete"
    assert asked == []


@pytest.mark.parametrize(
    "window, kept, counts",
    [
        (4096, None, (2050, 2051)),  # seen of a real server, without and with a first mark
        (32768, None, (16386, 16387)),
        (256, None, (130, 131)),
        (4096, 24, (2060, 2061)),
        (4096, -1, (2050, 2051)),
        (4, 100, (3, 3)),
    ],
)
def test_the_count_of_a_prompt_that_was_cut_in_half_is_known(window, kept, counts):
    assert half_counts(window, kept) == counts


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_real_vocabulary_makes_fewer_tokens_than_the_least(kind):
    text, fewest, most = SAMPLES[kind]
    expected = estimate([text.encode()])
    assert expected.least <= fewest
    assert most <= expected.most


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("<｜User｜>High?<｜Assistant｜>Low.<｜end▁of▁sentence｜>" * 9, 63),
        ("[INST]High?[/INST]Low.[TOOL_CALLS]" * 9, 63),
        ("".join(f"<custom_token_{number}>" for number in range(10_004, 28_682, 200)), 94),
    ],
    ids=["DeepSeek", "Mistral", "Orpheus"],
)
def test_a_mark_of_a_chat_is_one_token_for_whose_it_is(text, tokens):
    assert estimate([text.encode()]).least <= tokens


@pytest.mark.parametrize("begin, end", ["<>", ("<|", "|>"), ("</", ">")])
def test_a_long_text_in_the_signs_of_a_tag_is_more_than_one_token(begin, end):
    """As a PDF has its texts: one that was cut to a part of it would be called whole."""
    digits = "0048006f006c64a1ce" * 20
    assert estimate([f"{begin}{digits}{end}".encode()]).least >= len(digits) // 5


EVEN = ("Base64", "a line", "blanks", "one letter")
"""Kinds that no bound is near to: their characters say little of how many tokens they make."""


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind not in EVEN])
def test_the_estimate_is_near_enough_to_tell_a_cut_from_a_whole(kind):
    text, fewest, most = SAMPLES[kind]
    expected = estimate([text.encode()])
    assert fewest < 3 * expected.least  # what lost two thirds of its tokens is found
    assert most < 1.15 * expected.likely  # what is said to fit does


def test_korean_has_nearly_three_tokens_a_letter_where_a_vocabulary_hardly_knows_it():
    """SmolLM2's makes 287 of these: a conversation that was cut by a fifth was called whole."""
    text = "고객 문의가 늘어나고 있으니 답변 시간을 줄이는 방법도 함께 논의합시다. 다음 주 월요일까지 보고서 초안을 마무리해 주세요. "
    assert estimate([(text * 2).encode()]).likely >= 287


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("\tmovq\t%rax, -8(%rbp)\n\tcallq\t0x4005d0\n\tjne\t.L23\n" * 6, 221),
        ("7 0 3 9 1 4 8 2 6 5 " * 8, 159),
        ("12 7 90\n33 41 6\n8 55 27\n" * 6, 143),
        ("@@ -1,7 +1,7 @@\n-int x = 0;\n+int x = 1;\n" * 6, 167),
        ("1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 " * 5, 234),
        (json.dumps([[4, 7, 1], [0, 9, 3], [8, 2, 5], [6, 1, 7]], indent=4) * 4, 201),
        ("    x = 1\n    if x:\n        i += 1\n    }\n" * 8, 128),
        ("      <b>7</b>\n    </a>\n    <p>3</p>\n" * 6, 120),
    ],
)
def test_breaks_and_blanks_before_numbers_are_tokens_of_their_own(text, tokens):
    """As SmolLM2 counts them: it takes each digit, too, for a token."""
    assert tokens < 1.15 * estimate([text.encode()]).likely


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։", 129),
        ("ހުރިހާ އިންސާނުން ވެސް އުފަންވަނީ މިނިވަންކަމުގައި", 96),
        ("ߤߊߘߡߊߘߋ߲ ߓߍ߯ ߛߐߟߏߣߍ߲߫ ߦߋ߫ ߢߣߊߡߊߦߊ", 62),
        ("ⵉⵎⴷⴰⵏⵏ ⴰⴽⴽⵯ ⴷ ⵜⵜⵍⴰⵍⵏ ⴷ ⵉⵍⴻⵍⵍⵉⵢⵏ", 76),
        ("ꊿꂷꃅꄿꐨꐥ ꌅꅍꀂꏽꐯꒈꃅꐥꌐ", 43),
        ("ꦱꦧꦼꦤ꧀ꦲꦸꦮꦺꦴꦁꦏꦭꦲꦶꦫ", 48),
        ("⠠⠮ ⠟⠊⠉⠅ ⠃⠗⠕⠺⠝ ⠋⠕⠭", 42),
        ("A ∪ B = {x : x ∈ A ∨ x ∈ B}; A ⊆ B ⇔ ∀x (x ∈ A → x ∈ B); ∅ ⊆ A; ℕ ⊂ ℤ ⊂ ℚ ⊂ ℝ.", 52),
        ("SO₄²⁻ + Ba²⁺ → BaSO₄↓, ∑ᵢ₌₁ⁿ xᵢ² ≤ ⅓", 37),
        ("♜♞♝♛♚♝♞♜ ♖♘♗♕♔♗♘♖", 32),
    ],
    ids=(
        *("Armenian", "Dhivehi", "N'Ko", "Tifinagh", "Yi", "Javanese", "Braille"),
        *("sets", "formulas", "chess"),
    ),
)
def test_what_few_vocabularies_know_is_tokens_for_each_of_its_bytes(text, tokens):
    """As Llama 3 counts them. A conversation that is taken for less is complete although it was cut."""
    assert tokens <= estimate([text.encode()]).likely


@pytest.mark.parametrize(
    "text, tokens",
    [
        ("A ∪ B = {x | x ∈ A ∨ x ∈ B}, A ∩ B ⊆ A, ∅ ⊂ ℕ ⊂ ℤ ⊂ ℚ, ¬(p ∧ q) ≡ ¬p ∨ ¬q. " * 6, 409),
        ("2H₂ + O₂ → 2H₂O; CaCO₃ ⇌ CaO + CO₂↑; NH₄⁺ + H₂O ⇌ NH₃ + H₃O⁺ " * 6, 306),
        ("{⍵[⍋⍵]}¨(⍳10)∘.×⍳10 ⋄ +/÷⍴X ⋄ life←{⊃1 ⍵∨.∧3 4=+/,¯1 0 1∘.⊖¯1 0 1∘.⌽⊂⍵} " * 6, 595),
        ("▄▀▄█░▒▓▀▄█▀░▓▒▄▀█ " * 6, 187),
        ("A♠ K♥ Q♦ J♣ 10♠ vs 9♥ 9♦ 9♣ 2♠ 2♥ " * 6, 229),
        ("٢٠٢٣ ٤٥٦ ٧٨٩ ١٢٣٤ ٥٦٧٨ " * 6, 217),
        ("۱۲۳۴۵۶۷ ۱۴۰۲/۰۸/۱۵ ۰۹۱۲۳۴۵۶۷۸۹ " * 6, 342),
        ("ﾌﾘｺﾐ ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ ﾐｽﾞﾎ ﾎﾝﾃﾝ ﾔﾏﾀﾞﾊﾅｺ ｺｸﾐﾝﾎｹﾝ ﾃｽｳﾘﾖｳ", 133),
        ("ㅇㄱㄹㅇ ㄹㅇㅋㅋ ㅇㅈ ㄱㅅㄱㅅ ㅠㅜ ㅊㅋㅊㅋ ㄴㄴ ㅂㅂ ㅈㅅ ㅎㄷㄷ", 96),
        ("ﺍﻟﺴﻼﻡ ﻋﻠﻴﻜﻢ ﻭﺭﺣﻤﺔ ﺍﻟﻠﻪ ﻭﺑﺮﻛﺎﺗﻪ", 82),
        ("ⓣⓗⓔ ⓠⓤⓘⓒⓚ ⓑⓡⓞⓦⓝ ⓕⓞⓧ", 48),
        ("ㄋㄧㄏㄠ ㄨㄛㄕ ㄊㄞㄨㄢ ㄖㄣ", 42),
        ("┏━━━━━┳━━━━━┓\n┃ Day ┃ cm  ┃\n┡━━━━━╇━━━━━┩\n│ one │ 410 │\n└─────┴─────┘\n", 87),
        ("├─┬ a@1.0\n│ ├── b@2.1\n│ └─┬ c@3.2\n│   └── d@0.1\n", 47),
        ("⽂章⼀共⼗⼆⻚，⼤家⼀起⾛⼊⽣活", 43),
    ],
    ids=[
        "sets",
        "chemistry",
        "APL",
        "shapes",
        "cards",
        "Arabic digits",
        "Persian digits",
        "half-width kana",
        "single Korean letters",
        "forms of Arabic",
        "circles",
        "Bopomofo",
        "frames of tables",
        "a tree",
        "radicals",
    ],
)
def test_signs_and_odd_digits_and_letters_are_two_tokens_and_more(text, tokens):
    """As SmolLM2 counts them. A conversation that is taken for less is complete although it was cut."""
    assert tokens < 1.15 * estimate([text.encode()]).likely


@pytest.mark.parametrize(
    "text, tokens",
    [
        (
            '{\n  "id": 1000,\n  "name": "frank",\n  "tags": [\n    "red",\n    "north"\n  ]\n}\n'
            * 6,
            223,
        ),
        ("12\t7\t90\n33\t41\t6\n8\t55\t27\n" * 6, 145),
    ],
)
def test_blanks_that_begin_a_line_take_its_end_with_them_and_no_break_counts_twice(text, tokens):
    """As SmolLM2 counts them. What is taken for much more is unknown although it fitted."""
    assert tokens < 1.15 * estimate([text.encode()]).likely < 1.3 * tokens


@pytest.mark.parametrize(
    "text, least",
    [
        ("", 0),
        (" " * 4_000 + "word", 0),
        ("one two three four five six seven eight nine ten", 9),
        ("-" * 4_000, 0),
        ("слово " * 10, 10 * 9 // 10),
        ("的" * 4_000, 0),
    ],
)
def test_the_least_counts_words_and_nothing_that_is_repeated(text, least):
    assert estimate([text.encode()]).least == least


def test_an_image_may_take_many_tokens():
    bare, looking = estimate([b"What is it?"]), estimate([b"What is it?"], images=2)
    assert looking.least == bare.least
    assert looking.likely - bare.likely > 1_000 and looking.most - bare.most > 10_000


@pytest.mark.slow
def test_no_more_of_a_prompt_is_judged_than_any_window_holds():
    text = b"word " * (1 << 20)
    assert estimate([text, text]).least == estimate([text]).least < 800_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, window, counted",
    [
        (b"The model answers what it was asked, and says so. " * 90_000, 10**6, 700_000),
        ((b" " * 40 + b"x = y\n") * 50_000, 131_072, 100_000),
    ],
    ids=["prose", "code"],
)
def test_a_long_prompt_of_which_a_large_window_has_a_part_is_not_whole(text, window, counted):
    assert outcome(estimate([text]), window, counted, 5)["status"] == "truncated"


@pytest.mark.slow
def test_what_is_not_looked_at_of_a_prompt_is_taken_to_be_alike():
    text = b"x = y  # it is so\n" * (1 << 18)
    one, four = estimate([text]), estimate([text] * 4)
    assert four.likely == pytest.approx(4 * one.likely, rel=0.01)
    assert outcome(four, 4_000_000, 1_900_000, 5)["status"] == "unknown"


@given(st.lists(st.text()))
def test_a_longer_conversation_is_never_estimated_smaller(texts):
    sizes = [estimate(text.encode() for text in texts[:n]) for n in range(len(texts) + 1)]
    assert sizes == sorted(sizes, key=lambda size: (size.least, size.likely, size.most))


@given(st.binary())
def test_any_bytes_have_an_estimate_whose_numbers_are_in_order(data):
    expected = estimate([data])
    assert 0 <= expected.least <= expected.most


def test_what_joins_the_texts_of_messages_is_no_token():
    assert estimate([b"word"] * 10).likely == estimate([b" word"] * 10).likely
