"""``--report`` on the command line: where the page goes, what is said, and the exit codes."""

from __future__ import annotations

import csv
import io
import os
import stat

import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed (requirements-report.txt)")

from tests.support.reported import run, runs_of, write  # noqa: E402


@pytest.fixture
def runs(folder):
    return write(folder / "runs", run(1), run(2))


def test_the_page_is_written_whole_and_for_its_owner(ore, folder, runs):
    result = ore("--report", "runs", "--out", "report.html")
    assert (result.code, result.out) == (0, "")
    assert result.err == "2 artifacts: 2 hold. report.html is a page for a browser.\n"
    page = folder / "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [each["path"] for each in runs_of(page.read_text())] == ["00000.json", "00001.json"]
    assert ore("--report", "runs/00000.json", "--out", "report.html").code == 0
    assert [each["path"] for each in runs_of(page.read_text())] == ["runs/00000.json"]


def test_without_out_it_goes_to_a_pipe_and_to_no_terminal(ore, runs):
    result = ore("--report", "runs")
    assert result.code == 0 and result.out.startswith("<!doctype html>\n<html")
    assert result.out.endswith("</html>\n")
    result = ore("--report", "runs", terminal="out err")
    assert (result.code, result.out) == (2, "") and "--out report.html" in result.err


def test_an_artifact_on_stdin_is_one_of_them(ore, folder, runs):
    data = (runs / "00000.json").read_bytes()
    result = ore("--report", "-", "runs/00001.json", stdin=data)
    assert result.code == 0, result.err
    assert [each["state"] for each in runs_of(result.out)] == ["holds", "holds"]


@pytest.mark.parametrize("there", ["a file", "a link", "a folder", "no folder"])
def test_nothing_but_a_report_is_written_over(ore, folder, runs, there):
    out = folder / "there/out.html" if there == "no folder" else folder / "out.html"
    if there == "a file":
        out.write_text("<p>mine</p>")
    elif there == "a link":
        os.symlink(folder / "elsewhere.html", out)
    elif there == "a folder":
        out.mkdir()
    result = ore("--report", "runs", "--out", str(out))
    assert result.code == 1 and "The report can't be written to" in result.err
    assert there != "a file" or out.read_text() == "<p>mine</p>"
    assert not (folder / "elsewhere.html").exists()


def test_what_can_not_be_read_is_in_the_page_and_no_error(ore, folder, runs):
    (runs / "bad.json").write_text("{")
    result = ore("--report", "runs", "missing.json")
    assert result.code == 0
    assert result.err == "4 artifacts: 2 hold, 1 is broken, 1 can't be read.\n"


def test_without_a_run_there_is_nothing_to_show(ore, folder):
    (folder / "empty").mkdir()
    (folder / "bad.json").write_text("{")
    for paths, said in (
        (["bad.json"], "to report on: bad.json: it can't be used as an artifact"),
        (
            ["missing.json"],
            "to report on: missing.json can't be read: no such file or directory.\n",
        ),
        (["empty"], "empty has no file that ends in .json"),
    ):
        result = ore("--report", *paths, "--out", "report.html")
        assert result.code == 1 and said in result.err
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    "line, said",
    [
        ("hi --out page.html", "--out needs --report"),
        ("--report runs --json", "--report can't be used with --json"),
        ("hi --report runs", "expected"),
    ],
)
def test_what_does_not_go_together_is_said(ore, runs, line, said):
    result = ore(*line.split())
    assert result.code == 2
    assert said in result.err or said == "expected"


def test_a_table_of_them_runs_no_formula(ore, folder):
    formula = '=HYPERLINK("http://x")'
    write(folder / "runs", run(1, prompt=formula, answer="+1+cmd|' /C calc'!A0", model="@SUM(1)"))
    result = ore("--report", "runs", "--csv")
    assert result.code == 0
    header, line = csv.reader(io.StringIO(result.out))
    found = dict(zip(header, line, strict=True))
    assert found["prompt"] == "'" + formula and found["model"] == "'@SUM(1)"
    assert found["answer"] == "'+1+cmd|' /C calc'!A0"
    assert (found["answer_tokens"], found["seconds"], found["holds"]) == ("5", "0.2", "")
    assert ore("--report", "runs", "--csv", "--out", "runs.csv").code == 0
    assert ore("--report", "runs", "--csv", "--out", "runs.csv").code == 0
    assert ore("--report", "runs", "--out", "runs.csv").code == 1


def test_a_table_with_texts_that_are_cut_says_so(ore, folder):
    write(folder / "runs", run(1, prompt="p" * 20_001, answer="a" * 20_001), run(2))
    said = "ore: warning: 2 texts are cut in the table, and whole in the artifacts.\n"
    assert ore("--report", "runs", "--csv", "-q").err == said
    assert "cut" not in ore("--report", "runs/00001.json", "--csv").err


def test_of_two_folders_the_runs_stand_side_by_side(ore, folder, runs):
    write(folder / "others", run(1, model="big", answer="Rome."), run(2, model="big"))
    page = ore("--report", "runs", "others").out
    assert "<b>2</b> pairs asked the same" in page and "(50.0 %)" in page
    assert "Side by side" not in ore("--report", "runs", "others/00000.json").out
