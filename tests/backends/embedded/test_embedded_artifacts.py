"""Artifacts of a real model: a pipeline that verifies, and recorded runs that replay to the byte."""

from __future__ import annotations

import json
import subprocess

import pytest

from ore.backends.choice import open_backend
from ore.backends.weights import PINNED
from tests.support.process import IN_SHELL, run
from tests.support.runs import rewrite, rows

pytestmark = pytest.mark.embedded

QUESTIONS = [f"In one short sentence: what is {number} plus {number + 1}?" for number in range(20)]
BRIEF = ["-o", "num_predict=12"]


@pytest.fixture(autouse=True)
def folder(model_dir, home, tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_BACKEND", "embedded")
    (home / ".ore/personas").mkdir(parents=True)
    (home / ".ore/personas/clerk.md").write_text("You are a clerk. Answer briefly.")
    return tmp_path


def test_a_pipeline_of_three_stages_verifies_and_a_change_anywhere_is_named(folder):
    shell = (
        'ore "Name a colour." -o num_predict=8 --artifact-out | tee a.json'
        " | ore --artifact-in - --artifact-out | tee b.json"
        " | ore --artifact-in - --artifact-out c.json"
    ).replace("ore ", f"{IN_SHELL} ")
    subprocess.run(shell, shell=True, cwd=folder, check=True, capture_output=True)
    done = run("--verify", "c.json", "a.json", "b.json", cwd=folder)
    assert (done.code, done.err) == (0, "3 artifacts: 3 hold.\n")
    assert rows(done.out)["c.json"] == ["holds", "child of b.json"]
    digests = {
        json.loads((folder / f"{n}.json").read_text())["provenance"]["model_digest"] for n in "abc"
    }
    assert digests == {PINNED["smollm2:135m"].file_sha256}
    for name, value in {"content": "Green.", "timestamp": 1.5, "metadata": {}}.items():
        before = (folder / "b.json").read_bytes()
        rewrite(folder / "b.json", lambda d, n=name, v=value: d["output"].update({n: v}))
        done = run("--verify", "a.json", "b.json", "c.json", cwd=folder)
        assert done.code == 3
        assert rows(done.out)["b.json"][1].startswith(f"output.{name} does not fit its hash")
        assert rows(done.out)["c.json"][0] == "broken"
        (folder / "b.json").write_bytes(before)


def test_twenty_runs_replay_to_the_byte_and_differ_when_the_persona_is_edited(
    ore, folder, home, monkeypatch
):
    monkeypatch.chdir(folder)
    files = [f"{number:02}.json" for number in range(len(QUESTIONS))]
    flags = ["--persona", "clerk", "-o", "num_predict=8"]
    for file, question in zip(files, QUESTIONS, strict=True):
        assert ore(question, *flags, "--artifact-out", file, open_backend=open_backend).code == 0
    same = ore("--replay", *files, open_backend=open_backend)
    assert same.code == 0, same.out
    assert [row[0] for row in rows(same.out).values()] == ["same"] * len(files)
    assert same.err.splitlines()[-1] == "20 of 20: 19.json"
    assert run("--replay", *files[:3], cwd=folder).code == 0  # and in a process of its own
    (home / ".ore/personas/clerk.md").write_text("You are a pirate. Answer as a pirate does.")
    edited = ore("--replay", *files, open_backend=open_backend)
    assert edited.code == 3
    found = rows(edited.out)
    assert [found[file][0] for file in files] == ["different"] * len(files)
    assert sum("answer" in found[file][1].partition(";")[0] for file in files) > len(files) / 2
    assert edited.out.count("+++ replay messages") == len(files)
    assert edited.out.count("-persona sha256:") == len(files)


@pytest.mark.parametrize(
    "flags", [[], ["--no-system"], ["--tool", "echo", "--tool-arg", "a=1"], ["--persona", "clerk"]]
)
def test_the_hash_of_the_dry_run_is_that_of_the_run(folder, flags):
    plan = json.loads(run("Say hi.", *flags, *BRIEF, "--dry-run").out)
    made = json.loads(run("Say hi.", *flags, *BRIEF, "--artifact-out").out)
    assert plan["messages_sha256"] == made["provenance"]["messages_sha256"]
    assert plan["options"] == made["provenance"]["options"] == {"num_predict": 12}


def test_another_option_is_reported_as_intended(folder):
    assert run("Say hi.", *BRIEF, "--artifact-out", "a.json", cwd=folder).code == 0
    done = run("--replay", "a.json", "-o", "num_predict=2", cwd=folder)
    assert done.code == 3 and "on purpose: options num_predict=2" in done.out


def test_the_engine_says_what_was_in_force(ore, folder):
    flags = ("-o", "num_predict=4", "-o", "top_k=3", "-o", "cache_prompt=true")
    run = ore("hi", "-v", *flags, "--artifact-out", open_backend=open_backend)
    told = run.json["provenance"]["effective"]
    expected = {
        "temperature": (0, "ore"),
        "repeat_penalty": (1.1, "ore"),
        "top_k": (3, "user"),
        "top_p": (0.95, "server default"),
        "seed": (None, "server default"),
        "stop": ([], "server default"),
        "num_predict": (4, "user"),
        "num_ctx": (4096, "ore"),
        "cache_prompt": (False, "ore"),
    }
    found = {name: tuple(told["parameters"][name].values()) for name in expected}
    assert found == expected
    assert (told["quantization"], told["parameter_count"]) == ("Q4_1", 134_515_008)
    listed = ore("--list-models", "--json", open_backend=open_backend).json[0]
    assert (
        told["template_sha256"] == listed["template_sha256"] and listed["parameters"] == "134.52M"
    )
    assert told["threads"] >= 1 and told["batch_threads"] >= 1 and told["batch"] == 64
    assert "In force: top_k=3 (user)" in run.err
