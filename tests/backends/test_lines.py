"""The lines of an answer in parts: whole and bounded, wherever the stream is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.backends.http import LINE_LIMIT, TooLarge
from ore.backends.lines import MOST_IN_LINE, MOST_STEPS, Lines, steps_of


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:])]


CONTENTS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\x85\u2028\u2029\u201c"))
)


@given(CONTENTS, st.lists(st.integers(min_value=0)), st.booleans())
def test_lines_split_anywhere_come_whole_and_verbatim(contents, cuts, ends):
    lines = [json.dumps({"content": text}, ensure_ascii=False) for text in contents]
    data = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    seen = [json.loads(line)["content"] for line in Lines(split_at(data, cuts))]
    assert seen == contents


@given(CONTENTS, st.lists(st.integers(min_value=0)))
def test_only_a_torn_end_is_not_a_whole_line(contents, cuts):
    data = "".join(f"{json.dumps(text)}\n" for text in contents).encode()
    lines = Lines(split_at(data, cuts))
    assert [json.loads(line) for line in lines] == contents
    assert lines.whole
    torn = Lines(split_at(data + b'{"torn', cuts))
    assert list(torn)[-1] == '{"torn'
    assert (torn.last, torn.whole) == (b'{"torn', False)


@pytest.mark.parametrize(
    "sent, come",
    [
        (b'{"a":1}\n\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
        (b'\n{"a":1}\n', ['{"a":1}']),
        (b'{"a":1}\r\n\r\n', ['{"a":1}']),
        (b'{"a":1}\n \t\n', ['{"a":1}']),
        (b"\n\n\n", []),
        (b"\n", []),
        (b'{"a":1}\n ', ['{"a":1}']),
        (b'[1]\n{"a":1}\n', ["[1]", '{"a":1}']),
        ('{"a":"\x85\u2028\u2029"}\n'.encode(), ['{"a":"\x85\u2028\u2029"}']),
        ('{"a":"\u201cé€"}\n'.encode(), ['{"a":"\u201cé€"}']),
        (b'{"a":"\xc2"}\n', ['{"a":"\ufffd"}']),
    ],
)
def test_lines_are_cut_where_json_lines_end_and_blank_ones_dropped(sent, come):
    assert [line.strip() for line in Lines([sent])] == come
    assert [line.strip() for line in Lines([sent[i : i + 1] for i in range(len(sent))])] == come


def test_a_line_ends_the_stream_when_it_is_larger_than_the_limit():
    longest = b'"' + b"x" * (LINE_LIMIT - 2) + b'"'
    assert list(Lines([longest, b"\n"])) == [longest.decode()]

    def endless():
        for _ in range(1_000):
            yield b"x" * 65_536
        raise AssertionError("it was read on")

    with pytest.raises(TooLarge) as caught:
        list(Lines(endless()))
    assert (caught.value.what, caught.value.limit) == ("a line", LINE_LIMIT)


@pytest.mark.parametrize("end", [b"\n", b"", b"\n{}\n"])
def test_a_line_of_a_great_many_values_is_refused_before_it_is_parsed(end):
    assert list(Lines([b'{"a":[' + b"1," * MOST_IN_LINE + b"1]}" + end]))
    with pytest.raises(ValueError, match="more than 65,536 values"):
        list(Lines([b'{"a":[' + b"1," * (MOST_IN_LINE + 1) + b"1]}" + end]))


def test_commas_of_a_text_are_no_values():
    for text in ("1," * (MOST_IN_LINE + 1), '"a\\",' * (MOST_IN_LINE + 1)):
        line = json.dumps({"message": {"content": text}})
        assert list(Lines([line.encode() + b"\n"])) == [f"{line}\n"]
    hidden = b'{"a":"' + b'\\"' * 9 + b'","b":[' + b"1," * (MOST_IN_LINE + 1) + b"1]}\n"
    with pytest.raises(ValueError, match="more than 65,536 values"):
        list(Lines([hidden]))


def test_no_pull_names_steps_without_an_end():
    lines = ({"status": f"step {number}", "completed": 1, "total": 2} for number in range(100_000))
    found = [*steps_of([*lines, {"status": "success"}])]
    assert found[0] == ("step 0", 1, 2) and found[-1] == ("success", 0, 0)
    assert len({step for step, _, _ in found}) == MOST_STEPS + 2


def test_a_step_that_goes_on_counts_once():
    found = [*steps_of([{"status": "pulling a", "completed": n} for n in range(10_000)])]
    assert {step for step, _, _ in found} == {"pulling a"}
    assert [*steps_of([{}, {"status": None, "total": -1}])] == [("", 0, 0)] * 2
