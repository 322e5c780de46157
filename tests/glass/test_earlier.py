"""The run that another one went on from, looked for among others."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ore.artifact.sources import ANSWER_OF
from ore.glass.earlier import Earlier
from ore.types import ExecutionArtifact, Response


@pytest.mark.slow
def test_an_artifact_that_names_very_many_runs_is_held_against_many_in_time():
    made = ExecutionArtifact.from_response(Response("A", "m"), "hi", "m")
    named = [{"source": f"{ANSWER_OF}{number}", "sha256": ""} for number in range(200_000)]
    child = replace(made, provenance={"sources": named})
    others, started = Earlier([made] * 3000), time.process_time()
    assert others.before(child) is None
    assert time.process_time() - started < 2.5
