"""Answers that have to fit a JSON Schema: printed as JSON, or a failed check that keeps nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from ore.backends import validation
from ore.backends.choice import open_backend
from ore.backends.schema import SchemaReasoner, as_document, parse_answer, read_schema
from ore.backends.validation import Judge
from ore.core import ORE
from ore.errors import ReasonerContractError, SchemaMismatchError, UsageError
from ore.reasoner import Reasoner
from ore.rows.expectations import parse_expectation
from ore.rows.judge import Judging
from ore.types import Response
from tests.support.fake_ollama import FakeOllama

pytest.importorskip("jsonschema")

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
    "required": ["city"],
    "additionalProperties": False,
}
TEXT = json.dumps(CITY)
LARGER = "or give the model a larger window (-o num_ctx=N, or with --backend openai the server's settings)"


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
    ('{"city": "Rome", "size": NaN}', "NaN, which is not JSON"),
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


@pytest.mark.parametrize(
    "reason, by",
    [
        (
            "length",
            "a limit: the model's or the server's own after 7 tokens, or the context window",
        ),
        ("content_filter", "the server's filter"),
        ("insufficient_system_resource", "the server"),
        ("parse_error", "the server"),
    ],
)
def test_an_answer_that_was_cut_off_is_refused_even_if_it_fits(ore, reason, by):
    result = ore(
        "hi", "--schema", TEXT, replies=['{"city": "R"}'], metadata={"done_reason": reason}
    )
    assert result.code == 3 and f"it was cut off by {by}), so" in result.err
    longer = "change the schema, or allow it more tokens with -o num_predict=N. The"
    assert (longer in result.err) is (reason == "length")


@pytest.mark.parametrize(
    "fit, advice",
    [
        (("complete", 512, 500), "or allow it more tokens with -o num_predict=N. The"),
        (("complete", 512, 502), f"{LARGER}. The"),
        (
            ("complete", 512, 504),
            "or allow it more tokens with -o num_predict=N. The",
        ),  # its own limit
        (
            ("truncated", 512, 258),
            f"or allow it more tokens with -o num_predict=N, or shorten the prompt, which did not fit "
            f"the context window, {LARGER}. The",
        ),
        (
            ("truncated", None, 21),
            f"or allow it more tokens with -o num_predict=N, or shorten the prompt, which was not read "
            f"whole, {LARGER}. The",
        ),
    ],
)
def test_what_had_no_room_in_the_window_is_said_of_an_answer_that_is_refused(ore, fit, advice):
    context = dict(zip(("status", "window", "prompt_tokens"), fit, strict=True))
    metadata = {"done_reason": "length", "eval_count": 10, "context": context}
    result = ore("hi", "--schema", TEXT, replies=["{"], metadata=metadata)
    assert result.code == 3 and f"change the schema, {advice} answer was" in result.err
    ended = ore("hi", "--schema", TEXT, replies=["{"], metadata={**metadata, "done_reason": "stop"})
    assert ("or shorten the prompt" in ended.err) is (fit[0] == "truncated")


@pytest.mark.parametrize(
    "asked, context, limit",
    [
        (5, {}, "-o num_predict=5"),
        (9, {}, "-o num_predict=9, the context window, or the server's own"),
        (  # vLLM's max_new_tokens may be less than what was asked for
            9,
            {"window": 512, "prompt_tokens": 11},
            "-o num_predict=9, the context window, or the server's own",
        ),
        (9, {"window": 16, "prompt_tokens": 11}, "the context window of 16 tokens"),
        (
            None,
            {"window": 512, "prompt_tokens": 11},
            "the model's or the server's own after 5 tokens",
        ),
        (None, {}, "the model's or the server's own after 5 tokens, or the context window"),
        (-1, {}, "the model's or the server's own after 5 tokens, or the context window"),
    ],
)
def test_the_limit_that_cut_off_an_answer_is_named(ore, asked, context, limit):
    metadata = {"done_reason": "length", "eval_count": 5, "context": context}
    metadata |= {} if asked is None else {"options": {"num_predict": asked}}
    result = ore("hi", "--schema", TEXT, replies=["{"], metadata=metadata)
    assert f"it was cut off by a limit: {limit}), so" in result.err


def test_exactly_one_call_is_made(ore):
    assert len(ore("hi", "--schema", TEXT, replies=["x"]).calls) == 1


@pytest.mark.parametrize(
    "schema, words",
    [
        ('{"type": "strange"}', "is not a JSON Schema: at $.type"),
        ('{"type": ', "it is not JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('{"properties": []}', "is not a JSON Schema"),
        ('{"name": "string", "age": "int"}', "none of its keys is a rule, so anything fits it"),
        ('{"name": {"type": "string"}}', "write fields as in 'name, age int'"),
    ],
)
def test_a_bad_schema_is_refused_before_anything_is_sent(ore, schema, words):
    result = ore("hi", "--schema", schema)
    assert (result.code, result.calls) == (2, []) and words in result.err


def test_a_schema_file_that_is_not_an_object_or_is_missing_is_refused(ore, tmp_path):
    path = tmp_path / "s.json"
    path.write_text("[1]")
    assert ore("hi", "--schema", str(path)).code == 2
    assert ore("hi", "--schema", str(tmp_path / "none.json")).code == 1


@pytest.mark.parametrize("text", ["true", "[]", "null", '"object"', "-"])
def test_json_that_is_not_an_object_is_told_from_a_file_that_is_not_there(ore, text):
    result = ore("hi", "--schema", text)
    assert (result.code, result.calls) == (2, [])
    assert f"fields as in 'name, age int', and '{text}' is none of them: " in result.err


SHORT = [
    ("name, age int", {"name": "string", "age": "integer"}),
    (
        "name str,tall bool , weight float",
        {"name": "string", "tall": "boolean", "weight": "number"},
    ),
    ("name,", {"name": "string"}),
    ("age int", {"age": "integer"}),
    ("größe float, first-name", {"größe": "number", "first-name": "string"}),
    ("name\n  age int,\n\n", {"name": "string", "age": "integer"}),
]


@pytest.mark.parametrize("text, types", SHORT)
def test_a_schema_may_be_written_in_short(text, types):
    assert read_schema(text) == {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in types.items()},
        "required": list(types),
    }


def test_a_field_of_the_short_form_may_be_described():
    schema = read_schema("bio: who, in short\nspeed int: in km/h")
    assert schema["properties"] == {
        "bio": {"type": "string", "description": "who, in short"},
        "speed": {"type": "integer", "description": "in km/h"},
    }


def test_an_answer_has_to_fit_the_short_form(ore):
    assert ore("hi", "--schema", "name, age int", replies=['{"name": "Ida", "age": 7}']).code == 0
    assert ore("hi", "--schema", "name, age int", replies=['{"name": "Ida"}']).code == 3


def test_a_file_wins_over_the_short_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "age int").write_text(TEXT)
    assert read_schema("age int") == CITY


@pytest.mark.parametrize(
    "text, why",
    [
        ("name, age integer", "'age integer' is not NAME, NAME TYPE (str, int, float, bool) or "),
        ("name, 5", "'5' is not NAME"),
        (
            "name: str, age: int",
            "'name: str' has its type after a colon, where a description goes: write 'name str'",
        ),
        (
            "name, age: integer",
            "'age: integer' has its type after a colon, where a description goes: write 'age int'",
        ),
        ("name, name int", "the field 'name' is there twice"),
        ("person", "one name may be anything"),
        (",", "one name may be anything"),
        ("Invent a person, please", "'Invent a person' is not NAME"),
    ],
)
def test_a_text_that_is_no_schema_is_not_called_a_file(ore, text, why):
    result = ore("hi", "--schema", text)
    assert (result.code, result.calls) == (2, [])
    assert why in result.err and "can't be read" not in result.err


@pytest.mark.parametrize("path", ["none.json", "my city.JSON", "schemas/city", "./city"])
def test_a_file_that_is_not_there_is_called_one(ore, path):
    result = ore("hi", "--schema", path)
    assert (result.code, result.calls) == (1, [])
    assert f"{path} can't be read: no such file" in result.err


DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NOT_IN_IT = "which is not a schema within it; ORE fetches none"
UNUSABLE = [
    ({"$ref": "https://example.com/x"}, f"it refers to https://example.com/x, {NOT_IN_IT}"),
    ({"properties": {"a": {"$ref": "#/$defs/b"}}}, f"it refers to #/$defs/b, {NOT_IN_IT}"),
    ({"items": {"$ref": "#b"}}, f"it refers to #b, {NOT_IN_IT}"),
    ({"not": {"$dynamicRef": "#b"}}, f"it refers to #b, {NOT_IN_IT}"),
    ({"$ref": "#/x", "x": {"items": {"$ref": "#/y"}}}, f"it refers to #/y, {NOT_IN_IT}"),
    ({"$ref": "#/x", "x": 5}, f"it refers to #/x, {NOT_IN_IT}"),
    ({"$ref": "#/x/y", "x": "text"}, f"it refers to #/x/y, {NOT_IN_IT}"),
    ({"$ref": "http://["}, f"it refers to http://[, {NOT_IN_IT}"),
    ({"$ref": "#/x", "x": {"properties": 5}}, "a part of it is not a schema"),
    ({"$schema": DRAFT_7, "definitions": {"a": {"$ref": "b.json"}}}, "it refers to b.json, "),
    ({"$schema": 5}, "its $schema is not text"),
    ({"description": "a\ud800"}, "it has half a character (a lone surrogate), which can't be sent"),
    ({"$ref": "#"}, "the schema can't be applied: it never ends"),
    ({"$ref": "#/x", "x": {"type": "strnig"}}, "can't be applied: Unknown type 'strnig'"),
    ({"pattern": "("}, "'(' is not a 'regex'"),
]


@pytest.mark.slow
@pytest.mark.parametrize("schema, why", UNUSABLE, ids=[json.dumps(each[0]) for each in UNUSABLE])
def test_a_schema_that_can_not_be_applied_is_refused_before_anything_is_sent(ore, schema, why):
    result = ore("hi", "--schema", json.dumps(schema))
    assert (result.code, result.calls, result.out) == (2, [], "")
    assert why in result.err.splitlines()[-1]


USABLE = [
    {"$ref": "#/$defs/a", "$defs": {"a": {"$anchor": "b", "items": {"$ref": "#b"}}}},
    {"$id": "http://a/b", "$ref": "c", "$defs": {"x": {"$id": "c", "$ref": "#/$defs/y", "$defs": {"y": True}}}},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$schema": DRAFT_7, "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}},
    {"properties": {"$ref": {"type": "string"}}},
    {"enum": [{"$ref": "none"}, {}]},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("schema", USABLE, ids=json.dumps)
def test_a_reference_that_leads_to_a_schema_is_followed(schema):
    with Judge(read_schema(json.dumps(schema))) as judge:
        assert parse_answer(Response("{}", "m"), judge) == {}


def test_a_reference_is_never_fetched():
    with FakeOllama() as fake:
        with pytest.raises(UsageError, match="ORE fetches none"):
            read_schema(json.dumps({"$ref": f"{fake.url}/api/tags"}))
        assert fake.requests == []


@pytest.mark.slow
def test_a_schema_whose_end_only_an_answer_can_show_to_be_missing_is_told(ore):
    schema = '{"properties": {"a": {"$ref": "#/properties/a"}}}'
    assert ore("hi", "--schema", schema, replies=["{}"]).code == 0
    result = ore("hi", "--schema", schema, replies=['{"a": 1}'])
    assert result.code == 3 and "(the schema can't be applied: it never ends)" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("part", [{"multipleOf": 0}, {"pattern": "("}, {"minLength": "x"}], ids=str)
@pytest.mark.parametrize("answer", ["5", '"text"'])
def test_a_part_that_only_an_answer_can_show_to_be_no_schema_is_told(ore, part, answer):
    schema = json.dumps({"$ref": "#/x", "x": part})
    result = ore("hi", "--schema", schema, replies=[answer])
    is_met = (answer == "5") == ("multipleOf" in part)
    assert result.code == (3 if is_met else 0)
    assert ("(the schema can't be applied: " in result.err) == is_met


def test_a_schema_without_its_package_names_the_extra(ore, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    monkeypatch.delitem(sys.modules, "ore.backends.validation", raising=False)
    monkeypatch.delattr("ore.backends.validation", raising=False)
    result = ore("hi", "--schema", TEXT)
    assert (result.code, result.calls) == (1, [])
    assert "requirements-schema.txt" in result.err


class Wordless(Reasoner):
    """Answers with something that is no response."""

    def reason(self, messages):
        return "Paris."


def test_what_is_not_a_response_is_left_to_the_engine():
    reasoner = SchemaReasoner(Wordless(), CITY)
    with pytest.raises(ReasonerContractError):
        ORE(reasoner, "").execute("hi")


def test_the_server_gets_the_schema():
    with FakeOllama(reply='{"city": "Rome"}') as fake:
        from tests.support.harness import run_ore

        result = run_ore("hi", "--schema", TEXT, "--host", fake.url, open_backend=open_backend)
    assert (result.code, fake.chats[0].json["format"]) == (0, CITY)


def test_an_answer_that_begins_with_a_byte_order_mark_is_shown_as_json(ore, tmp_path):
    result = ore("hi", "--schema", '{"type": "object"}', replies=['\ufeff{"a": 1}'])
    assert (result.code, json.loads(result.out)) == (0, {"a": 1})


CHAIN = {"$ref": "#/$defs/a0", "$defs": {"a40": {"type": "integer"}}}
for number in range(40):
    CHAIN["$defs"][f"a{number}"] = {"allOf": [{"$ref": f"#/$defs/a{number + 1}"}] * 2}
SLOW = [
    ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
    ({"pattern": "a*b"}, "a" * 200_000),
    ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 40 + "!": 1}),
    ({"propertyNames": {"items": {}, "pattern": "^(a+)+$"}}, {"a" * 40 + "!": 1}),
    ({"items": {"pattern": "^(a|b|ab)*c$"}}, ["ab" * 40]),
    (CHAIN, "x"),
]


@pytest.mark.invariant
@pytest.mark.slow
@pytest.mark.parametrize("schema, answer", SLOW, ids=lambda each: json.dumps(each)[:30])
def test_judging_that_never_ends_is_ended(schema, answer, ore, monkeypatch):
    monkeypatch.setattr(validation, "LONGEST", 0.5)
    result = ore("hi", "--schema", json.dumps(schema), replies=[json.dumps(answer)])
    assert result.code in (2, 3)
    assert "judging it takes longer than 0.5 seconds" in result.err


COUNTLESS = "[" + ("[" * 60 + "]" * 60 + ",") * 40_000 + "0]"


@pytest.mark.invariant
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["json", "schema"])
def test_an_answer_of_countless_values_is_refused_before_it_is_parsed(kind):
    began = time.process_time()
    with validation.Judge({"type": "array"}) as judge:
        with pytest.raises(SchemaMismatchError, match="it holds more than 2,097,152 values"):
            parse_answer(Response(COUNTLESS, "m"), judge)
    judging = Judging(parse_expectation({kind: {"type": "array"}}, "it"))
    verdict = judging.verdict(Response(COUNTLESS, "m"))
    judging.close()
    assert not verdict["holds"] and "2,097,152 values" in verdict["failed"][0]["seen"]
    assert time.process_time() - began < 2


NULLS = {"anyOf": [{"type": "null"}] * 50}


@pytest.mark.invariant
@pytest.mark.slow
@pytest.mark.parametrize("items", [NULLS, {"allOf": [{"not": {}}] * 50}], ids=["anyOf", "allOf"])
def test_many_alternatives_of_many_values_are_judged_in_time(items, monkeypatch):
    monkeypatch.setattr(validation, "LONGEST", 0.3)
    with validation.Judge({"items": items}) as judge:
        assert judge.violation([0] * 10).startswith("at $[")
        with pytest.raises(ValueError, match="judging it takes longer than 0.3 seconds"):
            judge.violation([0] * 30_000)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["allOf", "if"])
@pytest.mark.parametrize(
    "what, inner, answer",
    [("Properties", {"properties": {"a": True}}, {"a": 1}), ("Items", {"prefixItems": [{}]}, [1])],
)
def test_what_is_not_evaluated_is_found_in_time(word, what, inner, answer, monkeypatch):
    monkeypatch.setattr(validation, "LONGEST", 0.3)
    schema = inner
    for _ in range(14):  # each level doubles the time
        schema = {word: schema if word == "if" else [schema], f"unevaluated{what}": False}
    with validation.Judge(schema) as judge:
        with pytest.raises(ValueError, match="judging it takes longer than 0.3 seconds"):
            judge.violation(answer)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="Linux only tells of children")
def test_a_schema_that_may_be_slow_is_judged_in_a_process_that_ends_with_the_turn(ore):
    schema = json.dumps({"pattern": "^[a-z]+$"})
    before = children()
    assert ore("hi", "--schema", schema, replies=['"abc"']).code == 0
    result = ore("hi", "--schema", schema, replies=['"ABC"'])
    assert result.code == 3 and "does not match" in result.err
    assert children() == before


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


class Worded(Reasoner):
    """Answers with a city."""

    def reason(self, messages):
        return Response('{"city": "Rome"}', "scripted")


def test_all_answers_are_judged_by_one_process_which_ends_with_the_reasoner():
    slow = {**CITY, "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}}}
    reasoner = SchemaReasoner(Worded(), slow)
    for _ in range(3):
        reasoner.reason([])
    (judge,) = reasoner._judges
    child = judge._child._child
    assert child is not None and child.poll() is None
    reasoner.close()
    assert child.poll() is not None


@pytest.mark.slow
def test_telling_whether_a_schema_is_one_ends_in_time(monkeypatch):
    monkeypatch.setattr(validation, "LONGEST_CHECK", 0.3, raising=False)
    draft_4 = "http://json-schema.org/draft-04/schema#"  # of an enum's values no two are equal
    values = [value for number in range(4000) for value in (number, str(number))]
    with pytest.raises(UsageError, match="checking it takes longer than 0.3 seconds"):
        read_schema(json.dumps({"$schema": draft_4, "enum": values}))


@pytest.mark.slow
def test_a_long_schema_that_is_none_is_told_where():
    names = {f"name{number}": {"type": "string"} for number in range(300)}
    with pytest.raises(
        UsageError, match=r"is not a JSON Schema: at \$\.properties\.name9\.type, 5"
    ):
        read_schema(json.dumps({"properties": names | {"name9": {"type": 5}}}))


@pytest.mark.parametrize("most, lines", [(5, 1), (6, 3)])
def test_an_answer_is_indented_unless_that_would_take_long(monkeypatch, most, lines):
    monkeypatch.setattr("ore.backends.schema._MOST_INDENTED", most)
    shown = as_document('["\u00e9"]'.ljust(6))
    assert len(shown.split("\n")) == lines and json.loads(shown) == ["\u00e9"] and shown.isascii()
