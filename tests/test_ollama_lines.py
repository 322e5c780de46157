"""The lines of an answer in parts: whole, bounded, mended, wherever the stream is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.net.wire import LINE_LIMIT, TooLarge
from ore.ollama.lines import Lines


def split_at(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:])]


def read_as_httpx_does(chunks) -> list[str]:
    """What the client's own line splitting makes of it."""
    text = b"".join(Lines(chunks)).decode("utf-8")
    return text.splitlines()


CONTENTS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\x85\u2028\u2029\u201c"))
)


@given(CONTENTS, st.lists(st.integers(min_value=0)), st.booleans())
def test_lines_split_anywhere_come_whole_and_verbatim(contents, cuts, ends):
    lines = [json.dumps({"content": text}, ensure_ascii=False) for text in contents]
    data = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    seen = [json.loads(line)["content"] for line in read_as_httpx_does(split_at(data, cuts))]
    assert seen == contents


@given(CONTENTS, st.lists(st.integers(min_value=0)))
def test_every_piece_but_a_torn_end_is_whole_lines(contents, cuts):
    data = "".join(f"{json.dumps(text)}\n" for text in contents).encode() + b'{"torn'
    lines = Lines(split_at(data, cuts))
    pieces = list(lines)
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert pieces[-1] == lines.piece == b'{"torn'
    assert lines.whole is False


@pytest.mark.parametrize(
    "sent, come",
    [
        (b'{"a":1}\n\n{"b":2}\n', b'{"a":1}\n{"b":2}\n'),
        (b'\n{"a":1}\n', b'{"a":1}\n'),
        (b'{"a":1}\r\n\r\n', b'{"a":1}\r\n'),
        (b'{"a":1}\n \t\n', b'{"a":1}\n'),
        (b"\n\n\n", b""),
        (b'[1]\n{"a":1}\n', b'[1]\n{"a":1}\n'),
        ('{"a":"\x85"}\n'.encode(), b'{"a":"\\u0085"}\n'),
        ('{"a":"\u2028\u2029"}\n'.encode(), b'{"a":"\\u2028\\u2029"}\n'),
        ('{"a":"\u201cé€"}\n'.encode(), '{"a":"\u201cé€"}\n'.encode()),
        (b'{"a":"\xc2"}\n', b'{"a":"\xc2"}\n'),
    ],
)
def test_what_a_line_splitter_trips_over_is_mended(sent, come):
    assert b"".join(Lines([sent])) == come
    assert b"".join(Lines([sent[i : i + 1] for i in range(len(sent))])) == come


def test_a_line_ends_the_stream_when_it_is_larger_than_the_limit():
    longest = b'"' + b"x" * (LINE_LIMIT - 2) + b'"'
    assert list(Lines([longest, b"\n"])) == [longest + b"\n"]

    def endless():
        for _ in range(1_000):
            yield b"x" * 65_536
        raise AssertionError("it was read on")

    with pytest.raises(TooLarge) as caught:
        list(Lines(endless()))
    assert (caught.value.what, caught.value.limit) == ("a line", LINE_LIMIT)
