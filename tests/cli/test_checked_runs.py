"""Runs that are checked: what is expected of an answer, and what a replay of it finds, for CI too."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.cli.test_choose import ScoringReasoner
from tests.rows.test_junit import check
from tests.support.harness import ScriptedBackend
from tests.support.runs import rewrite, rows

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def run(folder, ore):
    """Take a turn with an expectation, in YAML; its artifact is ``a.json``."""

    def take(expect, *flags, answer="Paris."):
        (folder / "f.ore").write_text(f"---\nexpect: {expect}\n---\nCapital?")
        return ore("--run", "f.ore", *flags, replies=[answer])

    return take


def test_what_does_not_hold_is_3_and_shown_and_kept_all_the_same(ore, run):
    result = run("{contains: Rome}", "--artifact-out", "a.json", "-S", "trip")
    assert (result.code, result.out) == (3, "Paris.\n")
    assert result.err.splitlines()[-1] == (
        "ore: The answer is not what was expected: contains: 'Rome' is not in 'Paris.'."
    )
    assert len(ore("--show-session", "trip", "--json").json["messages"]) == 2
    assert ore("--verify", "a.json").code == 0


def test_what_holds_is_0_and_the_verdict_is_sealed(ore, run, folder):
    assert run("{equals: Paris., matches: ^P}", "--artifact-out", "a.json").code == 0
    change = {"expectation": {"wanted": {"equals": "x"}, "holds": True, "failed": []}}
    document = rewrite(folder / "a.json", lambda found: found["provenance"].update(change))
    assert document["output"]["metadata"]["expectation"]["wanted"] == {
        "equals": "Paris.",
        "matches": "^P",
    }
    checked = ore("--verify", "a.json")
    assert checked.code == 3 and "provenance.expectation does not fit its hash" in checked.out


def test_the_verdict_is_in_the_json_of_the_answer(run):
    metadata = run("{contains: Rome}", "--json").json["metadata"]
    assert metadata["expectation"]["holds"] is False


@pytest.mark.parametrize("flag", ["--stream", "--verbose", "--quiet"])
def test_every_way_to_show_an_answer_is_checked(run, flag):
    result = run("{contains: Rome}", flag)
    assert (result.code, result.out) == (3, "Paris.\n")
    assert "'Rome' is not in 'Paris.'" in result.err


def test_an_expectation_that_can_not_be_judged_by_sends_nothing(run):
    result = run("{matches: '('}")
    assert (result.code, result.calls) == (2, [])
    assert "The expectation in f.ore has a regular expression that can't be used" in result.err


@pytest.fixture
def choosing(folder, ore):
    """Choose as a run file says; its artifact is ``a.json``."""

    def take(expect, *flags, words="['yes', 'no', maybe]"):
        backend = ScriptedBackend()
        backend.engine = ScoringReasoner()
        (folder / "f.ore").write_text(f"---\nchoose: {words}\nexpect: {expect}\n---\nIs it?")
        return ore("--run", "f.ore", *flags, open_backend=lambda *_: backend)

    return take


CHOICES = [
    ("{choice: 'yes'}", 0, ""),
    ("{choice: 'yes', at_least: 0.7}", 0, ""),
    ("{choice: 'yes', at_least: 0.8}", 3, "'yes' has the probability 0.7500, and 0.8 was expected"),
    ("{choice: 'no'}", 3, "choice: 'no' was expected, and 'yes' was chosen"),
    ("{equals: 'yes'}", 0, ""),
]


@pytest.mark.parametrize("expect, code, said", CHOICES)
def test_a_choice_is_checked_with_its_probability(choosing, expect, code, said):
    result = choosing(expect, "--artifact-out", "a.json")
    assert (result.code, result.out) == (code, "yes\t0.75\n")
    assert said in result.err


def test_what_is_chosen_from_may_stand_in_a_file_of_its_own(choosing, folder):
    (folder / "words.txt").write_text("yes\nno\n")
    assert choosing("{choice: 'yes'}", words="'@words.txt'").out == "yes\t0.80\n"


def test_flags_win_over_the_words_of_a_file(choosing):
    assert choosing("{choice: 'no'}", "--choose", "no,never").out.startswith("no\t")


def test_a_shape_that_a_flag_asks_for_takes_the_place_of_the_other_one(choosing, folder, ore):
    pytest.importorskip("jsonschema")
    result = choosing("{equals: 'x'}", "--schema", '{"type": "string"}', "--dry-run")
    assert (result.code, result.json["options"]) == (0, {"format": {"type": "string"}})
    (folder / "s.ore").write_text("---\nschema: {type: string}\n---\nIs it?")
    backend = ScriptedBackend()
    backend.engine = ScoringReasoner()
    flags = ["--run", "s.ore", "--choose", "yes,no"]
    assert ore(*flags, open_backend=lambda *_: backend).out == "yes\t0.80\n"


def test_a_plan_of_a_choice_can_be_run(choosing, folder, ore):
    result = choosing("{choice: 'no'}", "--dry-run")
    (folder / "plan.json").write_text(result.out)
    backend = ScriptedBackend()
    backend.engine = ScoringReasoner()
    result = ore("--run", "plan.json", open_backend=lambda *_: backend)
    assert (result.code, result.out) == (3, "yes\t0.75\n")


def test_a_choice_that_is_expected_needs_words_in_a_plan_as_in_a_file(choosing, folder, ore):
    pytest.importorskip("jsonschema")
    (folder / "plan.json").write_text(choosing("{choice: 'yes'}", "--dry-run").out)
    for file in ("f.ore", "plan.json"):
        result = ore("--run", file, "--schema", "a str", replies=['{"a": "yes"}'])
        assert (result.code, result.out, result.calls) == (2, "", [])
        assert (
            f"{file} is a choice, but there is nothing to choose from: leave --schema" in result.err
        )


def test_a_choice_that_nothing_is_chosen_for_sends_nothing(run):
    result = run("{choice: 'yes'}")
    assert (result.code, result.calls) == (2, [])
    assert "there is nothing to choose from: add the key choose.\n" in result.err
    result = run("{choice: 'yes'}\nschema: city")
    assert (
        "there is nothing to choose from: write choose instead of the key schema.\n" in result.err
    )
    result = run("{choice: 'yes'}\nchoose: ['yes', 'no']", "--schema", "a int, b int")
    assert (result.code, result.calls) == (2, [])
    assert "there is nothing to choose from: leave --schema out." in result.err


def test_a_failed_turn_is_no_verdict(run):
    from ore.errors import BackendError

    assert run("{contains: Rome}", answer=BackendError("It failed.")).code == 1


REPLAYED = [
    ("{contains: Par}", "Paris.", "Paris.", 0, "same"),
    ("{contains: Par}", "Paris.", "It is Paris.", 0, "as expected"),
    ("{contains: Par}", "Paris.", "Rome.", 3, "not as expected"),
    ("{contains: Par}", "Rome.", "Rome.", 3, "not as expected"),
    ("{contains: Par}", "Rome.", "Paris.", 0, "as expected"),
]


@pytest.mark.parametrize("expect, then, now, code, state", REPLAYED)
def test_a_replay_is_judged_by_what_was_expected(ore, run, expect, then, now, code, state):
    run(expect, "--artifact-out", "a.json", answer=then)
    result = ore("--replay", "a.json", replies=[now])
    assert (result.code, len(result.calls)) == (code, 1)
    assert rows(result.out)["a.json"][0] == state
    if code:
        assert f"contains: 'Par' is not in '{now}'" in result.out
    shown = ore("--replay", "a.json", "--json", replies=[now]).json
    assert shown[0]["expectation"]["holds"] is (code == 0)


def test_another_model_is_judged_by_what_was_expected(ore, run):
    run("{contains: Par}", "--artifact-out", "a.json")
    flags = ["--replay", "a.json", "--model", "b"]
    result = ore(*flags, replies=["PARis? Paris!"], models=("scripted", "b"))
    assert result.code == 0 and "as expected" in result.out


@pytest.mark.parametrize(
    "odd", [1, {}, {"wanted": 1}, {"wanted": {"x": 1}}, {"wanted": {"schema": "/etc/passwd"}}]
)
def test_an_expectation_that_somebody_changed_is_not_run(ore, run, folder, odd):
    run("{contains: Par}", "--artifact-out", "a.json")
    rewrite(folder / "a.json", lambda found: found["provenance"].update(expectation=odd))
    result = ore("--replay", "a.json")
    assert (result.code, result.calls) == (3, [])
    assert "provenance.expectation" in result.out and "passwd" not in result.out


def test_a_replay_as_junit(ore, run, folder):
    run("{contains: Par}", "--artifact-out", "a.json")
    ore("hi", "--artifact-out", "b.json", replies=["One."])
    (folder / "runs").mkdir()
    (folder / "runs" / "c.json").write_text("{}")
    paths = ["a.json", "b.json", "runs/c.json"]
    result = ore("--replay", *paths, "--junit", "out.xml", replies=["Rome.", "Two.", "Two."])
    assert result.code == 3
    root = check(folder / "out.xml")
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "2",
        "errors": "1",
    }
    first, second, third = root.iter("testcase")
    assert first.get("name") == "a.json"
    assert "contains: 'Par' is not in 'Rome.'" in first.find("failure").get("message")
    assert "-One.\n+Two." in second.find("failure").text
    assert third.get("classname") == "runs" and "can't be used" in third.find("error").text


def test_a_replay_that_holds_is_green(ore, run, folder):
    run("{contains: Par}", "--artifact-out", "a.json")
    assert ore("--replay", "a.json", "--junit", "out.xml", "--json").code == 0
    suite = ElementTree.parse(folder / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")


def test_a_report_that_can_not_be_written_asks_nothing(ore, run, folder):
    run("{contains: Par}", "--artifact-out", "a.json")
    (folder / "mine.xml").write_text("<a/>")
    result = ore("--replay", "a.json", "--junit", "mine.xml")
    assert (result.code, result.calls) == (1, []) and "not such a report of ORE's" in result.err
    assert (folder / "mine.xml").read_text() == "<a/>"
    result = ore("hi", "--junit", "out.xml")
    assert (result.code, result.calls) == (
        2,
        [],
    ) and "--junit needs --replay or --rows" in result.err
