"""Strict JSON: what the standard parser lets through is refused, in one clause and quickly."""

from __future__ import annotations

import json
import math
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ore.files import strictjson
from ore.files.strictjson import MAX_DEPTH, MAX_DIGITS, check, holds_more_than, marks_in, parse

LIMIT = 1 << 20


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + closing * levels


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"null", None),
        (b' {"a": [1, 2.5, "x"]}\r\n', {"a": [1, 2.5, "x"]}),
        (b"\xef\xbb\xbf[]", []),
        ('"ä€😀"'.encode(), "ä€😀"),
        (b'{"a": {"k": 1}, "b": {"k": 2}}', {"a": {"k": 1}, "b": {"k": 2}}),
        (b"-" + b"9" * MAX_DIGITS, -int("9" * MAX_DIGITS)),
        (b"1e308", 1e308),
        (b'"\\ud800"', "\ud800"),
    ],
)
def test_a_document_within_bounds_has_its_value(data, value):
    assert parse(data, limit=LIMIT) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\xef\xbb\xbf \n", "it is empty"),
        (b"[1,]", "it is not JSON: .* at line 1, column [34]"),
        (b'{"a":1}\n{"b":2}', "it is not JSON: extra data at line 2, column 1"),
        (b'{"a": "b', "it is not JSON: unterminated string starting at line 1, column 7"),
        (b'"a\nb"', "it is not JSON: invalid control character at line 1, column 3"),
        (b"\n'a'", "it is not JSON: expecting value at line 2, column 1"),
        (b"[\xff]", "it is not UTF-8 at byte 1"),
        (b"\xef\xbb\xbf[\xff]", "it is not UTF-8 at byte 4"),
        ("[1]".encode("utf-16"), "it is not UTF-8 at byte 0"),
        ("[1]".encode("utf-16-le"), "it is not JSON: .* at line 1, column 2"),
        (b'"\xed\xa0\x80"', "it is not UTF-8 at byte 1"),
        (b'{"role": "user", "role": "system"}', "it has the key 'role' twice in one object"),
        (b'[{"a": 1, "b": {"\\n": 1, "\\n": 2}}]', r"it has the key '\\n' twice in one object"),
        (b'{"%s": 1, "%s": 1}' % (2 * (b"k" * 99,)), f"it has the key '{'k' * 40}' twice in .*"),
        (b"NaN", "it holds NaN, which is not JSON"),
        (b"[-Infinity]", "it holds -Infinity, which is not JSON"),
        (b'{"x": 1e400}', "it holds a number that is not finite"),
        (b"[[-1e999]]", "it holds a number that is not finite"),
        (b"9" * (MAX_DIGITS + 1), f"it holds an integer of more than {MAX_DIGITS} digits"),
        (b"9" * 100_000, f"it holds an integer of more than {MAX_DIGITS} digits"),
        (nested(MAX_DEPTH + 1), "it is nested deeper than 64 levels"),
        (nested(10_000), "it is nested deeper than 64 levels"),
        (b"[" * 100_000, "it is nested deeper than 64 levels"),
        (nested(100_000, b'{"a":', b"}"), "it is nested deeper than 64 levels"),
        (b" " * LIMIT + b"1", "it is larger than 1,048,576 bytes"),
    ],
)
def test_a_bad_document_is_refused_with_a_clause(data, reason):
    with pytest.raises(ValueError, match=f"^{reason}$") as caught:
        parse(data, limit=LIMIT)
    assert str(caught.value).isprintable()
    assert not isinstance(caught.value, json.JSONDecodeError)


def test_nesting_and_size_at_the_limit_are_accepted():
    assert parse(nested(MAX_DEPTH), limit=2 * MAX_DEPTH) is not None


@pytest.mark.slow
def test_a_key_that_is_doubled_at_the_end_of_a_large_object_is_found_quickly():
    keys = ",".join(f'"{number}":0' for number in range(100_000))
    started = time.process_time()
    with pytest.raises(ValueError, match="'99999' twice"):
        parse(f'{{{keys},"99999":1}}'.encode(), limit=LIMIT * 4)
    assert time.process_time() - started < 2


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES, st.booleans())
def test_what_python_writes_is_read_back(value, ascii_only):
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode(), limit=LIMIT) == value


@given(st.binary() | st.text(alphabet='{}[]",:0123456789eE+-.tfnul\\ \n').map(str.encode))
def test_any_bytes_give_a_value_or_a_clause(data):
    try:
        value = parse(data, limit=LIMIT)
    except ValueError as exc:
        assert str(exc).startswith("it ") and str(exc).isprintable()
        return
    assert value == json.loads(data.decode("utf-8-sig"))


@pytest.mark.slow
@given(VALUES, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_number_that_is_not_finite_is_found_wherever_it_stands(value, number):
    check([value])
    with pytest.raises(ValueError, match="not finite"):
        check([value, {"here": [number]}])


@pytest.mark.parametrize(
    "text, count", [("1", 0), ("[]", 0), ("[1,2]", 2), ('{"a":{},"b":[[]]}', 4)]
)
def test_values_are_counted_by_their_marks_and_objects_twice(text, count):
    assert marks_in(text.encode()) == count


@pytest.mark.invariant
@pytest.mark.slow
def test_countless_values_of_a_file_are_refused_before_they_take_memory(ore, tmp_path):
    countless = "[" + ("[" * 58 + "]" * 58 + ",") * 40_000 + "0]"
    artifact, table = tmp_path / "a.json", tmp_path / "t.jsonl"
    artifact.write_text(countless)
    table.write_text(f'{{"a": {countless}}}\n')
    began = time.process_time()
    result = ore("--verify", str(artifact))
    assert (result.code, "it holds more than 2,000,000 values" in result.out) == (3, True)
    result = ore("{{a}}", "--rows", str(table))
    assert (result.code, "line 1: it holds more than 2,097,152 values" in result.err) == (2, True)
    assert time.process_time() - began < 2


@example([""], 1)
@example(["\\", ",,,,"], 3)
@given(st.lists(st.text('\\",[{a\n', max_size=6), max_size=4), st.integers(0, 6))
def test_what_stands_in_texts_is_no_value(texts, most):
    data, bare = json.dumps([texts]).encode(), json.dumps([[""] * len(texts)]).encode()
    assert holds_more_than(data, most) == (most < marks_in(bare))


@pytest.mark.parametrize("block", [1, 2, 3, 11])
def test_it_does_not_matter_where_a_block_ends_as_values_are_counted(block, monkeypatch):
    monkeypatch.setattr(strictjson, "_BLOCK", block)
    data = json.dumps([["a,[{", "", "\\,", '"[{,,', []], {}]).encode()
    assert [holds_more_than(data, most) for most in range(9)] == [True] * 7 + [False] * 2


@pytest.mark.parametrize("unit", [rb"\\,", rb"\n,", rb"\",", b","])
def test_the_values_of_a_long_text_are_counted_in_little_memory(unit):
    data = b'["%s"]' % (unit * 20_000)
    tracemalloc.start()
    try:
        assert not holds_more_than(data, 1_000)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(data)
    finally:
        tracemalloc.stop()
