"""Canonical JSON: the examples of RFC 8785, what has no canonical form, and another implementation."""

from __future__ import annotations

import collections
import enum
import hashlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.artifact.canonical import EXACT, canonical, digest

# The RFC's appendix B: the bits of a double, and how it is written.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555555": "333333333.3333333",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
EXACT_NUMBERS = st.integers(-EXACT, EXACT) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | EXACT_NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("bits, written", NUMBERS.items())
def test_a_number_is_written_as_the_rfc_says(bits, written):
    assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]).decode() == written


def test_keys_are_sorted_by_utf_16_units_and_nothing_is_added():
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    written = canonical({key: 1 for key in keys}).decode()
    assert list(json.loads(written)) == [
        "\r",
        "1",
        "\u0080",
        "\u00f6",
        "\u20ac",
        "\U0001f600",
        "\ufb33",
    ]
    assert canonical({"b": [1.0, True, None], "a": "\u20ac$\x0f\nA'\x42\"\\"}).decode() == (
        '{"a":"\u20ac$\\u000f\\nA\'B\\"\\\\","b":[1,true,null]}'
    )


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        EXACT + 1,
        -EXACT - 1,
        "\ud800",
        {"\udfff": 1},
        [{1: 2}],
        {3},
        b"x",
    ],
    ids=repr,
)
def test_what_has_no_canonical_form_is_a_value_error(value):
    with pytest.raises(ValueError):
        canonical(value)


class Name(str, enum.Enum):
    RED = "red"


class Number(int, enum.Enum):
    TWO = 2


class Double(float):
    def __repr__(self):
        return "Double(0.5)"


def test_a_value_of_a_derived_type_is_written_as_what_it_derives_from():
    value = collections.OrderedDict([(Name.RED, Number.TWO), ("b", Double(0.5)), ("c", Name.RED)])
    assert canonical(value).decode() == '{"b":0.5,"c":"red","red":2}'


@pytest.mark.slow
@given(VALUES)
def test_the_order_of_keys_and_the_layout_do_not_matter(value):
    again = json.loads(json.dumps(value, indent=3, sort_keys=True))
    assert canonical(again) == canonical(value)
    assert json.loads(canonical(value), parse_int=float) == value
    assert digest(value) == hashlib.sha256(canonical(value)).hexdigest()


@pytest.mark.slow
@given(VALUES)
def test_another_implementation_writes_the_same_bytes(value):
    oracle = pytest.importorskip("rfc8785", reason="rfc8785 is not installed")
    assert canonical(value) == oracle.dumps(value)
