"""Folders of artifacts checked and compared by a program, as the command line does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ore
from ore.errors import ArtifactError, UsageError
from tests.support.harness import run_ore
from tests.support.runs import record, rewrite


@pytest.fixture
def runs(tmp_path, home, monkeypatch):
    """Two folders, each with ``a.json`` and ``below/b.json``."""
    monkeypatch.chdir(tmp_path)
    for folder in ("old", "new"):
        (tmp_path / folder / "below").mkdir(parents=True)
        record(tmp_path / folder / "a.json", "hi")
        record(tmp_path / folder / "below/b.json", "ho")
    return tmp_path


def test_a_folder_is_checked_file_by_file_with_what_else_is_given(runs):
    mine = ore.ExecutionArtifact.from_dict(json.loads((runs / "new/a.json").read_text()))
    told = []
    found = ore.verify(["old", mine, runs / "new/below/b.json"], told=lambda *n: told.append(n))
    assert [each.path for each in found.checked] == [
        "old/a.json",
        "old/below/b.json",
        "artifact 3",
        str(runs / "new/below/b.json"),
    ]
    assert found.holds and found.counts == {"holds": 4} and told == [(1, 3), (2, 3), (3, 3)]
    rewrite(runs / "old/a.json", lambda document: document["input"].update(prompt="He?"))
    found = ore.verify(["old"])
    assert not found and found.counts == {"broken": 1, "holds": 1}
    (runs / "empty").mkdir()
    with pytest.raises(ArtifactError, match="has no file"):
        ore.verify(["empty"])


def test_two_folders_are_compared_by_name(runs, ore_json):
    rewrite(runs / "new/below/b.json", lambda document: document["output"].update(content="Rome."))
    (runs / "new/c.json").write_bytes((runs / "new/a.json").read_bytes())
    told = []
    found = list(ore.diff_folders(runs / "old", runs / "new", lambda *n: told.append(n)))
    names = [each.path for each in found]
    assert names == ["a.json", "below/b.json", "c.json"] and told[-1] == (3, 3)
    assert [each.same for each in found] == [None, False, None]  # no digest of the model is known
    assert [each.diff is None for each in found] == [False, False, True]
    assert [each.name for each in found[1].diff.differences] == ["answer"]
    assert [each.only_in for each in found] == [None, None, str(runs / "new")]
    theirs = ore_json("--diff", str(runs / "old"), str(runs / "new"), "--json")
    assert [(each["path"], each["same"], each["only_in"]) for each in theirs] == [
        (each.path, each.same, each.only_in) for each in found
    ]


@pytest.mark.parametrize("pair", [("old", "new/a.json"), ("new/a.json", "old")])
def test_a_folder_and_a_file_are_not_compared(runs, pair):
    result = run_ore("--diff", *pair)
    assert result.code == 1 and "--diff compares two files, or two folders" in result.err


@pytest.fixture
def ore_json():
    return lambda *argv: run_ore(*argv).json


def _wrongs(artifact):
    """Each function that takes a list, with one text or path in the place of it."""
    paths = [ore.report_page, ore.report_table, lambda path: ore.report_form("trailer", path)]
    reading = [
        ore.verify,
        lambda path: ore.sign(path, "key"),
        lambda path: list(ore.replay_files(path, ore.Reopening())),
        lambda path: ore.Reopening(others=path),
        lambda path: ore.replay(artifact, None, others=path),
    ]
    yield from (("given", take) for take in reading[:3])
    yield from (("others", take) for take in reading[3:])
    yield from (("paths", take) for take in [*paths, ore.read_files])
    yield "choices", lambda words: ore.reasoner("embedded:none", choices=words)


@pytest.mark.parametrize("number", range(10))
def test_one_text_is_no_list_of_its_letters(runs, number):
    """The first letter of a full path is the folder of all folders."""
    artifact = ore.read_artifact("old/a.json")
    name, take = [*_wrongs(artifact)][number]
    for wrong in ["old", b"old", Path("old")]:
        with pytest.raises(
            UsageError, match=f"^{name} must be a list: put brackets around what you gave"
        ):
            take(wrong)


class _Column(list):
    """A column of a table, as pandas and numpy have it: nobody may ask whether it is true."""

    def __bool__(self):
        raise ValueError("The truth value of a Series is ambiguous.")


def test_a_column_of_paths_is_a_list_of_them(runs):
    assert ore.verify(_Column(["old/a.json"])).holds
    assert not ore.verify(_Column())


def test_one_grant_is_no_list_of_its_letters(home):
    class Silent(ore.Reasoner):
        def reason(self, messages):
            return ore.Response("Yes.", "silent")

    engine = ore.ORE(Silent(), "")
    response = engine.execute("Hi")
    with pytest.raises(UsageError, match="grants must be a list"):
        engine.record(response, grants="network")
    assert engine.record(response, grants=["network"]).provenance["grants"] == ["network"]
