"""``--sign`` and ``--allowed-signers``: what is signed, when, what is said, and the exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from ore.artifact.many import ALONE, MOST_PROCESSES
from ore.errors import BackendError
from ore.files.bounded import usable_processors
from tests.support.keys import PASSPHRASE, allow, forget_agent, make_keys, needs_ssh_keygen
from tests.support.process import end, environment, running, until
from tests.support.runs import forge, rewrite
from tests.support.terminal import OnTerminal

pytestmark = needs_ssh_keygen


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = make_keys(tmp_path_factory.mktemp("keys"))
    allow(folder / "lab", ("ada@tides.example", folder / "ada"))
    return folder


@pytest.fixture(autouse=True)
def keys(folder, prepared, monkeypatch):
    """The keys, in the current folder, and no agent."""
    forget_agent(monkeypatch)
    for path in prepared.iterdir():
        shutil.copy(path, folder)
    return folder


SIGNED = ("--artifact-out", "run.json", "--sign", "ada")
LAB = ("--allowed-signers", "lab")


@pytest.mark.slow
def test_a_run_is_signed_as_it_is_written_and_who_did_is_said(ore):
    assert (ore("hi", *SIGNED).out, sorted(os.listdir())[-2:]) == (
        "Paris.\n",
        ["run.json", "run.json.sig"],
    )
    result = ore("--verify", "run.json", *LAB)
    assert (result.code, result.out, result.err) == (
        0,
        "run.json\tholds\tsigned by ada@tides.example\n",
        "1 artifact: 1 holds; signed by ada@tides.example (1).\n",
    )
    found = json.loads(ore("--verify", "run.json", *LAB, "--json").out)[0]
    assert found["holds"] and found["signature"]["by"] == "ada@tides.example"
    assert found["signature"]["key"].startswith("SHA256:") and not found["signature"]["problem"]


def test_a_run_that_nobody_signed_fails_the_check(ore):
    ore("hi", "--artifact-out", "run.json")
    result = ore("--verify", "run.json", *LAB)
    assert (result.code, result.out, result.err) == (
        3,
        "run.json\tnot signed\tnobody signed it: there is no run.json.sig\n",
        "ore: 1 artifact: 1 is not signed. Its line says why.\n",
    )
    assert json.loads(ore("--verify", "run.json", *LAB, "--json").out)[0]["holds"] is False
    assert ore("--verify", "run.json").code == 0


def test_a_forged_run_fails_where_its_seal_still_holds(ore, keys):
    ore("hi", *SIGNED)
    forge(keys / "run.json", "Paris", "Lyon")
    assert ore("--verify", "run.json").code == 0
    result = ore("--verify", "run.json", *LAB)
    assert result.code == 3
    assert "not signed\tits signature does not fit it: it was changed" in result.out


def test_what_is_broken_is_said_to_be_broken_first(ore, keys):
    ore("hi", *SIGNED)
    rewrite(keys / "run.json", lambda document: document["output"].update(content="No."))
    result = ore("--verify", "run.json", *LAB)
    assert result.code == 3 and result.out.startswith("run.json\tbroken\t")
    (keys / "run.json").write_text("{}")
    assert ore("--verify", "run.json", *LAB).code == 3
    assert ore("--verify", "nothing.json", *LAB).code == 1


def test_what_holds_is_signed_afterwards_and_nothing_else(ore, keys):
    ore("hi", "--artifact-out", "run.json")
    shutil.copy("run.json", "bad.json")
    rewrite(keys / "bad.json", lambda document: document["output"].update(content="No."))
    result = ore("--verify", "run.json", "bad.json", "--sign", "ada")
    assert result.code == 3
    assert result.out.startswith("run.json\tholds\tsigned\nbad.json\tbroken\toutput.content")
    assert "1 holds, 1 is broken; 1 signed now" in result.err
    assert os.path.exists("run.json.sig") and not os.path.exists("bad.json.sig")
    assert ore("--verify", "run.json", *LAB).code == 0


def test_the_signature_of_somebody_else_is_left_alone(ore):
    ore("hi", *SIGNED)
    result = ore("--verify", "run.json", "--sign", "eve")
    assert result.code == 1
    assert "not signed\tThe signature can't be written to run.json.sig: it is there" in result.out
    assert ore("--verify", "run.json", *LAB).code == 0


@pytest.mark.parametrize(
    "key, why",
    [
        ("none", "The key none can't sign: no such file or directory."),
        ("lab", "The key lab can't sign: it is not a key that ssh-keygen can read."),
    ],
)
@pytest.mark.parametrize("to", [["--artifact-out", "x.json"], ["--runs", "log"]])
def test_a_wrong_key_is_found_before_anything_is_asked(ore, key, why, to):
    result = ore("hi", *to, "--sign", key)
    assert (result.code, result.calls, result.err) == (1, [], f"ore: {why}\n")


def test_what_is_in_the_way_of_a_signature_is_found_before_anything_is_asked(ore, keys):
    (keys / "run.json.sig").write_text("a diary")
    result = ore("hi", *SIGNED)
    assert (result.code, result.calls) == (1, [])
    assert "can't be written to run.json.sig: it is there already and is no sig" in result.err
    os.mkfifo("pipe")
    assert ore("hi", "--artifact-out", "pipe", "--sign", "ada").calls == []


def test_a_signature_that_fails_later_leaves_the_artifact_and_the_answer(ore, keys):
    def meanwhile(_):
        (keys / "run.json.sig").write_text("a diary")
        return "Paris."

    result = ore("hi", *SIGNED, replies=[meanwhile])
    assert (result.code, result.out) == (1, "Paris.\n")
    assert result.err == (
        "ore: The artifact is in run.json and is not signed. The signature can't be written to "
        "run.json.sig: it is there already and is no signature; move it away first. "
        "Sign it with ore --verify run.json --sign KEY.\n"
    )
    assert ore("--verify", "run.json").code == 0
    assert (keys / "run.json.sig").read_text() == "a diary"


def test_a_turn_that_failed_has_no_signature(ore):
    assert ore("hi", *SIGNED, replies=[BackendError("No.")]).code == 1
    assert not os.path.exists("run.json.sig")


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("hi --sign ada", "--sign needs --artifact-out or --runs: say where the artifact goes; of"),
        ("hi --allowed-signers lab", "--allowed-signers needs --verify or --report: name the"),
        ("hi --artifact-out --sign ada", "--sign can't be used with --artifact-out to stdout"),
        ("--verify a --sign ada --allowed-signers lab", "--sign can't be used with --allowed-sign"),
        ("--verify a --sign ada --with-model", "--sign can't be used with --with-model"),
        ("--replay a --sign ada", "--replay can't be used with --sign"),
        ("--verify - --sign ada", "What comes on stdin can't be signed: name its file."),
    ],
)
def test_what_was_asked_for_wrongly(ore, line, sentence):
    result = ore(*line.split(), stdin="")
    assert result.code == 2 and sentence in result.err


def test_what_comes_on_stdin_was_signed_by_nobody(ore, keys):
    ore("hi", *SIGNED)
    result = ore("--verify", "-", *LAB, stdin=(keys / "run.json").read_bytes())
    assert (result.code, result.out) == (
        3,
        "-\tnot signed\tnobody is known to have signed what comes on stdin\n",
    )


def test_the_name_of_a_signer_drives_no_terminal(ore, keys):
    ore("hi", *SIGNED)
    line = (keys / "lab").read_text().split(" ", 1)[1]
    (keys / "lab").write_text(f'"\x1b[2Jada\tand" {line}')
    result = ore("--verify", "run.json", *LAB)
    assert result.out == "run.json\tholds\tsigned by ^[[2Jada^Iand\n"
    assert "\x1b" not in result.err


@pytest.mark.slow
def test_each_row_is_signed_and_one_that_was_there_is_not(ore, keys):
    (keys / "cities.csv").write_text("city\nRome\nOslo\n")
    rows = ("--rows", "cities.csv", "{{city}}?", "--artifact-out", "out")
    assert ore(*rows, "--sign", "ada").code == 0
    result = ore("--verify", "out", *LAB)
    assert (result.code, result.err) == (
        0,
        "2 artifacts: 2 hold; signed by ada@tides.example (2).\n",
    )
    for path in (keys / "out").rglob("*2-*.sig"):
        path.unlink()
    result = ore(*rows, "--sign", "ada")
    assert "1 row had an answer already, but no signature: this run signs only" in result.err
    assert ore("--verify", "out", *LAB).code == 3
    result = ore("--verify", "out", "--sign", "ada")
    assert (result.code, result.err) == (0, "2 artifacts: 2 hold; 2 signed now.\n")
    assert ore("--verify", "out", *LAB).code == 0


@pytest.mark.slow
def test_every_run_of_a_log_is_signed(ore, keys):
    assert ore("-c", "--runs", "log", "--sign", "ada", stdin="a\nb\n", replies=["A", "B"]).code == 0
    assert ore("--verify", "log", *LAB).err.startswith("2 artifacts: 2 hold; signed by ada")
    assert ore("hi", *SIGNED, "--runs", "log").code == 0
    assert ore("--verify", "log", "run.json", *LAB).err.startswith("4 artifacts: 4 hold; signed")
    assert ore("hi", "--runs", "log", "--sign", "ada", "--dry-run").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("typed, code", [(PASSPHRASE, 0), ("wrong", 1)])
def test_a_passphrase_is_asked_for_on_a_terminal_after_the_answer(keys, typed, code):
    args = ("hi", "--artifact-out", "run.json", "--sign", "locked")
    with OnTerminal(*args, replies=["Paris."]) as terminal:
        assert b"Paris." in terminal.wait_for("Enter passphrase")
        assert os.path.exists("run.json")
        terminal.type(f"{typed}\n")
        ended, shown = terminal.end()
    assert ended == code and os.path.exists("run.json.sig") == (code == 0)
    assert typed.encode() not in shown
    assert (b"is not signed. The key locked can't sign:" in shown) == (code == 1)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--no-stream"], ["--json"]], ids=" ".join)
def test_the_whole_answer_is_shown_before_a_passphrase_is_asked_for(keys, flags):
    args = ("hi", "--artifact-out", "run.json", "--sign", "locked", *flags)
    with OnTerminal(*args, replies=["It is\nParis."]) as terminal:
        shown = terminal.wait_for("Enter passphrase")
        assert b"Paris." in shown and shown.endswith(b"\nEnter passphrase")
        terminal.type(f"{PASSPHRASE}\n")
        assert terminal.end()[0] == 0 and os.path.exists("run.json.sig")


@pytest.mark.slow
@pytest.mark.parametrize("session", [[], ["--session", "s"]], ids=" ".join)
def test_who_interrupts_at_the_passphrase_has_the_artifact(keys, session):
    args = ("hi", "--artifact-out", "run.json", "--sign", "locked", *session)
    with OnTerminal(*args, replies=["Paris."]) as terminal:
        terminal.wait_for("Enter passphrase")
        terminal.interrupt("\x03")
        ended, shown = terminal.end()
    assert ended == 130 and b"not signed." in shown.replace(b"\r\n", b"")
    assert (b"is part of the session" in shown) == bool(session)
    assert os.path.exists("run.json") and not os.path.exists("run.json.sig")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_what_can_t_be_shown_is_signed_nevertheless(keys):
    args = ("hi", "--artifact-out", "run.json", "--sign", "locked")
    script = (sys.executable, "-m", "tests.support.scripted", '["Paris."]', *args)
    command = ("sh", "-c", 'exec "$@" >/dev/full', "sh", *script)
    with OnTerminal(command=command) as terminal:
        terminal.wait_for("Enter passphrase")
        terminal.type(f"{PASSPHRASE}\n")
        ended, shown = terminal.end()
    assert ended == 1 and b"The answer can't be written" in shown
    assert os.path.exists("run.json.sig")


@pytest.mark.slow
def test_an_earlier_run_s_signature_is_not_taken_for_that_of_one_that_is_not_signed(keys):
    args = ("hi", "--artifact-out", "run.json", "--sign", "locked")
    for keystrokes in (f"{PASSPHRASE}\n", "\x03"):
        with OnTerminal(*args, replies=["Paris."]) as terminal:
            terminal.wait_for("Enter passphrase")
            terminal.type(keystrokes)
            ended, shown = terminal.end()
    assert ended == 130 and os.path.exists("run.json.sig")
    assert b"and not signed." in shown.replace(b"\r\n", b"")


@pytest.mark.slow
def test_a_passphrase_is_asked_for_once_for_one_file(keys, ore):
    ore("hi", "--artifact-out", "run.json")
    with OnTerminal("--verify", "run.json", "--sign", "locked") as terminal:
        terminal.wait_for("Enter passphrase")
        terminal.type(PASSPHRASE + "\n")
        ended, shown = terminal.end()
    assert ended == 0 and b"1 signed now" in shown
    result = ore("--verify", "run.json", "run.json", "--sign", "locked")
    assert result.code == 1 and "would ask for its passphrase for each file" in result.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("count", [2, ALONE + 100])
def test_who_stops_a_check_leaves_no_program_behind(ore, count, number, tmp_path):
    ore("hi", *SIGNED)
    os.makedirs("runs")
    for each in range(count):
        for ending in ("", ".sig"):
            shutil.copy(f"run.json{ending}", f"runs/{each}.json{ending}")
    begun, bin_ = tmp_path / "begun", tmp_path / "bin"
    begun.mkdir()
    bin_.mkdir()
    (bin_ / "ssh-keygen").write_text(f"#!/bin/sh\n: > {begun}/$$\nexec sleep 50\n")
    (bin_ / "ssh-keygen").chmod(0o755)
    path = f"{bin_}:{os.environ['PATH']}"
    with running("--verify", "runs", *LAB, env=environment(PATH=path)) as process:
        least = 1 if count == 2 else min(usable_processors(), MOST_PROCESSES)
        until(lambda: len(list(begun.iterdir())) >= least)
        process.send_signal(number)
        assert end(process).code == 128 + number
    assert [each.name for each in begun.iterdir() if Path("/proc", each.name).exists()] == []


def test_a_report_says_who_signed_and_what_nobody_signed(ore):
    pytest.importorskip("jinja2")
    ore("hi", *SIGNED)
    result = ore("--report", "run.json", *LAB)
    assert result.code == 0 and "ada@tides.example" in result.out
    os.unlink("run.json.sig")
    result = ore("--report", "run.json", *LAB)
    assert result.err == "1 artifact: 1 is not signed.\n"
    assert "nobody signed it: there is no run.json.sig" in result.out
    assert "ada@tides.example" not in result.out
