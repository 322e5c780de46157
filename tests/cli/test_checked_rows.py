"""Rows that are checked: what is expected of each, exit 3 with what was seen, and JUnit for CI."""

from __future__ import annotations

import json

import pytest

from ore.backends.choice import open_backend
from tests.rows.test_junit import check
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore

TABLE = "id,country,expected\na,France,Paris\nb,Italy,Rome\nc,Japan,Tokyo\n"
CITIES = {"France": "Paris", "Italy": "Rome", "Japan": "Kyoto"}


@pytest.fixture
def server():
    def answer(request):
        prompt = request["messages"][-1]["content"]
        return next((city for land, city in CITIES.items() if land in prompt), "None.")

    with FakeOllama(reply=answer) as fake:
        yield fake


@pytest.fixture
def rows(server, folder):
    (folder / "t.csv").write_text(TABLE)

    def run(*flags, prompt="Capital of {{country}}?"):
        asked = [] if prompt is None else [prompt]
        args = ["--rows", "t.csv", *asked, "--host", server.url, *flags]
        return run_ore(*args, open_backend=open_backend)

    return run


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_a_row_that_does_not_hold_is_3_with_the_row_and_what_was_seen(rows, server):
    result = rows("--expect", "t.csv", "--key", "id")
    assert result.code == 3 and len(server.chats) == 3
    assert [(each["key"], each["holds"]) for each in lines(result)] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    said = "row 3 (line 4) is not what was expected: equals: 'Tokyo' was expected, and 'Kyoto' was seen"
    assert said in result.err
    assert "1 of 3 rows is not what was expected: see above." in result.err


def test_all_that_holds_is_0(rows, folder):
    (folder / "e.jsonl").write_text('{"expected": "Paris"}\n{"expected": "Rome"}\n' * 1)
    (folder / "t.csv").write_text("country\nFrance\nItaly\n")
    assert rows("--expect", "e.jsonl").code == 0


@pytest.mark.slow
def test_a_run_file_says_what_is_expected_of_every_row(rows, folder):
    (folder / "f.ore").write_text("---\nexpect: {matches: ^P}\n---\nCapital of {{country}}?")
    result = rows("--run", "f.ore", prompt=None)
    assert result.code == 3
    assert [each["holds"] for each in lines(result)] == [True, False, False]
    both = rows("--run", "f.ore", "--expect", "t.csv", prompt=None)
    assert [each["holds"] for each in lines(both)] == [True, False, False]
    assert (
        "matches: '^P' is not found in 'Kyoto'" in both.err and "'Tokyo' was expected" in both.err
    )


def test_the_verdict_is_in_the_artifact_and_judged_anew_where_that_is_there(rows, folder, server):
    flags = ("--expect", "t.csv", "--artifact-out", "out/")
    assert rows(*flags).code == 3
    kept = [json.loads(path.read_text()) for path in sorted((folder / "out").rglob("*.json"))]
    assert [each["provenance"]["expectation"]["holds"] for each in kept] == [True, True, False]
    assert run_ore("--verify", *map(str, sorted((folder / "out").rglob("*.json")))).code == 0
    (folder / "e.csv").write_text("expected\nParis\nRome\nKyoto\n")
    result = rows("--expect", "e.csv", "--artifact-out", "out/")
    assert (result.code, len(server.chats)) == (0, 3)
    assert [each["holds"] for each in lines(result)] == [True, True, True]


@pytest.mark.slow
def test_what_is_there_is_judged_by_what_the_run_file_expects_now(rows, folder, server):
    codes = []
    for expect in ("", "{contains: o}", "{matches: 'K.oto'}", "{contains: [o, t]}", ""):
        head = f"---\nexpect: {expect}\n---\n" if expect else ""
        (folder / "c.ore").write_text(head + "Capital of {{country}}?")
        result = rows("--run", "c.ore", "--artifact-out", "out", prompt=None)
        codes.append((result.code, [each.get("holds") for each in lines(result)]))
    assert codes == [
        (0, [None, None, None]),
        (3, [False, True, True]),
        (3, [False, False, True]),
        (3, [False, False, True]),
        (0, [None, None, None]),
    ]
    assert rows("--expect", "t.csv", "--artifact-out", "out").code == 3
    assert rows("--artifact-out", "out").code == 0 and len(server.chats) == 3


def test_rows_as_junit(rows, folder):
    result = rows("--expect", "t.csv", "--key", "id", "--junit", "out.xml")
    assert result.code == 3
    root = check(folder / "out.xml")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "0")
    names = [case.get("name") for case in root.iter("testcase")]
    assert names == ["row 1: a", "row 2: b", "row 3: c"]
    failure = root.find(".//failure")
    assert "'Tokyo' was expected, and 'Kyoto' was seen" in failure.get("message")
    assert failure.text.startswith("Line 4 of t.csv.")


def test_a_row_that_fails_is_an_error_of_the_report_and_1(rows, folder, server):
    server.use(["happy", "busy", "happy"])
    result = rows("--junit", "out.xml", "--jobs", "1")
    assert result.code == 1
    root = check(folder / "out.xml")
    assert (root.get("tests"), root.get("errors")) == ("3", "1")


WRONG = [
    ("expected\nParis\n", "fewer rows than are asked: it has no row 2"),
    ("expected\na\nb\nc\nd\n", "more rows than are asked"),
    ("x\na\nb\nc\n", "no column 'expected'"),
    ("id,expected\na,Paris\nz,Rome\nc,Tokyo\n", "line 3 of e.csv is for another row, 'z'"),
]


@pytest.mark.parametrize("expected, said", WRONG)
def test_what_does_not_belong_together_is_found_before_the_first_call(
    rows, folder, server, expected, said
):
    (folder / "e.csv").write_text(expected)
    result = rows("--expect", "e.csv", "--key", "id")
    assert (result.code, result.out, server.chats) == (2, "", [])
    assert said in result.err


def test_a_report_that_can_not_be_written_asks_nothing(rows, folder, server):
    (folder / "mine.xml").write_text("<a/>")
    result = rows("--junit", "mine.xml")
    assert (result.code, result.out, server.chats) == (1, "", [])


def test_what_needs_rows(rows):
    result = run_ore("hi", "--expect", "t.csv")
    assert (result.code, result.calls) == (2, []) and "--expect needs --rows" in result.err
    result = run_ore("hi", "--junit", "out.xml")
    assert (result.code, result.calls) == (2, [])
    assert "--junit needs --replay or --rows" in result.err


def test_what_is_expected_is_not_read_from_stdin(rows, server):
    result = rows("--expect", "-", "--rows-format", "csv")
    assert (result.code, server.chats) == (2, [])
    assert "--expect can't read stdin: write its table to a file, and name that." in result.err
