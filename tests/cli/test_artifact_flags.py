"""``--artifact-out`` and ``--artifact-in`` through the command line."""

from __future__ import annotations

import json

import pytest

from tests.support.harness import ScriptedBackend


def test_the_artifact_on_stdout_is_the_only_output(ore):
    result = ore("hi", "--artifact-out", "--tool", "echo")
    document = result.json
    assert list(document) == [
        "artifact_version",
        "execution_id",
        "timestamp",
        "input",
        "output",
        "continuation",
        "provenance",
    ]
    assert document["execution_id"] == document["output"]["id"]
    assert document["input"] == {
        "prompt": "hi",
        "model_id": "scripted",
        "mode": "single_turn",
        "routing": None,
        "tools": ["echo"],
        "skills": None,
    }
    assert document["continuation"] == {"requested": False, "reason": None}
    assert result.out.isascii()


def test_a_file_gets_the_artifact_and_stdout_the_answer(ore, tmp_path):
    path = tmp_path / "run.json"
    result = ore("hi", "--artifact-out", str(path), "--route")
    assert result.out == "Paris.\n"
    assert json.loads(path.read_text())["input"]["routing"]["target_type"] == "fallback"


def test_a_run_is_chained_to_the_next(ore):
    first = ore("What is it?", "--artifact-out", replies=["One."])
    second = ore("--artifact-in", "-", "--artifact-out", stdin=first.out, replies=["Two."])
    assert second.prompts == ["What is it?"]
    assert second.json["output"]["content"] == "Two."
    assert "scripted" in second.err


def test_the_model_is_that_of_the_artifact_unless_one_is_named(ore, tmp_path):
    path = tmp_path / "run.json"
    ore("hi", "--artifact-out", str(path), "--model", "b", models=("a", "b"))
    assert ore("--artifact-in", str(path), "--json", models=("a", "b")).json["model_id"] == "b"
    chosen = ore("--artifact-in", str(path), "--model", "a", "--json", models=("a", "b"))
    assert chosen.json["model_id"] == "a" and "model a" in chosen.err


def test_the_backend_is_chosen_for_the_model_of_the_artifact(ore, tmp_path):
    path = tmp_path / "run.json"
    ore("hi", "--artifact-out", str(path), "--model", "b", models=("a", "b"))
    asked_for = []

    def open_backend(wanted, *_):
        asked_for.append(wanted.model)
        return ScriptedBackend(["Paris."], ("a", "b"))

    assert ore("--artifact-in", str(path), open_backend=open_backend).code == 0
    assert asked_for == ["b"]


def test_tools_and_routes_in_an_artifact_run_nothing(ore, tmp_path):
    path = tmp_path / "run.json"
    ore("echo this", "--artifact-out", str(path), "--route", "--route-threshold", "0")
    assert json.loads(path.read_text())["input"]["tools"] == ["echo"]
    result = ore("--artifact-in", str(path))
    assert [message.role for message in result.calls[0]] == ["system", "user"]
    assert "[Route]" not in result.err


@pytest.mark.parametrize("text", ["", "{}", "[]", "\xff", '{"artifact_version": "ore.exec.v2"}'])
def test_a_bad_artifact_is_1_before_the_model_is_called(ore, tmp_path, text):
    path = tmp_path / "run.json"
    path.write_bytes(text.encode("latin-1"))
    result = ore("--artifact-in", str(path))
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert len(result.err.splitlines()) == 1 and str(path) in result.err


@pytest.mark.parametrize("kind", ["missing folder", "other file", "folder", "link"])
def test_an_unwritable_output_is_1_before_the_model_is_called(ore, tmp_path, kind):
    path = tmp_path / "out.json"
    if kind == "missing folder":
        path = tmp_path / "none/out.json"
    elif kind == "other file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "target")
    result = ore("hi", "--artifact-out", str(path))
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert len(result.err.splitlines()) == 1
    assert kind != "other file" or path.read_text() == "mine"


@pytest.mark.parametrize(
    "key, value, named",
    [
        ("prompt", " ", "blank"),
        ("model_id", "", "--model"),
        ("model_id", "/tmp/any.GGUF", "--model"),
    ],
)
def test_what_an_artifact_may_not_decide_is_refused(ore, tmp_path, key, value, named):
    path = tmp_path / "run.json"
    document = ore("hi", "--artifact-out").json
    document["input"][key] = value
    path.write_text(json.dumps(document))
    result = ore("--artifact-in", str(path))
    assert (result.code, result.calls) == (1, []) and named in result.err


def test_an_artifact_cannot_forge_a_line_on_stderr(ore, tmp_path):
    path = tmp_path / "run.json"
    document = ore("hi", "--artifact-out").json
    document["execution_id"] = document["output"]["id"] = "a\n[Route]: b"
    path.write_text(json.dumps(document))
    result = ore("--artifact-in", str(path))
    assert result.code == 0 and len(result.err.splitlines()) == 1
