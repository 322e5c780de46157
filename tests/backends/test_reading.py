"""What a rendered prompt is made of, and how its tokens are shared out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from ore.backends.joining import joined
from ore.backends.reading import Part, Reading, counted, found_in, missing_from, parts_of
from ore.backends.window import Estimate
from ore.types import Message

MARKS = ["[0:0]", "[0:1]"]


def parts(rendered: str, texts: list[str], marked: str) -> list[tuple[int | None, str]]:
    return [(p.message, p.text) for p in found_in(rendered, texts, marked, MARKS)]


@pytest.mark.parametrize(
    "rendered, texts, marked, expected",
    [
        ("<s>a</s><u>b", ["a", "b"], "<s>[0:0]</s><u>[0:1]", [(0, "a"), (1, "b")]),
        ("<s>a</s><u>s", ["a", "s"], "<s>[0:0]</s><u>[0:1]", [(0, "a"), (1, "s")]),
        ("<s>a</s>", [" a\n", ""], "<s>[0:0]</s>[0:1]", [(0, "a")]),
        ("b, then a", ["a", "b"], "[0:1], then [0:0]", [(1, "b"), (0, "a")]),
        ("a, b, a", ["a", "b"], "[0:0], [0:1], [0:0]", [(0, "a"), (1, "b"), (0, "a")]),
        ("<u>u", ["s", "u"], "<u>[0:1]", [(1, "u")]),
        ("odd: a long text here; b", ["a long text here", "b"], "[0:1]", [(0, "a long text here"), (1, "b")]),
        ("odd: a\nb  c", ["a\n\nb  c\n", "d"], "[0:0]", [(0, "a\nb  c")]),
        ("odd: assistant", ["a", "assistant"], "even: [0:1]", [(1, "assistant")]),
    ],
)  # fmt: skip
def test_each_text_is_found_where_it_is(rendered, texts, marked, expected):
    found = parts(rendered, texts, marked)
    assert "".join(text for _, text in found) == rendered
    assert [each for each in found if each[0] is not None] == expected


SEEN = "odd: " + "\n ".join(str(number) for number in range(100_000))
SALTED = "".join(f"[{'0' * number}:" for number in range(1, 4000))


@pytest.mark.parametrize(
    "rendered, texts, marked, count",
    [
        ("a " * 20_000 + "c " + "a " * 20_000, ["a " * 20_000 + "b"], "[0:0]", 0),
        (SEEN, [SEEN.removeprefix("odd: ").replace("\n", "")], "[0:0]", 1),
        ("x" * 1_000_000, [f"{n} was not sent" for n in range(3_000)], "", 0),
        ("<s>" * 10_000, ["s"] * 10_000, "".join(f"[0:{n}]" for n in range(10_000)), 10_000),
    ],
    ids=["words that come again", "many words", "many that are not there", "many marks"],
)
def test_texts_are_looked_for_in_time_that_grows_with_their_length(rendered, texts, marked, count):
    started = time.process_time()
    marks = [f"[0:{number}]" for number in range(len(texts))]
    found = found_in(rendered, texts, marked, marks)
    assert time.process_time() - started < 2  # else it takes from ten seconds to an hour
    assert len([part for part in found if part.message is not None]) == count


def test_marks_that_no_text_has_are_found_in_time_that_grows_with_the_text():
    seen: list[str] = []

    def render(texts: Sequence[str]) -> str:
        seen.extend(texts)
        return f"<s>{texts[0]}</s>"

    started = time.process_time()
    found = parts_of([SALTED], render, ValueError)
    assert time.process_time() - started < 2
    assert [part.text for part in found] == ["<s>", SALTED, "</s>"]
    assert seen[1] == "[" + "0" * 4000 + ":0]"


def test_what_did_not_arrive_is_missing_and_a_text_of_blanks_is_not():
    assert missing_from([Part(1, "b"), Part(None, "x")], ["a", "b", " \n", "d"]) == [0, 3]


def test_a_text_that_arrived_is_not_taken_apart():
    class Large(str):  # one of 60 MiB took 1.7 GB
        split = None

    assert missing_from([Part(0, "a")], [Large("a"), "/no_think"]) == []


@pytest.mark.parametrize(
    "pieces, expected",
    [
        ([b"<u>", b"h", b"i", b"</u>"], [(None, 1), (0, 2), (None, 1)]),
        ([b"<u", b">hi<", b"/u>"], [(None, 2), (0, 0), (None, 1)]),
        ([b"<s>", b"<u>", b" hi", b"</u>"], [(None, 1), (None, 1), (0, 1), (None, 1)]),
        ([b"<u>", b"HI", b"</u>"], [(None, None), (0, None), (None, None)]),
        ([b"<u>", b"hi"], [(None, None), (0, None), (None, None)]),
    ],
)
def test_a_token_belongs_to_the_part_that_it_begins_in(pieces, expected):
    found = counted([Part(None, "<u>"), Part(0, "hi"), Part(None, "</u>")], pieces)
    assert [(part.message, part.tokens) for part in found] == expected


def test_tokens_that_are_parts_of_a_character_are_counted():
    text = "é😀"
    found = counted([Part(None, ">"), Part(0, text)], [b">", *(bytes([b]) for b in text.encode())])
    assert [part.tokens for part in found] == [1, 6]


@pytest.mark.parametrize(
    "size, window, fits, left",
    [
        (Estimate(10, 10, 10), 11, True, 1),
        (Estimate(10, 10, 10), 10, False, 0),
        (Estimate(5, 8, 20), 21, True, 1),
        (Estimate(5, 8, 20), 20, None, 0),
        (Estimate(5, 8, 20), 5, False, 0),
        (Estimate(5, 8, 20), None, None, None),
    ],
)
def test_whether_it_fits_is_said_only_where_that_is_known(size, window, fits, left):
    reading = Reading(size, (), window=window)
    assert (reading.fits, reading.left) == (fits, left)


@pytest.mark.invariant
@pytest.mark.parametrize(
    "roles, groups",
    [
        ("u", None),
        ("su", None),
        ("ssu", [[0, 1], [2]]),
        ("ssuuauau", [[0, 1], [2, 3], [4], [5], [6], [7]]),
        ("usu", [[1], [0, 2]]),
        ("uau", None),
    ],
)
def test_joined_messages_have_every_text_in_order_and_no_neighbours_of_one_role(roles, groups):
    names = {"s": "system", "u": "user", "a": "assistant"}
    messages = [Message(names[role], f"text {n}") for n, role in enumerate(roles)]
    fewer, found = joined(messages)
    assert found == groups
    groups = groups or [[number] for number in range(len(roles))]
    assert [m.content for m in fewer] == ["\n\n".join(f"text {n}" for n in g) for g in groups]
    assert all(one.role != two.role for one, two in zip(fewer, fewer[1:]))


def test_what_is_not_joined_stays_the_message_that_it_is():
    message = Message("user", "hi", images=(b"1",))
    assert joined([message])[0][0] is message
    assert joined([message, Message("user", "two", images=(b"2",))])[0][0].images == (b"1", b"2")
