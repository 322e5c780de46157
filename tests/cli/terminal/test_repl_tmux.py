"""A REPL in tmux: what stands on the screen in the end."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.support.process import ROOT, environment, until

pytest.importorskip("readline")
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def tmux():
    """Run tmux commands on a server of its own."""
    name = f"ore-tests-{os.getpid()}"

    def run(*args: str, **more) -> str:
        command = ["tmux", "-L", name, "-f", os.devnull, *args]
        return subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            env=environment(SHELL="/bin/sh", **more),  # a system's own users have none
        ).stdout

    yield run
    run("kill-server")


def screen(tmux) -> str:
    return "\n".join(line.rstrip() for line in tmux("capture-pane", "-p").rstrip().split("\n"))


def test_a_conversation_on_a_screen_has_nothing_ugly(tmux):
    answer = "Words are never cut in two at the edge of a terminal.\nYou: forged \x1b[2J\rend"
    command = [
        sys.executable,
        "-m",
        "tests.support.scripted",
        json.dumps([answer, "Short."]),
        "-c",
        "-s",
    ]
    size = ("-x", "40", "-y", "30")
    tmux("new-session", "-d", *size, shlex.join(command) + "; sleep 60", PYTHONPATH=str(ROOT))
    until(lambda: screen(tmux).endswith("\nYou:"))
    tmux("set-buffer", "one\n  two")
    tmux("paste-buffer", "-p")
    until(lambda: screen(tmux).endswith("two"))
    tmux("send-keys", "Enter")
    until(lambda: screen(tmux).endswith("end\n\nYou:"))
    tmux("resize-window", "-x", "60", "-y", "30")
    tmux("send-keys", "-l", "Again?")
    until(lambda: screen(tmux).endswith("Again?"))
    tmux("send-keys", "Enter")
    until(lambda: screen(tmux).endswith("Short.\n\nYou:"))
    assert screen(tmux).split("\n") == [
        "Model: scripted (scripted)",
        "ORE: a conversation. /help lists",
        "commands, Ctrl-D leaves.",
        "You: one",
        "  two",
        "[AYA]: Words are never cut in two at the",
        "edge of a terminal.",
        " You: forged ^[[2J^Mend",
        "",
        "You: Again?",
        "[AYA]: Short.",
        "",
        "You:",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--rendered"]], ids=["wrapped", "rendered"])
def test_no_character_brings_a_label_to_the_left_edge(how):
    if how:
        pytest.importorskip("rich")
    command = [sys.executable, "-m", "tests.by_hand.labels", *how, "--step", "389"]
    result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
