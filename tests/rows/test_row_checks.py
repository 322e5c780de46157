"""Rows that are checked: what is expected of which row, what holds, and what CI is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ore.errors import BackendError, SchemaMismatchError, UsageError
from ore.rows.expectations import VERDICT, Expectation
from ore.rows.judge import JudgingReasoner, judged
from ore.rows.junit import ERROR, FAILURE, PASSED
from ore.rows.row_checks import case_of, not_expected, with_expected
from ore.rows.row_turns import Outcome
from ore.rows.tables import Row, open_table
from ore.types import Message, Response
from tests.support.harness import ScriptedReasoner

TABLE = "id,city\na,France\nb,Italy\n"


def pairs(folder: Path, table: str, expected: str, key=None, ending="csv"):
    (folder / "t.csv").write_text(table)
    (folder / f"e.{ending}").write_text(expected)
    with open_table(str(folder / "t.csv"), None) as asked:
        with open_table(str(folder / f"e.{ending}"), None) as wanted:
            found = list(with_expected(asked.rows(), wanted, key))
    return [(each.expected, (each.problem or "").replace(f"{folder}/", "")) for each in found]


def test_each_row_gets_the_expected_text_of_the_same_row_in_the_other_table(tmp_path):
    assert pairs(tmp_path, TABLE, "expected\nParis\nRome\n") == [("Paris", ""), ("Rome", "")]
    assert pairs(tmp_path, TABLE, "id,expected\na,Paris\nb,\n", "id") == [("Paris", ""), ("", "")]
    lines = '{"expected": "Paris"}\n{"expected": 5}\n'
    assert pairs(tmp_path, TABLE, lines, ending="jsonl") == [("Paris", ""), ("5", "")]


def test_the_table_itself_may_say_it(tmp_path):
    (tmp_path / "t.csv").write_text("city,expected\nFrance,Paris\n")
    path = str(tmp_path / "t.csv")
    with open_table(path, None) as asked, open_table(path, None) as wanted:
        assert [each.expected for each in with_expected(asked.rows(), wanted)] == ["Paris"]


UNFIT = [
    ("id,expected\na,Paris\nc,Rome\n", "id", "csv", "line 3 of e.csv is for another row, 'c'"),
    ("id,expected\na,Paris\nb\n", None, "csv", "of e.csv, line 3: it has 1 cell"),
    ('{"expected": "x"}\n{"y": 1}\n', None, "jsonl", "e.jsonl has no 'expected' in line 2"),
]


@pytest.mark.parametrize("expected, key, ending, said", UNFIT)
def test_a_row_without_its_like_can_not_be_used(tmp_path, expected, key, ending, said):
    first, second = pairs(tmp_path, TABLE, expected, key, ending)
    assert first[1] == "" and second[0] is None and second[1].startswith(said)


def test_a_bad_row_of_the_table_stays_what_it_is(tmp_path):
    found = pairs(tmp_path, "id,city\na\nb,Italy\n", "expected\nParis\nRome\n")
    assert found[0][0] is None and "1 cell" in found[0][1] and found[1] == ("Rome", "")


@pytest.mark.parametrize(
    "expected, said",
    [
        ("expects\nParis\nRome\n", "has no column 'expected'"),
        ("expected\nParis\n", "fewer rows than are asked: it has no row 2"),
        ("expected\na\nb\nc\nd\n", "more rows than are asked, from line 4 on: it needs 2"),
    ],
)
def test_a_table_of_another_shape_is_refused(tmp_path, expected, said):
    with pytest.raises(UsageError, match=said):
        pairs(tmp_path, TABLE, expected)


def outcome(response=None, error=None):
    row = Row(7, 9, {"id": "x<&y"})
    if response is None:
        return Outcome(row, error=error)
    return Outcome(row, response.content, metadata=response.metadata, error=error)


def test_an_answer_that_is_what_was_expected_passes():
    response = judged(Response("Paris\n", "m", metadata={"eval_duration": 2_000_000_000}), "Paris")
    case = case_of(outcome(response), "t.csv", "id")
    assert (case.result, case.message, case.name) == (PASSED, "", "row 7: x<&y")
    assert (case.seconds, case.group, case.output) == (2.0, "t.csv", "Paris\n")
    assert not_expected(outcome(response)) == ""


def test_one_that_is_not_fails_with_what_was_seen():
    found = outcome(judged(Response("Rome", "m"), "Paris"))
    case = case_of(found, "t.csv")
    assert case.result == FAILURE and case.name == "row 7"
    assert case.message == "equals: 'Paris' was expected, and 'Rome' was seen"
    assert case.details.startswith("Line 9 of t.csv. equals:")
    assert not_expected(found) == case.message


def test_what_the_run_file_expects_stays_a_part_of_it():
    reasoner = JudgingReasoner(ScriptedReasoner(["Rome"]), Expectation({"contains": ["Par"]}))
    first = reasoner.reason([Message("user", "hi")])
    verdict = judged(first, "Rome").metadata[VERDICT]
    assert verdict["wanted"] == {"contains": ["Par"], "equals": "Rome"}
    assert [each["kind"] for each in verdict["failed"]] == ["contains"]
    assert verdict["holds"] is False


def test_a_row_that_failed_is_an_error_and_one_that_does_not_fit_a_failure():
    assert case_of(outcome(error=BackendError("It is down.")), "t.csv").result == ERROR
    case = case_of(outcome(error=SchemaMismatchError("It does not fit.")), "t.csv")
    assert (case.result, case.message) == (FAILURE, "It does not fit.")


@pytest.mark.parametrize("odd", [1, [], {}, {"failed": 1}, {"failed": [1, {}]}])
def test_a_verdict_that_somebody_changed_never_breaks_anything(odd):
    response = Response("x", "m", metadata={VERDICT: odd, "eval_duration": "x"})
    case_of(outcome(response), "t.csv")


@pytest.mark.parametrize(
    "kept",
    [
        *(5, "x", [], {}, {"failed": 5}, {"failed": [5, {}, {"kind": "equals"}], "wanted": []}),
        {"wanted": {"contains": "P"}, "failed": [{"kind": "contains", "seen": "x"}]},
    ],
)
def test_a_kept_verdict_may_be_anything(kept):
    """Whoever can write to the folder of the rows can seal an artifact anew."""
    there = judged(Response("Paris", "m", metadata={VERDICT: kept}), "Paris")
    verdict = there.metadata[VERDICT]
    assert verdict["wanted"]["equals"] == "Paris" and isinstance(verdict["failed"], list)
    row = Row(1, 2, {}, expected="Paris")
    assert bool(not_expected(Outcome(row, "Paris", metadata=there.metadata))) != verdict["holds"]
