"""The workflows can do no more than they must, and run nothing that somebody else can change."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.process import ROOT

FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
JOBS = [(flow, name) for flow, read in WORKFLOWS.items() for name in read["jobs"]]
PINNED = re.compile(r"uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_hash_with_its_version_beside_it(path):
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines and [line for line in lines if not PINNED.search(line)] == []


def test_one_action_has_one_pin():
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    pins = set(re.findall(r"uses: (\S+@\S+ # \S+)", text))
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


@pytest.mark.parametrize("flow", WORKFLOWS)
def test_a_workflow_may_read_and_gives_way_to_its_next_run(flow):
    assert WORKFLOWS[flow]["permissions"] == {"contents": "read"}
    assert WORKFLOWS[flow]["concurrency"]["group"].startswith(flow)


@pytest.mark.parametrize("flow, name", JOBS)
def test_a_job_ends_and_may_do_no_more_than_it_must(flow, name):
    job = WORKFLOWS[flow]["jobs"][name]
    assert 0 < job["timeout-minutes"] <= 60
    more = {
        ("release", "publish"): {"id-token": "write"},
        ("release", "attach"): {"contents": "write"},
        ("site", "publish"): {"pages": "write", "id-token": "write"},
    }
    assert job.get("permissions") == more.get((flow, name))


@pytest.mark.parametrize("flow, name", JOBS)
def test_no_step_keeps_the_key_to_the_repository(flow, name):
    for step in WORKFLOWS[flow]["jobs"][name]["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_every_supported_python_is_tested_on_every_system():
    matrix = WORKFLOWS["ci"]["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert matrix["system"] == ["ubuntu", "macos"]


def test_what_is_published_was_built_once_and_tried():
    jobs = WORKFLOWS["release"]["jobs"]
    assert (jobs["publish"]["needs"], jobs["attach"]["needs"]) == ("build", "publish")
    assert jobs["publish"]["environment"] == "pypi"
    runs = {name: [step.get("run", "") for step in jobs[name]["steps"]] for name in jobs}
    assert "bash .ci/package dist" in runs["build"]
    assert [
        name for name, lines in runs.items() if any(".ci/package" in line for line in lines)
    ] == ["build"]
    assert any(line.startswith("bash .ci/sbom ") for line in runs["build"])
    assert any("dist/* sbom/*" in line for line in runs["attach"])
