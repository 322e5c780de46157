"""The Ollama client against a real model behind the same wire."""

from __future__ import annotations

import json

import pytest

from tests.support.process import run

pytestmark = pytest.mark.embedded
CAPITAL = "Name the capital of France."


@pytest.fixture
def wire(model_dir, monkeypatch):
    from tests.by_hand.real_wire import RealWire

    with RealWire() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_a_real_answer_arrives_whole(wire, flags):
    result = run("--model", "smollm2:135m", CAPITAL, *flags)
    assert (result.code, result.err) == (0, "") and "Paris" in result.out


def test_real_counts_and_timings_arrive(wire):
    metadata = json.loads(run(CAPITAL, "--json").out)["metadata"]
    assert metadata["eval_count"] > 3 and metadata["prompt_eval_count"] > 50
    assert metadata["eval_duration"] > 0 and metadata["total_duration"] > 0
    assert metadata["context"] == {
        "status": "complete",
        "window": 4096,
        "prompt_tokens": metadata["prompt_eval_count"],
    }


def test_a_conversation_grows_on_real_tokens(wire):
    result = run("-c", "-v", stdin=f"{CAPITAL}\nAnd of Italy?\n".encode())
    counts = [
        int(word.partition("=")[2])
        for word in result.err.split()
        if word.startswith("prompt_eval_count=")
    ]
    assert result.code == 0 and len(counts) == 2 and counts[1] > counts[0]


def test_a_missing_model_is_named_with_the_one_there_is(wire):
    result = run("hi", "--model", "nope")
    assert result.code == 1 and "smollm2:135m" in result.err
