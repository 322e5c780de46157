"""What programs write of recorded runs: a table, a form, a report for CI, a log."""

from __future__ import annotations

import dataclasses
import os
import stat
import time

import pytest
from junitparser import JUnitXml

pytest.importorskip("jinja2", reason="jinja2 is not installed (requirements-report.txt)")

import ore  # noqa: E402
from ore import ORE, Reasoner, Response  # noqa: E402
from ore.errors import ArtifactError, OutputError, UsageError  # noqa: E402
from ore.rows.replays import Replayed  # noqa: E402


class Echo(Reasoner):
    def reason(self, messages):
        return Response(f"You said: {messages[-1].content}", "echo")


def made(prompt):
    engine = ORE(Echo(), "")
    return engine.record(engine.execute(prompt))


def test_a_table_and_a_form_are_those_of_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for prompt in ("One?", "Two?"):
        ore.write_artifact(made(prompt), tmp_path / f"{prompt[:3]}.json")
    for flags, text in (
        (["--csv"], ore.report_table(["."])),
        (["--as", "trailer"], ore.report_form("trailer", ["."])),
    ):
        assert ore.main(["-q", "--report", ".", *flags]) == 0
        assert capsys.readouterr().out == text
    with pytest.raises(UsageError, match="is not a form"):
        ore.report_form("../page", ["."])


def test_a_report_and_a_form_name_the_model_that_answered(tmp_path):
    class Other(Echo):
        def reason(self, messages):
            return Response("Yes.", "echo", metadata={"response_model": "other"})

    engine = ORE(Other(), "")
    ore.write_artifact(engine.record(engine.execute("One?")), tmp_path / "run.json")
    given = [str(tmp_path)]
    assert ",other,One?,Yes.," in ore.report_table(given)
    assert ore.report_form("trailer", given) == "Assisted-by: ORE:other\n"
    assert "| Answered by | `other` |" in ore.report_form("methods", given)


def test_what_became_of_runs_is_written_for_ci(tmp_path):
    path = tmp_path / "out.xml"

    def outcomes():
        time.sleep(0.1)
        yield Replayed("a.json", "same")
        yield Replayed("b.json", "not run", reason="it is gone")
        raise ArtifactError("The folder is gone.")

    began = time.perf_counter()
    with pytest.raises(ArtifactError, match="is gone"):
        ore.write_junit(path, outcomes(), "mine")
    took = time.perf_counter() - began
    cases = [case for suite in JUnitXml.fromfile(str(path)) for case in suite]
    assert [(case.name, case.is_passed) for case in cases] == [("a.json", True), ("b.json", False)]
    assert cases[0].time >= 0.1 and cases[0].time + cases[1].time <= took + 0.01  # they are rounded
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError):
        ore.write_junit(tmp_path / "mine.txt", [])
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_log_keeps_each_run_and_finds_the_newest(tmp_path):
    log = ore.RunLog(tmp_path / "runs")
    first, second = made("One?"), made("Two?")
    paths = [log.add(first), log.add(second)]
    os.utime(paths[0], (0, 0))  # a system may write the same moment for both
    assert ore.read_artifact(log.last()) == second and ore.verify(paths).holds
    assert stat.S_IMODE(paths[0].parent.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="can't be written"):
        ore.RunLog(tmp_path / "file").add(first)


def test_a_path_is_taken_as_its_text_is_and_a_text_as_its_path(tmp_path):
    kept = ore.RunLog(str(tmp_path / "runs")).add(made("One?"))
    assert ore.report_table([kept]) == ore.report_table([str(kept)])
    assert ore.report_form("trailer", [kept]) == ore.report_form("trailer", [str(kept)])
    assert "<html" in ore.report_page(each for each in [kept])
    (tmp_path / "a.csv").write_text("a\n1\n")
    with ore.open_table(tmp_path / "a.csv") as table:
        assert [row.values for row in table.rows()] == [{"a": "1"}]
    for report in (
        ore.report_page,
        ore.report_table,
        lambda paths: ore.report_form("trailer", paths),
    ):
        with pytest.raises(UsageError, match="nothing to report on"):
            report([])
    with pytest.raises(ArtifactError, match="'' is not a folder"):
        next(ore.diff_folders("", tmp_path))


def test_a_folder_that_can_not_be_looked_at_is_not_said_to_be_none(folder):
    (folder / "loop").symlink_to("loop")
    with pytest.raises(ArtifactError, match="'loop' can't be read: too many levels"):
        list(ore.diff_folders("loop", "."))


@pytest.mark.parametrize("when", [1e300, -1e300, 1e17, 253402300800, -62135596801])
def test_a_run_of_no_time_has_no_place_in_a_log(tmp_path, when):
    run = dataclasses.replace(made("One?"), timestamp=when)
    with pytest.raises(ArtifactError, match="timestamp .* is not in the years 1 to 9999"):
        ore.RunLog(tmp_path / "log").add(run)
    assert not (tmp_path / "log").exists()
