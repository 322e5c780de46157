"""A run over rows that is stopped: by SIGKILL, Ctrl-C, SIGTERM, a reader that goes, a disk that is full."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ore.backends.choice import open_backend
from ore.rows import kept
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.keys import make_key, needs_ssh_keygen
from tests.support.process import PATIENCE, end, environment, running, start, until

pytestmark = pytest.mark.slow
ROWS = 120


@pytest.fixture
def server():
    with FakeOllama(reply=lambda request: request["messages"][-1]["content"], delay=0.01) as fake:
        yield fake


@pytest.fixture
def asked(server, folder):
    (folder / "table.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))
    env = environment(OLLAMA_HOST=server.url)
    args = ("--rows", "table.csv", "Say {{n}}.", "--model", "llama3.2", "--artifact-out", "out")
    return args, {"cwd": folder, "env": env}


def artifacts(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]


@pytest.mark.invariant
def test_a_run_that_is_killed_three_times_comes_out_whole_with_each_row_once(asked, server, folder):
    args, where = asked
    for part in (1, 2, 3):
        with running(*args, **where) as process:
            until(lambda: len(list(folder.glob("out/*/*.json"))) >= part * ROWS // 5)
            process.send_signal(signal.SIGKILL)
            process.communicate()
    ended = end(start(*args, stdin=subprocess.DEVNULL, **where))
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["row"] for line in found] == list(range(1, ROWS + 1))
    assert [line["content"] for line in found] == [f"Say {n}." for n in range(ROWS)]
    assert sorted(line["artifact"] for line in found) == sorted(
        str(path.relative_to(folder)) for path in folder.glob("out/*/*.json")
    )
    assert [each["input"]["prompt"] for each in artifacts(folder / "out")] == [
        f"Say {n}." for n in range(ROWS)
    ]
    # What was on its way when the run was killed was not kept, so it is asked again: nothing else.
    again = sum(Counter(seen.body for seen in server.chats).values()) - ROWS
    assert again <= 3 * 6
    assert not [path for path in folder.glob("out/*/*") if path.suffix != ".json"]


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_answered_is_kept_when_a_run_is_stopped(asked, folder, number, code):
    args, where = asked
    with running(*args, **where) as process:
        until(lambda: len(list(folder.glob("out/*/*.json"))) >= 10)
        process.send_signal(number)
        ended = end(process)
    assert ended.code == code and "Run it again to go on" in ended.err
    shown = [json.loads(line) for line in ended.out.splitlines()]
    assert shown and all((folder / line["artifact"]).is_file() for line in shown)
    assert run_ore("--verify", *map(str, folder.glob("out/*/*.json"))).code == 0


@needs_ssh_keygen
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_tells_of_its_artifacts_what_its_end_would(
    asked, server, folder, number
):
    (args, where), key = asked, make_key(folder / "key")
    flags = ("--system", "Rhyme.", "--artifact-hashes-only")
    (folder / "table.csv").write_text("n\n1\n")
    assert end(start(*args, *flags, stdin=subprocess.DEVNULL, **where)).code == 0
    (folder / "table.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1, ROWS)))
    with running(*args, *flags, "--sign", str(key), **where) as process:
        until(lambda: len(list(folder.glob("out/*/*.json"))) >= 10)
        server.ollama.copies["llama3.2:latest"] = "mistral:latest"
        process.send_signal(number)
        ended = end(process)
    assert "Stopped: " in ended.err and "became another model" in ended.err
    assert "only the hash of its system prompt" in ended.err
    assert "1 row had an answer already, but no signature" in ended.err


def test_nothing_more_is_asked_when_the_reader_is_gone(asked, server, folder):
    args, where = asked
    with running(*args, **where) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
    assert len(server.chats) < ROWS
    with process.stderr:
        assert process.stderr.read() == b""


def test_a_full_disk_stops_the_run_and_loses_no_answer(server, folder, monkeypatch):
    (folder / "table.csv").write_text("n\n" + "x\n" * ROWS)
    real, written = kept.replace_file, []

    def full(path, *rest, **more):
        if len(written) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(path)
        return real(path, *rest, **more)

    monkeypatch.setattr(kept, "replace_file", full)
    args = ("--rows", "table.csv", "{{n}}", "--host", server.url, "--artifact-out", "out")
    result = run_ore(*args, "--jobs", "1", open_backend=open_backend)
    assert result.code == 1 and "o space left on device" in result.err
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [line["content"] for line in found] == ["x"] * len(found)
    assert sum(line["error"] is None for line in found) == 5 and len(server.chats) < 12


@pytest.mark.parametrize("becomes", [None, "file"])
def test_a_run_stops_whose_folder_is_taken_away(folder, becomes):
    (folder / "table.csv").write_text("n\n" + "x\n" * ROWS)
    asked = []

    def answer(body):
        asked.append(body)
        if len(asked) == 5:
            while (folder / "out").exists():  # an artifact may be written there meanwhile
                shutil.rmtree(folder / "out", ignore_errors=True)
            if becomes:
                (folder / "out").write_text("")
        return "x"

    with FakeOllama(reply=answer) as server:
        args = ("--rows", "table.csv", "{{n}}", "--host", server.url, "--artifact-out", "out")
        result = run_ore(*args, "--jobs", "1", open_backend=open_backend)
    assert result.code == 1 and "Artifacts can't be written to out" in result.err
    assert "Run it again to go on" in result.err and 5 <= len(asked) < 12


@pytest.mark.parametrize("odd", ["a folder", "a link", "a text"])
def test_what_is_in_the_place_of_one_artifact_stops_no_other_row(folder, odd):
    (folder / "table.csv").write_text("n\n1\n2\n3\n")
    with FakeOllama(reply=lambda body: "x") as server:
        args = ("--rows", "table.csv", "{{n}}", "--host", server.url, "--artifact-out", "out")
        run_ore(*args, open_backend=open_backend)
        paths = sorted(folder.glob("out/*/*.json"))
        for path in paths:
            path.unlink()
        if odd == "a folder":
            paths[0].mkdir()
        elif odd == "a link":
            paths[0].symlink_to("elsewhere")
        else:
            paths[0].write_text("mine")
        result = run_ore(*args, "--jobs", "1", open_backend=open_backend)
    assert result.code == 1 and "3 of 3 rows, 1 failed" in result.err, result.err
    assert all(path.is_file() for path in paths[1:])


@pytest.mark.parametrize("flags", [(), ("--csv",)])
def test_no_table_is_asked_that_the_answers_are_written_to(server, folder, flags):
    table = folder / "table.csv"
    table.write_text("n\n" + "x\n" * ROWS)
    before = table.read_bytes()
    with table.open("ab") as out:
        args = ("--rows", "table.csv", "{{n}}", "--host", server.url, *flags)
        ended = end(start(*args, cwd=folder, stdin=subprocess.DEVNULL, stdout=out))
    assert (ended.code, server.chats) == (2, []), ended.err
    assert "itself: send them to another file" in ended.err and table.read_bytes() == before


def test_a_table_that_is_changed_in_the_run_ends_it_and_loses_no_answer(folder):
    table = folder / "table.csv"
    table.write_text("n\n" + "x\n" * ROWS)
    asked = []

    def answer(body):
        asked.append(body)
        if len(asked) == 1:
            with table.open("a") as file:
                file.write("y\n")
        return "x"

    with FakeOllama(reply=answer) as server:
        args = ("--rows", "table.csv", "{{n}}", "--host", server.url, "--jobs", "1")
        result = run_ore(*args, open_backend=open_backend)
    assert result.code == 1 and "was changed while it was read" in result.err
    assert 0 < len(asked) == len(result.out.splitlines())
