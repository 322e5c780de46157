"""``--pull`` without a server, as a user's shell runs it: fetched from a stand-in for a registry."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import threading
from pathlib import Path

import pytest

from ore.backends.choice import open_backend
from tests.support.engine import needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_registry import FakeRegistry, digest_of, paced
from tests.support.harness import ScriptedBackend
from tests.support.process import MAIN, end, environment, run, running, until
from tests.support.terminal import OnTerminal

WEIGHTS = b"GGUF" + random.Random(3).randbytes(40 << 20)
BLOB = digest_of(WEIGHTS).replace(":", "-")
HERE = ("--backend", "embedded")


@pytest.fixture
def models(tmp_path, monkeypatch):
    folder = tmp_path / "models"
    monkeypatch.setenv("ORE_MODEL_DIR", str(folder))
    return folder


@pytest.fixture
def registry():
    with FakeRegistry() as served:
        yield served


@pytest.fixture
def name(registry) -> str:
    return registry.add("team/tiny:q4", WEIGHTS)


def held(registry: FakeRegistry, after: int) -> threading.Event:
    """Let so many pieces of the weights come, then none before the event is set."""
    goes_on, came = threading.Event(), []

    def pace() -> None:
        came.append(1)
        if len(came) > after:
            goes_on.wait(60)

    slow = paced(pace)
    registry.always["blobs"] = lambda answer: slow(answer) if answer.status == 206 else answer
    return goes_on


def is_listed(models: Path) -> bool:
    return any(path.is_file() for path in models.glob("manifests/*/*/*/*"))


def left(models: Path) -> list[str]:
    return [path.name for path in (models / "blobs").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_it_says_what_it_does_and_what_the_licence_is(models, name):
    done = run("--pull", name, *HERE)
    assert done.code == 0 and done.out == ""
    assert done.err.splitlines() == [
        "asking the registry",
        "downloading",
        "writing to disk",
        f"Licence: TEST LICENSE 1.0 (all of it: --show-license {name} with this --backend and --host)",
        f"{name} is ready.",
    ]
    assert (models / "blobs" / BLOB).read_bytes() == WEIGHTS
    shown = run("--show-license", name, *HERE)
    assert (shown.code, shown.out) == (0, "TEST LICENSE 1.0\n\nDo as you like.\n")
    shown = run("--show-license", name, "--json", *HERE)
    assert json.loads(shown.out) == {
        "model": name,
        "licenses": ["TEST LICENSE 1.0\n\nDo as you like."],
    }


@pytest.mark.slow
def test_a_licence_that_nobody_has_is_an_error(models, registry):
    name = registry.add("team/bare:q4", b"GGUF", license=None)
    assert run("--pull", name, *HERE).err.splitlines()[-1] == f"{name} is ready."
    shown = run("--show-license", name, *HERE)
    assert shown.code == 1 and f"No licence of {name} is known here" in shown.err


@pytest.mark.slow
def test_a_licence_is_shown_in_a_sentence_without_its_control_characters(models, registry):
    text = "\x1b]0;title\x07 as you \u202elike\nore: not ours"
    name = registry.add("team/loud:q4", b"GGUF", license=text)
    *_, licence, ready = run("--pull", name, *HERE).err.splitlines()
    assert licence == (
        f"Licence: ^[]0;title^G as you \\u202elike (all of it: --show-license {name} with this "
        f"--backend and --host)"
    )
    assert ready == f"{name} is ready."


@pytest.mark.slow
@needs_engine
def test_without_a_server_it_is_fetched_for_the_engine_and_that_is_said(models, name):
    # Nothing answers at the default address: the tests' own environment names no server.
    done = run("--pull", name, env=environment(OLLAMA_HOST=None))
    if "Ollama does not answer" not in done.err:
        pytest.skip("an Ollama answers at the default address")
    assert done.code == 0 and is_listed(models)


class Interrupted(ScriptedBackend):
    """A backend at whose first byte the user presses Ctrl-C."""

    def pull(self, name, progress, *, insecure=False):
        super().pull(name, progress)
        raise KeyboardInterrupt


@pytest.mark.parametrize("terminal", ["", "err"])
def test_ctrl_c_is_answered_once(ore, terminal):
    result = ore("--pull", "tiny", open_backend=lambda *_: Interrupted(), terminal=terminal)
    assert result.code == 130 and result.err.count("Stopped") == 1
    assert result.err.endswith("Stopped: give the same command again to go on.\n")


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_whatever_ends_it_the_same_command_goes_on(models, registry, name, number):
    goes_on = held(registry, after=100)
    with running("--pull", name, *HERE) as process:
        notes = models / "blobs" / f".{BLOB}.notes"
        until(lambda: notes.exists() and notes.stat().st_size > 20)
        process.send_signal(number)
        ended = end(process)
    goes_on.set()
    assert ended.code == 128 + number and "Traceback" not in ended.err
    assert ("Stopped: give the same command again to go on." in ended.err) == (number != 9)
    assert not is_listed(models) and run("--list-models", *HERE).out == ""
    registry.always.clear()
    registry.asked.clear()
    done = run("--pull", name, *HERE)
    assert done.code == 0 and is_listed(models) and left(models) == []
    assert (models / "blobs" / BLOB).read_bytes() == WEIGHTS
    asked = [
        seen.headers["range"][6:].split("-") for seen in registry.asked if "range" in seen.headers
    ]
    assert sum(int(last) - int(first) + 1 for first, last in asked) < len(WEIGHTS)


@pytest.mark.slow
def test_on_a_terminal_a_bar_shows_how_far_it_is_and_fits(models, registry, name):
    goes_on = held(registry, after=300)
    command = [sys.executable, MAIN, "--pull", name, *HERE]
    with OnTerminal(command=command, size=(24, 60)) as terminal:
        seen = terminal.wait_for("MB/s, ")
        goes_on.set()
        seen += terminal.wait_for("is ready.")
        code, _ = terminal.end()
    bars = [bar for bar in seen.decode().replace("\n", "\r").split("\r") if "MB" in bar]
    assert code == 0 and max(map(len, bars)) < 60
    assert any("downloading: [" in bar for bar in bars) and any(" s left" in bar for bar in bars)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))


@pytest.mark.slow
def test_a_limit_on_files_is_a_sentence_and_not_a_full_disk(models, name):
    done = run("--pull", name, *HERE, preexec_fn=limited)
    assert done.code == 1 and "can't hold a file that large" in done.err, done.err
    assert "Traceback" not in done.err and not is_listed(models)
    assert run("--pull", name, *HERE).code == 0 and is_listed(models)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, code",
    [
        ("../x", 2),
        ("a\x1b[2Jb", 2),
        ("n" * 300, 2),
        ("ftp://127.0.0.1/n/m", 2),
        ("localhost:99999/n/m", 2),
        ("127.0.0.1:1/n/m", 1),
    ],
)
def test_a_wrong_name_is_a_sentence_without_a_traceback(models, name, code):
    done = run("--pull", name, *HERE)
    assert done.code == code and done.err.splitlines()[-1].startswith("ore: ")
    assert "Traceback" not in done.err and "\x1b" not in done.err
    assert not is_listed(models)


def test_insecure_is_for_pulls_alone(ore):
    assert ore("--pull", "h:1/n/m", "--insecure").backend.pulled == ["h:1/n/m over http"]
    for args in (("hi", "--insecure"), ("--list-models", "--insecure")):
        assert ore(*args).code == 2


@pytest.mark.slow
def test_two_commands_at_once_fetch_it_once(models, registry, name):
    goes_on = held(registry, after=100)
    with running("--pull", name, *HERE) as first:
        notes = models / "blobs" / f".{BLOB}.notes"
        until(lambda: notes.exists() and notes.stat().st_size > 20)
        with running("--pull", name, *HERE) as second:
            until(lambda: len(registry.paths("/manifests/")) == 2)
            goes_on.set()
            ended = end(first), end(second)
    assert [each.code for each in ended] == [0, 0]
    assert "already there" in ended[1].err or "waiting for process" in ended[1].err
    ranges = [seen.headers["range"] for seen in registry.asked if "range" in seen.headers]
    assert len(ranges) == len(set(ranges)) and left(models) == []
    assert os.path.getsize(models / "blobs" / BLOB) == len(WEIGHTS)


def test_a_server_is_told_that_http_will_do(ore, monkeypatch):
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        for flags in ((), ("--insecure",)):
            assert ore("--pull", "tiny", *flags, open_backend=open_backend).code == 0
        pulls = [seen.json for seen in server.requests if seen.path == "/api/pull"]
    assert [asked.get("insecure") for asked in pulls] == [None, True]


def test_the_licence_that_a_server_knows_is_printed(ore, monkeypatch):
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        shown = ore("--show-license", "llama3.2", open_backend=open_backend)
        assert (shown.code, "No licence of llama3.2 is known here" in shown.err) == (1, True)
        server.ollama.shown = {"license": "L 1.0\nAll of it.\n"}
        shown = ore("--show-license", "llama3.2", open_backend=open_backend)
    assert (shown.code, shown.out) == (0, "L 1.0\nAll of it.\n")
