"""Artifacts that are laid out alike: what is found of them unparsed is what parsing them finds."""

from __future__ import annotations

import copy
import json
import time
import uuid
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.artifact import MAX_ARTIFACT_BYTES
from ore.artifact.alike import Alike, _canonical_number
from ore.artifact.canonical import canonical, text_digest
from ore.artifact.seal import SELF, seal
from ore.artifact.verify import HOLDS, check
from ore.core import ORE
from tests.glass.test_recording import Echo

TEXTS = [
    "x",
    "",
    'a "b": {}',
    "back\\slash\\",
    "two\nlines\t",
    "\x00\x1f\x7f",
    "é 早 🎉",
    '",\n  "x": "',
]
NUMBERS = [0, -1, 7, 2**53 - 1, 2**53, 0.5, 1e-05, 1e16, 1e22, 5e-324, -0.25, 3.0, 123456789.123]
TEXT = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.sampled_from(NUMBERS) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def laid_out(document):
    return (json.dumps(document, indent=2) + "\n").encode()


def made():
    engine = ORE(Echo(), "Be brief.")
    document = engine.record(engine.execute("Where is Rome?")).to_dict()
    document["provenance"].update(row={"number": 1, "line": 2}, system_prompt=None)
    document["output"]["metadata"] = {"eval_count": 3, "score": 0.25, "names": ["a", None, True]}
    return document


DOCUMENT = made()


def artifact(content="Paris.", number=7, score=0.75, **more):
    """An artifact with values of its own, as a run over rows writes it."""
    document = copy.deepcopy(DOCUMENT)
    document["execution_id"] = document["output"]["id"] = str(uuid.uuid4())
    document["output"]["content"] = content
    document["output"]["metadata"].update(score=score, **more)
    document["provenance"]["row"]["number"] = number
    return seal(document)


def taught(*documents):
    alike = Alike()
    for document in documents or (artifact(), artifact("Rome.", 8, 0.5)):
        data = laid_out(document)
        assert check(data, "x").state == HOLDS
        alike.learn(data)
    return alike


def test_what_is_laid_out_alike_is_not_parsed():
    alike, other = taught(), artifact("Berlin.", 9, 0.125)
    found = (other["execution_id"], other["provenance"][SELF])
    assert alike.seal_of(laid_out(other)) == found
    assert Alike().seal_of(laid_out(other)) is None


def test_a_word_that_was_changed_after_the_seal_does_not_hold():
    data = laid_out(artifact("Berlin.", 9, 0.125))
    assert taught().seal_of(data) is not None
    assert taught().seal_of(data.replace(b'"Berlin."', b'"Munich."')) is None


@pytest.mark.slow
@pytest.mark.invariant
@given(TEXT, NUMBER, NUMBER)
@settings(deadline=None)
def test_any_values_are_judged_as_if_they_were_parsed(content, number, score):
    document = artifact("Nice.")
    document["output"]["content"] = content
    document["provenance"]["row"]["number"] = number
    document["output"]["metadata"]["score"] = score
    try:
        data = laid_out(seal(document))
    except ValueError:  # an integer that is not exact has no seal; it is written all the same
        data = laid_out(document)
    checked, found = check(data, "x"), TAUGHT.seal_of(data)
    assert found is None or checked.state == HOLDS
    assert found is None or found[0] == checked.execution_id
    if isinstance(number, int) and abs(number) < 10**15 and isinstance(score, float):
        assert (found is not None) == (checked.state == HOLDS)


TAUGHT = taught()
PLACES = st.integers(0, len(laid_out(artifact())) - 1)
PARTS = st.sampled_from(
    [
        b'"',
        b"\\",
        b",",
        b"\n",
        b"}",
        b"{",
        b" ",
        b"0",
        b"1",
        b".0",
        b"e5",
        b"-",
        b"x",
        b"\xff",
        b"\x00",
    ]
    + [b"null", b"true", b"NaN", b'\n  "timestamp": 1,', b'"input": {}, ', b"\\u0041", b"\\ud800"]
)


@pytest.mark.slow
@pytest.mark.invariant
@given(st.lists(st.tuples(PLACES, st.integers(0, 3), PARTS), min_size=1, max_size=3))
@settings(deadline=None, max_examples=300)
def test_no_changed_byte_holds_that_does_not_hold_when_it_is_parsed(changes):
    data = laid_out(artifact("Nice."))
    for at, taken, put in changes:
        data = data[:at] + put + data[at + taken :]
    if TAUGHT.seal_of(data):
        assert check(data, "x").state == HOLDS


def resealed(data: bytes) -> bytes:
    """Give a file the seal of its values, however it spells them: what a forger could do."""
    at = data.index(b'"self_sha256": "') + 16
    return data[:at] + seal(json.loads(data))["provenance"][SELF].encode() + data[at + 64 :]


@pytest.mark.invariant
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"number": 7', b'"number": 7, "number": 7'),
        (b'"number": 7', b'"number": 07'),
        (b'"number": 7', b'"number": -0'),
        (b'"number": 7', b'"number": 9007199254740993'),
        (b'"number": 7', b'"number": "7"'),
        (b'"number": 7', b'"number": nan'),
        (b'"score": 0.75', b'"score": 1e999'),
        (b'"score": 0.75', b'"score": Infinity'),
        (b'"score": 0.75', b'"score": inf'),
        (b'"score": 0.75', b'"score": 0.7_5'),
        (b'"content": "Paris."', b'"content": "Paris.", "content": "Paris."'),
        (b'"content": "Paris."', b'"content": "Par\\ud800is."'),
        (b'"content": "Paris."', b'"content": "Par\tis."'),
        (b'"content": "Paris."', b'"content": "Par\\xis."'),
        (b'"content": "Paris."', b'"content": "Par"is."'),
        (b'"content": "Paris."', b'"content": null'),
        (b'"prompt": "Where is Rome?"', b'"prompt": "\\udc00"'),
        (b'"mode": "single_turn"', b'"mode": "two_turns"'),
        (b'"artifact_version": "ore.exec.v1"', b'"artifact_version": "ore.exec.v2"'),
    ],
)
def test_what_a_forger_seals_anew_is_judged_as_if_it_were_parsed(old, new):
    data = laid_out(artifact())
    assert data.count(old) == 1
    forged = data.replace(old, new)
    with suppress(ValueError):
        forged = resealed(forged)
    assert TAUGHT.seal_of(forged) is None or check(forged, "x").state == HOLDS


def test_trailing_bytes_another_id_and_another_layout_are_left_to_the_parser():
    alike, data = taught(), laid_out(artifact("Nice."))
    document = json.loads(data)
    document["output"]["id"] = "another"
    for each in (
        data + b"\n",
        data + b"{}",
        b"\xef\xbb\xbf" + data,
        data[:-1],
        b"",
        laid_out(seal(document)),
        json.dumps(json.loads(data)).encode(),
    ):
        assert alike.seal_of(each) is None
    assert alike.seal_of(data)


@pytest.mark.parametrize("name", ["parent", "messages", "rendered", "chat_template"])
def test_what_is_checked_by_more_than_its_hash_is_not_learnt(name):
    document = artifact()
    document["provenance"][name] = {}
    document = seal(document)
    alike = Alike()
    alike.learn(laid_out(document))
    assert alike.seal_of(laid_out(document)) is None


def test_a_system_prompt_of_another_artifact_is_left_to_the_parser():
    def with_system(text, sha256):
        document = artifact()
        document["provenance"].update(system_prompt=text)
        document["provenance"]["sources"] = [{"source": "system", "sha256": sha256}]
        return seal(document)

    brief = with_system("Be brief.", "5c0b9d80e9b5f5c2c1f2c6dc1e5f1e0f")
    alike = Alike()
    alike.learn(laid_out(brief))
    assert alike.seal_of(laid_out(brief))
    assert (
        alike.seal_of(laid_out(with_system("Be long.", "5c0b9d80e9b5f5c2c1f2c6dc1e5f1e0f"))) is None
    )
    assert alike.seal_of(laid_out(with_system("Be brief.", "0" * 32))) is None


@pytest.mark.parametrize("more", [{}, {"sha256": None}, {"sha256": ["x"]}, {"sha256": {}}])
def test_a_system_message_without_a_hash_is_one_that_fits_no_prompt(more):
    document = artifact()
    document["provenance"]["system_prompt"] = "Be brief."
    sha256 = text_digest("Be brief.")
    sources = [{"source": "system", "sha256": sha256}, {"source": "system", **more}]
    document["provenance"]["sources"] = sources
    data = laid_out(seal(document))
    assert taught(json.loads(data)).seal_of(data)


@pytest.mark.slow
def test_words_like_those_that_mark_a_place_take_no_time():
    data = laid_out(artifact("place" + "-" * 60_000))
    begun = time.process_time()
    assert taught(json.loads(data)).seal_of(data)
    assert time.process_time() - begun < 1


@pytest.mark.slow
def test_what_varies_more_is_learnt_and_what_is_never_alike_is_soon_not():
    alike = taught()
    once, again = (laid_out(artifact("Nice.", eval_count=number)) for number in (5, 6))
    assert alike.seal_of(once) is None
    alike.learn(once)
    assert alike.seal_of(once) and alike.seal_of(again)
    for number in range(100):
        alike.learn(laid_out(artifact(**{f"key{number}": 1})))
    assert len(alike._known) <= 8
    assert alike.seal_of(laid_out(artifact(key99=1))) is None


def test_of_large_artifacts_nothing_is_learnt_for_that_takes_too_long():
    large = laid_out(artifact(**{f"key{number}": 0 for number in range(4000)}))
    assert len(large) > 1 << 16
    assert taught(json.loads(large)).seal_of(large) is None


@pytest.mark.slow
def test_what_is_larger_than_an_artifact_may_be_is_left_to_the_parser():
    alike, data = taught(), laid_out(artifact("x" * MAX_ARTIFACT_BYTES))
    assert len(data) > MAX_ARTIFACT_BYTES and alike.seal_of(data) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_canonical_as_it_is_or_is_made_so(number):
    assert _canonical_number(repr(number).encode()) in (canonical(number), b"")
