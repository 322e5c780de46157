"""The hashes an artifact carries: a change anywhere is found, and named."""

from __future__ import annotations

import copy
import hashlib
import json
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.artifact import canonical as canonical_json
from ore.artifact.canonical import canonical
from ore.artifact.seal import breaks, seal
from ore.files import strictjson
from tests.support.runs import record


@pytest.fixture
def document(tmp_path):
    made = record(tmp_path / "run.json", "hi", "--tool", "echo", "--artifact-full", "-o", "seed=1")
    assert breaks(made) == []
    return made


def leaves(value, path=()):
    """Every place of a value that holds no other, and every place of an empty one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in inner:
        if isinstance(part, (dict, list)) and part:
            yield from leaves(part, (*path, key))
        else:
            yield (*path, key)


def holder(document, path):
    for key in path[:-1]:
        document = document[key]
    return document


def other(value):
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return [*value, "x"] if isinstance(value, list) else f"{value}x"


@pytest.mark.invariant
def test_every_changed_value_is_found_and_named(document):
    places = list(leaves(document))
    assert len(places) > 60
    for path in places:
        changed = copy.deepcopy(document)
        where = holder(changed, path)
        where[path[-1]] = other(where[path[-1]])
        found = breaks(changed)
        assert found, path
        if "values_sha256" in path:
            name = path[-1]
        else:
            sections = ("input", "output", "continuation", "provenance")
            name = ".".join(path[:2] if path[0] in sections else path[:1])
        assert any(name in text for text in found), (path, found)


@pytest.mark.invariant
def test_every_key_that_is_taken_or_added_is_found_and_named(document):
    for section in ("input", "output", "continuation", "provenance", "input.new", "new"):
        changed = copy.deepcopy(document)
        if section == "new":
            changed["new"] = 1
        elif section == "input.new":
            changed["input"]["new"] = None
        else:
            key = sorted(changed[section])[0]
            del changed[section][key]
            section = f"{section}.{key}"
        assert any(section in text for text in breaks(changed)), section


@pytest.mark.parametrize("key", ["self_sha256", "values_sha256"])
def test_the_hashes_themselves_are_missed(document, key):
    del document["provenance"][key]
    assert any(key in text for text in breaks(document))


@pytest.mark.parametrize("value", [None, 1, [], {}, "x", {"input.prompt": 3}])
@pytest.mark.parametrize("key", ["self_sha256", "values_sha256"])
def test_odd_hashes_are_found(document, key, value):
    document["provenance"][key] = value
    assert breaks(document)


def test_layout_and_the_order_of_keys_do_not_matter(document):
    again = json.loads(json.dumps(document, sort_keys=True, indent=7))
    assert breaks(again) == []


def test_sealing_again_changes_nothing(document):
    assert seal(document) == document


@pytest.mark.parametrize("is_changed", [False, True])
def test_each_value_of_what_is_not_plain_is_laid_out_once(document, monkeypatch, is_changed):
    document["output"]["metadata"]["measured"] = [1e-300 * each for each in range(1, 101)]
    document = seal(document)
    if is_changed:
        document["output"]["content"] += "x"
    lay_out = Mock(side_effect=canonical_json._number)
    monkeypatch.setattr(canonical_json, "_number", lay_out)
    assert bool(breaks(document)) == is_changed
    assert sum(0 < call.args[0] < 1e-290 for call in lay_out.call_args_list) == 100


EDGES = [0.0, -0.0, 1e-4, 9.999e-5, 1e15, 1e16, 9999999999999998.0, float(2**53), 5e-324, 0.1]
NUMBERS = st.integers(-(2**54), 2**54) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = NUMBERS | st.sampled_from(EDGES) | st.text(max_size=3) | st.none() | st.booleans()
ANY = st.recursive(
    PLAIN, lambda each: st.lists(each) | st.dictionaries(st.text(max_size=3), each), max_leaves=6
)


@pytest.mark.slow
@settings(max_examples=400)
@given(ANY)
def test_only_the_hash_of_the_canonical_form_is_a_seal(value):
    document = {"output": {"value": value}, "provenance": {}}
    document = strictjson.parse(json.dumps(document).encode(), limit=1 << 20, shortens=True)
    try:
        form = canonical(document)
    except ValueError:
        form = None
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    written = text.encode("utf-8", "surrogatepass")
    document["provenance"]["self_sha256"] = hashlib.sha256(written).hexdigest()
    assert bool(breaks(document)) == (form != written)
