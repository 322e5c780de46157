"""What is written of a row: lines of JSON, cells that no spreadsheet runs, and what was not as expected."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ore.errors import OreError
from ore.files.cells import csv_line, harmless
from ore.rows.answers import as_csv, as_json, reason_of
from ore.rows.row_checks import not_expected
from ore.rows.row_turns import Outcome
from ore.rows.tables import Row

ROW = Row(3, 7, {"id": "x", "text": 'a "b",\nc'})


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+SUM(A1)",
        "-2+3",
        "@x",
        "\tx",
        "\rx",
        " =1",
        "＝1+1",
        "=HYPERLINK(1)",
        "-",
        "+a",
        "\0=1",
    ],
)
def test_what_a_spreadsheet_would_run_gets_an_apostrophe(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize(
    "text", ["", "Paris", "-5", "+3.2", "-1,000.5", "12 %", "a=b", "'=1", "1-2"]
)
def test_what_no_spreadsheet_runs_is_left_as_it_is(text):
    assert harmless(text) == text


def test_no_separator_of_other_spreadsheets_begins_a_cell():
    """LibreOffice parts at commas, semicolons and tabs, unless they are between quotes."""
    assert csv_line(["a;=1+1", "b\t=1+1", "c"]) == '"a;=1+1","b\t=1+1",c'


@pytest.mark.parametrize(
    "cells", [["a", "b"], ['"', ","], ["x\ny", "\r"], ["", " a "], ["ä🗼", "'"]]
)
def test_a_record_is_read_as_it_was_written(cells):
    assert list(csv.reader(io.StringIO(csv_line(cells), newline=""))) == [cells]


def test_the_row_is_written_back_as_it_was():
    line = as_csv(Outcome(ROW, "=1"), {"id": None, "text": None, "none": None})
    assert next(csv.reader(io.StringIO(line, newline=""))) == ["x", 'a "b",\nc', "", "'=1"]


@pytest.mark.parametrize(
    "kept", [5, "x", [], {}, [1], {"probability": "1"}, {"probability": 7}, {"probability": True}]
)
def test_a_choice_that_an_artifact_says_wrongly_is_none(kept):
    """What an earlier run has kept may be anything: the artifact is a file."""
    outcome = Outcome(ROW, "yes", metadata={"choice": kept})
    assert "probability" not in json.loads(as_json(outcome))
    assert not_expected(outcome) == ""
    assert not_expected(outcome, 0.5) == "nothing says how likely 'yes' is"


@pytest.mark.parametrize("kept", ["none", "[1e999]", "NaN", '{"a":1}{', "[" * 5000, "\ud800"])
def test_a_kept_answer_that_is_no_json_stands_there_as_text(kept):
    assert json.loads(as_json(Outcome(ROW, kept), parsed=True))["content"] == kept


def test_a_line_has_what_became_of_the_row():
    chosen = Outcome(ROW, "yes", metadata={"choice": {"probability": 0.75}})
    assert json.loads(as_json(chosen, key="id")) == {
        **{"row": 3, "key": "x", "content": "yes", "probability": 0.75},
        **{"artifact": None, "error": None},
    }
    failed = json.loads(as_json(Outcome(ROW, error=OreError("No."))))
    assert failed == {"row": 3, "content": None, "artifact": None, "error": "No."}
    assert "\n" not in as_json(Outcome(ROW, "a\nb\u2028ä")) and as_json(Outcome(ROW, "ä")).isascii()


def test_a_reason_is_one_short_line_whatever_is_in_it():
    said = reason_of(Outcome(ROW, error=OreError("It was\n\x1b[31m" + "x" * 999)))
    assert said.startswith("row 3 (line 7): It was") and len(said) < 400
    assert "\n" not in said and "\x1b" not in said


@pytest.mark.parametrize(
    "metadata, least, said",
    [
        ({}, None, ""),
        ({"expectation": {"holds": True, "failed": []}}, None, ""),
        ({"expectation": {"holds": False, "failed": [{"kind": "k", "seen": "s"}]}}, None, "k: s"),
        ({"choice": {"probability": 0.4}}, 0.5, "'it' has a probability of 0.4000, less than 0.5"),
        ({"choice": {"probability": 0.5}}, 0.5, ""),
        ({"choice": {"probability": 0.1}}, None, ""),
    ],
)
def test_an_answer_that_is_not_what_was_expected_is_said(metadata, least, said):
    assert not_expected(Outcome(ROW, "it", metadata=metadata), least) == said
