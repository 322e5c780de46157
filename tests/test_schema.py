"""Answers that have to fit a JSON Schema: printed as JSON, or a failed check that keeps nothing."""

from __future__ import annotations

import json

import pytest

from ore.backends.choice import open_backend
from ore.errors import SchemaMismatchError, UsageError
from ore.schema import parse_answer, read_schema
from ore.types import Response
from tests.fake_ollama import FakeOllama

pytest.importorskip("jsonschema")

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}
TEXT = json.dumps(CITY)


def test_an_answer_that_fits_is_printed_as_json(ore):
    result = ore("hi", "--schema", TEXT, replies=['{"city":"Z\u00fcrich"}'])
    assert (result.code, result.out) == (0, '{\n  "city": "Z\\u00fcrich"\n}\n')
    assert result.backend.settings.format == CITY


def test_the_answer_is_kept_verbatim(ore, home):
    answer = '{"city":   "Z\u00fcrich"}'
    result = ore("hi", "--schema", TEXT, "--session", "trip", "-j", replies=[answer])
    assert result.json["content"] == answer
    saved = json.loads((home / ".ore/sessions/trip.json").read_text())
    assert saved["messages"][1]["content"] == answer


def test_a_schema_may_stand_in_a_file(ore, tmp_path):
    path = tmp_path / "city.json"
    path.write_text(TEXT)
    assert ore("hi", "--schema", str(path), replies=['{"city": "Rome"}']).code == 0


MISMATCHES = [
    ("Rome", "it is not JSON"),
    ("", "it is empty"),
    ('{"city": "Rome"', "it is not JSON"),
    ('{"city": 5}', "at $.city, 5 is not of type 'string'"),
    ('{"size": 1}', "at $, 'city' is a required property"),
    ('{"city": "Rome", "size": -1}', "at $.size, -1 is less than the minimum of 0"),
    ('{"city": "Rome", "x": 1}', "Additional properties are not allowed"),
    ('{"city": "Rome", "city": "Oslo"}', "the key 'city' twice"),
    ('{"city": "Rome", "size": NaN}', "NaN, which is no JSON"),
    ('```json\n{"city": "Rome"}\n```', "it is not JSON"),
]


@pytest.mark.parametrize("answer, reason", MISMATCHES)
def test_any_other_answer_is_exit_3_with_the_reason_and_the_text(ore, home, answer, reason):
    result = ore("hi", "--schema", TEXT, "--session", "trip", replies=[answer])
    assert (result.code, result.out) == (3, "")
    assert reason in result.err and result.err.endswith(f"The answer was:\n{answer}\n")
    assert not (home / ".ore/sessions/trip.json").exists()


def test_a_mismatch_writes_no_artifact(ore, tmp_path):
    path = tmp_path / "run.json"
    assert ore("hi", "--schema", TEXT, "--artifact-out", str(path), replies=["x"]).code == 3
    assert not path.exists()


def test_an_answer_that_was_cut_off_is_no_answer_even_if_it_fits(ore):
    result = ore(
        "hi", "--schema", TEXT, replies=['{"city": "R"}'], metadata={"done_reason": "length"}
    )
    assert result.code == 3 and "it was cut off by a limit" in result.err


def test_exactly_one_call_is_made(ore):
    assert len(ore("hi", "--schema", TEXT, replies=["x"]).calls) == 1


@pytest.mark.parametrize(
    "schema, words",
    [
        ('{"type": "strange"}', "is no JSON Schema: at $.type"),
        ('{"type": ', "it is not JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"properties": []}', "is no JSON Schema"),
    ],
)
def test_what_is_no_schema_is_refused_before_anything_is_sent(ore, schema, words):
    result = ore("hi", "--schema", schema)
    assert (result.code, result.calls) == (2, []) and words in result.err


def test_a_schema_file_that_is_no_object_or_not_there_is_refused(ore, tmp_path):
    path = tmp_path / "s.json"
    path.write_text("[1]")
    assert ore("hi", "--schema", str(path)).code == 2
    assert ore("hi", "--schema", str(tmp_path / "none.json")).code == 1


def test_a_reference_is_never_fetched():
    with FakeOllama() as fake:
        schema = read_schema(json.dumps({"$ref": f"{fake.url}/api/tags"}))
        with pytest.raises(SchemaMismatchError, match="refers to what is not in it"):
            parse_answer(Response("1", "m"), schema)
        assert fake.requests == []


@pytest.mark.parametrize("schema", ['{"$ref": "#"}', '{"pattern": "("}'])
def test_a_schema_without_an_end_or_with_a_broken_pattern_is_told(schema):
    try:
        read = read_schema(schema)
    except UsageError:
        return
    with pytest.raises(SchemaMismatchError, match="can't be applied"):
        parse_answer(Response('"x"', "m"), read)


def test_the_server_gets_the_schema():
    with FakeOllama(reply='{"city": "Rome"}') as fake:
        from tests.harness import run_ore

        result = run_ore("hi", "--schema", TEXT, "--host", fake.url, open_backend=open_backend)
    assert (result.code, fake.chats[0].json["format"]) == (0, CITY)
