"""JUnit XML: the rules of the readers in use, text that no XML can hold, and files of others."""

from __future__ import annotations

import os
import re
import resource
import xml.etree.ElementTree as ElementTree

import pytest

from ore.errors import FileAccessError, OreError, OutputError, Terminated
from ore.rows import junit
from ore.rows.junit import ERROR, FAILURE, PASSED, SKIPPED, Case, junit_report

CASES = [
    Case("a.json", "runs", 1.25, PASSED, output="Paris.\n"),
    Case("b <&\"'>.json", "runs", 0.5, FAILURE, 'it differs: <a> & "b"', "-Paris\n+Rome & <co>"),
    Case("c.json", "runs", 0.0, ERROR, "it can't be read"),
    Case("d.json", "", 12345.6789, SKIPPED, "not asked"),
]

ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp"},
        {"testcase"},
    ),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
"""What the schema of Jenkins' xUnit plugin (junit-10), GitLab and GitHub's readers all know."""
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}
TIME = re.compile(r"[0-9]+\.[0-9]{3}")


def written(path, cases=CASES, name="ore --replay"):
    with junit_report(str(path), name) as report:
        for case in cases:
            report.add(case)
    return check(path)


def check(path):
    """Read a report as a strict reader does, and return its root."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, below = ALLOWED[element.tag]
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib) <= attributes
        assert {child.tag for child in element} <= below
        assert TIME.fullmatch(element.get("time", "0.000"))
    for suite in root:
        cases = list(suite)
        counted = {kind: sum(case.find(kind) is not None for case in cases) for kind in _KINDS}
        assert counted == {kind: int(suite.get(key)) for kind, key in _KINDS.items()}
        assert int(suite.get("tests")) == len(cases)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))
    return root


_KINDS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def test_a_report_keeps_the_rules_and_says_what_was_found(tmp_path):
    root = written(tmp_path / "out.xml")
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
    }
    first, second, third, fourth = root.iter("testcase")
    assert first.find("system-out").text == "Paris.\n"
    assert second.get("name") == "b <&\"'>.json" and second.get("classname") == "runs"
    assert second.find("failure").get("message") == 'it differs: <a> & "b"'
    assert second.find("failure").text == "-Paris\n+Rome & <co>"
    assert third.find("error").get("type") == "error" and fourth.get("time") == "12345.679"
    assert oct(os.stat(tmp_path / "out.xml").st_mode & 0o777) in ("0o644", "0o600", "0o640")


def test_a_report_without_a_case(tmp_path):
    assert written(tmp_path / "out.xml", []).get("tests") == "0"


HOSTILE = "\0\x08\x1b[31m\ud800\ufffe\uffff]]>\r<!-- --><![CDATA[x]]>&amp;é🦜\u202e"


@pytest.mark.invariant
def test_no_answer_breaks_a_report(tmp_path):
    case = Case(HOSTILE, HOSTILE, 1, FAILURE, HOSTILE + "\n\t", HOSTILE, HOSTILE)
    root = written(tmp_path / "out.xml", [case], HOSTILE)
    text = root.find(".//system-out").text
    assert "]]>" in text and "é🦜" in text and "^[[31m" in text
    assert set(text) & {"\0", "\x1b", "\ufffe", "\u202e"} == set()


def test_a_very_long_answer_is_cut(tmp_path):
    root = written(tmp_path / "out.xml", [Case("x" * 10_000, "g", output="y" * 1_000_000)])
    text = root.find(".//system-out").text
    assert len(text) < junit.LONGEST_TEXT + 20 and text.endswith("(cut here)")
    assert len(root.find(".//testcase").get("name")) == 1000


def test_very_many_cases_are_on_disk_and_not_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(junit, "_MOST_IN_MEMORY", 1000)
    root = written(tmp_path / "out.xml", [Case(f"row {n}", "t.csv") for n in range(500)])
    assert [case.get("name") for case in root.iter("testcase")][-1] == "row 499"


def test_what_was_done_until_an_error_is_written(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        with junit_report(str(tmp_path / "out.xml"), "n") as report:
            report.add(CASES[0])
            raise KeyboardInterrupt
    assert check(tmp_path / "out.xml").get("tests") == "1"


@pytest.mark.parametrize("is_full_for_good", [True, False])
@pytest.mark.parametrize("size", [100, 60_000])
def test_a_report_that_there_is_no_room_for_is_an_error_and_not_half_a_report(
    size, is_full_for_good, tmp_path, monkeypatch
):
    monkeypatch.setattr(junit, "_MOST_IN_MEMORY", 1000)
    path, limits = tmp_path / "out.xml", resource.getrlimit(resource.RLIMIT_FSIZE)
    before = path.write_bytes(junit._BEGIN + b"/>") and path.read_bytes()
    try:
        with pytest.raises(
            OutputError, match="can't be kept until it is complete: .* set TMPDIR to"
        ):
            with junit_report(str(path), "n") as report:
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
                try:
                    for _ in range(2000):
                        report.add(Case("a", "g", output="x" * size))
                finally:
                    if not is_full_for_good:
                        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode, text", [(0o600, None), (0o600, ""), (0o640, None)])
def test_a_report_has_the_permissions_of_the_one_before(tmp_path, mode, text):
    path = tmp_path / "out.xml"
    written(path)
    assert os.stat(path).st_mode & 0o777 & ~0o644 == 0
    if text is not None:
        path.write_text(text)
    os.chmod(path, mode)
    written(path)
    assert os.stat(path).st_mode & 0o777 == mode


def test_a_report_is_replaced_and_nothing_else_is(tmp_path):
    path = tmp_path / "out.xml"
    written(path)
    assert written(path, []).get("tests") == "0"
    path.write_text("")
    written(path)
    (tmp_path / "mine.xml").write_text("<?xml version='1.0'?><a/>")
    (tmp_path / "link.xml").symlink_to(path)
    os.mkfifo(tmp_path / "fifo")
    for name in ("mine.xml", "link.xml", "fifo", ".", "no/where.xml", "a\0b"):
        with pytest.raises(OutputError, match="can't be written to"):
            written(tmp_path / name)
    assert (tmp_path / "mine.xml").read_text() == "<?xml version='1.0'?><a/>"


@pytest.mark.parametrize(
    "ended, said",
    [
        (KeyboardInterrupt("Stopped: 1 of 2 rows."), "Stopped: 1 of 2 rows."),
        (Terminated(), ""),
        (FileAccessError("t.csv can't be read: gone."), "t.csv can't be read: gone."),
        (RuntimeError("a program's own"), "a program's own"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_ended_a_run_is_raised_where_its_report_can_not_be_written_either(
    ended, said, tmp_path
):
    folder = tmp_path / "there"
    folder.mkdir()
    with pytest.raises(type(ended)) as raised, junit_report(str(folder / "r.xml"), "x"):
        folder.rmdir()
        raise ended
    assert raised.value is ended
    told = str(ended) if isinstance(ended, OreError) else f"{ended} {ended.__cause__}".strip()
    assert told.startswith(f"{said} The JUnit report can't be written to ".lstrip())
