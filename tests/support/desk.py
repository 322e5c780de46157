"""A desk for the commands of the documentation: a folder, a home, a model server, and a shell.

A line that is ``ore`` with its arguments alone runs in this process, by ``ore.cli.main``; any other
line runs in ``sh``, where ``ore`` is a process. Knows nothing about pages.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ore.cli import main
from ore.cli.terminal.console import Console
from tests.support.gguf import CHATML, write_model
from tests.support.process import MAIN, PATIENCE

_JOINED = " 2>&1"
EXIT = re.compile(r"  # exit (\d+)$")
SKILL = """\
---
name: pdf-tools
description: Joins, splits and reads PDF files. Use it when the user speaks of a PDF.
hints: [merge pdf, read this pdf]
---
Ask which pages are meant.
"""
_NO_SYSTEM = "{{ raise_exception('System role not supported') }}{% endif %}"
TEMPLATES = {
    "plain": CHATML,
    "kind": "{% if messages[0].role != 'system' %}<|im_start|>system\n"
    "You are a kind assistant.<|im_end|>\n{% endif %}" + CHATML,
    "strict": "{% if messages[0].role == 'system' %}" + _NO_SYSTEM + CHATML,
    "picky": "{% if messages[0].role == 'system' and 'brief' in messages[0].content %}"
    + _NO_SYSTEM
    + CHATML,
}
"""Chat templates: the usual one, one with words of its own, and two that refuse system messages."""
CAPITALS = {"France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Japan": "Tokyo"}
ANSWERS = {
    "What is open?": "The bread is still to buy.",
    "What is left to do?": "The bread is still to buy.",
    "still open": "The bread.",
    "Name three kinds of tide": "Spring, neap and king tides.",
    "which one is the highest": "The king tide.",
    "Draft a title": "Twice a day, for ever",
    "fewer words": "Daily tides",
    "high tide": "At 05:12 UTC, a spring tide.",
    "Summarise": "Milk is bought, bread is not.",
    "sum it up": "Milk is bought, bread is not.",
    "umbrella": "Take the umbrella at noon.",
    "commit message": "Add bread to the list",
    "three fruits": "Apples, pears and bananas.",
    "of these is yellow": "The bananas.",
    "Where is the boat?": "In the cellar.",
    "Invent a person": '{"name": "Ada", "age": 36}',
}
"""What a model says where its prompt has these words; of several, the last in the prompt counts."""


def answer(request: dict) -> str:
    """What the models of the documentation say to one request."""
    system, prompt = request["messages"][0]["content"], request["messages"][-1]["content"]
    for country, city in CAPITALS.items():
        if country in prompt:
            if request["model"] == "mistral" and city == "Paris":
                return "It is Paris."
            return f"Arr, {city}." if "pirate" in system else f"{city}."
    known = [words for words in ANSWERS if words in prompt]
    return ANSWERS[max(known, key=prompt.index)] if known else "An answer."


@dataclass(frozen=True)
class Printed:
    """What one line or block printed on stdout and stderr, and its exit code."""

    code: int
    out: str
    err: str


class Desk:
    """A folder to work in, with the files that the documentation speaks of.

    Args:
        folder: An empty folder for all of it.
    """

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self._bin = folder / "bin"
        self._bin.mkdir()
        _command(self._bin / "ore", f'exec "{sys.executable}" "{MAIN}" "$@"')
        _command(self._bin / "ollama", "exit 0")  # the server of the tests is there already
        (self.work / "notes.txt").write_text("milk: bought\nbread: open\n")
        (self.work / "plan.txt").write_text("Monday: milk\n")
        skill = self.work / "pdf-tools"
        skill.mkdir()
        (skill / "SKILL.md").write_text(SKILL)

    def add_models(self) -> None:
        """Put small models into the folder that differ in nothing but their chat templates."""
        for name, template in TEMPLATES.items():
            write_model(self.work / f"{name}.gguf", tokenizer__chat_template=template)

    def run(self, block: str) -> str:
        """Run the lines of a block and return what they print on stdout.

        A line that ends in ``  # exit N`` has to end with that code, every other one with 0.
        """
        return "".join(self._checked(step) for step in _steps(block))

    def _checked(self, step: str) -> str:
        wanted = EXIT.search(step)
        command = step if wanted is None else step[: wanted.start()]
        joined = command.endswith(_JOINED)
        alone = _alone(command.removesuffix(_JOINED))
        printed = self._shell(command) if alone is None else run_alone(alone, joined)
        assert printed.code == int(wanted[1] if wanted else 0), (step, printed)
        assert "Traceback" not in printed.err, (step, printed.err)
        return printed.out

    def _shell(self, step: str) -> Printed:
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling anew is most of a process's time
        done = subprocess.run(
            ["sh", "-c", step],
            cwd=self.work,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
        )
        return Printed(done.returncode, done.stdout, done.stderr)


def run_alone(arguments: list[str], joined: bool) -> Printed:
    """Run ``main`` in this process as a script's ``ore``, in the current folder.

    Args:
        joined: stderr goes where stdout goes.
    """
    out = io.StringIO()
    err = out if joined else io.StringIO()
    code = main(arguments, console=Console(None, out, err))
    return Printed(code, out.getvalue(), err.getvalue())


def _steps(block: str) -> list[str]:
    """The lines of a block; one that holds a text of its own (``<<``) is run whole."""
    if "<<" in block:
        return [block]
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def _alone(step: str) -> list[str] | None:
    """The arguments of a line that is ``ore`` and nothing else, or None where it takes a shell."""
    unquoted = re.sub(r"'[^']*'|\"[^\"$`\\]*\"", "", step)
    unquoted = re.sub(r"(^|\s)#.*", "", unquoted)
    if re.search(r"[|&;<>()$`\\?\[~\n]", unquoted):
        return None
    words: list[str] = []
    for word in shlex.split(step, comments=True):
        is_pattern = "*" in word and word in unquoted.split()
        words += sorted(glob.glob(word)) if is_pattern else [word]
    for command in (["ore"], ["python", "main.py"]):
        if words[: len(command)] == command:
            return words[len(command) :]
    return None


def _command(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
