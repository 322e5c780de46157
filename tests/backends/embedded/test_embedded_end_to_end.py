"""``python main.py`` with a real model in the process: what a newcomer does in the first minutes."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from tests.support.process import IN_SHELL, end, run, start

pytestmark = pytest.mark.embedded
CAPITAL = "Name the capital of France."


@pytest.fixture(autouse=True)
def backend(model_dir, monkeypatch):
    """The real model, and no Ollama wherever the tests run."""
    monkeypatch.setenv("ORE_BACKEND", "embedded")


def test_a_question_is_answered():
    result = run(CAPITAL)
    assert (result.code, result.err) == (0, "") and "Paris" in result.out


def test_the_same_prompt_gives_the_same_bytes_streamed_or_not():
    assert run(CAPITAL).out == run(CAPITAL).out == run(CAPITAL, "--stream").out


def test_the_metadata_holds_the_counts_of_the_engine():
    metadata = json.loads(run(CAPITAL, "--json").out)["metadata"]
    assert metadata["eval_count"] > 3 and metadata["prompt_eval_count"] > 50
    assert metadata["eval_duration"] > 0 and metadata["prompt_eval_duration"] > 0
    assert metadata["context"]["status"] == "complete"


def test_a_conversation_goes_on_after_it_was_saved_and_resumed(home):
    first = run("--save-session", "capitals", CAPITAL)
    assert first.code == 0
    second = run("--resume-session", "capitals", "--save-session", "capitals", "Which city was it?")
    assert second.code == 0 and "Paris" in second.out
    saved = json.loads((home / ".ore/sessions/capitals.json").read_text())
    assert len(saved["messages"]) == 4


def test_a_repl_reuses_what_it_has_computed():
    result = run("-c", "--verbose", stdin=f"{CAPITAL}\nAnd of Italy?\n".encode())
    first, second = (line for line in result.err.splitlines() if line.startswith("[Metadata]"))
    assert result.code == 0
    assert "cached_tokens=0 " in first and "cached_tokens=0 " not in second


def test_three_runs_are_chained_by_artifacts():
    shell = (
        f'ore "{CAPITAL}" --artifact-out | ore --artifact-in - --artifact-out | ore --artifact-in -'
    ).replace("ore ", f"{IN_SHELL} ")
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=True)
    assert "Paris" in done.stdout
    assert done.stderr.count("Running the prompt of") == 2


@pytest.mark.parametrize(
    "prompt", ["Write a very long story.", "word " * 3000], ids=["answering", "reading the prompt"]
)
@pytest.mark.parametrize(
    "sign, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_stops_the_model_at_once_and_the_process_ends_cleanly(prompt, sign, code):
    taken: list[float] = []
    while not taken or min(taken) > 5 and len(taken) < 3:  # once more on a busy machine
        process = start(prompt, "--stream", stdin=subprocess.DEVNULL)
        if prompt.startswith("Write"):
            process.stdout.read(1)
        else:
            time.sleep(2.0)
        sent = time.monotonic()
        process.send_signal(sign)
        result = end(process)
        assert result.code == code and "Traceback" not in result.err
        taken.append(time.monotonic() - sent)
    assert min(taken) <= 5


def test_a_prompt_that_is_too_long_is_an_error_and_never_a_cut():
    result = run("word " * 6000)
    assert (result.code, result.out) == (1, "") and "4096" in result.err
    assert run("word " * 6000, "--strict-context").code == 3


def test_any_gguf_file_can_be_named(model_dir, tmp_path):
    link = tmp_path / "mein Modell é.gguf"
    link.symlink_to(next(model_dir.glob("*.gguf")))
    assert "Paris" in run(CAPITAL, "--model", str(link)).out


def test_a_file_that_is_not_a_model_is_reported_in_one_sentence(tmp_path):
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 1000)
    result = run("hi", "--model", str(path))
    assert (result.code, result.out) == (1, "") and len(result.err.splitlines()) == 1


def test_an_unknown_model_names_the_ones_there_are():
    result = run("hi", "--model", "nope")
    assert result.code == 1 and "smollm2:135m" in result.err
    assert run("--list-models").out.startswith("smollm2:135m\tdefault")
