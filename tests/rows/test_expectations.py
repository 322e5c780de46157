"""What is expected of an answer: what holds, what is seen where it does not, what can't be expected."""

from __future__ import annotations

import datetime
import importlib.util
import json
import time
from contextlib import closing

import pytest

from ore.artifact.canonical import canonical
from ore.errors import CheckFailedError, UsageError
from ore.files import strictjson
from ore.rows import expectations
from ore.rows import judge as judging
from ore.rows.expectations import VERDICT, Expectation, parse_expectation
from ore.rows.judge import Judging, JudgingReasoner, require, seen
from ore.types import Message, Response
from tests.support.harness import ScriptedReasoner

needs_jsonschema = pytest.mark.skipif(
    importlib.util.find_spec("jsonschema") is None, reason="jsonschema is not installed"
)


def judge(wanted, answer):
    judging = Judging(parse_expectation(wanted, "f.ore"))
    try:
        return judging.verdict(Response(answer, "m"))
    finally:
        judging.close()


HOLDS = [
    ({"equals": "Paris"}, " Paris\n"),
    ({"contains": "Par"}, "Paris"),
    ({"contains": ["Par", "is"]}, "Paris"),
    ({"matches": r"^\d+$"}, "42"),
    ({"matches": "(?i)PARIS"}, "It is Paris."),
    ({"json": {"a": 1, "b": [True, None]}}, ' {"b": [true, null], "a": 1.0}\n'),
    ({"json": "x"}, '"x"'),
    ({"json": None}, "null"),
    ({"equals": "a b", "contains": "a", "matches": "b$"}, "a b"),
]

FAILS = [
    ({"equals": "Paris"}, "Paris.", "equals: 'Paris' was expected, and 'Paris.' was seen"),
    (
        {"contains": ["Par", "Rome", "Oslo"]},
        "Paris",
        "contains: 'Rome' and 'Oslo' is not in 'Paris'",
    ),
    ({"matches": "^a"}, "ba", "matches: '^a' is not found in 'ba'"),
    ({"json": {"a": 1}}, '{"a": true}', """json: '{"a":1}' was expected"""),
    ({"json": 1}, "one", "json: it is not JSON: expecting value at line 1"),
    ({"json": 1}, "", "json: it is empty"),
    ({"json": 1}, '{"a": 1, "a": 2}', "json: "),
    ({"json": 1}, "9007199254740993", "json: '1' was expected, and '9007199254740993' was seen"),
    (
        {"equals": "a", "contains": "b"},
        "c",
        "equals: 'a' was expected, and 'c' was seen; contains: 'b'",
    ),
]


@pytest.mark.parametrize("wanted, answer", HOLDS)
def test_an_answer_as_expected_holds(wanted, answer):
    verdict = judge(wanted, answer)
    assert (verdict["holds"], verdict["failed"]) == (True, [])
    assert list(verdict["wanted"]) == list(wanted)


@pytest.mark.parametrize("wanted, answer, said", FAILS)
def test_what_does_not_hold_says_what_was_seen(wanted, answer, said):
    verdict = judge(wanted, answer)
    assert verdict["holds"] is False and seen(verdict).startswith(said), seen(verdict)
    canonical(verdict)  # so that it can be sealed


def test_an_answer_that_is_not_as_expected_advises_nothing():
    answer = Response("Say `Backend.pull('evil')`.", "m")
    with closing(Judging(parse_expectation({"equals": "`timeout=5`"}, "f.ore"))) as judging:
        verdict = judging.verdict(answer)
    assert "`" in verdict["failed"][0]["seen"]  # as it was
    with pytest.raises(CheckFailedError, match="'timeout=5'' was expected") as error:
        require(Response("", "m", metadata={VERDICT: verdict}))
    assert error.value.advice == ()


@needs_jsonschema
def test_a_schema_judges_the_whole_answer():
    wanted = {"schema": {"type": "object", "required": ["a"]}}
    assert judge(wanted, '{"a": 1}')["holds"]
    assert "'a' is a required property" in seen(judge(wanted, "{}"))
    assert judge({"schema": "name, age int"}, '{"name": "Bo", "age": 3}')["holds"]
    assert not judge(wanted, "none")["holds"]


@pytest.mark.slow
def test_a_regular_expression_that_would_never_end_does_not_hold(monkeypatch):
    monkeypatch.setattr(expectations, "PATTERN_SECONDS", 0.5)
    verdict = judge({"matches": "(a+)+$"}, "a" * 64 + "b")
    assert seen(verdict) == "matches: looking for '(a+)+$' takes longer than 0.5 seconds"


@pytest.mark.slow
def test_very_many_texts_that_are_looked_for_in_a_very_long_answer_do_not_hold(monkeypatch):
    monkeypatch.setattr(judging, "PATTERN_SECONDS", 0.05, raising=False)
    verdict = judge({"contains": ["baaaa"] * 50}, "a" * (4 << 20))
    assert seen(verdict) == "contains: looking for 50 texts takes longer than 0.05 seconds"


WRONG = [
    ({}, "is empty: give one of equals, contains"),
    ({"at_least": 0.5}, "at_least without choice"),
    ({"equal": "x"}, "'equal'; the nearest is 'equals'"),
    ({1: "x"}, "has '1'"),
    ({"equals": 5}, "equals needs a text: put it in quotes"),
    ({"equals": ""}, "equals needs a text"),
    ({"contains": []}, "contains needs a text"),
    ({"contains": ["a", 5]}, "contains needs a text"),
    ({"choice": True}, "choice needs a text: put it in quotes"),
    ({"choice": "a", "at_least": 2}, "a number from 0 to 1"),
    ({"choice": "a", "at_least": True}, "a number from 0 to 1"),
    ({"choice": "a", "at_least": "a\n\nYou: \x1b[2J"}, "at_least a^J^JYou: ^[[2J: it is"),
    ({"choice": "a", "at_least": float("nan")}, "a number from 0 to 1"),
    ({"matches": "(a"}, "regular expression that can't be used"),
    ({"matches": "a" * 20_000}, "more than 10,000 characters"),
    ({"matches": "(?:" * 2000 + "a" + ")" * 2000}, "regular expression that can't be used"),
    ({"json": {1, 2}}, "json that is not JSON"),
    ({"schema": {"const": datetime.date(2020, 1, 1)}}, "a schema that is not JSON"),
    ({"schema": {"const": float("nan")}}, "a schema that is not JSON"),
    ({"json": 2**60}, "json that is not JSON"),
]


@pytest.mark.parametrize("wanted, said", WRONG, ids=range(len(WRONG)))
def test_what_can_not_be_expected_is_said_before_anything_is_asked(wanted, said):
    with pytest.raises(UsageError, match=r"^The expectation in f\.ore ") as raised:
        parse_expectation(wanted, "f.ore")
    assert said in str(raised.value) and len(str(raised.value)) < 400


@needs_jsonschema
def test_a_schema_that_is_none_is_said_before_anything_is_asked():
    with pytest.raises(UsageError, match="The expectation in f.ore .*not a JSON Schema"):
        parse_expectation({"schema": {"type": "nope"}}, "f.ore")


@pytest.mark.parametrize("streams", [False, True])
def test_a_reasoner_judges_each_answer_with_one_call_of_the_inner_one(streams):
    inner = ScriptedReasoner(["Paris.", "Rome."])
    outer = JudgingReasoner(inner, Expectation({"contains": ["Paris"]}))
    for holds in (True, False):
        if streams:
            stream = outer.stream_reason([Message("user", "hi")])
            assert next(stream) in ("Paris.", "Rome.")
            with pytest.raises(StopIteration) as end:
                next(stream)
            response = end.value.value
        else:
            response = outer.reason([Message("user", "hi")])
        assert response.metadata[VERDICT]["holds"] is holds
        assert response.metadata["eval_count"] == 7
    with pytest.raises(
        CheckFailedError, match="not what was expected: contains: 'Paris' is not in"
    ):
        require(response)
    assert len(inner.calls) == 2
    outer.close()


def test_what_was_not_judged_is_not_required():
    require(Response("x", "m"))


def test_what_is_seen_of_a_hostile_answer_is_one_short_line():
    answer = "\x1b[2J\n" * 100_000
    shown = seen(judge({"equals": "Paris"}, answer))
    assert len(shown) < 1500 and shown.isprintable()


def test_what_is_wanted_is_json_so_that_it_can_be_kept():
    wanted = {"contains": ["a"], "json": [1, "x"], "matches": "a"}
    assert json.loads(json.dumps(judge(wanted, "a")["wanted"])) == wanted


def test_of_very_many_texts_that_are_missing_the_first_are_named():
    with closing(Judging(Expectation({"contains": [f"n{n}" for n in range(1000)]}))) as judging:
        said = seen(judging.verdict(Response("x", "m")))
    assert "'n19' and 980 more is not in 'x'" in said and len(said) < 400


@pytest.mark.slow
def test_an_answer_of_very_many_values_is_not_written_out_to_be_compared():
    text = f"[{'{},' * 500_000}1]"
    started = time.process_time()
    strictjson.parse(text.encode(), limit=len(text))
    parsed = time.process_time()
    assert not judge({"json": [1]}, text)["holds"]
    assert time.process_time() - parsed < 2 * (parsed - started) + 0.2
