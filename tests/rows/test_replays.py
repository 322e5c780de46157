"""Recorded runs in files, asked again by a program: what becomes of each, and whose fault it is."""

from __future__ import annotations

import json
import os

import pytest

import ore
from ore import Reopening
from ore.artifact.compare import Difference
from ore.errors import ArtifactError, CapabilityError, ModelNotFoundError, ServerUnreachableError
from ore.rows.junit import ERROR, FAILURE, PASSED, Case
from ore.rows.replays import NOT_RUN, Replayed, case_of
from tests.support.harness import ScriptedBackend, run_ore
from tests.support.runs import record, rewrite


@pytest.fixture
def folder(tmp_path, home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    record(tmp_path / "runs/a.json", "hi", "-o", "seed=3")
    record(tmp_path / "runs/b.json", "ho", replies=["Bonn."])
    return tmp_path / "runs"


def replayed(given, replies, **more):
    backend = ScriptedBackend(replies, ("scripted", "second"))
    with Reopening(connect=lambda wanted: backend, **more) as opening:
        return list(ore.replay_files(given, opening)), backend


def test_a_folder_is_asked_again_with_the_settings_of_each_run(folder):
    found, backend = replayed([folder], ["Paris.", "Rome.", "Rome."])
    assert [(each.path, each.state, each.holds) for each in found] == [
        (str(folder / "a.json"), "same", True),
        (str(folder / "b.json"), "different", False),
    ]
    assert [each.name for each in found[1].differences] == ["answer"]
    assert found[0].messages == "rebuilt" and found[0].on_purpose == []
    assert [call[-1].content for call in backend.engine.calls] == ["hi", "ho", "ho"]


@pytest.mark.parametrize(
    "more, said",
    [
        ({"options": {"seed": 4}}, "options seed=4"),
        ({"options": ["seed=4", "top_k=01"]}, "options seed=4 top_k=01"),
        ({"model": "second"}, "model scripted -> second"),
    ],
)
def test_what_is_another_one_on_purpose_is_said_and_no_difference(folder, more, said):
    found, backend = replayed([folder / "a.json"], ["Paris."], **more)
    assert (found[0].state, found[0].on_purpose) == ("same", [said])
    if "options" in more:
        assert backend.settings.options["seed"] == 4


def test_the_command_line_writes_the_same(folder):
    found, _ = replayed([folder], ["Paris.", "Rome.", "Rome."])
    theirs = run_ore("--replay", str(folder), "--json", replies=["Paris.", "Rome.", "Rome."]).json
    assert json.loads(json.dumps([vars(each) for each in found], default=vars)) == theirs


def test_what_one_run_is_to_blame_for_is_not_raised(folder):
    rewrite(folder / "a.json", lambda document: document["input"].update(model_id="gone"))
    (folder / "c.json").write_text("{}")
    found, backend = replayed([folder], ["Bonn."])
    assert [each.state for each in found] == ["not run", "same", "not run"]
    assert found[0].reason == "There is no model 'gone'." and "can't be used" in found[2].reason
    assert len(backend.engine.calls) == 1


@pytest.mark.parametrize("model, raises", [(None, False), ("third", True)])
def test_a_model_that_the_program_named_has_to_be_there(folder, model, raises):
    if raises:
        with pytest.raises(ModelNotFoundError):
            replayed([folder], [], model=model)
    else:
        assert replayed([folder], ["Paris.", "Bonn."])[0][0].holds


def test_what_a_backend_can_not_do_is_one_run_s_and_a_dead_one_is_everybody_s(folder):
    found, _ = replayed([folder], [CapabilityError("It has no eyes."), "Bonn."])
    assert [each.state for each in found] == ["not run", "same"]
    with pytest.raises(ServerUnreachableError):
        replayed([folder], [ServerUnreachableError("Nobody is there.")])


class Counting(os.PathLike):
    """A path that counts how often it is asked for."""

    def __init__(self, path):
        self.path, self.count = path, 0

    def __fspath__(self):
        self.count += 1
        return str(self.path)


@pytest.mark.slow
def test_what_runs_went_on_from_is_read_once_however_many_they_are(folder):
    for number in range(5):
        record(folder / f"c{number}.json", "and?", "--after", str(folder / "b.json"))
    others = [Counting(path) for path in sorted(folder.iterdir())]
    record(folder / "d.json", "lost?", "--after", str(folder / "c0.json"))
    (folder / "c0.json").unlink()  # it is in none of the others: all are looked into
    replies = ["Paris.", "Bonn.", *["Paris."] * 4]
    found, _ = replayed([folder], replies, others=others)
    states = [each.state for each in found]
    assert states == ["same"] * 6 + ["not run"], [each.details for each in found]
    assert "name that artifact as well" in found[-1].reason
    asked = {os.path.basename(each.path): each.count for each in others}
    once = asked["a.json"]
    assert asked == {name: once for name in asked} | {"c0.json": asked["c0.json"]}


def test_a_run_that_became_another_is_not_what_was_gone_on_from(folder):
    for name in "ab":
        record(folder / f"of_{name}.json", "and?", "--after", str(folder / f"{name}.json"))
    of_a, of_b = (ore.read_artifact(folder / f"of_{name}.json") for name in "ab")
    with Reopening(others=[folder / "b.json", folder / "a.json"]) as opening:
        for run, words in ((of_a, "Paris."), (of_b, "Bonn."), (of_a, "Paris.")):
            assert opening.recall(run).messages[1].content.endswith(f"]\n{words}")
        (folder / "b.json").write_bytes((folder / "a.json").read_bytes())
        with pytest.raises(ArtifactError, match="name that artifact as well"):
            opening.recall(of_b)


def test_advice_is_in_python_s_words(folder):
    rewrite(folder / "a.json", lambda document: document["input"].update(model_id="own.gguf"))
    found, _ = replayed([folder / "a.json"], [])
    assert "name it with `model=PATH`" in found[0].reason
    said = run_ore("--replay", str(folder / "a.json")).out
    assert "name it with --model PATH" in said and "`" not in said


CUT = {"context": {"status": "truncated", "window": 512, "prompt_tokens": 258}}
SAID = {
    "server answered with the model 'other'": {"response_model": "other"},
    "prompt did not fit the context window of 512 tokens": CUT,
    "answer was cut off by a limit": {"done_reason": "length"},
    "chat template has no system messages": {
        "notes": ["The chat template has no system messages."]
    },
}


@pytest.mark.parametrize("words, metadata", SAID.items())
def test_what_is_the_same_and_was_not_asked_for_is_said(folder, words, metadata):
    path = str(folder / "a.json")
    backend, told = ScriptedBackend(["Paris."] * 2), []
    backend.engine.metadata.update(metadata)
    with Reopening(connect=lambda wanted: backend, notice=told.append) as opening:
        found = list(ore.replay_files([path], opening))
    state, code = ("different", 3) if "model" in words else ("same", 0)
    assert [each.name for each in found[0].differences] == ["model_id"] * (state == "different")
    assert found[0].state == state and len(told) == 1 and told[0].startswith(f"{path}: The {words}")
    again = ore.replay(ore.read_artifact(path), backend.engine)
    assert [f"{path}: {each}" for each in again.notes] == told
    result = run_ore("-q", "--replay", path, replies=["Paris."], metadata=metadata)
    assert result.code == code and f"warning: {path}: The {words}" in result.err


@pytest.mark.parametrize("metadata", SAID.values())
def test_what_was_so_when_it_was_recorded_is_not_said_again(folder, metadata):
    rewrite(folder / "a.json", lambda document: document["output"]["metadata"].update(metadata))
    replies = {"replies": ["Paris."], "metadata": metadata}
    assert run_ore("-q", "--replay", str(folder / "a.json"), **replies).err == ""


def test_messages_that_are_sent_as_one_this_time_are_said(folder):
    path, metadata = str(folder / "a.json"), {"joined": [[0, 1]]}
    said = f"warning: {path}: Sent as one message, because the chat template needs them joined"
    assert said in run_ore("-q", "--replay", path, replies=["Paris."], metadata=metadata).err
    rewrite(folder / "a.json", lambda document: document["output"]["metadata"].update(metadata))
    assert run_ore("-q", "--replay", path, replies=["Paris."], metadata=metadata).err == ""


def test_a_new_answer_that_goes_round_in_circles_is_said(folder):
    path = str(folder / "a.json")
    result = run_ore("-q", "--replay", path, replies=["Round and round.\n" * 12] * 2)
    assert f"warning: {path}: The answer may go round in circles" in result.err


DIFFERS = [Difference("answer", "Bonn.", "Rome.")]
DIFF = "--- runs/a.json answer\n+++ replay answer\n@@ -1 +1 @@\n-Bonn.\n+Rome.\n"
OTHER = "different: answer; messages embedded"
GONE = "not run: It is gone."


@pytest.mark.parametrize(
    "outcome, case",
    [
        (Replayed("runs/a.json", "same"), Case("a.json", "runs", 2.0, PASSED)),
        (Replayed("a.json", "as expected"), Case("a.json", "replay", 2.0, PASSED)),
        (
            Replayed("a.json", NOT_RUN, reason="It is gone."),
            Case("a.json", "replay", 2.0, ERROR, GONE, GONE),
        ),
        (
            Replayed("runs/a.json", "different", "embedded", DIFFERS),
            Case("a.json", "runs", 2.0, FAILURE, OTHER, DIFF),
        ),
    ],
    ids=lambda each: each.state if isinstance(each, Replayed) else "",
)
def test_what_became_of_a_run_is_one_case_for_ci(outcome, case):
    assert case_of(outcome, 2.0) == case
